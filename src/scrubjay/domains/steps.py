"""The steps of a domain's crawl, source by source. A source that cannot be reached is told of, and the others go on."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scrubjay.backend.protocol import Backend
from scrubjay.connectors.web_job import WebCrawler
from scrubjay.domains.definition import Definition, Domain, Source
from scrubjay.domains.download import SourceDownload
from scrubjay.domains.embed import SourceEmbedding
from scrubjay.domains.folders import SourceFolder
from scrubjay.domains.metadata import write_metadata
from scrubjay.domains.orders import CrawlOrder, CrawlScope
from scrubjay.domains.process import SourceProcessing
from scrubjay.domains.remote import Remotes
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
from scrubjay.jobs.context import JobContext

Work = Callable[[SourceFolder, Source], Awaitable[Mapping[str, int]]]
# Of one source: the others do not have to wait for it to get well.
_OF_A_SOURCE = (FetchFailed, ExtractionFailed, UrlBlocked, HostBlocked, InvalidRequest, NotFound, Unavailable)


@dataclass(frozen=True, slots=True)
class CrawlSteps:
    """Implements `orders.DomainSteps`."""

    store: DomainStore
    crawler: WebCrawler
    backend: Backend

    async def download(self, context: JobContext, order: CrawlOrder) -> Mapping[str, Any]:
        async with Remotes.open(self.crawler, context) as remotes:

            async def work(folder: SourceFolder, source: Source) -> Mapping[str, int]:
                listed = await remotes.listing(folder.kind, source, order.domain_id)
                await context.log(f"Source '{source.source_id}' has {len(listed):,} files.")
                return await SourceDownload(context, folder, order.dry_run).run(listed, order.mode)

            return await self._each(context, order, "download", work)

    async def process(self, context: JobContext, order: CrawlOrder) -> Mapping[str, Any]:
        async def work(folder: SourceFolder, _: Source) -> Mapping[str, int]:
            if not folder.has_originals:
                return {"processed": 0, "failed": 0}
            return await SourceProcessing(context, folder, order.dry_run).run(order.mode)

        return await self._each(context, order, "process", work)

    async def embed(self, context: JobContext, order: CrawlOrder) -> Mapping[str, Any]:
        domain = await self._domain(context, order)
        store_id = order.vector_store_id or domain.definition.vector_store_id
        if not store_id:
            raise JobFailedForGood(f"Domain '{order.domain_id}' has no vector store.")
        await self.backend.vector_store(context.job.tenant_id, store_id)  # NotFound ends the job

        async def work(folder: SourceFolder, source: Source) -> Mapping[str, int]:
            embedding = SourceEmbedding(context, self.backend, folder, source, store_id, order.dry_run)
            return await embedding.run(order.mode)

        done = await self._each(context, order, "embed", work)
        if not order.dry_run:
            folder = self.store.domain_folder(context.job.tenant_id, order.domain_id)
            entries = await asyncio.to_thread(write_metadata, folder, self._folders(context, domain.definition, order))
            done = {**done, "files_metadata": entries}
        return {**done, "vector_store_id": store_id}

    async def _domain(self, context: JobContext, order: CrawlOrder) -> Domain:
        return await asyncio.to_thread(self.store.read, context.job.tenant_id, order.domain_id)

    def _folders(
        self, context: JobContext, definition: Definition, order: CrawlOrder
    ) -> list[tuple[SourceFolder, Source]]:
        """Those of every source, whatever the order is about."""
        return [
            (self._folder(context, order, kind, source), source) for kind, source in definition.sources(CrawlScope.ALL)
        ]

    def _folder(self, context: JobContext, order: CrawlOrder, kind: CrawlScope, source: Source) -> SourceFolder:
        root = self.store.crawl_folder(context.job.tenant_id, order.domain_id).parent
        return SourceFolder(root, order.domain_id, kind, source.source_id)

    async def _each(self, context: JobContext, order: CrawlOrder, step: str, work: Work) -> Mapping[str, Any]:
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
            await context.checkpoint({**context.state, step: done})
        return _summary(done)


def _summary(done: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    totals: dict[str, int] = {}
    for counts in done.values():
        for name, count in counts.items():
            if isinstance(count, int):
                totals[name] = totals.get(name, 0) + count
    errors = {name: counts["error"] for name, counts in done.items() if "error" in counts}
    return {**totals, "sources": dict(done), **({"errors": errors} if errors else {})}
