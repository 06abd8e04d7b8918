"""The second half of a run: what is new or changed is taken in, and what is gone ends (spec 000 §5.2.6, 8 to 10).

Each batch is read, ingested, and then noted in the ledger and on the operation's list in one transaction. A process
that dies in between leaves the batch on the list; doing it again finds the documents as they should be.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy.exc import DBAPIError

from scrubjay.connectors.source import Connector
from scrubjay.connectors.web_events import MAX_ERROR_LENGTH, PAGE_EVENT
from scrubjay.crawl.urls import host_of, parse_url
from scrubjay.errors import (
    Conflict,
    ExtractionFailed,
    InvalidRequest,
    JobFailedForGood,
    ScrubjayError,
    Unavailable,
    UrlInvalid,
)
from scrubjay.extract.pool import ExtractionPool
from scrubjay.ingest.cleanup import retire
from scrubjay.ingest.documents import Ingester
from scrubjay.ingest.indexing import Indexer
from scrubjay.jobs.context import JobContext
from scrubjay.model.clock import utc_now
from scrubjay.model.content import DocumentSource, IncomingDocument, IngestOutcome
from scrubjay.model.destination import Destination
from scrubjay.model.extraction import Verdict
from scrubjay.model.plan import Change, Fate, LedgerEntry, OperationItem, Plan, RepositoryType, WorkState
from scrubjay.model.source import SourceContent, SourceItem
from scrubjay.operations.site_crawl import note_ingested
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database
from scrubjay.storage.documents import Documents
from scrubjay.storage.ledger import MAX_INTERVALS, Ledger
from scrubjay.storage.operation_items import OperationItems
from scrubjay.telemetry import CrawlCounts, crawl_meter, get_logger

BATCH = 32
NOWHERE = "https://file.invalid/"  # where links of documents lead that have no address on the web

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What every run of this process shares."""

    database: Database
    blobs: BlobStore
    pool: ExtractionPool
    ingester: Ingester
    indexer: Indexer


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one item."""

    item: OperationItem
    document_id: str | None = None
    error: str | None = None
    error_type: str = "source_unreadable"
    outcome: IngestOutcome | None = None  # of what was taken in


@dataclass(slots=True)
class Retrieval:
    context: JobContext
    plan: Plan
    operation_id: str
    connector: Connector
    destination: Destination
    rule_id: str | None
    parts: Parts
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.plan.max_drain_tasks)

    async def run(self) -> None:
        """Additions, then updates, then deletions; each kind is done with before the next begins."""
        plan = self.plan
        wanted = {
            Change.ADDED: plan.process_additions,
            Change.CHANGED: plan.process_updates,
            Change.DELETED: plan.process_deletions,
        }
        for change, is_wanted in wanted.items():
            if not is_wanted:
                async with self.context.transaction() as connection:
                    await OperationItems(connection).skip(self.operation_id, change)
                continue
            while batch := await self._next(change):
                await (self._end(batch) if change is Change.DELETED else self._take_in(batch))
                self.parts.indexer.wake()
                await self.context.checkpoint()
                await self._tell_progress()

    async def _next(self, change: Change) -> Sequence[OperationItem]:
        async with self.parts.database.reading() as connection:
            return await OperationItems(connection).pending(self.operation_id, change, BATCH)

    async def _tell_progress(self) -> None:
        async with self.parts.database.reading() as connection:
            tally = await OperationItems(connection).tally(self.operation_id)
        total = sum(count for count, _ in tally.values())
        pending = sum(count for (_, state), (count, _) in tally.items() if state is WorkState.PENDING)
        await self.context.progress(total - pending, total, "retrieving")

    async def _take_in(self, batch: Sequence[OperationItem]) -> None:
        read = await asyncio.gather(*(self._read(item) for item in batch))
        settled = [each for each in read if isinstance(each, Settled)]
        incoming = [(item, each) for item, each in zip(batch, read, strict=True) if isinstance(each, IncomingDocument)]
        settled += await self._ingest(incoming)
        await self._note(settled)
        self._count(settled, incoming)

    def _count(self, settled: Sequence[Settled], read: Sequence[tuple[OperationItem, IncomingDocument]]) -> None:
        counts, kind = CrawlCounts(), self.plan.repository_type
        if kind != RepositoryType.WEB:  # its crawl has counted what it read
            for item, document in read:
                counts.note_processed(_site(item.key, kind), document.details.get("extraction_method"))
        for each in settled:
            if each.outcome is not None:
                note_ingested(counts, _site(each.item.key, kind), each.outcome)
            else:
                counts.note_error(_site(each.item.key, kind), each.error_type)
        crawl_meter.tell(self.context.job.id, counts)

    async def _read(self, item: OperationItem) -> IncomingDocument | Settled:
        """The item's content. One that cannot be read has no document yet; one that has no text has, and says why."""
        async with self._places:
            try:
                content = await self.connector.read(source_item(item))
            except (Unavailable, JobFailedForGood):
                raise
            except ScrubjayError as error:
                return Settled(item, None, error.message, getattr(error, "error_type", "source_unreadable"))
            try:
                return self._incoming(content if content.markdown is not None else await self._extract(content))
            except (ExtractionFailed, InvalidRequest) as error:
                failed = await self.parts.ingester.fail(self._incoming(content), error.message)
                error_type = getattr(error, "error_type", "source_unreadable")
                return Settled(item, failed.document_id, error.message, error_type)

    def _incoming(self, content: SourceContent) -> IncomingDocument:
        destination = self.destination
        return IncomingDocument(
            tenant_id=self.plan.tenant_id,
            url=content.url,
            source=DocumentSource.CRAWL,
            markdown=content.markdown or "",
            title=content.title,
            language=content.language,
            details=content.details,
            collection_id=destination.collection_id,
            plan_id=self.plan.id,
            operation_id=self.operation_id,
            rule_id=self.rule_id,
            parent_url=content.parent_url,
            filename=content.filename,
            content_type=content.content_type,
            size_bytes=content.size_bytes,
            original_sha256=content.original_sha256,
            tags=destination.tags,
            chunking=destination.chunking,
            crawled_at=content.crawled_at or utc_now(),
        )

    async def _extract(self, content: SourceContent) -> SourceContent:
        """Bytes become text; they are kept as they came if the plan wants that."""
        data = content.data or b""
        address = content.url if content.url.startswith("http") else NOWHERE + (content.filename or "")
        found = await self.parts.pool.extract(data, url=address, content_type=content.content_type)
        if found.verdict is Verdict.EMPTY or not found.markdown.strip():
            raise ExtractionFailed(found.verdict_reason or "There is no text in it.", error_type="empty_page")
        original = None
        if self.plan.ingestion_settings.store_original:
            original = (await self.parts.blobs.put(data)).sha256
        return replace(
            content,
            markdown=found.markdown,
            title=content.title or found.title or content.filename,
            language=content.language or found.metadata.get("language"),
            details={**found.metadata, **content.details, "extraction_method": found.method},
            size_bytes=len(data),
            original_sha256=original,
        )

    async def _ingest(self, incoming: Sequence[tuple[OperationItem, IncomingDocument]]) -> list[Settled]:
        """One document that trips us must not keep the others out."""
        if not incoming:
            return []
        try:
            done = await self.parts.ingester.ingest_many([each for _, each in incoming])
        except (Conflict, DBAPIError, Unavailable):
            raise
        except Exception as error:
            if len(incoming) == 1:
                item, document = incoming[0]
                log.exception("object not ingested", key=item.key)
                failed = await self.parts.ingester.fail(document, f"{type(error).__name__}: {error}")
                reason = failed.error or "It could not be ingested."
                return [Settled(item, failed.document_id, reason, outcome=failed.outcome)]
            return [settled for each in incoming for settled in await self._ingest([each])]
        return [
            Settled(
                item,
                each.document_id,
                each.error if each.outcome is IngestOutcome.FAILED else None,
                outcome=each.outcome,
            )
            for (item, _), each in zip(incoming, done, strict=True)
        ]

    async def _note(self, settled: Sequence[Settled]) -> None:
        """What became of a batch: in the ledger and on the list, in one transaction."""
        now, plan = utc_now(), self.plan
        async with self.context.transaction() as connection:
            ledger = Ledger(connection)
            known = await ledger.by_hashes(plan.id, {each.item.key_hash for each in settled})
            await ledger.put([self._entry(each, known.get(each.item.key_hash), now) for each in settled])
            await OperationItems(connection).settle(
                self.operation_id,
                [
                    {
                        "key_hash": each.item.key_hash,
                        "state": WorkState.DONE if each.error is None else WorkState.FAILED,
                        "document_id": each.document_id,
                        "error": each.error,
                    }
                    for each in settled
                ],
            )
            await self.context.tell(connection, [_told(each) for each in settled])
        await self.context.announce()

    def _entry(self, settled: Settled, known: LedgerEntry | None, now: datetime) -> LedgerEntry:
        item = settled.item
        entry = known or LedgerEntry(
            tenant_id=self.plan.tenant_id,
            plan_id=self.plan.id,
            key_hash=item.key_hash,
            key=item.key,
            first_seen_at=now,
            last_seen_at=now,
        )
        if known is not None and item.change is Change.CHANGED and known.last_operation_id != self.operation_id:
            entry = self._with_change(entry, now)
        return replace(
            entry,
            key=item.key,
            fate=Fate.PRESENT if settled.error is None else Fate.FAILED,
            document_id=settled.document_id or entry.document_id,
            content_type=item.content_type,
            content_length=item.content_length,
            etag=item.etag,
            last_modified_at=item.last_modified_at,
            content_sha256=item.content_sha256,
            content_sha1=item.content_sha1,
            content_md5=item.content_md5,
            text_sha256=item.text_sha256,
            fingerprint=source_item(item).fingerprint,
            error=settled.error,
            seen_count=entry.seen_count + 1,
            missing_runs=0,
            last_seen_at=now,
            last_operation_id=self.operation_id,
        )

    def _with_change(self, entry: LedgerEntry, now: datetime) -> LedgerEntry:
        """It was looked at when the last complete run was under way, and has changed since."""
        looked_at = max(entry.last_seen_at, self.plan.last_complete_at or entry.last_seen_at)
        unchanged = max(0.0, (looked_at - entry.last_seen_at).total_seconds())
        apart = max(1.0, (now - looked_at).total_seconds())
        return replace(
            entry,
            change_count=entry.change_count + 1,
            unchanged_seconds=entry.unchanged_seconds + unchanged,
            change_intervals=(*entry.change_intervals, apart)[-MAX_INTERVALS:],
            last_changed_at=now,
        )

    async def _end(self, batch: Sequence[OperationItem]) -> None:
        """The source has these no more, and so we have them no more; what they said can be looked back at."""
        hashes = {item.key_hash for item in batch}
        async with self.context.transaction() as connection:
            entries = await Ledger(connection).by_hashes(self.plan.id, hashes)
            ids = [entry.document_id for entry in entries.values() if entry.document_id is not None]
            known = await Documents(connection).by_ids(ids)
            await retire(connection, [each for each in known.values() if each.deleted_at is None])
            await Ledger(connection).set_fate(
                self.plan.id, hashes, Fate.RETIRED, missing_runs=0, last_operation_id=self.operation_id
            )
            await CrawledPages(connection).remove(self.plan.id, hashes)
            await OperationItems(connection).settle(
                self.operation_id,
                [
                    {"key_hash": item.key_hash, "state": WorkState.DONE, "document_id": _document_of(entries, item)}
                    for item in batch
                ],
            )
            await self.context.tell(connection, [_told_of_end(item) for item in batch])
        await self.context.announce()


