"""The job kinds `ingest` (uploaded bytes become documents) and `reindex` (documents are cut or embedded anew)."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scrubjay.documents.ingester import Ingester
from scrubjay.errors import (
    BlobMissing,
    Conflict,
    ExtractionFailed,
    InvalidRequest,
    JobFailedForGood,
    NotFound,
    Unavailable,
)
from scrubjay.extract.pool import ExtractionPool
from scrubjay.index.catalog import IndexCatalog
from scrubjay.index.indexing import Indexer
from scrubjay.model.clock import utc_now
from scrubjay.model.content import DocumentSource, DocumentStatus, IncomingDocument, Ingested, IngestOutcome
from scrubjay.model.extraction import Extraction, Verdict
from scrubjay.model.job import Job
from scrubjay.queue.context import JobContext
from scrubjay.queue.kinds import JobKind
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.database import Database
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.inventory import VectorStoreFiles

INGEST_KIND = "ingest"
REINDEX_KIND = "reindex"
MAX_UPLOAD_BYTES = 50 * 1024 * 1024
SLICE_DOCUMENTS = 500
LOOK_SECONDS = 0.25
NOISE_SAMPLE_CHARACTERS = 100_000
NOISE_SHARE = 0.05
_UNREADABLE = re.compile("[\\x00-\\x08\\x0e-\\x1f\\x7f-\\x9f\\ufffd]")
_HEADING = re.compile(r"^#{1,6} +(\S.*?)(?: +#+)? *$", re.MULTILINE)
# Where links of uploads without an address lead: nowhere, by definition of the name.
NOWHERE = "https://upload.invalid/"


@dataclass(frozen=True, slots=True)
class IngestJobs:
    database: Database
    blobs: BlobStore
    pool: ExtractionPool
    ingester: Ingester
    indexer: Indexer
    catalog: IndexCatalog

    @property
    def kinds(self) -> tuple[JobKind, ...]:
        return (
            JobKind(name=INGEST_KIND, handler=self.ingest, is_waited_for=True),
            JobKind(name=REINDEX_KIND, handler=self.reindex, worker_limit=1),
        )

    async def ingest(self, context: JobContext) -> Mapping[str, Any]:
        """One upload after the other; what is done is not done again when the job goes on elsewhere."""
        try:
            items = [dict(item) for item in context.payload["items"]]
        except (KeyError, TypeError, ValueError) as error:
            raise JobFailedForGood("The upload cannot be read as it was asked for.") from error
        done: list[dict[str, Any]] = list(context.state.get("done") or [])
        for number in range(len(done), len(items)):
            await context.progress(number, len(items), "reading uploads")
            ingested = await self._ingest_item(context.job, items[number])
            self.indexer.wake()
            done.append({"document_id": ingested.document_id, "outcome": ingested.outcome, "error": ingested.error})
            await context.checkpoint({"done": done})
        await context.progress(len(items), len(items), "read")
        return {"results": done}

    async def _ingest_item(self, job: Job, item: Mapping[str, Any]) -> Ingested:
        """One upload. What stands in its way for a moment fails the run, and the document only when no try is left."""
        try:
            return await self._read_item(job, item)
        except (Conflict, Unavailable) as error:
            if job.retry_count < job.max_retries:
                raise
            return await self.ingester.fail(_incoming(job.tenant_id, item), error.message)

    async def _read_item(self, job: Job, item: Mapping[str, Any]) -> Ingested:
        tenant_id = job.tenant_id
        incoming = _incoming(tenant_id, item)
        if incoming.document_id is not None:
            is_superseded = await self._is_superseded(job, incoming.document_id)
            if is_superseded:
                return Ingested(document_id=incoming.document_id, outcome=IngestOutcome.REMOVED)
            # Asked once more in the transaction that writes, because reading a file takes a while.
            incoming = replace(incoming, reading_job_id=None if is_superseded is None else job.id)
        try:
            data = await self.blobs.get(str(item["original_sha256"]), max_bytes=MAX_UPLOAD_BYTES)
            await self._set_status(incoming, DocumentStatus.PROCESSING)
            extraction = await self._extract(data, incoming, is_extracted=bool(item.get("is_extracted")))
        except (ExtractionFailed, BlobMissing, InvalidRequest) as error:
            return await self.ingester.fail(incoming, error.message)
        if extraction.verdict is Verdict.EMPTY or not extraction.markdown.strip():
            return await self.ingester.fail(incoming, extraction.verdict_reason or "There is no text in it.")
        if is_noise(extraction.markdown):
            return await self.ingester.fail(incoming, "This is not text, whatever it is called.")
        metadata = extraction.metadata
        read = _incoming(
            tenant_id,
            item,
            markdown=extraction.markdown,
            title=incoming.title or extraction.title or incoming.filename,
            language=incoming.language or metadata.get("language"),
            details={**metadata, **incoming.details, "extraction_method": extraction.method},
            size_bytes=len(data),
            reading_job_id=incoming.reading_job_id,
        )
        try:
            return await self.ingester.ingest(read)
        except InvalidRequest as error:
            return await self.ingester.fail(incoming, error.message)

    async def _is_superseded(self, job: Job, document_id: str) -> bool | None:
        """Whether the vector store file was removed, or replaced by a newer file; nothing for other uploads."""
        async with self.database.reading() as connection:
            record = (await VectorStoreFiles(connection).by_documents(job.tenant_id, [document_id])).get(document_id)
            document = (await Documents(connection).by_ids([document_id])).get(document_id)
        if record is None or document is None:
            return None
        return document.deleted_at is not None or record.job_id not in (None, job.id)

    async def _extract(self, data: bytes, incoming: IncomingDocument, *, is_extracted: bool) -> Extraction:
        if is_extracted:
            text = data.decode("utf-8", "replace").strip()
            return Extraction(markdown=text, method="markdown", title=first_heading(text))
        address = incoming.url if incoming.url.startswith("http") else NOWHERE + (incoming.filename or "")
        return await self.pool.extract(data, url=address, content_type=incoming.content_type)

    async def _set_status(self, incoming: IncomingDocument, status: DocumentStatus) -> None:
        if incoming.document_id is None:
            return
        async with self.database.writing() as connection:
            document = (await Documents(connection).by_ids([incoming.document_id])).get(incoming.document_id)
            # One that says something already is what it was until that changes, if it does.
            if document is not None and document.version == 0:
                await Documents(connection).update(incoming.tenant_id, incoming.document_id, status=status)

    async def reindex(self, context: JobContext) -> Mapping[str, Any]:
        """Some documents cut anew, or the whole index built anew by the embedder that the settings name."""
        wanted = context.payload.get("document_ids")
        if wanted is not None:
            return await self._recut(context, [str(each) for each in wanted])
        generation = await self.catalog.begin()
        async with self.database.reading() as connection:
            total = await Documents(connection).count()
        after, marked = str(context.state.get("after") or ""), int(context.state.get("marked") or 0)
        if context.state.get("generation") != generation.id:
            after, marked = "", 0
        while True:
            # What is due is done by the indexer, in every generation that is open; slices keep the queue short.
            async with context.transaction() as connection:
                ids = await Documents(connection).make_due(utc_now(), after=after, limit=SLICE_DOCUMENTS)
                after, marked = (ids[-1] if ids else after), marked + len(ids)
                await context.remember(connection, {"after": after, "marked": marked, "generation": generation.id})
            if not ids:
                break
            await self._wait_until_indexed(context, marked, total)
        await self.catalog.switch(generation.id)
        return {"documents": marked, "model": generation.model, "generation": generation.id}

    async def _wait_until_indexed(self, context: JobContext, marked: int, total: int) -> None:
        while True:
            self.indexer.wake()
            await context.checkpoint()
            async with self.database.reading() as connection:
                due = await Documents(connection).count(
                    DocumentRow.index_due_at.is_not(None), DocumentRow.index_attempts == 0
                )
            await context.progress(max(0, marked - due), max(total, marked), "indexing")
            if not due:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _recut(self, context: JobContext, document_ids: list[str]) -> Mapping[str, Any]:
        results: list[dict[str, Any]] = []
        for number, document_id in enumerate(document_ids):
            await context.checkpoint()
            await context.progress(number, len(document_ids), "cutting anew")
            async with self.database.reading() as connection:
                try:
                    document = await Documents(connection).get(context.job.tenant_id, document_id)
                except NotFound as error:
                    results.append({"document_id": document_id, "error": error.message})
                    continue
            if document.version == 0 or document.is_purging:
                results.append({"document_id": document_id, "error": "The document has no content."})
                continue
            ingested = await self.ingester.recut(document, document.chunking)
            self.indexer.wake()
            results.append({"document_id": document_id, "outcome": IngestOutcome.CHANGED, "error": ingested.error})
        return {"results": results}


def first_heading(text: str) -> str | None:
    found = _HEADING.search(text)
    return found[1] if found else None


def is_noise(text: str) -> bool:
    """Whether something else was read as text: bytes that no writing system uses are everywhere in it."""
    sample = text[:NOISE_SAMPLE_CHARACTERS]
    return len(_UNREADABLE.findall(sample)) > len(sample) * NOISE_SHARE


def _incoming(tenant_id: str, item: Mapping[str, Any], **changes: Any) -> IncomingDocument:
    values: dict[str, Any] = {
        "url": str(item["url"]),
        "source": DocumentSource(item["source"]),
        "markdown": "",
        "document_id": item.get("document_id"),
        "collection_id": item.get("collection_id"),
        "rule_id": item.get("rule_id"),
        "title": item.get("title"),
        "language": item.get("language"),
        "details": item.get("details") or {},
        "filename": item.get("filename"),
        "content_type": item.get("content_type"),
        "original_sha256": item.get("original_sha256"),
        "tags": tuple(item.get("tags") or ()),
        "chunking": item.get("chunking"),
    }
    return IncomingDocument(tenant_id=tenant_id, **{**values, **changes})
