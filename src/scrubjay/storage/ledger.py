"""The ledger: per plan, every key ever seen, its last validators, hash, document and fate."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.plan import Fate, LedgerEntry
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import EnumText, Hash, Id, LongText, Name, Number, UtcDateTime


class LedgerRow(Base):
    __tablename__ = "ledger"
    __table_args__ = table_options(
        Index("ix_ledger_operation", "plan_id", "last_operation_id"),
        Index("ix_ledger_fate", "plan_id", "fate"),
        Index("ix_ledger_document", "document_id"),
    )

    plan_id: Mapped[Id] = mapped_column(ForeignKey("crawl_plans.id", ondelete="CASCADE"), primary_key=True)
    key_hash: Mapped[Hash] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    key: Mapped[LongText]
    fate: Mapped[Fate] = mapped_column(EnumText(Fate))
    document_id: Mapped[Id | None]
    content_type: Mapped[Name | None]
    content_length: Mapped[Number | None]
    etag: Mapped[LongText | None]
    last_modified_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    content_sha256: Mapped[Hash | None]
    error: Mapped[LongText | None]
    seen_count: Mapped[int]
    change_count: Mapped[int]
    missing_runs: Mapped[int]
    first_seen_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_seen_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_changed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_operation_id: Mapped[Id | None]


class Ledger(Repository[LedgerEntry]):
    row = LedgerRow
    model = LedgerEntry
    noun = "ledger entry"
    key = ("plan_id", "key_hash")
