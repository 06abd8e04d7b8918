"""The job kind `crawl`: a crawl asked for by hand, whose pages become documents while it runs.

The crawl puts every page that it saw into a queue, in the transaction that stores the page. This takes them out
again: pages with content become documents, pages that are gone end theirs. Whatever is left in the queue when a
process dies is taken by the next run.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import DBAPIError

from scrubjay.connectors.web_job import KIND, WebCrawler
from scrubjay.connectors.web_store import markdown_of, unpack_details
from scrubjay.crawl.urls import normal_form
from scrubjay.errors import Conflict, InvalidRequest, JobFailedForGood, JobTakenOver, Unavailable
from scrubjay.ingest.cleanup import retire
from scrubjay.ingest.document_writer import natural_key
from scrubjay.ingest.documents import Ingester
from scrubjay.ingest.indexing import Indexer
from scrubjay.jobs.context import JobContext
from scrubjay.jobs.kinds import JobKind
from scrubjay.model.content import DocumentSource, IncomingDocument, Ingested, IngestOutcome, QueuedPage
from scrubjay.model.crawling import CrawledPage
from scrubjay.model.destination import Destination
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database
from scrubjay.storage.documents import Documents
from scrubjay.storage.ingest_queue import IngestQueue
from scrubjay.telemetry import get_logger

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
        return (JobKind(name=KIND, handler=self.crawl),)

    async def crawl(self, context: JobContext) -> Mapping[str, Any]:
        try:
            destination = Destination.read(context.payload)
        except (InvalidRequest, AttributeError, TypeError) as error:
            raise JobFailedForGood(f"The crawl cannot be run as it was asked for: {error}") from error
        if destination is None:
            return await self.crawler.crawl(context)
        ingestion = PageIngestion(self, context, destination)
        following = asyncio.create_task(ingestion.follow())
        try:
            result = await self.crawler.crawl(context)
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
        self.counts: dict[str, int] = {str(outcome): 0 for outcome in IngestOutcome}

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
        for each in await self._ingest([self._incoming(page) for page in pages if page.content is not None]):
            self.counts[each.outcome] += 1
        async with self._context.transaction() as connection:
            await IngestQueue(connection).remove([each.id for each in queued])
            self.counts[IngestOutcome.REMOVED] += await self._retire(connection, gone)
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

    async def _retire(self, connection: Any, gone: Sequence[CrawledPage]) -> int:
        """End the documents of pages that their site says are gone."""
        keys = [natural_key(None, self._destination.collection_id, normal_form(page.url)) for page in gone]
        known = await Documents(connection).by_keys(self._context.job.tenant_id, keys)
        ended = [document for document in known.values() if document.deleted_at is None]
        await retire(connection, ended)
        return len(ended)

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


async def _pages(connection: Any, queued: Sequence[QueuedPage]) -> list[CrawledPage]:
    pages: list[CrawledPage] = []
    for scope_id in {each.scope_id for each in queued}:
        hashes = {each.url_hash for each in queued if each.scope_id == scope_id}
        pages += await CrawledPages(connection).by_hashes(scope_id, hashes)
    return pages
