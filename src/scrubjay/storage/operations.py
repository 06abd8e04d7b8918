"""Operations: the runs of a plan, with their counts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, func, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.plan import ENDED_STATES, Operation, OperationState, Trigger
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import EnumText, Id, Json, LongText, Number, UtcDateTime


class OperationRow(TenantOwned, Base):
    __tablename__ = "crawl_operations"
    __table_args__ = table_options(
        Index("ix_crawl_operations_listed", "tenant_id", "state", "created_at", "id"),
        Index("ix_crawl_operations_plan", "plan_id", "created_at"),
        Index("ix_crawl_operations_created_at", "created_at"),
    )

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
    objects_unchanged: Mapped[Number]
    objects_withheld: Mapped[Number]
    trigger: Mapped[Trigger] = mapped_column(EnumText(Trigger))
    is_complete: Mapped[bool]
    report: Mapped[Json | None]
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

    async def change(self, operation_id: str, **changes: Any) -> None:
        await self.connection.execute(update(OperationRow).where(OperationRow.id == operation_id).values(**changes))

    async def of_plan(self, plan_id: str, operation_id: str) -> Operation | None:
        return await self.find(OperationRow.plan_id == plan_id, OperationRow.id == operation_id)

    async def newest(self, plan_id: str) -> Operation | None:
        found = await self.every(
            OperationRow.plan_id == plan_id, order=[OperationRow.created_at.desc(), OperationRow.id.desc()], limit=1
        )
        return found[0] if found else None

    async def find_by_id(self, tenant_id: str, operation_id: str) -> Operation | None:
        return await self.find(OperationRow.tenant_id == tenant_id, OperationRow.id == operation_id)

    async def ended_before(self, plan_id: str, moment: datetime, limit: int = 500) -> Sequence[Operation]:
        """Operations of a plan that are over and older than a moment."""
        return await self.every(
            OperationRow.plan_id == plan_id,
            OperationRow.created_at < moment,
            OperationRow.state.in_(list(ENDED_STATES)),
            order=[OperationRow.created_at],
            limit=limit,
        )

    async def statistics(self, plan_id: str) -> Mapping[str, Any]:
        """Counts, bytes and objects over all operations of a plan that are over."""
        statement = select(
            OperationRow.state,
            func.count(),
            func.min(OperationRow.objects_enumerated),
            func.max(OperationRow.objects_enumerated),
            func.sum(OperationRow.objects_enumerated),
            func.min(OperationRow.bytes_enumerated),
            func.max(OperationRow.bytes_enumerated),
            func.sum(OperationRow.bytes_enumerated),
        ).where(OperationRow.plan_id == plan_id, OperationRow.state.in_(list(ENDED_STATES)))
        rows = (await self.connection.execute(statement.group_by(OperationRow.state))).all()
        times = await self.connection.execute(
            select(OperationRow.started_at, OperationRow.finished_at).where(
                OperationRow.plan_id == plan_id,
                OperationRow.started_at.is_not(None),
                OperationRow.finished_at.is_not(None),
            )
        )
        return {"states": [tuple(row) for row in rows], "times": [(start, end) for start, end in times]}
