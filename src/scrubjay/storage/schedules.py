"""Schedules: when to submit which job, so that each tick happens once in the whole cluster."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ForeignKey, String, UniqueConstraint, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.job import JobPriority, Schedule
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import EnumText, Id, Json, Name, UtcDateTime, partial_index


class ScheduleRow(Base):
    __tablename__ = "schedules"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "name", name="uq_schedules_name"),
        partial_index("ix_schedules_due", "next_run_at", where="enabled = true"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[Name]
    kind: Mapped[str] = mapped_column(String(64))
    payload: Mapped[Json]
    priority: Mapped[JobPriority] = mapped_column(EnumText(JobPriority))
    cron: Mapped[str | None] = mapped_column(String(120))
    interval_seconds: Mapped[int | None]
    jitter_seconds: Mapped[int]
    enabled: Mapped[bool]
    next_run_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_run_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Schedules(Repository[Schedule]):
    row = ScheduleRow
    model = Schedule
    noun = "schedule"

    async def due(self, now: datetime, limit: int = 100) -> Sequence[Schedule]:
        return await self._items(
            select(*self._columns)
            .where(ScheduleRow.enabled.is_(True), ScheduleRow.next_run_at <= now)
            .order_by(ScheduleRow.next_run_at)
            .limit(limit)
        )

    async def find_by_name(self, tenant_id: str, name: str) -> Schedule | None:
        return await self.find(ScheduleRow.tenant_id == tenant_id, ScheduleRow.name == name)

    async def move_on(self, schedule: Schedule, next_run_at: datetime, now: datetime) -> bool:
        """Take this tick; true for exactly one process, because the old time must still stand."""
        result = await self.connection.execute(
            update(ScheduleRow)
            .where(
                ScheduleRow.id == schedule.id,
                ScheduleRow.next_run_at == schedule.next_run_at,
                ScheduleRow.enabled.is_(True),
            )
            .values(next_run_at=next_run_at, last_run_at=now)
        )
        return bool(result.rowcount)
