"""The OpenAI-shaped inventory: files, their place in vector stores, assistants, responses."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    ForeignKey,
    Index,
    String,
    and_,
    case,
    delete,
    false,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Document, DocumentStatus
from scrubjay.model.job import FINISHED_STATES, JobState
from scrubjay.model.knowledge import Assistant, InventoryFile, Response, VectorStoreBatch, VectorStoreFile
from scrubjay.storage.documents import DocumentRow
from scrubjay.storage.jobs import JobRow
from scrubjay.storage.repository import Base, Repository, TenantOwned, batches, table_options
from scrubjay.storage.types import Hash, Id, Json, LongText, Name, Number, UtcDateTime


class InventoryFileRow(TenantOwned, Base):
    __tablename__ = "inventory_files"
    __table_args__ = table_options(
        Index("ix_inventory_files_tenant", "tenant_id", "created_at"),
    )

    filename: Mapped[LongText]
    purpose: Mapped[str] = mapped_column(String(64))
    content_type: Mapped[Name | None]
    size_bytes: Mapped[Number]
    blob_sha256: Mapped[Hash]
    status: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class InventoryFiles(Repository[InventoryFile]):
    row = InventoryFileRow
    model = InventoryFile
    noun = "file"


class VectorStoreFileRow(Base):
    __tablename__ = "vector_store_files"
    __table_args__ = table_options(
        Index("ix_vector_store_files_file", "file_id"),
        Index("ix_vector_store_files_batch", "batch_id"),
    )

    document_id: Mapped[Id] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    file_id: Mapped[Id]
    job_id: Mapped[Id | None]
    batch_id: Mapped[Id | None]
    is_cancelled: Mapped[bool] = mapped_column(server_default=false())
    attributes: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


# The status of a file is derived from its document and the job that reads it. A document that has a version and is
# pending has older content of the same URL: the status is about the newer file.
_IS_PENDING = DocumentRow.status == DocumentStatus.PENDING
_UNREAD = or_(DocumentRow.version == 0, _IS_PENDING)
_FAILED = DocumentRow.status.in_([DocumentStatus.FAILED, DocumentStatus.TYPE_DETECTION_FAILED])
_ABANDONED = and_(
    VectorStoreFileRow.job_id.is_not(None), or_(JobRow.state.is_(None), JobRow.state.in_(sorted(FINISHED_STATES)))
)
_CANCELLED = or_(VectorStoreFileRow.is_cancelled.is_(True), JobRow.state == JobState.CANCELLED)
_COMPLETED = and_(DocumentRow.version > 0, DocumentRow.indexed_version == DocumentRow.version)
# Made by adding a file to a vector store, and not by a crawl or an upload to the collection itself.
IS_ADDED = and_(
    VectorStoreFileRow.document_id.is_not(None), VectorStoreFileRow.file_id != VectorStoreFileRow.document_id
)
file_status = case(
    (and_(_UNREAD, VectorStoreFileRow.is_cancelled.is_(True)), literal("cancelled")),
    (and_(IS_ADDED, _FAILED), literal("failed")),
    (and_(IS_ADDED, _IS_PENDING, ~_ABANDONED), literal("in_progress")),
    (and_(_COMPLETED, ~_IS_PENDING), literal("completed")),
    (_FAILED, literal("failed")),
    (and_(_UNREAD, _ABANDONED, _CANCELLED), literal("cancelled")),
    (and_(_UNREAD, _ABANDONED), literal("failed")),
    else_=literal("in_progress"),
)
_EVERYTHING = (
    DocumentRow.__table__.outerjoin(
        VectorStoreFileRow.__table__, VectorStoreFileRow.document_id == DocumentRow.id
    ).outerjoin(JobRow.__table__, JobRow.id == VectorStoreFileRow.job_id)
)  # fmt: skip


class ListedFile(NamedTuple):
    """A document as a file in a vector store."""

    document: Document
    record: VectorStoreFile | None
    status: str

    @property
    def file_id(self) -> str:
        """The file's id, or the document's where that is all there is."""
        return self.document.id if self.record is None else self.record.file_id


class StoreCount(NamedTuple):
    status: str
    files: int
    size_bytes: int


class VectorStoreFiles(Repository[VectorStoreFile]):
    row = VectorStoreFileRow
    model = VectorStoreFile
    noun = "vector store file"
    key = ("document_id",)

    async def listed(
        self,
        tenant_id: str,
        collection_id: str,
        *conditions: ColumnElement[bool],
        limit: int,
        order: Sequence[ColumnElement[Any]] = (),
    ) -> list[ListedFile]:
        """Documents of a collection that suit the conditions, with what the inventory knows of them."""
        documents = [getattr(DocumentRow, each.name) for each in fields(Document)]
        own = [column.label(f"own_{column.name}") for column in self._columns]
        rows = await self.connection.execute(
            select(*documents, *own, file_status.label("file_status"))
            .select_from(_EVERYTHING)
            .where(*_shown(tenant_id), DocumentRow.collection_id == collection_id, *conditions)
            .order_by(*(order or (DocumentRow.created_at, DocumentRow.id)))
            .limit(limit)
        )
        return [_listed(row._asdict()) for row in rows]

    async def counts(self, tenant_id: str, collection_ids: Collection[str]) -> Mapping[str, Sequence[StoreCount]]:
        """Collection id → how many files of each status it has, and how large they are."""
        found: dict[str, list[StoreCount]] = {each: [] for each in collection_ids}
        mine = (*_shown(tenant_id), DocumentRow.collection_id.in_(list(collection_ids)))
        # Nearly all are completed, which a document says by itself; only the others are looked up further.
        done, size = case((_COMPLETED, 1), else_=0), case((_COMPLETED, DocumentRow.size_bytes), else_=0)
        place = DocumentRow.collection_id
        rows = await self.connection.execute(
            select(place, func.sum(done), func.sum(size), func.count()).where(*mine).group_by(place)
        )
        unfinished = []
        for collection_id, completed, total_size, files in rows:
            if completed:
                found[str(collection_id)].append(StoreCount("completed", int(completed), int(total_size)))
            if files > completed:
                unfinished.append(str(collection_id))
        if unfinished:
            await self._count_unfinished(tenant_id, unfinished, found)
        return found

    async def _count_unfinished(
        self, tenant_id: str, collection_ids: Collection[str], found: Mapping[str, list[StoreCount]]
    ) -> None:
        status = file_status.label("file_status")
        # Grouped by the name of a subquery's column: the expression's own parameters would not count as the same.
        each = (
            select(DocumentRow.collection_id.label("place"), status, DocumentRow.size_bytes.label("size"))
            .select_from(_EVERYTHING)
            .where(*_shown(tenant_id), DocumentRow.collection_id.in_(list(collection_ids)), ~_COMPLETED)
            .subquery()
        )
        rows = await self.connection.execute(
            select(each.c.place, each.c.file_status, func.count(), func.sum(each.c.size)).group_by(
                each.c.place, each.c.file_status
            )
        )
        for place, name, files, size in rows:
            found[place].append(StoreCount(name, int(files), int(size or 0)))

    async def batch_counts(self, tenant_id: str, batch_id: str) -> Mapping[str, int]:
        """Status → how many files of a batch have it."""
        each = (
            select(file_status.label("file_status"))
            .select_from(_EVERYTHING)
            .where(*_shown(tenant_id), VectorStoreFileRow.batch_id == batch_id)
            .subquery()
        )
        rows = await self.connection.execute(select(each.c.file_status, func.count()).group_by(each.c.file_status))
        return {name: int(count) for name, count in rows}

    async def batch_jobs(self, tenant_id: str, batch_id: str) -> Sequence[str]:
        """The jobs that read a batch."""
        rows = await self.connection.execute(
            select(VectorStoreFileRow.job_id)
            .where(VectorStoreFileRow.tenant_id == tenant_id, VectorStoreFileRow.batch_id == batch_id)
            .distinct()
        )
        return sorted(job_id for job_id in rows.scalars() if job_id is not None)

    async def cancel_unread(self, tenant_id: str, batch_id: str, reason: str) -> None:
        """What no job has read yet of a batch is cancelled, and its document says why it has no text."""
        unread = select(DocumentRow.id).where(DocumentRow.tenant_id == tenant_id, _UNREAD, ~_FAILED)
        ours = select(VectorStoreFileRow.document_id).where(
            VectorStoreFileRow.tenant_id == tenant_id, VectorStoreFileRow.batch_id == batch_id
        )
        # One after the other: MariaDB cannot look into the table that it changes.
        ids = list((await self.connection.execute(unread.where(DocumentRow.id.in_(ours)))).scalars())
        for part in batches(ids):
            await self.connection.execute(
                update(VectorStoreFileRow).where(VectorStoreFileRow.document_id.in_(part)).values(is_cancelled=True)
            )
            await self.connection.execute(
                update(DocumentRow)
                .where(DocumentRow.id.in_(part), _UNREAD)
                .values(status=DocumentStatus.FAILED, error=reason)
            )

    async def documents_of(self, tenant_id: str, file_id: str) -> Sequence[str]:
        """The documents that a file became, one in each vector store that has it."""
        return await self.column(
            select(VectorStoreFileRow.document_id).where(
                VectorStoreFileRow.tenant_id == tenant_id, VectorStoreFileRow.file_id == file_id
            )
        )

    async def with_attributes(self, tenant_id: str, collection_id: str) -> Mapping[str, Mapping[str, Any]]:
        """Document id → attributes, of those files of a vector store that have some."""
        rows = await self.connection.execute(
            select(VectorStoreFileRow.document_id, VectorStoreFileRow.attributes)
            .select_from(_EVERYTHING)
            .where(
                *_shown(tenant_id),
                DocumentRow.collection_id == collection_id,
                VectorStoreFileRow.document_id.is_not(None),
            )
        )
        return {document_id: attributes for document_id, attributes in rows if attributes}

    async def by_documents(self, tenant_id: str, document_ids: Collection[str]) -> Mapping[str, VectorStoreFile]:
        """Document id → what the inventory knows of it, where it knows anything."""
        found = await self.every(
            VectorStoreFileRow.tenant_id == tenant_id, VectorStoreFileRow.document_id.in_(list(document_ids))
        )
        return {each.document_id: each for each in found}


def _shown(tenant_id: str) -> tuple[ColumnElement[bool], ...]:
    return (
        DocumentRow.tenant_id == tenant_id,
        DocumentRow.deleted_at.is_(None),
        DocumentRow.is_purging.is_(False),
    )


def _listed(row: Mapping[str, Any]) -> ListedFile:
    document = Document(**{each.name: row[each.name] for each in fields(Document)})
    record = None
    if row["own_document_id"] is not None:
        record = VectorStoreFile(**{each.name: row[f"own_{each.name}"] for each in fields(VectorStoreFile)})
    return ListedFile(document, record, row["file_status"])


class VectorStoreBatchRow(TenantOwned, Base):
    __tablename__ = "vector_store_batches"

    collection_id: Mapped[Id] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"))
    cancelled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class VectorStoreBatches(Repository[VectorStoreBatch]):
    row = VectorStoreBatchRow
    model = VectorStoreBatch
    noun = "file batch"


class AssistantRow(TenantOwned, Base):
    __tablename__ = "assistants"
    __table_args__ = table_options(
        Index("ix_assistants_tenant", "tenant_id", "created_at"),
    )

    name: Mapped[LongText | None]
    description: Mapped[LongText | None]
    model: Mapped[Name]
    instructions: Mapped[LongText | None]
    details: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Assistants(Repository[Assistant]):
    row = AssistantRow
    model = Assistant
    noun = "assistant"


class ResponseRow(Base):
    __tablename__ = "responses"
    __table_args__ = table_options(
        Index("ix_responses_conversation", "tenant_id", "conversation_id"),
    )

    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    id: Mapped[str] = mapped_column(String(128), primary_key=True)
    model: Mapped[Name]
    status: Mapped[str] = mapped_column(String(32))
    previous_response_id: Mapped[str | None] = mapped_column(String(128))
    conversation_id: Mapped[str | None] = mapped_column(String(128))
    body: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Responses(Repository[Response]):
    row = ResponseRow
    model = Response
    noun = "response"

    async def forget_conversation(self, tenant_id: str, conversation_id: str) -> int:
        """Delete every response of a conversation; returns how many there were."""
        return await self.write(
            delete(ResponseRow).where(
                ResponseRow.tenant_id == tenant_id, ResponseRow.conversation_id == conversation_id
            )
        )
