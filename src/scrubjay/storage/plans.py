"""Plans: what to crawl, when, what to keep and where to put it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, ForeignKey, Index, String, and_, or_, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.plan import (
    DeletionSettings,
    FilterSettings,
    IngestionSettings,
    Plan,
    PlanState,
    ScheduleSettings,
)
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import EnumText, Id, Json, JsonModel, Name, UtcDateTime, partial_index


class PlanRow(Base):
    __tablename__ = "crawl_plans"
    __table_args__ = table_options(
        Index("ix_crawl_plans_tenant_id", "tenant_id"),
        Index("ix_crawl_plans_state", "state"),
        partial_index("ix_crawl_plans_due", "next_crawl_at", where="is_active = true"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[Name]
    repository_type: Mapped[str] = mapped_column(String(24))
    repository_settings: Mapped[Json]
    ingestion_settings: Mapped[IngestionSettings] = mapped_column(JsonModel(IngestionSettings))
    schedule: Mapped[ScheduleSettings] = mapped_column(JsonModel(ScheduleSettings))
    filter: Mapped[FilterSettings] = mapped_column(JsonModel(FilterSettings))
    deletion: Mapped[DeletionSettings] = mapped_column(JsonModel(DeletionSettings))
    process_additions: Mapped[bool]
    process_updates: Mapped[bool]
    process_deletions: Mapped[bool]
    max_drain_tasks: Mapped[int]
    retention_days: Mapped[int]
    state: Mapped[PlanState] = mapped_column(EnumText(PlanState))
    is_active: Mapped[bool]
    operation_id: Mapped[Id | None]
    last_crawl_start_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_crawl_finish_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_crawl_success: Mapped[bool | None]
    last_complete_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    next_crawl_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Plans(Repository[Plan]):
    row = PlanRow
    model = Plan
    noun = "plan"

    async def take(self, plan: Plan, operation_id: str, now: datetime, **changes: Any) -> bool:
        """Begin a run: true for exactly one of those who try, because the plan must stand still."""
        return await self._change_if(
            plan.id,
            and_(PlanRow.state == PlanState.STOPPED, PlanRow.tenant_id == plan.tenant_id),
            state=PlanState.RUNNING,
            operation_id=operation_id,
            last_crawl_start_at=now,
            **changes,
        )

    async def end_run(self, plan_id: str, operation_id: str, **changes: Any) -> bool:
        """The run is over; false when the plan has moved on without it."""
        mine = PlanRow.operation_id == operation_id
        return await self._change_if(plan_id, mine, state=PlanState.STOPPED, operation_id=None, **changes)

    async def due(self, now: datetime, limit: int = 100) -> Sequence[Plan]:
        """Active plans that stand still and whose time has come."""
        return await self._items(
            select(*self._columns)
            .where(PlanRow.is_active.is_(True), PlanRow.state == PlanState.STOPPED, PlanRow.next_crawl_at <= now)
            .order_by(PlanRow.next_crawl_at)
            .limit(limit)
        )

    async def running(self, after: str = "", limit: int = 100) -> Sequence[Plan]:
        return await self._items(
            select(*self._columns)
            .where(or_(PlanRow.state == PlanState.RUNNING, PlanRow.operation_id.is_not(None)), PlanRow.id > after)
            .order_by(PlanRow.id)
            .limit(limit)
        )

    async def all(self, after: str = "", limit: int = 100) -> Sequence[Plan]:
        return await self._items(select(*self._columns).where(PlanRow.id > after).order_by(PlanRow.id).limit(limit))

    async def _change_if(self, plan_id: str, condition: ColumnElement[bool], **changes: Any) -> bool:
        result = await self.connection.execute(
            update(PlanRow).where(PlanRow.id == plan_id, condition).values(**changes)
        )
        return bool(result.rowcount)
