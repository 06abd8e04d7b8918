"""The audit log: administrative acts, each written in the transaction of the act itself. Nothing changes an entry."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, String, delete, select
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.audit import AuditEntry
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import Id, Json, Name, UtcDateTime


class AuditEntryRow(TenantOwned, Base):
    __tablename__ = "audit_log"
    __table_args__ = table_options(Index("ix_audit_log_tenant_at", "tenant_id", "at"), Index("ix_audit_log_at", "at"))

    at: Mapped[datetime] = mapped_column(UtcDateTime)
    key_id: Mapped[Id | None]  # without a reference: keys are deleted, what they did is not
    key_name: Mapped[Name]
    action: Mapped[str] = mapped_column(String(64))
    target_id: Mapped[Name | None]
    details: Mapped[Json]
    door: Mapped[str | None] = mapped_column(String(32))
    remote_address: Mapped[str | None] = mapped_column(String(64))
    request_id: Mapped[str | None] = mapped_column(String(64))


class AuditLog(Repository[AuditEntry]):
    row = AuditEntryRow
    model = AuditEntry
    noun = "audit entry"

    async def remove_before(self, before: datetime, limit: int) -> int:
        """Forget the oldest entries, a batch at a time."""
        oldest: Any = select(AuditEntryRow.id).where(AuditEntryRow.at < before).order_by(AuditEntryRow.at).limit(limit)
        ids = (await self.connection.scalars(oldest)).all()
        if ids:
            await self.connection.execute(delete(AuditEntryRow).where(AuditEntryRow.id.in_(ids)))
        return len(ids)
