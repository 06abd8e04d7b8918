"""What is new or changed becomes documents, and what is gone ends (spec 000 §5.2.6, 8 to 10).

`follow` takes in what a crawl finds while it goes on; `run` does the rest when everything is listed. Each batch is
read, ingested, and then noted in the ledger and on the operation's list in one transaction. A process that dies in
between leaves the batch on the list; doing it again finds the documents as they should be.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy.exc import DBAPIError

from scrubjay.crawler.page_events import MAX_ERROR_LENGTH, PAGE_EVENT
from scrubjay.documents.cleanup import retire
from scrubjay.documents.ingester import Ingester
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
from scrubjay.index.indexing import Indexer
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Document, DocumentSource, IncomingDocument, IngestOutcome
from scrubjay.model.destination import Destination
from scrubjay.model.extraction import TEXT_LIMITS, Verdict, text_limits
from scrubjay.model.plan import Change, Fate, LedgerEntry, OperationItem, Plan, RepositoryType, WorkState
from scrubjay.model.source import SourceContent, SourceItem
from scrubjay.model.urls import host_of, parse_url
from scrubjay.queue.context import JobContext
from scrubjay.sources.protocol import Connector
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database
from scrubjay.storage.documents import Documents
from scrubjay.storage.ledger import MAX_INTERVALS, Ledger
from scrubjay.storage.operation_items import OperationItems
from scrubjay.telemetry import CrawlCounts, crawl_meter, get_logger

BATCH = 32
POLL_SECONDS = 0.3
NOWHERE = "https://file.invalid/"  # where links of documents lead that have no address on the web

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunDependencies:
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
    reason: str | None = None  # why it was not taken in, or the limit that cut its text
    outcome: IngestOutcome | None = None  # of what was taken in
    document: IncomingDocument | None = None

    @property
    def change(self) -> Change:
        """What the item turned out to be: a document may already say what a plan finds for the first time."""
        return Change.UNCHANGED if self.outcome is IngestOutcome.UNCHANGED else self.item.change


class FolderSink(Protocol):
    """Takes items in as files instead of documents (`domains/download.py`)."""

    async def listed(self, *, is_complete: bool) -> None:
        """The source was listed, and nothing is compared yet."""

    async def take_in(self, batch: Sequence[OperationItem]) -> Sequence[Settled]:
        """Fetch items; those that fail say why. Doing it again changes nothing."""

    async def finish(self, operation_id: str) -> None:
        """Everything is taken in, and what is gone was deleted from the ledger."""


@dataclass(slots=True)
class Retrieval:
    context: JobContext
    plan: Plan
    operation_id: str
    connector: Connector
    destination: Destination
    rule_id: str | None
    parts: RunDependencies
    facts: Mapping[str, Any] = field(default_factory=dict)  # what the crawl counted, for the progress
    sink: FolderSink | None = None  # where items become files
    _places: asyncio.Semaphore = field(init=False)
    _over: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    @property
    def _followed(self) -> Sequence[Change]:
        return [Change.ADDED] * self.plan.process_additions + [Change.CHANGED] * self.plan.process_updates

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.plan.max_drain_tasks)

    async def follow(self) -> None:
        """Take in what this job's crawl finds, until `stop` is called."""
        while not self._over.is_set() and self._followed:
            try:
                taken = await self._step(self._followed, self.context.job.id)
            except (Conflict, DBAPIError, Unavailable) as error:
                # The items stay on the list; whether the fault lasts is found out at the end.
                await self.context.log(f"Pages are not taken in yet: {error}", level="warning")
                taken = False
            if not taken:
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._over.wait()

    async def drain(self, following: "asyncio.Task[None]") -> None:
        """Wait until `following` (the task of `follow`) has taken in everything that this job's crawl has found."""
        while not following.done():
            async with self.parts.database.reading() as connection:
                items = OperationItems(connection)
                if not await items.pending(self.operation_id, self._followed, 1, part_id=self.context.job.id):
                    return
            await self.context.checkpoint()
            await asyncio.sleep(POLL_SECONDS)

    def stop(self) -> None:
        self._over.set()

    async def run(self) -> None:
        """Additions, then updates, then deletions; each kind is done with before the next begins."""
        plan = self.plan
        wanted = {
            Change.ADDED: plan.process_additions,
            Change.CHANGED: plan.process_updates,
            Change.DELETED: plan.process_deletions,
        }
        for change, is_wanted in wanted.items():
            if not is_wanted or (change is Change.DELETED and await self._has_cut_text()):
                async with self.context.transaction() as connection:
                    await OperationItems(connection).skip(self.operation_id, change)
                continue
            while await self._step([change]):
                await self.context.checkpoint()
                await self._tell_progress()

    async def _has_cut_text(self) -> bool:
        async with self.parts.database.reading() as connection:
            tally = await OperationItems(connection).tally(self.operation_id)
        return any(reason in TEXT_LIMITS for _, _, reason in tally)

    async def _step(self, changes: Sequence[Change], part_id: str | None = None) -> bool:
        """Work off one batch; false when there is nothing to do."""
        async with self.parts.database.reading() as connection:
            batch = await OperationItems(connection).pending(self.operation_id, changes, BATCH, part_id=part_id)
        if not batch:
            return False
        await (self._end(batch) if Change.DELETED in changes else self._take_in(batch))
        self.parts.indexer.wake()
        return True

    async def _tell_progress(self) -> None:
        async with self.parts.database.reading() as connection:
            tally = await OperationItems(connection).tally(self.operation_id)
        total = sum(count for count, _ in tally.values())
        pending = sum(count for (_, state, _), (count, _) in tally.items() if state is WorkState.PENDING)
        await self.context.progress(total - pending, total, "retrieving", **self.facts)

    async def _take_in(self, batch: Sequence[OperationItem]) -> None:
        if self.sink is not None:
            files = await self.sink.take_in(batch)
            await self._note(files)
            self._count(files, ())
            return
        read = await self._read_all(batch)
        settled = [each for each in read if isinstance(each, Settled)]
        incoming = [(item, each) for item, each in zip(batch, read, strict=True) if isinstance(each, IncomingDocument)]
        settled += await self._ingest(incoming)
        await self._note(settled)
        self._count(settled, incoming)

    async def _read_all(self, batch: Sequence[OperationItem]) -> Sequence[IncomingDocument | Settled]:
        items = [source_item(item) for item in batch]
        read_many = getattr(self.connector, "read_many", None)
        if read_many is None:
            return await asyncio.gather(*map(self._read, batch, items))
        contents = await read_many(items)
        return await asyncio.gather(*map(self._prepare, batch, contents))

    def _count(self, settled: Sequence[Settled], read: Sequence[tuple[OperationItem, IncomingDocument]]) -> None:
        counts, kind = CrawlCounts(), self.plan.repository_type
        if kind != RepositoryType.WEB:  # its crawl has counted what it read
            for item, document in read:
                counts.note_processed(_site(item.key, kind), document.details.get("extraction_method"))
        for each in settled:
            if each.outcome is not None:
                note_ingested(counts, _site(each.item.key, kind), each.outcome)
            else:
                counts.note_error(_site(each.item.key, kind), each.reason)
        crawl_meter.tell(self.context.job.id, counts)

    async def _read(self, item: OperationItem, asked: SourceItem) -> IncomingDocument | Settled:
        async with self._places:
            try:
                content: SourceContent | ScrubjayError = await self.connector.read(asked)
            except (Unavailable, JobFailedForGood):
                raise
            except ScrubjayError as error:
                content = error
            return await self._prepare(item, content)

    async def _prepare(self, item: OperationItem, content: SourceContent | ScrubjayError) -> IncomingDocument | Settled:
        """A document to be. An item that cannot be read has none; one that has no text has, and says why."""
        if isinstance(content, ScrubjayError):
            return Settled(item, None, content.message, _reason(content))
        try:
            return self._incoming(content if content.markdown is not None else await self._extract(content))
        except (ExtractionFailed, InvalidRequest) as error:
            failed = await self.parts.ingester.fail(self._incoming(content), error.message)
            return Settled(item, failed.document_id, error.message, _reason(error))

    def _incoming(self, content: SourceContent) -> IncomingDocument:
        destination = self.destination
        return IncomingDocument(
            tenant_id=self.plan.tenant_id,
            url=content.url,
            source=DocumentSource.CRAWL,
            markdown=content.markdown or "",
            title=content.title,
            language=content.language,
            details={**content.details, "cuts": list(content.cuts)} if content.cuts else content.details,
            collection_id=destination.collection_id,
            plan_id=self.plan.id,
            takes_over=not self.plan.is_one_off,
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
            cuts=text_limits(found.cuts),
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
                sentence = failed.error or "It could not be taken in."
                return [Settled(item, failed.document_id, sentence, "ingest", outcome=failed.outcome)]
            return [settled for each in incoming for settled in await self._ingest([each])]
        return [
            Settled(
                item,
                each.document_id,
                each.error if each.outcome is IngestOutcome.FAILED else None,
                "empty_page"
                if each.outcome is IngestOutcome.FAILED
                else next(iter(document.details.get("cuts", ())), None),
                outcome=each.outcome,
                document=document,
            )
            for (item, document), each in zip(incoming, done, strict=True)
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
                        "change": each.change,
                        "state": WorkState.DONE if each.error is None else WorkState.FAILED,
                        "document_id": each.document_id,
                        "reason": each.reason,
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
        """The source no longer has these. Their documents end, unless another plan still has them; versions stay."""
        hashes = {item.key_hash for item in batch}
        async with self.context.transaction() as connection:
            ledger, documents = Ledger(connection), Documents(connection)
            entries = await ledger.by_hashes(self.plan.id, hashes)
            ids = [entry.document_id for entry in entries.values() if entry.document_id is not None]
            holders = await ledger.other_holders(self.plan.id, ids, but=hashes)
            known = await documents.by_ids(ids)
            for document_id, holder in holders.items():
                if known[document_id].plan_id == self.plan.id != holder:
                    await documents.hand_over(document_id, holder)
            ending = [each for each in known.values() if each.id not in holders and is_crawled(each)]
            await retire(connection, [each for each in ending if each.deleted_at is None])
            await ledger.release([each.id for each in ending])
            await ledger.set_fate(
                self.plan.id, hashes, Fate.RETIRED, missing_runs=0, last_operation_id=self.operation_id
            )
            await CrawledPages(connection).remove(self.plan.id, hashes)
            await OperationItems(connection).settle(
                self.operation_id,
                [
                    {
                        "key_hash": item.key_hash,
                        "change": item.change,
                        "state": WorkState.DONE,
                        "document_id": _document_of(entries, item),
                        "reason": item.reason,
                        "error": item.error,
                    }
                    for item in batch
                ],
            )
            await self.context.tell(connection, [_told_of_end(item) for item in batch])
        await self.context.announce()


def is_crawled(document: Document) -> bool:
    """A document that somebody uploaded or sent to the API stays when a site no longer has its page."""
    return document.source is DocumentSource.CRAWL


def _reason(error: ScrubjayError) -> str:
    return str(getattr(error, "error_type", "source_unreadable"))


def note_ingested(counts: CrawlCounts, host: str, outcome: IngestOutcome) -> None:
    """Count for the metrics what became of a page that was taken in."""
    if outcome in (IngestOutcome.ADDED, IngestOutcome.CHANGED):
        counts.note_inserted(host)
    elif outcome is IngestOutcome.UNCHANGED:
        counts.note_deduped(host)
    elif outcome is IngestOutcome.FAILED:
        counts.note_error(host, "ingest")


def _site(key: str, kind: str) -> str:
    """The host that an object is of, for the metrics; of what has none, the kind of its source."""
    try:
        return parse_url(key).host
    except UrlInvalid:
        return kind.lower()


def _told(settled: Settled) -> tuple[str, Mapping[str, Any]]:
    item = settled.item
    statuses = {Change.CHANGED: "updated", Change.UNCHANGED: "deduped"}
    status = statuses.get(settled.change, "inserted")
    facts: dict[str, Any] = {**_place(item), "document_id": settled.document_id}
    if settled.document is not None:
        facts["title"] = settled.document.title
        facts["extraction_method"] = settled.document.details.get("extraction_method")
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
