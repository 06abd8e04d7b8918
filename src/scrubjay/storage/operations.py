"""Operations: the runs of a plan, with their counts."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.plan import Operation, OperationState
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import EnumText, Id, LongText, Number, UtcDateTime


class OperationRow(Base):
    __tablename__ = "crawl_operations"
    __table_args__ = table_options(
        Index("ix_crawl_operations_tenant_id", "tenant_id"),
        Index("ix_crawl_operations_plan", "plan_id", "created_at"),
        Index("ix_crawl_operations_created_at", "created_at"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    plan_id: Mapped[Id] = mapped_column(ForeignKey("crawl_plans.id", ondelete="CASCADE"))
    job_id: Mapped[Id | None]
    state: Mapped[OperationState] = mapped_column(EnumText(OperationState))
    status_message: Mapped[LongText | None]
    objects_enumerated: Mapped[Number]
    bytes_enumerated: Mapped[Number]
    objects_added: Mapped[Number]
    bytes_added: Mapped[Number]
    objects_updated: Mapped[Number]
    bytes_updated: Mapped[Number]
    objects_deleted: Mapped[Number]
    bytes_deleted: Mapped[Number]
    objects_success: Mapped[Number]
    bytes_success: Mapped[Number]
    objects_failed: Mapped[Number]
    bytes_failed: Mapped[Number]
    enumeration_file: Mapped[LongText | None]
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    enumeration_started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    enumeration_finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    retrieval_started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    retrieval_finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Operations(Repository[Operation]):
    row = OperationRow
    model = Operation
    noun = "operation"
