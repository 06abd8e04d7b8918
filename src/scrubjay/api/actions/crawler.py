"""`/v2/crawler`: the steps of a domain's crawl, each started by one address."""

from typing import Any

from scrubjay.api.actions.declaration import DRY_RUN, Action, Button, Call, Param, Resource, Type
from scrubjay.domains.orders import CrawlScope, DomainCrawlMode, DomainCrawlOrder
from scrubjay.model.tenant import Scope

_SCOPES = {
    "all": "all: files, lists, sitepages, web",
    "files": "only files, operating ONLY on 01_files/ local storage",
    "lists": "only lists, operating ONLY on 02_lists/ local storage",
    "sitepages": "only sitepages, operating ONLY on 03_sitepages/ local storage",
    "web": "only web sites, operating ONLY on 04_web/ local storage",
}
_STORE = Param(
    name="vector_store_id", about="Embed files into this vector store, ignoring the one configured in domain.json."
)


def _params(full: str, incremental: str, *more: Param) -> tuple[Param, ...]:
    modes = {"full": full, "incremental": incremental}
    return (
        Param(name="domain_id", about="Domain to be crawled.", required=True),
        *more,
        Param(name="mode", about="How much is done.", type=Type.CHOICE, choices=modes),
        Param(name="scope", about="Which sources.", type=Type.CHOICE, choices=_SCOPES),
        Param(name="source_id", about="With a scope other than 'all': only this source."),
        DRY_RUN,
    )


def _order(call: Call) -> DomainCrawlOrder:
    values = call.values
    return DomainCrawlOrder(
        domain_id=values["domain_id"],
        mode=DomainCrawlMode(values["mode"]),
        scope=CrawlScope(values["scope"]),
        source_id=values.get("source_id") or None,
        vector_store_id=values.get("vector_store_id") or None,
        dry_run=call.dry_run,
    )


def _step(name: str, about: str, params: tuple[Param, ...]) -> Resource:
    async def start(call: Call) -> dict[str, Any]:
        return await call.jay.domain_crawls.start(call.who, name, _order(call), endpoint=call.endpoint)

    action = Action(
        start=start,
        params=params,
        scope=Scope.WRITE,
        changes=True,
        about="Starts a job. format=stream follows it; the other formats answer with the job at once.",
        examples=("domain_id={domain_id}&format=stream", "domain_id={domain_id}&mode=incremental&format=json"),
    )
    return Resource(shorthand="L(jhs)", path=f"crawler/{name}", about=about, list=action)


def crawl_button(label: str, mode: str) -> Button:
    query = {"domain_id": "{id}", "mode": mode, "format": "html"}
    return Button(label=label, path="crawler/crawl", query=query, changes=True, scope=Scope.WRITE)


DOMAIN_HOME = "/ui/domains/{id}"
CRAWL_BUTTONS = (crawl_button("Crawl changes", "incremental"), crawl_button("Crawl all", "full"))


async def _domains(call: Call) -> Any:
    """What can be crawled, and what is going on there."""
    latest = await call.jay.action_jobs.latest(call.who, "crawler")
    return [
        {
            "domain_id": domain["domain_id"],
            "name": domain.get("name"),
            "job_id": latest.get(domain["domain_id"], {}).get("job_id"),
            "state": latest.get(domain["domain_id"], {}).get("state"),
            "error": domain.get("error"),
        }
        for domain in await call.jay.domains.all(call.who)
    ]


CRAWLER = (
    Resource(
        shorthand="L(u)",
        path="crawler",
        about="UI for crawling SharePoint sites and see current status",
        id_param="domain_id",
        list=Action(run=_domains, about="Domains with their latest job."),
        columns=("domain_id", "name", "job_id", "state", "error"),
        buttons=CRAWL_BUTTONS,
        home=DOMAIN_HOME,
    ),
    _step(
        "download_data",
        "Downloads data from source to local storage",
        _params(
            "performs full crawl of domain, deletes all previously downloaded files in local storage first",
            "performs incremental crawl, fallback to mode=full if no files_map.csv file found",
        ),
    ),
    _step(
        "process_data",
        "Performs preprocessing of downloaded data",
        _params(
            "performs full processing of domain, deletes all previously processed files in local storage first",
            "performs incremental processing, fallback to mode=full if no files_map.csv file found",
        ),
    ),
    _step(
        "embed_data",
        "Performs embedding of processed data by uploading files to the file storage and adding them to a vector store",
        _params("performs full embedding of processed files", "performs incremental embedding (only changes)", _STORE),
    ),
    _step(
        "crawl",
        "Performs the following steps: 1) download, 2) processing, 3) embedding",
        _params("performs full crawl", "performs incremental crawl (only changes)"),
    ),
)
