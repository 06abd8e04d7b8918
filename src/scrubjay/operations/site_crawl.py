"""The job kinds `crawl` and `crawl_shard`: a crawl asked for by hand, whose pages become documents while it runs.

The crawl puts every page that it saw into a queue, in the transaction that stores the page. This takes them out
again: pages with content become documents, pages that are gone end theirs. Whatever is left in the queue when a
process dies is taken by the next run.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import DBAPIError

from scrubjay.connectors.web_events import PAGE_EVENT, STATUSES
from scrubjay.connectors.web_job import KIND, WebCrawler
from scrubjay.connectors.web_shards import SHARD_KIND
from scrubjay.connectors.web_store import markdown_of, unpack_details
from scrubjay.crawl.urls import host_of, normal_form
from scrubjay.errors import Conflict, InvalidRequest, JobFailedForGood, JobTakenOver, Unavailable
from scrubjay.ingest.cleanup import retire
from scrubjay.ingest.document_writer import natural_key
from scrubjay.ingest.documents import Ingester
from scrubjay.ingest.indexing import Indexer
from scrubjay.jobs.context import JobContext
from scrubjay.jobs.kinds import JobKind
from scrubjay.model.content import Document, DocumentSource, IncomingDocument, Ingested, IngestOutcome, QueuedPage
from scrubjay.model.crawling import CrawledPage
from scrubjay.model.destination import Destination
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database
from scrubjay.storage.documents import Documents
from scrubjay.storage.ingest_queue import IngestQueue
from scrubjay.telemetry import CrawlCounts, crawl_meter, get_logger

BATCH_PAGES = 32
LOOK_SECONDS = 0.3

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SiteCrawls:
    crawler: WebCrawler
    ingester: Ingester
    indexer: Indexer
    database: Database

    @property
    def kinds(self) -> tuple[JobKind, ...]:
        return (
            JobKind(name=KIND, handler=self.crawl),
            JobKind(name=SHARD_KIND, handler=self.crawl_shard, is_shared_out=True, notifies=False),
        )

    async def crawl(self, context: JobContext) -> Mapping[str, Any]:
        if self.crawler.is_sharded(context):
            return await self.crawler.crawl(context)  # each shard ingests its own pages
        return await self._crawl_and_ingest(context, self.crawler.crawl)

    async def crawl_shard(self, context: JobContext) -> Mapping[str, Any]:
        return await self._crawl_and_ingest(context, self.crawler.crawl_shard)

    async def _crawl_and_ingest(
        self, context: JobContext, crawl: Callable[[JobContext], Awaitable[Mapping[str, Any]]]
    ) -> Mapping[str, Any]:
        try:
            destination = Destination.read(context.payload)
        except (InvalidRequest, AttributeError, TypeError) as error:
            raise JobFailedForGood(f"The crawl cannot be run as it was asked for: {error}") from error
        if destination is None:
            return await crawl(context)
        ingestion = PageIngestion(self, context, destination)
        following = asyncio.create_task(ingestion.follow())
        try:
            result = await crawl(context)
        finally:
            # Not cancelled: a cancellation can be lost in a library, and a batch that has begun is finished anyway.
            ingestion.stop()
            with suppress(JobTakenOver):
                await following
        await ingestion.drain()
        return {**result, "documents": ingestion.counts}


class PageIngestion:
    """Takes a job's pages out of the queue, in batches."""

    def __init__(self, crawls: SiteCrawls, context: JobContext, destination: Destination) -> None:
        self._crawls = crawls
        self._context = context
        self._destination = destination
        self._over = asyncio.Event()
        before: Mapping[str, int] = context.state.get("documents") or {}
        self.counts: dict[str, int] = {str(outcome): before.get(outcome, 0) for outcome in IngestOutcome}

    async def follow(self) -> None:
        """Ingest what is queued until the crawl is over."""
        while not self._over.is_set():
            try:
                taken = await self._take()
            except (Conflict, DBAPIError, Unavailable) as error:
                # The pages stay in the queue; whether it is a fault that lasts is found out at the end.
                await self._context.log(f"Pages are not ingested yet: {error}", level="warning")
                taken = 0
            if not taken:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._over.wait()

    def stop(self) -> None:
        self._over.set()

    async def drain(self) -> None:
        """Ingest what is left."""
        while await self._take():
            await self._context.checkpoint()

    async def _take(self) -> int:
        """Ingest the next batch; returns how many pages that was."""
        async with self._crawls.database.reading() as connection:
            queued = await IngestQueue(connection).next(self._context.job.id, BATCH_PAGES)
            pages = await _pages(connection, queued)
        if not queued:
            return 0
        gone = [page for page in pages if page.content is None]
        present = [page for page in pages if page.content is not None]
        done = await self._ingest([self._incoming(page) for page in present])
        counts, metered = Counter(str(each.outcome) for each in done), CrawlCounts()
        for page, each in zip(present, done, strict=True):
            note_ingested(metered, host_of(page.url), each.outcome)
        async with self._context.transaction() as connection:
            await IngestQueue(connection).remove([each.id for each in queued])
            ended = await self._retire(connection, gone)
            counts[IngestOutcome.REMOVED] += len(ended)
            totals = {name: self.counts[name] + counts[name] for name in self.counts}
            await self._context.remember(connection, {**self._context.state, "documents": totals})
            await self._context.tell(connection, [*map(_told, present, done), *map(_told_of_end, ended)])
        self.counts = totals
        crawl_meter.tell(self._context.job.id, metered)
        await self._context.announce()
        self._crawls.indexer.wake()
        return len(queued)

    async def _ingest(self, incoming: Sequence[IncomingDocument]) -> list[Ingested]:
        """One page that trips us must not keep the others out: it fails by itself, and says why."""
        try:
            return await self._crawls.ingester.ingest_many(incoming)
        except (Conflict, DBAPIError, Unavailable):
            raise
        except Exception as error:
            if len(incoming) == 1:
                log.exception("page not ingested", url=incoming[0].url)
                return [await self._crawls.ingester.fail(incoming[0], f"{type(error).__name__}: {error}")]
            return [done for each in incoming for done in await self._ingest([each])]

    async def _retire(self, connection: Any, gone: Sequence[CrawledPage]) -> list[Document]:
        """End the documents of pages that their site says are gone."""
        keys = [natural_key(None, self._destination.collection_id, normal_form(page.url)) for page in gone]
        known = await Documents(connection).by_keys(self._context.job.tenant_id, keys)
        ended = [document for document in known.values() if document.deleted_at is None]
        await retire(connection, ended)
        return ended

    def _incoming(self, page: CrawledPage) -> IncomingDocument:
        details = unpack_details(page.details)
        metadata = dict(details.get("metadata") or {})
        return IncomingDocument(
            tenant_id=page.tenant_id,
            url=page.url,
            source=DocumentSource.CRAWL,
            markdown=markdown_of(page),
            title=page.title,
            language=metadata.get("language"),
            details={**metadata, "extraction_method": page.method, "job_id": page.job_id},
            collection_id=self._destination.collection_id,
            parent_url=page.parent_url,
            content_type=page.content_type,
            size_bytes=page.size_bytes,
            original_sha256=None,
            tags=self._destination.tags,
            chunking=self._destination.chunking,
            crawled_at=page.changed_at,
        )


