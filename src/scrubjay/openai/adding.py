"""Files become documents of a collection: reserved, noted and queued to be read in one transaction, all or none.

From then on the job is durable: a process that dies leaves files that are in progress, and the next one reads them.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.documents.cleanup import mark_for_removal, restore
from scrubjay.documents.identity import document_address, natural_key
from scrubjay.documents.uploads import INGEST_KIND
from scrubjay.errors import Conflict, InvalidRequest
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Document, DocumentLogLine, DocumentSource, DocumentStatus
from scrubjay.model.job import Job
from scrubjay.model.knowledge import VectorStoreFile
from scrubjay.model.urls import hash_url
from scrubjay.openai.ids import file_id_of, is_document, own_file_id
from scrubjay.openai.local_files import SEARCHABLE, living_document, uploaded_file
from scrubjay.openai.local_parts import BackendDependencies
from scrubjay.openai.protocol import StoreFile
from scrubjay.openai.shapes import name_of
from scrubjay.openai.values import StoreFileValues, read_chunking_strategy, read_values
from scrubjay.queue import control
from scrubjay.storage.document_logs import DocumentLogs
from scrubjay.storage.documents import Documents
from scrubjay.storage.inventory import ListedFile, VectorStoreFileRow, VectorStoreFiles
from scrubjay.storage.repository import BATCH

FILES_PER_JOB = 50
PURGE_SECONDS = 10.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """A file, checked, with all that a document of it needs."""

    own_id: str
    filename: str
    title: str | None
    language: str | None
    content_type: str | None
    sha256: str
    size_bytes: int
    attributes: Mapping[str, Any]
    chunking: Mapping[str, Any] | None
    address: str | None = None  # the canonical http URL that it was fetched from
    replaces: str | None = None  # our id of the file with the older content of this URL
    is_extracted: bool = False

    @property
    def url(self) -> str:
        """The URL of the document; uploads have one URL per file, so that two files of one name are two documents."""
        return self.address or f"upload://{file_id_of(self.own_id)}/{self.filename}"


class Adding:
    def __init__(self, parts: BackendDependencies, tenant_id: str) -> None:
        self._parts = parts
        self._tenant_id = tenant_id
        self._sources: list[CheckedFile] = []
        self._queued = False

    async def prepare(self, files: Sequence[StoreFile]) -> "Adding":
        """Look at what is to be added; if anything is wrong with one, none is."""
        found: dict[str, CheckedFile | tuple[Document, Mapping[str, Any]]] = {}
        async with self._parts.database.reading() as connection:
            for number, new in enumerate(files):
                read_values(StoreFileValues, {"file_id": new.file_id, "attributes": dict(new.attributes)})
                field = f"file_ids.{number}" if len(files) > 1 else "file_id"
                found[own_file_id(new.file_id)] = await self._look_up(connection, new, field)
        self._sources = [
            each if isinstance(each, CheckedFile) else await self._copy_of(*each) for each in found.values()
        ]
        return self

    async def _look_up(
        self, connection: AsyncConnection, new: StoreFile, field: str
    ) -> CheckedFile | tuple[Document, Mapping[str, Any]]:
        own_id = own_file_id(new.file_id)
        chunking = read_chunking_strategy(new.chunking_strategy)
        given: dict[str, Any] = {"own_id": own_id, "attributes": dict(new.attributes), "chunking": chunking}
        if is_document(own_id):
            return await living_document(connection, self._tenant_id, own_id), given
        file = await uploaded_file(connection, self._tenant_id, own_id)
        if file.purpose not in SEARCHABLE:
            raise InvalidRequest(f"{field}: a file of the purpose '{file.purpose}' is not searched.", field=field)
        return CheckedFile(
            filename=file.filename,
            title=None,
            language=None,
            content_type=file.content_type,
            sha256=file.blob_sha256,
            size_bytes=file.size_bytes,
            address=_address(new.url),
            replaces=None if new.replaces is None else own_file_id(new.replaces),
            is_extracted=new.is_extracted,
            **given,
        )

    async def _copy_of(self, document: Document, given: Mapping[str, Any]) -> CheckedFile:
        """A document of another collection: its original, or its text where that was not kept."""
        sha256, kind = document.original_sha256, document.content_type
        if sha256 is None or not await self._parts.blobs.exists(sha256):
            text = await self._parts.texts.read(self._tenant_id, document.content_sha256 or "")
            sha256, kind = (await self._parts.blobs.put(text.encode())).sha256, "text/markdown"
        return CheckedFile(
            filename=name_of(document),
            title=document.title,
            language=document.language,
            content_type=kind,
            sha256=sha256,
            size_bytes=document.size_bytes,
            **given,
        )

    async def clear_way(self, collection_id: str) -> None:
        """Wait until documents that are being purged are gone."""
        deadline = time.monotonic() + PURGE_SECONDS
        while await self._is_in_the_way(collection_id):
            if time.monotonic() > deadline:
                raise Conflict("The file is still being removed from this vector store; try again in a moment.")
            self._parts.wake()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _is_in_the_way(self, collection_id: str) -> bool:
        keys = [self._key(source, collection_id) for source in self._sources]
        async with self._parts.database.reading() as connection:
            known = (await Documents(connection).by_keys(self._tenant_id, keys)).values()
        # A deleted document at a URL is restored when its file is added; a deleted upload is purged first.
        ended = [each for each in known if each.deleted_at is not None and not each.is_purging and not each.host]
        if ended:
            async with self._parts.database.writing() as connection:
                await mark_for_removal(connection, ended)
        return bool(ended) or any(each.is_purging for each in known)

    async def write(self, connection: AsyncConnection, collection_id: str, batch_id: str | None = None) -> None:
        """Documents, records, log lines and jobs, in the caller's transaction."""
        known = await self._known(connection, collection_id)
        settled = await self._settle_addresses(connection, collection_id, known)
        documents: list[Document] = []
        records: list[VectorStoreFile] = []
        unread: list[tuple[CheckedFile, str]] = []
        changes: dict[str, dict[str, Any]] = {}
        for source, held in settled:
            listed = known.get(source.own_id)
            if listed is None and held is not None:
                await self._take_over(connection, source, held, records, batch_id)
                unread.append((source, held.id))
                changes[held.id] = {
                    "file_id": source.own_id,
                    "attributes": dict(source.attributes),
                    "batch_id": batch_id,
                }
                continue
            if listed is None:
                document = self._new_document(source, collection_id)
                documents.append(document)
                records.append(self._new_record(source, document.id, batch_id))
                unread.append((source, document.id))
                continue
            changes[listed.document.id] = {"attributes": dict(source.attributes), "batch_id": batch_id}
            if _must_be_read(listed, source):
                unread.append((source, listed.document.id))
        await Documents(connection).add_many(documents)
        jobs = await self._queue(connection, unread, collection_id)
        files = VectorStoreFiles(connection)
        await files.add_many([replace(record, job_id=jobs[record.document_id]) for record in records])
        for document_id, values in changes.items():
            await self._change(connection, document_id, values, jobs.get(document_id))
        await DocumentLogs(connection).add_many([self._line(document) for document in documents])

    async def announce(self) -> None:
        """After the commit: there is work."""
        if self._queued:
            await self._parts.signals.work()

    async def _known(self, connection: AsyncConnection, collection_id: str) -> Mapping[str, ListedFile]:
        """Our file id → the file in the store, for those that the store has already."""
        ids = [source.own_id for source in self._sources]
        found: list[ListedFile] = []
        for start in range(0, len(ids), BATCH):
            part = ids[start : start + BATCH]
            found += await VectorStoreFiles(connection).listed(
                self._tenant_id, collection_id, VectorStoreFileRow.file_id.in_(part), limit=len(part)
            )
        return {each.file_id: each for each in found}

    async def _settle_addresses(
        self, connection: AsyncConnection, collection_id: str, known: Mapping[str, ListedFile]
    ) -> list[tuple[CheckedFile, Document | None]]:
        """Each source with the document that it takes over, if there is one at its URL.

        A URL belongs to one file of a store. A second file from the same URL, for example of another domain that
        shares the store, keeps an `upload://` URL, so that the two do not replace each other at every crawl.
        """
        keys = [self._key(source, collection_id) for source in self._sources]
        documents = await Documents(connection).by_keys(self._tenant_id, keys)
        records = await VectorStoreFiles(connection).by_documents(
            self._tenant_id, [document.id for document in documents.values()]
        )
        settled: list[tuple[CheckedFile, Document | None]] = []
        taken: set[str] = set()
        for source, key in zip(self._sources, keys, strict=True):
            document = documents.get(key)
            if source.own_id in known:
                settled.append((source, None))
                continue
            if document is not None and (
                document.is_purging or (document.deleted_at is not None and not document.host)
            ):
                raise Conflict("The file is being removed from this vector store; try again in a moment.")
            if key in taken or (document is not None and _is_held_by_another(document, records, source)):
                settled.append((replace(source, address=None), None))
                continue
            taken.add(key)
            settled.append((source, document))
        return settled

    async def _take_over(
        self,
        connection: AsyncConnection,
        source: CheckedFile,
        document: Document,
        records: list[VectorStoreFile],
        batch_id: str | None,
    ) -> None:
        """Let a file have a document that exists: its content becomes the document's next version."""
        if document.deleted_at is not None:
            await restore(connection, document)
        await Documents(connection).update(self._tenant_id, document.id, status=DocumentStatus.PENDING, error=None)
        if not await VectorStoreFiles(connection).by_documents(self._tenant_id, [document.id]):
            records.append(self._new_record(source, document.id, batch_id))

    async def _queue(
        self, connection: AsyncConnection, unread: Sequence[tuple[CheckedFile, str]], collection_id: str
    ) -> Mapping[str, str]:
        """Document id → the job that will read it."""
        jobs: dict[str, str] = {}
        for start in range(0, len(unread), FILES_PER_JOB):
            part = unread[start : start + FILES_PER_JOB]
            items = [_item(source, document_id, collection_id) for source, document_id in part]
            job = await control.submit(
                connection, Job(tenant_id=self._tenant_id, kind=INGEST_KIND, payload={"items": items})
            )
            jobs |= {document_id: job.id for _, document_id in part}
        self._queued = self._queued or bool(jobs)
        return jobs

    async def _change(
        self, connection: AsyncConnection, document_id: str, values: dict[str, Any], job_id: str | None
    ) -> None:
        if values["batch_id"] is None:
            values.pop("batch_id")
        if job_id is not None:
            values |= {"job_id": job_id, "is_cancelled": False}
            document = await Documents(connection).get(self._tenant_id, document_id)
            if document.version == 0:
                await Documents(connection).update(
                    self._tenant_id, document_id, status=DocumentStatus.PENDING, error=None
                )
        await VectorStoreFiles(connection).update(self._tenant_id, document_id, **values)

    def _key(self, source: CheckedFile, collection_id: str) -> str:
        return natural_key(collection_id, source.url)

    def _new_document(self, source: CheckedFile, collection_id: str) -> Document:
        url, host, domain = document_address(source.url)
        return Document(
            tenant_id=self._tenant_id,
            natural_key=self._key(source, collection_id),
            url=url,
            url_hash=hash_url(url),
            host=host,
            domain=domain,
            source=DocumentSource.UPLOAD,
            collection_id=collection_id,
            title=source.title,
            filename=source.filename,
            content_type=source.content_type,
            original_sha256=source.sha256,
            size_bytes=source.size_bytes,
            chunking=source.chunking,
        )

    def _new_record(self, source: CheckedFile, document_id: str, batch_id: str | None) -> VectorStoreFile:
        return VectorStoreFile(
            document_id=document_id,
            tenant_id=self._tenant_id,
            file_id=source.own_id,
            batch_id=batch_id,
            attributes=source.attributes,
        )

    def _line(self, document: Document) -> DocumentLogLine:
        return DocumentLogLine(
            tenant_id=self._tenant_id,
            document_id=document.id,
            level="INFO",
            message="Added to a vector store; waits to be read.",
            at=utc_now(),
        )


