"""The processing log of each document."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import DocumentLogLine
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import BIG, Id, LongText, UtcDateTime


class DocumentLogRow(Base):
    __tablename__ = "document_logs"
    __table_args__ = table_options(
        Index("ix_document_logs_document", "document_id", "id"),
    )

    id: Mapped[int] = mapped_column(BIG, primary_key=True, autoincrement=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    document_id: Mapped[Id] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"))
    level: Mapped[str] = mapped_column(String(16))
    message: Mapped[LongText]
    at: Mapped[datetime] = mapped_column(UtcDateTime)


class DocumentLogs(Repository[DocumentLogLine]):
    row = DocumentLogRow
    model = DocumentLogLine
    noun = "log line"

    async def of_document(self, document_id: str) -> Sequence[DocumentLogLine]:
        """The whole log, oldest line first."""
        return await self.every(DocumentLogRow.document_id == document_id, order=[DocumentLogRow.id])
