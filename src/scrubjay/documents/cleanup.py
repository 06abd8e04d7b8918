"""The one way in which a document ends: points, bodies, log, and the record itself, in this order (spec 000 §5.2.7).

Whoever wants a document gone marks it; the indexer takes its points out of every generation and then calls this. A
process that dies on the way leaves the mark, and the next one goes on.
"""

from collections.abc import Collection

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.documents.discarding import destroy_discarded, note_discarded, put_aside
from scrubjay.documents.texts import TextStore
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Document, OutboxEvent
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.database import Database
from scrubjay.storage.document_logs import DocumentLogRow
from scrubjay.storage.documents import Documents
from scrubjay.storage.outbox import Outbox
from scrubjay.storage.versions import DocumentVersions


async def retire(connection: AsyncConnection, documents: Collection[Document]) -> None:
    """These documents end, and can be restored: what they said is kept, and found only by looking back."""
    now = utc_now()
    for document in documents:
        await Documents(connection).change(document.id, deleted_at=now, updated_at=now, index_due_at=now)
        await Documents(connection).adopt_duplicates(document.id)
        await Outbox(connection).add(_deleted(document))
    await DocumentVersions(connection).end([document.id for document in documents], now)


async def restore(connection: AsyncConnection, document: Document) -> None:
    """Undo `retire`: the document has its last version again and is searchable."""
    now = utc_now()
    await DocumentVersions(connection).reopen(document.id, document.version)
    await Documents(connection).change(document.id, deleted_at=None, updated_at=now, index_due_at=now)


def _deleted(document: Document) -> OutboxEvent:
    payload = {
        "document_id": document.id,
        "url": document.url,
        "title": document.title,
        "collection_id": document.collection_id,
        "plan_id": document.plan_id,
    }
    return OutboxEvent(tenant_id=document.tenant_id, topic="document.deleted", payload=payload)


async def mark_for_removal(connection: AsyncConnection, documents: Collection[Document]) -> None:
    """These documents are not shown any more from now on, and soon do not exist."""
    now = utc_now()
    for document in documents:
        await Documents(connection).change(
            document.id, is_purging=True, deleted_at=document.deleted_at or now, updated_at=now, index_due_at=now
        )
        await Documents(connection).adopt_duplicates(document.id)
        if document.deleted_at is None:
            await Outbox(connection).add(_deleted(document))


class Cleanup:
    def __init__(self, database: Database, texts: TextStore, blobs: BlobStore) -> None:
        self._database = database
        self._texts = texts
        self._blobs = blobs

    async def remove(self, document: Document) -> None:
        """Everything of a document whose points are gone already."""
        async with self._database.writing() as connection:
            versions = await DocumentVersions(connection).of_document(document.id)
            await connection.execute(delete(DocumentLogRow).where(DocumentLogRow.document_id == document.id))
            await Documents(connection).delete(document.tenant_id, document.id)
            contents = {version.content_sha256 for version in versions}
            bodies = await self._texts.forget(connection, document.tenant_id, contents)
            originals = {version.original_sha256 for version in versions} | {document.original_sha256}
            discarded = await note_discarded(connection, [*bodies, *filter(None, originals)])
        await put_aside(self._blobs, discarded)

    async def sweep(self) -> int:
        """Destroy bodies that have been out of the way for long enough."""
        return await destroy_discarded(self._database, self._blobs)