def _address(url: str | None) -> str | None:
    """The canonical form of an http URL; None for anything else."""
    if url is None or not url.startswith(("http://", "https://")):
        return None
    try:
        return document_address(url)[0]
    except InvalidRequest:
        return None


def _is_held_by_another(document: Document, records: Mapping[str, VectorStoreFile], source: CheckedFile) -> bool:
    record = records.get(document.id)
    if document.deleted_at is not None or record is None or record.file_id == document.id:
        return False
    return record.file_id != source.replaces


def _must_be_read(listed: ListedFile, source: CheckedFile) -> bool:
    """What failed or was cancelled is tried again; what was read is read again only to be cut otherwise."""
    if listed.status in ("failed", "cancelled"):
        return True
    other_cut = source.chunking is not None and dict(source.chunking) != dict(listed.document.chunking or {})
    return other_cut and listed.status == "completed"


def _item(source: CheckedFile, document_id: str, collection_id: str) -> dict[str, Any]:
    return {
        "document_id": document_id,
        "original_sha256": source.sha256,
        "url": source.url,
        "source": str(DocumentSource.UPLOAD),
        "filename": source.filename,
        "content_type": source.content_type,
        "title": source.title,
        "language": source.language,
        "collection_id": collection_id,
        "chunking": dict(source.chunking) if source.chunking else None,
        "is_extracted": source.is_extracted,
    }
