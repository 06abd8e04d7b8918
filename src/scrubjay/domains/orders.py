"""What is asked of a domain's crawl, and the protocol of the steps that do it.

`services/domain_crawls.py` checks an order and submits it as a job; `crawl_jobs.py` runs the job: it calls the steps of
its kind one after the other. Whoever implements `DomainSteps` does the work.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from scrubjay.errors import InvalidRequest
from scrubjay.queue.context import JobContext

DOWNLOAD_KIND = "domain.download"
PROCESS_KIND = "domain.process"
EMBED_KIND = "domain.embed"
CRAWL_KIND = "domain.crawl"
KIND_OF: Mapping[str, str] = {  # by the action that starts it
    "download_data": DOWNLOAD_KIND,
    "process_data": PROCESS_KIND,
    "embed_data": EMBED_KIND,
    "crawl": CRAWL_KIND,
}


class DomainCrawlMode(StrEnum):
    FULL = "full"  # everything anew; what was there before goes first
    INCREMENTAL = "incremental"  # changes only; full where there is nothing to compare with


class CrawlScope(StrEnum):
    """Which kinds of sources, and so which folders below the domain's, an order is about."""

    ALL = "all"
    FILES = "files"  # 01_files
    LISTS = "lists"  # 02_lists
    SITEPAGES = "sitepages"  # 03_sitepages
    WEB = "web"  # 04_web, ours


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCrawlOrder:
    """The payload of a domain's job. `source_id` goes with a scope other than all."""

    domain_id: str
    mode: DomainCrawlMode = DomainCrawlMode.FULL
    scope: CrawlScope = CrawlScope.ALL
    source_id: str | None = None
    vector_store_id: str | None = None  # instead of the domain's own; for embedding
    dry_run: bool = False

    def dump(self) -> dict[str, Any]:
        return {
            "domain_id": self.domain_id,
            "mode": str(self.mode),
            "scope": str(self.scope),
            "source_id": self.source_id,
            "vector_store_id": self.vector_store_id,
            "dry_run": self.dry_run,
        }

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> "DomainCrawlOrder":
        try:
            return cls(
                domain_id=str(payload["domain_id"]),
                mode=DomainCrawlMode(payload.get("mode", DomainCrawlMode.FULL)),
                scope=CrawlScope(payload.get("scope", CrawlScope.ALL)),
                source_id=payload.get("source_id"),
                vector_store_id=payload.get("vector_store_id"),
                dry_run=bool(payload.get("dry_run", False)),
            )
        except (KeyError, ValueError) as error:
            raise InvalidRequest(f"This is no order to crawl a domain: {error}.") from error


class DomainSteps(Protocol):
    """The three steps. Each can be repeated after a crash, logs what it does with `context.log`, calls
    `context.checkpoint()` between items, and returns its counts, which become the job's result. What went wrong with
    a source stands under `errors`, by the source's name; the job goes on, and its result is not `ok`.

    `context.state["step"]` belongs to `crawl_jobs.py`; a step keeps what it must remember under its own name, by
    `context.checkpoint({**context.state, "download": {…}})`. The tenant is `context.job.tenant_id`.
    """

    async def download(self, context: JobContext, order: DomainCrawlOrder) -> Mapping[str, Any]:
        """Sources → local storage, with `sharepoint_map.csv` and `files_map.csv`."""

    async def process(self, context: JobContext, order: DomainCrawlOrder) -> Mapping[str, Any]:
        """Originals of lists and site pages → text that is embedded."""

    async def embed(self, context: JobContext, order: DomainCrawlOrder) -> Mapping[str, Any]:
        """Local storage → vector store, with `vectorstore_map.csv` and `files_metadata.json`."""
