"""Documents: one piece of content with its provenance; its text is in the blob store."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint, false, func, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Document, DocumentSource, DocumentStatus
from scrubjay.storage.leases import LeasedRepository
from scrubjay.storage.repository import Base, TenantOwned, batches, table_options
from scrubjay.storage.types import (
    EnumText,
    Hash,
    Id,
    Json,
    LongText,
    Name,
    Number,
    UtcDateTime,
    partial_index,
)

_NEWEST = ("created_at", "id")
_SHOWN = ("is_purging", "deleted_at")
_SIZED = ("version", "indexed_version", "size_bytes")  # what a vector store says of its files


class DocumentRow(TenantOwned, Base):
    __tablename__ = "documents"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "natural_key", name="uq_documents_natural_key"),
        Index("ix_documents_url_hash", "tenant_id", "url_hash"),
        # Lists are shown newest first, whatever they are filtered by; so every filter has an index that ends in this.
        Index("ix_documents_domain", "tenant_id", "domain", *_NEWEST),
        Index("ix_documents_host", "tenant_id", "host", *_NEWEST),
        Index("ix_documents_content_sha256", "tenant_id", "content_sha256"),
        Index("ix_documents_collection_id", "collection_id"),
        Index("ix_documents_plan_id", "plan_id"),
        Index("ix_documents_operation_id", "operation_id", *_NEWEST),
        Index("ix_documents_crawled_at", "tenant_id", "crawled_at"),
        Index("ix_documents_status", "tenant_id", "status", *_NEWEST),
        Index("ix_documents_source", "tenant_id", "source", *_NEWEST),
        # With all that a count asks, so that it reads the index alone.
        partial_index("ix_documents_newest", "tenant_id", *_NEWEST, *_SHOWN, where="deleted_at IS NULL"),
        partial_index("ix_documents_deleted", "tenant_id", *_NEWEST, *_SHOWN, where="deleted_at IS NOT NULL"),
        partial_index(
            "ix_documents_in_collection",
            "tenant_id",
            "collection_id",
            *_NEWEST,
            *_SHOWN,
            *_SIZED,
            where="deleted_at IS NULL",
        ),
        partial_index("ix_documents_of_plan", "tenant_id", "plan_id", *_NEWEST, *_SHOWN, where="deleted_at IS NULL"),
        partial_index("ix_documents_ended", "plan_id", "deleted_at", "is_purging", where="deleted_at IS NOT NULL"),
        partial_index("ix_documents_waiting", "tenant_id", "index_due_at", where="index_due_at IS NOT NULL"),
        partial_index("ix_documents_index_due", "index_due_at", where="index_due_at IS NOT NULL"),
        partial_index("ix_documents_active", "tenant_id", "id", where="deleted_at IS NULL"),
    )

    natural_key: Mapped[Hash]
    url: Mapped[LongText]
    url_hash: Mapped[Hash]
    host: Mapped[Name]
    domain: Mapped[Name]
    source: Mapped[DocumentSource] = mapped_column(EnumText(DocumentSource))
    status: Mapped[DocumentStatus] = mapped_column(EnumText(DocumentStatus))
    collection_id: Mapped[Id | None] = mapped_column(ForeignKey("collections.id", ondelete="SET NULL"))
    plan_id: Mapped[Id | None]
    operation_id: Mapped[Id | None]
    rule_id: Mapped[Id | None]
    parent_url: Mapped[LongText | None]
    title: Mapped[LongText | None]
    filename: Mapped[LongText | None]
    content_type: Mapped[Name | None]
    language: Mapped[str | None] = mapped_column(String(16))
    details: Mapped[Json]
    size_bytes: Mapped[Number]
    content_sha256: Mapped[Hash | None]
    original_sha256: Mapped[Hash | None]
    version: Mapped[int]
    chunk_count: Mapped[int]
    duplicate_of: Mapped[Id | None]
    error: Mapped[LongText | None]
    chunking: Mapped[Json | None]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    crawled_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    is_purging: Mapped[bool] = mapped_column(server_default=false())
    indexed_version: Mapped[int] = mapped_column(server_default="0")
    index_revision: Mapped[int] = mapped_column(server_default="0")
    index_due_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    index_lease: Mapped[Id | None]
    index_attempts: Mapped[int] = mapped_column(server_default="0")


class Documents(LeasedRepository[Document]):
    row = DocumentRow
    model = Document
    noun = "document"
    due = "index_due_at"
    holder = "index_lease"
    due_index = "ix_documents_index_due"

    async def by_keys(self, tenant_id: str, natural_keys: Collection[str]) -> Mapping[str, Document]:
        """Natural key → document, also of those that are deleted."""
        found: list[Document] = []
        for keys in batches(natural_keys):
            found += await self.every(DocumentRow.tenant_id == tenant_id, DocumentRow.natural_key.in_(keys))
        return {document.natural_key: document for document in found}

    async def by_ids(self, document_ids: Collection[str]) -> Mapping[str, Document]:
        ids = list(document_ids)
        found = await self.every(DocumentRow.id.in_(ids)) if ids else []
        return {document.id: document for document in found}

    async def first_with_content(self, tenant_id: str, contents: Collection[str]) -> Mapping[str, str]:
        """Content hash → the oldest living document that has it and repeats no other."""
        if not contents:
            return {}
        rows = await self.connection.execute(
            select(DocumentRow.content_sha256, func.min(DocumentRow.id))
            .where(
                DocumentRow.tenant_id == tenant_id,
                DocumentRow.content_sha256.in_(list(contents)),
                DocumentRow.duplicate_of.is_(None),
                DocumentRow.deleted_at.is_(None),
            )
            .group_by(DocumentRow.content_sha256)
        )
        return {content: document_id for content, document_id in rows if content is not None}

    async def change(self, document_id: str, **changes: Any) -> None:
        """Change a document and have the index follow."""
        await self.connection.execute(
            update(DocumentRow)
            .where(DocumentRow.id == document_id)
            .values(index_revision=DocumentRow.index_revision + 1, **changes)
        )

    async def hand_over(self, document_id: str, plan_id: str) -> None:
        """Another plan has the document from now on; what it says stays the same."""
        await self.connection.execute(update(DocumentRow).where(DocumentRow.id == document_id).values(plan_id=plan_id))

    async def settle_index(self, document: Document, **changes: Any) -> bool:
        """The index holds this revision. False when the document changed meanwhile; then it stays due."""
        mine = (DocumentRow.id == document.id, DocumentRow.index_lease == document.index_lease)
        return await self.changed(
            update(DocumentRow)
            .where(*mine, DocumentRow.index_revision == document.index_revision)
            .values(index_due_at=None, index_lease=None, index_attempts=0, **changes)
        )

    async def hand_back(self, document: Document, now: datetime) -> None:
        """Somebody else may take it up at once."""
        await self.connection.execute(
            update(DocumentRow)
            .where(DocumentRow.id == document.id, DocumentRow.index_lease == document.index_lease)
            .values(index_due_at=now, index_lease=None)
        )

    async def postpone_index(self, document: Document, until: datetime) -> None:
        await self.connection.execute(
            update(DocumentRow)
            .where(DocumentRow.id == document.id, DocumentRow.index_lease == document.index_lease)
            .values(index_due_at=until, index_lease=None, index_attempts=DocumentRow.index_attempts + 1)
        )

    async def make_due(self, now: datetime, *, after: str, limit: int) -> Sequence[str]:
        """Have the index look at the next documents, by id, again; returns their ids."""
        rows = await self.connection.execute(
            select(DocumentRow.id).where(DocumentRow.id > after).order_by(DocumentRow.id).limit(limit)
        )
        ids = list(rows.scalars())
        if ids:
            await self.connection.execute(
                update(DocumentRow)
                .where(DocumentRow.id.in_(ids))
                .values(index_revision=DocumentRow.index_revision + 1, index_due_at=now)
            )
        return ids

    async def due_count(self) -> int:
        return await self.count(DocumentRow.index_due_at.is_not(None))

    async def oldest_due(self) -> datetime | None:
        """Since when the index owes something."""
        return await self.connection.scalar(select(func.min(DocumentRow.index_due_at)))

    async def adopt_duplicates(self, document_id: str) -> None:
        """What repeated a document that ends repeats nothing any more, until it is looked at again."""
        await self.connection.execute(
            update(DocumentRow).where(DocumentRow.duplicate_of == document_id).values(duplicate_of=None)
        )

    async def languages(self, tenant_id: str) -> Sequence[str]:
        """The languages of a tenant's documents, the most frequent first."""
        rows = await self.connection.execute(
            select(DocumentRow.language, func.count())
            .where(DocumentRow.tenant_id == tenant_id, DocumentRow.language.is_not(None))
            .group_by(DocumentRow.language)
            .order_by(func.count().desc())
        )
        return [language for language, _ in rows if language]