def _site(key: str, kind: str) -> str:
    """The host that an object is of, for the metrics; of what has none, the kind of its source."""
    try:
        return parse_url(key).host
    except UrlInvalid:
        return kind.lower()


def _told(settled: Settled) -> tuple[str, Mapping[str, Any]]:
    item = settled.item
    status = "updated" if item.change is Change.CHANGED else "inserted"
    facts = {**_place(item), "document_id": settled.document_id}
    if settled.error is not None:
        return PAGE_EVENT, {**facts, "status": "failed", "error": settled.error[:MAX_ERROR_LENGTH]}
    return PAGE_EVENT, {**facts, "status": status}


def _told_of_end(item: OperationItem) -> tuple[str, Mapping[str, Any]]:
    return PAGE_EVENT, {**_place(item), "status": "removed"}


def _place(item: OperationItem) -> dict[str, str]:
    on_the_web = item.key.startswith(("http://", "https://"))
    return {"url": item.key, "domain": host_of(item.key)} if on_the_web else {"url": item.key}


def _document_of(entries: Any, item: OperationItem) -> str | None:
    entry: LedgerEntry | None = entries.get(item.key_hash)
    return None if entry is None else entry.document_id


def source_item(item: OperationItem) -> SourceItem:
    return SourceItem(
        key=item.key,
        key_hash=item.key_hash,
        content_type=item.content_type,
        content_length=item.content_length,
        etag=item.etag,
        sha256=item.content_sha256,
        sha1=item.content_sha1,
        md5=item.content_md5,
        last_modified_at=item.last_modified_at,
        text_sha256=item.text_sha256,
    )
