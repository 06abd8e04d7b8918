"""Files in vector stores: the documents of a collection, and what the inventory knows of them. Batches of files."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, or_
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.documents.cleanup import retire
from scrubjay.errors import Conflict, InvalidRequest, NotFound
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Collection
from scrubjay.model.job import JobRequest
from scrubjay.model.knowledge import VectorStoreBatch, VectorStoreFile
from scrubjay.openai.adding import Adding
from scrubjay.openai.ids import is_document, no_file, own_file_id, require_id
from scrubjay.openai.local_files import remove_added
from scrubjay.openai.local_parts import cut_window
from scrubjay.openai.local_stores import LocalStores, get_collection
from scrubjay.openai.protocol import Attributes, FileStatus, Item, Listed, StoreFile, Window
from scrubjay.openai.shapes import batch_object, deleted, store_file_object
from scrubjay.openai.values import MAX_BATCH_FILES, AttributeValues, read_values
from scrubjay.queue import control
from scrubjay.storage.documents import DocumentRow
from scrubjay.storage.inventory import (
    ListedFile,
    VectorStoreBatches,
    VectorStoreFileRow,
    VectorStoreFiles,
    file_status,
)

ATTEMPTS = 3
CANCELLED = "Cancelled before it was read."


class LocalStoreFiles(LocalStores):
    async def add_to_store(self, tenant_id: str, store_id: str, new: StoreFile) -> Item:
        await self._add(tenant_id, store_id, [new])
        return await self.store_file(tenant_id, store_id, new.file_id)

    async def create_batch(self, tenant_id: str, store_id: str, files: Sequence[StoreFile]) -> Item:
        if not 1 <= len(files) <= MAX_BATCH_FILES:
            raise InvalidRequest(f"file_ids: 1 to {MAX_BATCH_FILES} files.", field="file_ids")
        collection = await self.collection(tenant_id, store_id)
        batch = VectorStoreBatch(tenant_id=tenant_id, collection_id=collection.id)
        await self._add(tenant_id, store_id, files, batch)
        return await self.batch(tenant_id, store_id, batch.id)

    async def _add(
        self, tenant_id: str, store_id: str, files: Sequence[StoreFile], batch: VectorStoreBatch | None = None
    ) -> None:
        collection = await self.collection(tenant_id, store_id)
        await self.note_use(collection)
        adding = await Adding(self.parts, tenant_id).prepare(files)
        for attempt in range(ATTEMPTS):
            await adding.clear_way(collection.id)
            try:
                async with self.parts.database.writing(long=True) as connection:
                    await get_collection(connection, tenant_id, store_id)  # it may have been deleted meanwhile
                    if batch is not None:
                        await VectorStoreBatches(connection).add(batch)
                    await adding.write(connection, collection.id, None if batch is None else batch.id)
                break
            except Conflict:
                # Somebody else added or removed one of these files in the same moment.
                if attempt == ATTEMPTS - 1:
                    raise
        await adding.announce()

    async def store_files(
        self, tenant_id: str, store_id: str, window: Window, *, status: FileStatus | None = None
    ) -> Listed:
        return await self._window(tenant_id, store_id, window, status)

    async def _window(
        self, tenant_id: str, store_id: str, window: Window, status: str | None, *conditions: ColumnElement[bool]
    ) -> Listed:
        collection = await self.collection(tenant_id, store_id)
        wanted: list[ColumnElement[bool]] = list(conditions)
        if status is not None:
            wanted.append(file_status == status)
        async with self.parts.database.reading() as connection:
            files = VectorStoreFiles(connection)

            async def place(file_id: str) -> tuple[datetime, str] | None:
                try:
                    found = await find_file(connection, tenant_id, collection.id, file_id)
                except NotFound:
                    return None
                return found.document.created_at, found.document.id

            async def fetch(
                edges: Sequence[ColumnElement[bool]], order: Sequence[ColumnElement[Any]], limit: int
            ) -> Sequence[ListedFile]:
                return await files.listed(tenant_id, collection.id, *wanted, *edges, limit=limit, order=order)

            columns = (DocumentRow.__table__.c.created_at, DocumentRow.__table__.c.id)
            items, has_more = await cut_window(window, columns, place, fetch)
        return Listed([store_file_object(each, collection.id) for each in items], has_more)

    async def store_file(self, tenant_id: str, store_id: str, file_id: str) -> Item:
        async with self.parts.database.reading() as connection:
            collection = await get_collection(connection, tenant_id, store_id)
            return store_file_object(await find_file(connection, tenant_id, collection.id, file_id), collection.id)

    async def store_file_text(self, tenant_id: str, store_id: str, file_id: str) -> Sequence[str]:
        async with self.parts.database.reading() as connection:
            collection = await get_collection(connection, tenant_id, store_id)
            document = (await find_file(connection, tenant_id, collection.id, file_id)).document
        if document.content_sha256 is None:
            raise NotFound(f"File '{file_id}' was not read yet.")
        return [await self.parts.texts.read(tenant_id, document.content_sha256)]

    async def update_store_file(self, tenant_id: str, store_id: str, file_id: str, attributes: Attributes) -> Item:
        wanted = read_values(AttributeValues, {"attributes": dict(attributes)})
        async with self.parts.database.writing() as connection:
            collection = await get_collection(connection, tenant_id, store_id)
            found = await find_file(connection, tenant_id, collection.id, file_id)
            files, document_id = VectorStoreFiles(connection), found.document.id
            given = dict(wanted.attributes or {})
            if found.record is not None:
                await files.update(tenant_id, document_id, attributes=given)
            else:
                await files.add(
                    VectorStoreFile(document_id=document_id, tenant_id=tenant_id, file_id=document_id, attributes=given)
                )
        return await self.store_file(tenant_id, store_id, file_id)

    async def remove_from_store(self, tenant_id: str, store_id: str, file_id: str) -> Item:
        """Purge an upload with its vectors; retire a document at a URL."""
        async with self.parts.database.writing() as connection:
            collection = await get_collection(connection, tenant_id, store_id)
            found = await find_file(connection, tenant_id, collection.id, file_id)
            if found.file_id == found.document.id:
                await retire(connection, [found.document])
            else:
                await remove_added(connection, [found.document])
        self.parts.wake()
        return deleted(file_id, "vector_store.file.deleted")

    async def batch(self, tenant_id: str, store_id: str, batch_id: str) -> Item:
        async with self.parts.database.reading() as connection:
            batch = await _get_batch(connection, tenant_id, store_id, batch_id)
            counts = await VectorStoreFiles(connection).batch_counts(tenant_id, batch_id)
        return batch_object(batch, counts)

    async def cancel_batch(self, tenant_id: str, store_id: str, batch_id: str) -> Item:
        async with self.parts.database.writing(long=True) as connection:
            batch = await _get_batch(connection, tenant_id, store_id, batch_id)
            files = VectorStoreFiles(connection)
            if (await files.batch_counts(tenant_id, batch_id)).get("in_progress"):
                for job_id in await files.batch_jobs(tenant_id, batch_id):
                    await _cancel_job(connection, tenant_id, job_id)
                await files.cancel_unread(tenant_id, batch_id, CANCELLED)
                batch = await VectorStoreBatches(connection).update(tenant_id, batch.id, cancelled_at=utc_now())
            counts = await files.batch_counts(tenant_id, batch_id)
        await self.parts.signals.control()
        return batch_object(batch, counts)

    async def batch_files(
        self, tenant_id: str, store_id: str, batch_id: str, window: Window, *, status: FileStatus | None = None
    ) -> Listed:
        async with self.parts.database.reading() as connection:
            await _get_batch(connection, tenant_id, store_id, batch_id)
        return await self._window(tenant_id, store_id, window, status, VectorStoreFileRow.batch_id == batch_id)


async def find_file(connection: AsyncConnection, tenant_id: str, collection_id: str, file_id: str) -> ListedFile:
    """A file of a vector store, by its public id."""
    own_id = own_file_id(file_id)
    is_it: ColumnElement[bool] = VectorStoreFileRow.file_id == own_id
    if is_document(own_id):
        is_it = or_(is_it, DocumentRow.id == own_id)
    found = await VectorStoreFiles(connection).listed(tenant_id, collection_id, is_it, limit=1)
    if not found:
        raise no_file(file_id)
    return found[0]


async def _get_batch(connection: AsyncConnection, tenant_id: str, store_id: str, batch_id: str) -> VectorStoreBatch:
    collection: Collection = await get_collection(connection, tenant_id, store_id)
    try:
        batch = await VectorStoreBatches(connection).get(tenant_id, require_id(batch_id, "vsfb", "File batch"))
    except NotFound:
        batch = None
    if batch is None or batch.collection_id != collection.id:
        raise NotFound(f"File batch '{batch_id[:64]}' not found.")
    return batch


async def _cancel_job(connection: AsyncConnection, tenant_id: str, job_id: str) -> None:
    try:
        await control.make_request(connection, tenant_id, job_id, JobRequest.CANCEL)
    except (Conflict, NotFound):
        return  # it has finished, which is as good
