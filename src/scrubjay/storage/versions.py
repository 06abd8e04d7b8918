"""Document versions: every content that a document ever had."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import DocumentVersion
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import Hash, Id, Json, LongText, Number, UtcDateTime


class DocumentVersionRow(Base):
    __tablename__ = "document_versions"
    __table_args__ = table_options(
        UniqueConstraint("document_id", "version", name="uq_document_versions_version"),
        Index("ix_document_versions_created_at", "tenant_id", "created_at"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    document_id: Mapped[Id] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"))
    version: Mapped[int]
    title: Mapped[LongText | None]
    content_sha256: Mapped[Hash]
    original_sha256: Mapped[Hash | None]
    size_bytes: Mapped[Number]
    details: Mapped[Json]
    operation_id: Mapped[Id | None]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class DocumentVersions(Repository[DocumentVersion]):
    row = DocumentVersionRow
    model = DocumentVersion
    noun = "document version"
