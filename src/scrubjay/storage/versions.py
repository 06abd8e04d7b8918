"""Document versions: every content that a document ever had."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint, or_, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import DocumentVersion
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import Hash, Id, Json, LongText, Number, UtcDateTime


class DocumentVersionRow(TenantOwned, Base):
    __tablename__ = "document_versions"
    __table_args__ = table_options(
        UniqueConstraint("document_id", "version", name="uq_document_versions_version"),
        Index("ix_document_versions_created_at", "tenant_id", "created_at"),
        # What a run wrote is counted from this alone.
        Index("ix_document_versions_operation", "operation_id", "version", "created_at"),
    )

    document_id: Mapped[Id] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"))
    version: Mapped[int]
    title: Mapped[LongText | None]
    content_sha256: Mapped[Hash]
    original_sha256: Mapped[Hash | None]
    size_bytes: Mapped[Number]
    details: Mapped[Json]
    operation_id: Mapped[Id | None]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class DocumentVersions(Repository[DocumentVersion]):
    row = DocumentVersionRow
    model = DocumentVersion
    noun = "document version"

    async def of_document(self, document_id: str) -> Sequence[DocumentVersion]:
        """All versions, oldest first."""
        return await self.every(DocumentVersionRow.document_id == document_id, order=[DocumentVersionRow.version])

    async def of_documents(self, document_ids: Collection[str]) -> Mapping[str, Sequence[DocumentVersion]]:
        """Document id → all its versions, oldest first."""
        versions = await self.every(
            DocumentVersionRow.document_id.in_(list(document_ids)), order=[DocumentVersionRow.version]
        )
        found: dict[str, list[DocumentVersion]] = {}
        for version in versions:
            found.setdefault(version.document_id, []).append(version)
        return found

    async def at(
        self, tenant_id: str, document_ids: Collection[str], moment: datetime
    ) -> Mapping[str, DocumentVersion]:
        """Document id → the version that was its content at a moment; documents that had none then are left out."""
        found = await self.every(
            DocumentVersionRow.tenant_id == tenant_id,
            DocumentVersionRow.document_id.in_(list(document_ids)),
            DocumentVersionRow.created_at <= moment,
            or_(DocumentVersionRow.ended_at.is_(None), DocumentVersionRow.ended_at > moment),
            order=[DocumentVersionRow.version],
        )
        return {version.document_id: version for version in found}

    async def end(self, document_ids: Collection[str], moment: datetime) -> None:
        """What is current of these documents stops being so."""
        await self.connection.execute(
            update(DocumentVersionRow)
            .where(DocumentVersionRow.document_id.in_(list(document_ids)), DocumentVersionRow.ended_at.is_(None))
            .values(ended_at=moment)
        )

    async def reopen(self, document_id: str, version: int) -> None:
        await self.connection.execute(
            update(DocumentVersionRow)
            .where(DocumentVersionRow.document_id == document_id, DocumentVersionRow.version == version)
            .values(ended_at=None)
        )

    async def holders(self, tenant_id: str, content_sha256: str) -> int:
        """How many versions have this content."""
        return await self.count(
            DocumentVersionRow.tenant_id == tenant_id, DocumentVersionRow.content_sha256 == content_sha256
        )
