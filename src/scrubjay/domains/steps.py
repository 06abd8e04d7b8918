"""The steps of a domain's crawl, source by source. A source that cannot be reached is told of, and the others go on."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.web_crawler import WebCrawler
from scrubjay.domains.definition import Definition, Domain, DomainSource, FileSource, ListSource, WebSource
from scrubjay.domains.download import SourceDownload
from scrubjay.domains.embed import SourceEmbedding
from scrubjay.domains.folders import SourceFolder
from scrubjay.domains.metadata import write_metadata
from scrubjay.domains.orders import CrawlScope, DomainCrawlOrder
from scrubjay.domains.process import SourceProcessing
from scrubjay.domains.remote import SHAREPOINT, Remote, SharePointRemote, SharePointSites, WebRemote
from scrubjay.domains.source_plans import SourceName, begin_source_run, draft_plan, find_source_plan
from scrubjay.domains.store import DomainStore
from scrubjay.errors import (
    ExtractionFailed,
    FetchFailed,
    HostBlocked,
    InvalidRequest,
    JobFailedForGood,
    NotFound,
    Unavailable,
    UrlBlocked,
)
from scrubjay.model.plan import Change, Fate, LedgerEntry, Plan
from scrubjay.openai.protocol import Backend
from scrubjay.plans.delta import change_of
from scrubjay.plans.run import FolderTarget, PlanRuns
from scrubjay.queue.context import JobContext
from scrubjay.sources.protocol import ConnectorType
from scrubjay.sources.web import WEB
from scrubjay.storage.frontier import Frontier
from scrubjay.storage.ledger import Ledger

RUN = "run "  # how the names of sections begin that are runs of sources
COUNTED = ("added", "changed", "unchanged", "removed", "failed")
Work = Callable[[SourceFolder, DomainSource], Awaitable[Mapping[str, int]]]
# Of one source: the others do not have to wait for it to get well.
_OF_A_SOURCE = (FetchFailed, ExtractionFailed, UrlBlocked, HostBlocked, InvalidRequest, NotFound, Unavailable)


@dataclass(frozen=True, slots=True)
class CrawlSteps:
    """Implements `orders.DomainSteps`."""

    store: DomainStore
    crawler: WebCrawler
    backend: Backend
    runs: PlanRuns

    async def download(self, context: JobContext, order: DomainCrawlOrder) -> Mapping[str, Any]:
        async with SharePointSites.open(self.crawler, context) as sites:

            async def work(folder: SourceFolder, source: DomainSource) -> Mapping[str, int]:
                name = SourceName(context.job.tenant_id, order.domain_id, folder.kind, source.source_id)
                if order.dry_run:
                    return await self._preview(context, order, sites, name, folder, source)
                return await self._download(context, order, sites, name, folder, source)

            return await self._each(context, order, "download", work)

    async def _download(
        self,
        context: JobContext,
        order: DomainCrawlOrder,
        sites: SharePointSites,
        name: SourceName,
        folder: SourceFolder,
        source: DomainSource,
    ) -> Mapping[str, int]:
        """One source, as a run of its plan inside this job."""
        plan, operation = await begin_source_run(context, name, source, self.crawler.secrets)
        remote, kind = self._remote(sites, plan, source)
        sink = SourceDownload(context, folder, source, remote, plan.id, order.mode)
        # Whatever is missing from a whole listing is gone, however much it is.
        with context.section(f"{RUN}{operation.id}", {"confirm_deletions": True}):
            try:
                result = await self.runs.run_into(context, plan, operation, FolderTarget(kind, remote, sink))
            except JobFailedForGood as error:
                raise FetchFailed(error.message, error_type="source_unreadable") from error
        counts: Mapping[str, int] = result["report"]["counts"]
        return {name: int(counts.get(name, 0)) for name in COUNTED}

    async def _preview(
        self,
        context: JobContext,
        order: DomainCrawlOrder,
        sites: SharePointSites,
        name: SourceName,
        folder: SourceFolder,
        source: DomainSource,
    ) -> Mapping[str, int]:
        """What a run would find; nothing is written."""
        async with self.crawler.database.reading() as connection:
            known = await find_source_plan(connection, name)
        plan = known or draft_plan(name, source, self.crawler.secrets)
        remote, _ = self._remote(sites, plan, source)
        limit = source.spec().max_pages if isinstance(source, WebSource) else None
        with context.section(f"{RUN}preview", {}):
            items = [item async for item in remote.enumerate(context, limit) if item.problem is None]
            async with context.transaction() as connection:
                await Frontier(connection).clear(context.job.id)
                await context.remember(connection, {})
        if not items and remote.problems:
            raise FetchFailed(remote.problems[0], error_type="source_unreadable")
        sink = SourceDownload(context, folder, source, remote, plan.id, order.mode)
        is_complete = not remote.problems
        lost = await sink.lost(await remote.rows(is_complete=is_complete))
        async with self.crawler.database.reading() as connection:
            entries = {each.key_hash: each for each in await all_entries(connection, plan.id)}
        changes = Counter(
            change_of(item, None if item.key_hash in lost else entries.pop(item.key_hash, None)) for item in items
        )
        seen = {item.key_hash for item in items}
        removed = sum(each.fate is not Fate.RETIRED and each.key_hash not in seen for each in entries.values())
        return {
            "added": changes[Change.ADDED],
            "changed": changes[Change.CHANGED],
            "unchanged": changes[None],
            "removed": removed if is_complete else 0,
        }

    def _remote(self, sites: SharePointSites, plan: Plan, source: DomainSource) -> tuple[Remote, ConnectorType]:
        if isinstance(source, WebSource):
            return WebRemote(plan, self.runs.tools), WEB
        if isinstance(source, FileSource | ListSource):
            return SharePointRemote(sites, source), SHAREPOINT
        raise TypeError(f"no such source: {type(source).__name__}")

    async def process(self, context: JobContext, order: DomainCrawlOrder) -> Mapping[str, Any]:
        async def work(folder: SourceFolder, _: DomainSource) -> Mapping[str, int]:
            if not folder.has_originals:
                return {"processed": 0, "failed": 0}
            return await SourceProcessing(context, folder, order.dry_run).run(order.mode)

        return await self._each(context, order, "process", work)

    async def embed(self, context: JobContext, order: DomainCrawlOrder) -> Mapping[str, Any]:
        domain = await self._domain(context, order)
        store_id = order.vector_store_id or domain.definition.vector_store_id
        if not store_id:
            raise JobFailedForGood(f"Domain '{order.domain_id}' has no vector store.")
        await self.backend.vector_store(context.job.tenant_id, store_id)  # NotFound ends the job

        async def work(folder: SourceFolder, source: DomainSource) -> Mapping[str, int]:
            embedding = SourceEmbedding(context, self.backend, folder, source, store_id, order.dry_run)
            return await embedding.run(order.mode)

        done = await self._each(context, order, "embed", work)
        if not order.dry_run:
            folder = self.store.domain_folder(context.job.tenant_id, order.domain_id)
            entries = await asyncio.to_thread(write_metadata, folder, self._folders(context, domain.definition, order))
            done = {**done, "files_metadata": entries}
        return {**done, "vector_store_id": store_id}

    async def _domain(self, context: JobContext, order: DomainCrawlOrder) -> Domain:
        return await asyncio.to_thread(self.store.read, context.job.tenant_id, order.domain_id)

    def _folders(
        self, context: JobContext, definition: Definition, order: DomainCrawlOrder
    ) -> list[tuple[SourceFolder, DomainSource]]:
        """Those of every source, whatever the order is about."""
        return [
            (self._folder(context, order, kind, source), source) for kind, source in definition.sources(CrawlScope.ALL)
        ]

    def _folder(
        self, context: JobContext, order: DomainCrawlOrder, kind: CrawlScope, source: DomainSource
    ) -> SourceFolder:
        root = self.store.crawl_folder(context.job.tenant_id, order.domain_id).parent
        return SourceFolder(root, order.domain_id, kind, source.source_id)

    async def _each(self, context: JobContext, order: DomainCrawlOrder, step: str, work: Work) -> Mapping[str, Any]:
        """Do a step's work for each source, and remember which are done; the counts of each, and what went wrong."""
        domain = await self._domain(context, order)
        sources = list(domain.definition.sources(order.scope, order.source_id))
        if order.source_id is not None and not sources:
            raise NotFound(f"Source '{order.source_id}' not found in domain '{order.domain_id}'.")
        done: dict[str, Any] = dict(context.state.get(step) or {})
        for number, (kind, source) in enumerate(sources, 1):
            folder = self._folder(context, order, kind, source)
            name = f"{kind}/{source.source_id}"
            if name in done:
                continue
            await context.log(f"[ {number} / {len(sources)} ] {step.capitalize()} source '{name}'...")
            try:
                done[name] = dict(await work(folder, source))
            except _OF_A_SOURCE as error:
                done[name] = {"error": error.message}
                await context.log(f"  ERROR: source '{name}' is left as it was: {error.message}", level="error")
            else:
                told = ", ".join(f"{count:,} {what}" for what, count in done[name].items())
                await context.log(f"  OK. {told}.")
            state = {key: value for key, value in context.state.items() if not key.startswith(RUN)}
            await context.checkpoint({**state, step: done})
        return _summary(done)


async def all_entries(connection: AsyncConnection, plan_id: str) -> list[LedgerEntry]:
    entries: list[LedgerEntry] = []
    while part := await Ledger(connection).listing(plan_id, after=entries[-1].key_hash if entries else ""):
        entries += part
    return entries


def _summary(done: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    totals: dict[str, int] = {}
    for counts in done.values():
        for name, count in counts.items():
            if isinstance(count, int):
                totals[name] = totals.get(name, 0) + count
    errors = {name: counts["error"] for name, counts in done.items() if "error" in counts}
    return {**totals, "sources": dict(done), **({"errors": errors} if errors else {})}
