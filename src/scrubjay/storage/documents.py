"""Documents: one piece of content with its provenance; its text is in the blob store."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Document, DocumentSource, DocumentStatus
from scrubjay.storage.repository import Base, Repository, table_options
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


class DocumentRow(Base):
    __tablename__ = "documents"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "natural_key", name="uq_documents_natural_key"),
        Index("ix_documents_url_hash", "tenant_id", "url_hash"),
        Index("ix_documents_domain", "tenant_id", "domain"),
        Index("ix_documents_content_sha256", "tenant_id", "content_sha256"),
        Index("ix_documents_collection_id", "collection_id"),
        Index("ix_documents_plan_id", "plan_id"),
        Index("ix_documents_operation_id", "operation_id"),
        Index("ix_documents_crawled_at", "tenant_id", "crawled_at"),
        partial_index("ix_documents_active", "tenant_id", "id", where="deleted_at IS NULL"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
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
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    crawled_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)
    deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class Documents(Repository[Document]):
    row = DocumentRow
    model = Document
    noun = "document"
