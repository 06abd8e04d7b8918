"""Tools for language models and for the bus: the same few verbs with short, cited and bounded answers.

A tool is data: what it takes, which scope it needs, what it calls. Doors list them and call them by name.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.content import Document
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.destination import Destination
from scrubjay.model.job import Job
from scrubjay.model.plan import Plan
from scrubjay.model.search import SearchRequest, SearchResult
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.services.articles import ArticleService
from scrubjay.services.collections import CollectionService
from scrubjay.services.control import ControlService, SiteOrder
from scrubjay.services.crawls import CrawlService
from scrubjay.services.documents import DocumentService
from scrubjay.services.jobs import JobService
from scrubjay.services.operations import DocumentChange, OperationService
from scrubjay.services.plans import PlanService
from scrubjay.services.search import SearchService

MAX_PASSAGE = 1_500  # characters of one search result
MAX_LISTED = 100
MAX_CHANGES = 100

Text = Annotated[str, StringConstraints(min_length=1, max_length=2048, strip_whitespace=True)]
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=300, strip_whitespace=True)]


class Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SearchParameters(Parameters):
    query: str = Field(min_length=1, max_length=500, description='Words or a question; "phrase", -not, site:host.')
    collection_ids: list[ShortText] = Field(default_factory=list, max_length=20, description="From list_collections.")
    domains: list[ShortText] = Field(default_factory=list, max_length=20, description="Only these hosts.")
    as_of: datetime | None = Field(None, description="Search what the documents said at this moment.")
    limit: int = Field(5, ge=1, le=20)


class DocumentParameters(Parameters):
    document_id: ShortText | None = Field(None, description="From a search result.")
    url: Text | None = Field(None, description="Instead of the id.")
    start: int = Field(0, ge=0, le=2**31 - 1, description="The first character to read.")
    max_characters: int = Field(8_000, ge=100, le=20_000)
    version: int | None = Field(None, ge=1, le=2**31 - 1, description="An older version than the newest.")


class NoParameters(Parameters):
    """Nothing to say."""


class PlansParameters(Parameters):
    limit: int = Field(50, ge=1, le=MAX_LISTED)


class CrawlParameters(Parameters):
    url: Text
    max_pages: int = Field(1, ge=1, le=1000, description="More than one follows the site's links.")
    max_depth: int = Field(2, ge=0, le=20)
    collection_id: ShortText | None = None


class PlanParameters(Parameters):
    plan: ShortText = Field(description="The plan's id, or its name.")


class JobParameters(Parameters):
    job_id: ShortText


class NewsParameters(Parameters):
    since: datetime = Field(description="For example 2026-05-01 or 2026-05-01T12:00:00Z.")
    plan: ShortText | None = Field(None, description="Only of this plan: its id, or its name.")
    limit: int = Field(30, ge=1, le=MAX_CHANGES)


class ArticleParameters(Parameters):
    url: Text
    content: str = Field(min_length=1, max_length=5_000_000, description="Markdown or plain text.")
    title: str | None = Field(None, max_length=2000)
    canonical: Text | None = Field(None, description="The address that the article calls its own.")
    collection_id: ShortText | None = None
    metadata: dict[str, Any] = Field(default_factory=dict, max_length=50)


class SitesParameters(Parameters):
    domains: list[Text] = Field(min_length=1, max_length=1000)
    max_articles_per_site: int = Field(25, ge=1, le=100_000)
    concurrent_sites: int = Field(3, ge=1, le=100)


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    parameters: type[Parameters]
    scope: Scope
    call: Callable[[Principal, Any], Awaitable[dict[str, Any]]]
    for_models: bool = True  # otherwise only the bus has it


class ToolService:
    def __init__(
        self,
        *,
        search: SearchService,
        documents: DocumentService,
        collections: CollectionService,
        plans: PlanService,
        operations: OperationService,
        crawls: CrawlService,
        control: ControlService,
        jobs: JobService,
        articles: ArticleService,
    ) -> None:
        self._search_service = search
        self._documents = documents
        self._collections = collections
        self._plans = plans
        self._operations = operations
        self._crawls = crawls
        self._control = control
        self._jobs = jobs
        self._articles = articles
        read, write = Scope.READ, Scope.WRITE
        listed = [
            Tool("search", _SEARCH, SearchParameters, read, self._search),
            Tool("get_document", _GET_DOCUMENT, DocumentParameters, read, self._get_document),
            Tool("list_collections", "The collections that can be searched.", NoParameters, read, self._list),
            Tool("list_plans", "What is crawled regularly, and when.", PlansParameters, read, self._list_plans),
            Tool("crawl_url", _CRAWL_URL, CrawlParameters, write, self._crawl_url),
            Tool("run_plan", "Run a plan now: look at its whole source again.", PlanParameters, write, self._run_plan),
            Tool("job_status", "How far a job is, or how it ended.", JobParameters, read, self._job_status),
            Tool("whats_new", _WHATS_NEW, NewsParameters, read, self._whats_new),
            Tool("persist_article", _PERSIST, ArticleParameters, write, self._persist_article),
            Tool("unified_production_crawl", "Crawl sites.", SitesParameters, write, self._crawl_sites, False),
        ]
        self._tools = {tool.name: tool for tool in listed}

    def of(self, principal: Principal, *, for_models: bool = False) -> list[Tool]:
        """The tools that this key may call."""
        return [
            tool for tool in self._tools.values() if principal.may(tool.scope) and (tool.for_models or not for_models)
        ]

    def get(self, name: str) -> Tool:
        tool = self._tools.get(name)
        if tool is None:
            raise NotFound(f"There is no tool '{name[:64]}'.")
        return tool

    async def call(self, principal: Principal, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        tool = self.get(name)
        require(principal, tool.scope)
        try:
            parameters = tool.parameters.model_validate(dict(arguments))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "arguments"
            raise InvalidRequest(f"{field}: {first['msg']}.", field=field) from error
        return await tool.call(principal, parameters)

    async def _search(self, who: Principal, asked: SearchParameters) -> dict[str, Any]:
        answer = await self._search_service.search(
            who,
            SearchRequest(
                query=asked.query,
                collection_ids=tuple(asked.collection_ids),
                hosts=tuple(host.lower() for host in asked.domains),
                as_of=None if asked.as_of is None else _aware(asked.as_of),
                limit=asked.limit,
            ),
        )
        return {
            "results": [_passage(result) for result in answer.results],
            **({"corrected_query": answer.corrected_query} if answer.corrected_query else {}),
            **({"notes": list(answer.notes)} if answer.notes else {}),
        }

    async def _get_document(self, who: Principal, asked: DocumentParameters) -> dict[str, Any]:
        document = await self._find_document(who, asked)
        version, text = await self._documents.content(who, document.id, version=asked.version)
        part = text[asked.start : asked.start + asked.max_characters]
        end = asked.start + len(part)
        return {
            **_citation(document),
            "version": version.version,
            "start": asked.start,
            "end": end,
            "total_characters": len(text),
            "markdown": part,
            **({"next_start": end} if end < len(text) else {}),
        }

    async def _find_document(self, who: Principal, asked: DocumentParameters) -> Document:
        if asked.document_id is not None:
            return await self._documents.get(who, asked.document_id)
        if asked.url is None:
            raise InvalidRequest("Give document_id or url.", field="document_id")
        found = await self._documents.find_by_url(who, asked.url)
        if found is None:
            raise NotFound("There is no document with this address.")
        return found

    async def _list(self, who: Principal, _: NoParameters) -> dict[str, Any]:
        counts = await self._collections.document_counts(who)
        found = await self._collections.all(who)
        return {
            "collections": [
                {
                    "collection_id": each.id,
                    "name": each.name,
                    "description": each.description,
                    "documents": counts.get(each.id, 0),
                }
                for each in found[:MAX_LISTED]
            ],
            "total": len(found),
        }

    async def _list_plans(self, who: Principal, asked: PlansParameters) -> dict[str, Any]:
        page = await self._plans.page(who, limit=asked.limit)
        return {"plans": [_plan(plan) for plan in page.items], "total": page.total}

    async def _crawl_url(self, who: Principal, asked: CrawlParameters) -> dict[str, Any]:
        one = asked.max_pages == 1
        spec = read_spec(
            {
                "start_urls": [asked.url],
                "max_pages": asked.max_pages,
                "max_depth": 0 if one else asked.max_depth,
                "follow_links": not one,
                "use_sitemaps": False,
            }
        )
        job = await self._crawls.start(who, spec, destination=Destination.to(asked.collection_id))
        return {"job_id": job.id, "status": str(job.state)}

    async def _run_plan(self, who: Principal, asked: PlanParameters) -> dict[str, Any]:
        plan = await self._find_plan(who, asked.plan)
        operation = await self._plans.start(who, plan.id)
        return {"job_id": operation.job_id, "operation_id": operation.id, "plan": plan.name}

    async def _find_plan(self, who: Principal, text: str) -> Plan:
        if text.startswith("cplan_"):
            return await self._plans.get(who, text)
        found = await self._plans.find_by_name(who, text)
        if found is None:
            raise NotFound(f"There is no plan '{text}'.")
        return found

    async def _job_status(self, who: Principal, asked: JobParameters) -> dict[str, Any]:
        return _job(await self._jobs.get(who, asked.job_id))

    async def _whats_new(self, who: Principal, asked: NewsParameters) -> dict[str, Any]:
        plan_id = None if asked.plan is None else (await self._find_plan(who, asked.plan)).id
        found = [change async for change in self._operations.changes(who, plan_id, since=_aware(asked.since))]
        shown = found[-asked.limit :]
        return {"changes": [_change(each) for each in reversed(shown)], "total": len(found)}

    async def _persist_article(self, who: Principal, asked: ArticleParameters) -> dict[str, Any]:
        inserted, article_id = await self._articles.persist(who, **asked.model_dump())
        return {"inserted": inserted, "article_id": article_id}

    async def _crawl_sites(self, who: Principal, asked: SitesParameters) -> dict[str, Any]:
        job = await self._control.start(who, SiteOrder(**asked.model_dump()))
        return {"status": "accepted", "job_id": job.id}


_SEARCH = (
    "Search everything that was crawled or uploaded, by meaning and by words. Each result is a passage with the "
    "address, title and offsets to cite it by, and when it was crawled."
)
_GET_DOCUMENT = "Read a document as Markdown, a part at a time."
_CRAWL_URL = "Crawl a page, or a site from it on, and make it searchable. Returns a job; ask job_status how far it is."
_WHATS_NEW = "Documents that were added, changed or removed since a moment, the newest first."
_PERSIST = "Store an article. Doing it twice stores it once: inserted says whether it is new."


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _passage(result: SearchResult) -> dict[str, Any]:
    text = result.content
    return {
        "document_id": result.document_id,
        "url": result.url,
        "title": result.title,
        "section": result.section_header,
        "text": text if len(text) <= MAX_PASSAGE else f"{text[:MAX_PASSAGE]}…",
        "start": result.start_char,
        "end": result.end_char,
        "score": round(result.score, 3),
        "crawled_at": result.crawled_at.isoformat(),
    }


def _citation(document: Document) -> dict[str, Any]:
    return {
        "document_id": document.id,
        "url": document.url,
        "title": document.title or document.filename,
        "crawled_at": document.crawled_at.isoformat(),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "plan_id": plan.id,
        "name": plan.name,
        "type": plan.repository_type,
        "start": plan.repository_settings.get("start_url") or plan.repository_settings.get("url"),
        "state": str(plan.state),
        "active": plan.is_active,
        "last_run_at": None if plan.last_crawl_start_at is None else plan.last_crawl_start_at.isoformat(),
        "last_run_succeeded": plan.last_crawl_success,
        "next_run_at": None if plan.next_crawl_at is None else plan.next_crawl_at.isoformat(),
    }


_FACTS: Sequence[str] = ("current", "total", "pages", "failed", "queued", "message")


def _job(job: Job) -> dict[str, Any]:
    facts = {**job.progress, **(job.result or {})}
    return {
        "job_id": job.id,
        "kind": job.kind,
        "status": str(job.state),
        "progress": {name: facts[name] for name in _FACTS if facts.get(name) is not None},
        "documents": facts.get("documents"),
        "error": job.error,
        "started_at": None if job.started_at is None else job.started_at.isoformat(),
        "finished_at": None if job.finished_at is None else job.finished_at.isoformat(),
    }


def _change(change: DocumentChange) -> dict[str, Any]:
    return {
        "change": str(change.kind),
        "at": change.at.isoformat(),
        "version": change.version,
        **_citation(change.document),
    }
