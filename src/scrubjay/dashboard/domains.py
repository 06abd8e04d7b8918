"""Domains: one of them with its sources, its files and its latest job, live. The forms are those of the `/v2` door."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from scrubjay.app import Scrubjay
from scrubjay.dashboard.live import live_response
from scrubjay.dashboard.rendering import render, show
from scrubjay.dashboard.session import Jay, Looking, Visitor
from scrubjay.errors import NotFound
from scrubjay.model.tenant import Principal
from scrubjay.queue.live import Told
from scrubjay.services.inventory import Window

router = APIRouter(include_in_schema=False)

SHOWN_FILES = 50
KINDS = {
    "file_sources": "document library",
    "list_sources": "list",
    "sitepage_sources": "site pages",
    "web_sources": "web site",
}
DomainId = Annotated[str, Path(max_length=64)]
RunId = Annotated[str, Path(max_length=30)]


class Facts(dict[str, Any]):
    """Something as templates ask it: what is not there is nothing."""

    def __missing__(self, name: str) -> None:
        return None


@router.get("/domains/{domain_id}")
async def show_domain(request: Request, jay: Jay, visitor: Looking, domain_id: DomainId) -> Response:
    """One domain."""
    domain = await _domain(jay, visitor.who, domain_id)
    sources = [(kind, Facts(source)) for name, kind in KINDS.items() for source in domain[name] or ()]
    return show(
        request,
        "actions/domain.html",
        visitor,
        domain=domain,
        sources=sources,
        run=await jay.action_jobs.latest_about(visitor.who, domain["domain_id"]),
        files=await _files(jay, visitor.who, domain),
        here=_address(domain_id),
        crawl=f"/v2/crawler/crawl?{urlencode({'domain_id': domain_id, 'format': 'html'})}",
    )


@router.get("/domains/{domain_id}/live")
async def follow_domain(jay: Jay, visitor: Looking, domain_id: DomainId) -> Response:
    """The latest job of a domain and the files that it brought, as they change."""
    who = visitor.who
    domain = await _domain(jay, who, domain_id)
    _, position = await jay.jobs.events_of_all(who, limit=1)

    async def parts(batch: Sequence[Told]) -> Mapping[str, str]:
        run = await jay.action_jobs.latest_about(who, domain["domain_id"])
        found = {} if run is None else {"run": _run(run, visitor, _address(domain_id))}
        if not batch or any(told.event.may_be_last for told in batch):
            files = await _files(jay, who, domain)
            found["files"] = render("actions/files_part.html", files=files, domain=domain)
        return found

    return live_response(await jay.jobs.follow_all(who, after=position), parts)


@router.get("/runs/{run_id}/live")
async def follow_run(jay: Jay, visitor: Looking, run_id: RunId) -> Response:
    """A job of the `/v2` door, until it has finished."""
    begun = await jay.action_jobs.tail(visitor.who, run_id)

    async def parts(batch: Sequence[Told]) -> Mapping[str, str]:
        return {"run": _run(await jay.action_jobs.tail(visitor.who, run_id), visitor, "")}

    events = await jay.jobs.follow_closely(visitor.who, begun.job.id, after=begun.job.event_count)
    return live_response(events, parts)


def _run(run: Any, visitor: Visitor, then: str) -> str:
    return render("actions/run_part.html", run=run, visitor=visitor, then=then)


def _address(domain_id: str) -> str:
    return f"/ui/domains/{quote(domain_id, safe='')}"


async def _domain(jay: Scrubjay, who: Principal, domain_id: str) -> Facts:
    """A domain; one whose file is broken says so in `error`."""
    for domain in await jay.domains.all(who):
        if domain["domain_id"] == domain_id:
            return Facts(domain)
    raise NotFound(f"Domain '{domain_id}' not found.")


async def _files(jay: Scrubjay, who: Principal, domain: Facts) -> Any:
    """The newest files of its vector store; nothing where somebody deleted that."""
    if not domain["vector_store_id"]:
        return None
    try:
        return await jay.inventory.list_store_files(who, domain["vector_store_id"], Window(limit=SHOWN_FILES))
    except NotFound:
        return None
