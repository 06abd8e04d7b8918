"""Keeps the index equal to the documents. Step 8 of a page's journey ends here.

A document that changed is due (`documents.index_due_at`). An indexer leases what is due, makes the vectors that are
missing, gives every generation the points that it lacks and takes those away that it should not have, and only then
says in the database that the version is found. Whatever dies in between is done again by whoever leases it next.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from sqlalchemy.exc import SQLAlchemyError

from scrubjay.errors import Conflict, IndexElsewhere, ScrubjayError, Unavailable
from scrubjay.index.catalog import IndexCatalog, Served
from scrubjay.index.traces import traces_of
from scrubjay.index.vectors import embed_texts
from scrubjay.index.words import vocabulary_of
from scrubjay.model.clock import utc_now
from scrubjay.model.content import (
    Chunk,
    ChunkOutline,
    Document,
    DocumentLogLine,
    DocumentStatus,
    DocumentVersion,
)
from scrubjay.model.ids import new_id
from scrubjay.model.search import IndexPoint
from scrubjay.queue.polling import PollLoop
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.database import Database
from scrubjay.storage.document_logs import DocumentLogs
from scrubjay.storage.documents import Documents
from scrubjay.storage.generations import Generations
from scrubjay.storage.tags import Tags
from scrubjay.storage.versions import DocumentVersions
from scrubjay.storage.vocabulary import Vocabulary
from scrubjay.telemetry import get_logger, span
from scrubjay.telemetry.metrics import index_batch_seconds, index_documents_total

BATCH_DOCUMENTS = 64
BATCH_POINTS = 512
POLL_SECONDS = 0.4
SWEEP_SECONDS = 300.0
LEASE = timedelta(seconds=60)
FAULT_SECONDS = 5.0
MOST_OUTAGES = 2  # in a row, before a batch is put off as a whole
RENEW_SECONDS = 20.0
FAILING_ATTEMPTS = 4  # after so many the document says that it failed; it is tried on, ever more rarely
LONGEST_PAUSE_SECONDS = 600.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class IndexState:
    """What the index should hold of a document."""

    document: Document
    stamps: Mapping[str, str]  # chunk id → stamp
    outlines: Mapping[str, ChunkOutline]
    versions: Mapping[int, DocumentVersion]
    tags: tuple[str, ...]


class Removal(Protocol):
    """Removes documents whose points are gone; `documents/cleanup.py` in practice."""

    async def remove(self, document: Document) -> None: ...

    async def sweep(self) -> int: ...


class Indexer:
    def __init__(self, database: Database, catalog: IndexCatalog, cleanup: Removal) -> None:
        self._database = database
        self._catalog = catalog
        self._cleanup = cleanup
        self._lease = new_id("wrk")
        self._turn = asyncio.Lock()
        self._swept_at = time.monotonic()
        self._loop = PollLoop("indexer", self._run, poll_seconds=POLL_SECONDS, fault_seconds=FAULT_SECONDS)

    async def take_over(self) -> None:
        """For whoever works on these documents alone: what another process had leased, it will not finish."""
        async with self._database.writing() as connection:
            await Documents(connection).free_leases(utc_now())

    def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop(cancel=True)

    @property
    def is_stopped(self) -> bool:
        return self._loop.is_done

    def wake(self) -> None:
        """Documents changed in this process just now."""
        self._loop.wake()

    async def _run(self) -> int:
        busy = await self.step()
        await self._sweep()
        return busy

    async def _sweep(self) -> None:
        """Now and then: nobody waits for a body to be destroyed."""
        if time.monotonic() - self._swept_at > SWEEP_SECONDS:
            self._swept_at = time.monotonic()
            await self._cleanup.sweep()

    async def step(self) -> int:
        """Bring the index up to what is due now; returns how many documents that was."""
        async with self._turn:
            return await self._step()

    async def _step(self) -> int:
        async with self._database.reading() as connection:
            if not await Documents(connection).any_due(utc_now()):
                return 0
        try:
            await self._catalog.open_all()
        except IndexElsewhere:
            return 0  # whoever has the index follows
        now = utc_now()
        async with self._database.writing() as connection:
            documents = await Documents(connection).lease_due(
                self._lease, limit=BATCH_DOCUMENTS, now=now, until=now + LEASE
            )
        if documents:
            async with self._holding(documents):
                await self._follow(documents)
        return len(documents)

    async def drain(self) -> None:
        """Index until nothing is due, also not what the task in the background has in hand."""
        busy = 1
        while busy:
            busy = await self.step()

    @asynccontextmanager
    async def _holding(self, documents: Sequence[Document]) -> AsyncIterator[None]:
        renewing = asyncio.create_task(self._renew([document.id for document in documents]))
        try:
            yield
        except (asyncio.CancelledError, Exception):
            # This process stops, or the database was away for a moment: nobody should have to wait until the lease is
            # over.
            async with self._database.writing() as connection:
                for document in documents:
                    await Documents(connection).hand_back(document, utc_now())
            raise
        finally:
            renewing.cancel()
            # Not `suppress`: a cancellation of this task that comes in this moment must not be taken for the other's.
            await asyncio.gather(renewing, return_exceptions=True)

    async def _renew(self, document_ids: Sequence[str]) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                async with self._database.writing() as connection:
                    await Documents(connection).renew_lease(document_ids, self._lease, utc_now() + LEASE)
            except (ScrubjayError, SQLAlchemyError) as error:
                log.warning("lease not renewed", reason=str(error))

    async def _follow(self, documents: Sequence[Document]) -> None:
        """Index these documents. If that fails one of them may be the reason: then each on its own, so that the
        others go on; but when the second one fails as well for want of something, none of the rest is tried."""
        error = await self._try(documents)
        if error is None or len(documents) == 1:
            return
        outages = 0
        for document in documents:
            if outages < MOST_OUTAGES:
                error = await self._try([document])
                outages = outages + 1 if isinstance(error, Unavailable) else 0
            elif error is not None:
                await self._postpone(document, error)

    async def _try(self, documents: Sequence[Document]) -> Exception | None:
        """Index documents as one; a single one that cannot be is put off. Returns why not."""
        try:
            # A batch may be of several traces: it is in the first one, and the others are linked to it.
            traces = await traces_of(self._database, documents)
            first = traces[0] if traces else None
            with (
                index_batch_seconds.time(),
                span("index", parent=first, links=traces[1:], index__documents=len(documents)),
            ):
                served = await self._catalog.open_all()
                states = await desired_states(self._database, documents)
                for each in served:
                    await self._bring_up(each, states)
        except Exception as error:
            if not isinstance(error, ScrubjayError):
                log.exception("indexing failed", documents=len(documents))
            if len(documents) == 1:
                await self._postpone(documents[0], error)
            return error
        await self._settle(documents)
        index_documents_total.labels("indexed").inc(len(documents))
        return None

    async def _bring_up(self, served: Served, states: Sequence[IndexState]) -> None:
        """Give a generation what it lacks: first what is new, then what ends, so that nothing is missing meanwhile."""
        fresh: list[tuple[IndexState, str]] = []
        stale: list[tuple[IndexState, str]] = []
        for state in states:
            held = await served.index.stamps(state.document.tenant_id, state.document.id)
            for chunk_id, stamp in state.stamps.items():
                if held.get(chunk_id) != stamp:
                    ended = state.versions[state.outlines[chunk_id].version].ended_at is not None
                    (stale if ended else fresh).append((state, chunk_id))
            gone = [chunk_id for chunk_id in held if chunk_id not in state.stamps]
            await served.index.delete(gone)
        for group in (fresh, stale):
            for start in range(0, len(group), BATCH_POINTS):
                await served.index.upsert(await self._points(served, group[start : start + BATCH_POINTS]))

    async def _points(self, served: Served, wanted: Sequence[tuple[IndexState, str]]) -> list[IndexPoint]:
        chunks: dict[str, Chunk] = {}
        async with self._database.reading() as connection:
            for tenant_id in {state.document.tenant_id for state, _ in wanted}:
                ids = [chunk_id for state, chunk_id in wanted if state.document.tenant_id == tenant_id]
                chunks |= {chunk.id: chunk for chunk in await Chunks(connection).by_ids(tenant_id, ids)}
        texts = {chunk.content_sha256: chunk.embedded_text for chunk in chunks.values()}
        vectors = await embed_texts(self._database, served.embedder, texts)
        return [
            _point(state, chunks[chunk_id], vectors[chunks[chunk_id].content_sha256].tolist())
            for state, chunk_id in wanted
            if chunk_id in chunks
        ]

    async def _settle(self, documents: Sequence[Document]) -> None:
        """Say that these are found as they are now; what changed meanwhile stays due."""
        words = await self._words(documents)
        async with self._database.writing() as connection:
            for document in documents:
                if document.is_purging:
                    continue
                changes: dict[str, Any] = {"indexed_version": document.version}
                if document.indexed_version != document.version or document.status is DocumentStatus.STORING_EMBEDDINGS:
                    changes |= {"status": DocumentStatus.COMPLETED, "error": None}
                if not await Documents(connection).settle_index(document, **changes):
                    await Documents(connection).hand_back(document, utc_now())
        for document in documents:
            if document.is_purging:
                await self._cleanup.remove(document)
        await self._advance({document.tenant_id for document in documents}, words)

    async def _words(self, documents: Sequence[Document]) -> Mapping[str, set[str]]:
        """The words of what is newly found, by tenant."""
        words: dict[str, set[str]] = {}
        async with self._database.reading() as connection:
            for document in documents:
                if document.indexed_version != document.version and not document.is_purging:
                    for chunk in await Chunks(connection).of_document(document.id, version=document.version):
                        words.setdefault(document.tenant_id, set()).update(vocabulary_of(chunk.content))
        return words

    async def _advance(self, tenant_ids: Iterable[str], words: Mapping[str, set[str]]) -> None:
        try:
            async with self._database.writing() as connection:
                await Generations(connection).advance(set(tenant_ids))
                for tenant_id, known in sorted(words.items()):
                    await Vocabulary(connection).learn(tenant_id, known)
        except Conflict:
            # Another worker learned the same words in the same moment; they come by again.
            async with self._database.writing() as connection:
                await Generations(connection).advance(set(tenant_ids))

    async def _postpone(self, document: Document, error: Exception) -> None:
        attempt = document.index_attempts + 1
        reason = error.message if isinstance(error, ScrubjayError) else f"{type(error).__name__}: {error}"
        pause = min(LONGEST_PAUSE_SECONDS, 0.5 * 2**attempt)
        index_documents_total.labels("postponed").inc()
        log.warning("document not indexed yet", document_id=document.id, attempt=attempt, reason=reason)
        async with self._database.writing() as connection:
            documents = Documents(connection)
            await documents.postpone_index(document, utc_now() + timedelta(seconds=pause))
            if attempt >= FAILING_ATTEMPTS and document.status is DocumentStatus.STORING_EMBEDDINGS:
                failed = f"It cannot be indexed, and is tried again from time to time: {reason}"
                await documents.update(document.tenant_id, document.id, status=DocumentStatus.FAILED, error=failed)
            line = DocumentLogLine(
                tenant_id=document.tenant_id,
                document_id=document.id,
                level="WARNING",
                message=f"Not indexed (attempt {attempt}, next in {pause:.0f} s): {reason}",
            )
            await DocumentLogs(connection).add(line)


async def desired_states(database: Database, documents: Sequence[Document]) -> list[IndexState]:
    """What the index should hold of documents; of one that is being removed, nothing."""
    ids = [document.id for document in documents if not document.is_purging]
    async with database.reading() as connection:
        outlines = await Chunks(connection).outlines(ids)
        versions = await DocumentVersions(connection).of_documents(ids)
        tags = await Tags(connection).of_documents(ids)
    states = []
    for document in documents:
        of_document = {each.version: each for each in versions.get(document.id, ())}
        tagged = tuple(sorted(tag.id for tag in tags.get(document.id, ())))
        cut = {each.id: each for each in outlines.get(document.id, ()) if each.version in of_document}
        stamps = {each.id: _stamp(document, of_document[each.version], each, tagged) for each in cut.values()}
        states.append(IndexState(document, stamps, cut, of_document, tagged))
    return states


def _stamp(document: Document, version: DocumentVersion, outline: ChunkOutline, tags: tuple[str, ...]) -> str:
    facts = (
        document.url, document.source, document.collection_id, document.title, document.language,
        document.crawled_at.isoformat(), tags, version.created_at.isoformat(), _iso(version.ended_at),
        outline.chunk_index, outline.content_sha256, outline.section_header, outline.content_type,
    )  # fmt: skip
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _point(state: IndexState, chunk: Chunk, vector: Sequence[float]) -> IndexPoint:
    document, version = state.document, state.versions[chunk.version]
    return IndexPoint(
        id=chunk.id,
        tenant_id=document.tenant_id,
        document_id=document.id,
        chunk_index=chunk.chunk_index,
        url=document.url,
        host=document.host,
        domain=document.domain,
        source=document.source,
        content_type=chunk.content_type,
        crawled_at=document.crawled_at,
        since=version.created_at,
        until=version.ended_at,
        collection_id=document.collection_id,
        title=document.title,
        language=document.language,
        section_header=chunk.section_header,
        tags=state.tags,
        text=chunk.embedded_text,
        vector=vector,
        stamp=state.stamps[chunk.id],
    )
