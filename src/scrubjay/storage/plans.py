"""Plans: what to crawl, when, what to keep and where to put it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Index, String, and_, false, or_, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.plan import (
    DeletionSettings,
    FilterSettings,
    IngestionSettings,
    Plan,
    PlanState,
    ScheduleSettings,
)
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import EnumText, Id, Json, JsonModel, Name, UtcDateTime, partial_index


class PlanRow(TenantOwned, Base):
    __tablename__ = "crawl_plans"
    __table_args__ = table_options(
        Index("ix_crawl_plans_tenant_id", "tenant_id"),
        Index("ix_crawl_plans_state", "state"),
        partial_index("uq_crawl_plans_crawl_key", "tenant_id", "crawl_key", where="crawl_key IS NOT NULL", unique=True),
        partial_index("ix_crawl_plans_due", "next_crawl_at", where="is_active = true"),
    )

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
    max_failed_share: Mapped[float] = mapped_column(server_default="0.5")
    is_one_off: Mapped[bool] = mapped_column(server_default=false())
    crawl_key: Mapped[Name | None]
    crawl: Mapped[Json | None]
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

    async def find_by_crawl_key(self, tenant_id: str, crawl_key: str) -> Plan | None:
        return await self.find(PlanRow.tenant_id == tenant_id, PlanRow.crawl_key == crawl_key)

    async def due(self, now: datetime, limit: int = 100) -> Sequence[Plan]:
        """Active plans that stand still and whose time has come."""
        return await self.every(
            PlanRow.is_active.is_(True),
            PlanRow.state == PlanState.STOPPED,
            PlanRow.next_crawl_at <= now,
            order=[PlanRow.next_crawl_at],
            limit=limit,
        )

    async def running(self, after: str = "", limit: int = 100) -> Sequence[Plan]:
        return await self.every(
            or_(PlanRow.state == PlanState.RUNNING, PlanRow.operation_id.is_not(None)),
            PlanRow.id > after,
            order=[PlanRow.id],
            limit=limit,
        )

    async def all(self, after: str = "", limit: int = 100) -> Sequence[Plan]:
        return await self.every(PlanRow.id > after, order=[PlanRow.id], limit=limit)

    async def _change_if(self, plan_id: str, condition: ColumnElement[bool], **changes: Any) -> bool:
        return await self.changed(update(PlanRow).where(PlanRow.id == plan_id, condition).values(**changes))
