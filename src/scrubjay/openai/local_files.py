"""Files: originals in the blob store. What was crawled can be looked at as a file, too."""

import mimetypes
from collections.abc import AsyncIterator, Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.documents.cleanup import mark_for_removal, retire
from scrubjay.documents.discarding import note_discarded, put_aside
from scrubjay.documents.texts import storable_text
from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.content import Document
from scrubjay.model.knowledge import InventoryFile
from scrubjay.openai.ids import file_id_of, is_document, no_file, own_file_id
from scrubjay.openai.local_parts import LocalPart, list_window
from scrubjay.openai.protocol import FileBody, Item, Listed, NewFile, Window
from scrubjay.openai.shapes import deleted, document_as_file, file_object, name_of
from scrubjay.storage.documents import Documents
from scrubjay.storage.inventory import InventoryFileRow, InventoryFiles, VectorStoreFiles

MAX_FILE_BYTES = 512 * 1024 * 1024
MAX_NAME = 512
PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
SEARCHABLE = ("assistants", "user_data")


class LocalFiles(LocalPart):
    async def create_file(self, tenant_id: str, new: NewFile) -> Item:
        name = storable_text(new.filename).strip()
        if not 1 <= len(name) <= MAX_NAME:
            raise InvalidRequest(f"file: its name must have 1 to {MAX_NAME} characters.", field="file")
        if new.purpose not in PURPOSES:
            raise InvalidRequest(f"purpose: one of {', '.join(PURPOSES)}.", field="purpose")
        try:
            stored = await self.parts.blobs.put_stream(new.content, max_bytes=MAX_FILE_BYTES)
        except InvalidRequest as error:
            megabytes = MAX_FILE_BYTES // 1024**2
            raise InvalidRequest(f"file: it is larger than {megabytes} MB.", field="file") from error
        if not stored.size:
            raise InvalidRequest("file: it is empty.", field="file")
        file = InventoryFile(
            tenant_id=tenant_id,
            filename=name,
            purpose=new.purpose,
            content_type=(new.content_type or mimetypes.guess_type(name)[0] or "")[:255] or None,
            size_bytes=stored.size,
            blob_sha256=stored.sha256,
        )
        async with self.parts.database.writing() as connection:
            await InventoryFiles(connection).add(file)
        return file_object(file)

    async def files(self, tenant_id: str, window: Window, *, purpose: str | None = None) -> Listed:
        """What was uploaded; crawled documents are listed by their vector stores."""
        own = Window(
            limit=window.limit,
            newest_first=window.newest_first,
            after=_cursor(window.after, "after"),
            before=_cursor(window.before, "before"),
        )
        conditions = [] if purpose is None else [InventoryFileRow.purpose == purpose]
        async with self.parts.database.reading() as connection:
            items, has_more = await list_window(InventoryFiles(connection), tenant_id, own, *conditions)
        return Listed([file_object(each) for each in items], has_more)

    async def file(self, tenant_id: str, file_id: str) -> Item:
        own = own_file_id(file_id)
        async with self.parts.database.reading() as connection:
            if is_document(own):
                return document_as_file(await living_document(connection, tenant_id, own))
            return file_object(await uploaded_file(connection, tenant_id, own))

    async def file_body(self, tenant_id: str, file_id: str) -> FileBody:
        own = own_file_id(file_id)
        async with self.parts.database.reading() as connection:
            if not is_document(own):
                file = await uploaded_file(connection, tenant_id, own)
                kind = file.content_type or "application/octet-stream"
                return FileBody(
                    filename=file.filename, content_type=kind, chunks=self.parts.blobs.stream(file.blob_sha256)
                )
            document = await living_document(connection, tenant_id, own)
        kept = document.original_sha256
        if kept is not None and await self.parts.blobs.exists(kept):
            kind = document.content_type or "application/octet-stream"
            return FileBody(filename=name_of(document), content_type=kind, chunks=self.parts.blobs.stream(kept))
        text = await self.parts.texts.read(tenant_id, document.content_sha256 or "")
        return FileBody(filename=name_of(document), content_type="text/markdown; charset=utf-8", chunks=_one(text))

    async def delete_file(self, tenant_id: str, file_id: str) -> Item:
        own = own_file_id(file_id)
        discarded: list[str] = []
        async with self.parts.database.writing(long=True) as connection:
            copies = await VectorStoreFiles(connection).documents_of(tenant_id, own)
            known = await Documents(connection).by_ids(copies)
            gone = [each for each in known.values() if not each.is_purging and each.id != own]
            if is_document(own):
                await retire(connection, [await living_document(connection, tenant_id, own)])
            else:
                file = await uploaded_file(connection, tenant_id, own)
                await InventoryFiles(connection).delete(tenant_id, own)
                # What documents still have goes with them, when their vectors are gone.
                discarded = await note_discarded(connection, [file.blob_sha256])
            await remove_added(connection, gone)
        self.parts.wake()
        await put_aside(self.parts.blobs, discarded)
        return deleted(file_id, "file")


async def remove_added(connection: AsyncConnection, documents: Sequence[Document]) -> None:
    """Remove documents that files became: purge uploads, retire documents at a URL. A plan keeps its documents."""
    purged = [each for each in documents if not each.host or not each.version]
    await mark_for_removal(connection, purged)
    for document in documents:
        if document not in purged and document.plan_id is not None:
            await VectorStoreFiles(connection).delete(document.tenant_id, document.id)
        elif document not in purged and document.deleted_at is None:
            await retire(connection, [document])


async def uploaded_file(connection: AsyncConnection, tenant_id: str, own_id: str) -> InventoryFile:
    try:
        return await InventoryFiles(connection).get(tenant_id, own_id)
    except NotFound:
        raise no_file(file_id_of(own_id)) from None


async def living_document(connection: AsyncConnection, tenant_id: str, document_id: str) -> Document:
    document = (await Documents(connection).by_ids([document_id])).get(document_id)
    gone = document is None or document.tenant_id != tenant_id or document.is_purging or document.deleted_at
    if document is None or gone:
        raise no_file(file_id_of(document_id))
    return document


def _cursor(file_id: str | None, field: str) -> str | None:
    if file_id is None:
        return None
    try:
        return own_file_id(file_id)
    except NotFound as error:
        raise InvalidRequest(f"{field}: there is no '{file_id[:64]}' in this list.", field=field) from error


async def _one(text: str) -> AsyncIterator[bytes]:
    yield text.encode()