def note_ingested(counts: CrawlCounts, host: str, outcome: IngestOutcome) -> None:
    """What became of a page that was taken in, for the metrics."""
    if outcome in (IngestOutcome.ADDED, IngestOutcome.CHANGED):
        counts.note_inserted(host)
    elif outcome is IngestOutcome.UNCHANGED:
        counts.note_deduped(host)
    elif outcome is IngestOutcome.FAILED:
        counts.note_error(host, "ingest")


def _told(page: CrawledPage, ingested: Ingested) -> tuple[str, Mapping[str, Any]]:
    deduped = page.duplicate_of is not None and ingested.outcome is IngestOutcome.ADDED
    return PAGE_EVENT, {
        "url": page.url,
        "domain": host_of(page.url),
        "status": STATUSES[IngestOutcome.UNCHANGED if deduped else ingested.outcome],
        "document_id": ingested.document_id,
        "title": page.title,
        "extraction_method": page.method,
        **({"error": ingested.error} if ingested.error else {}),
    }


def _told_of_end(document: Document) -> tuple[str, Mapping[str, Any]]:
    facts = {"url": document.url, "domain": host_of(document.url), "document_id": document.id}
    return PAGE_EVENT, {**facts, "status": STATUSES[IngestOutcome.REMOVED]}


async def _pages(connection: Any, queued: Sequence[QueuedPage]) -> list[CrawledPage]:
    pages: list[CrawledPage] = []
    for scope_id in {each.scope_id for each in queued}:
        hashes = {each.url_hash for each in queued if each.scope_id == scope_id}
        pages += await CrawledPages(connection).by_hashes(scope_id, hashes)
    return pages
