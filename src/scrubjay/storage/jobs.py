"""Jobs: the queue, the states and the fence. Every change of a running job names the run that makes it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, func, or_, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.job import FINISHED_STATES, Job, JobPriority, JobRequest, JobState
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import EnumText, Id, Json, LongText, Name, UtcDateTime, partial_index


class JobRow(Base):
    __tablename__ = "jobs"
    __table_args__ = table_options(
        partial_index("ix_jobs_queue", "priority", "due_at", "id", where="state = 'pending'"),
        partial_index("uq_jobs_unique_key", "unique_key", where="unique_key IS NOT NULL", unique=True),
        Index("ix_jobs_state", "state", "worker_id"),
        Index("ix_jobs_tenant", "tenant_id", "created_at"),
        Index("ix_jobs_kind", "kind", "created_at"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    kind: Mapped[str] = mapped_column(String(64))
    payload: Mapped[Json]
    state: Mapped[JobState] = mapped_column(EnumText(JobState))
    priority: Mapped[JobPriority] = mapped_column(EnumText(JobPriority))
    requested: Mapped[JobRequest | None] = mapped_column(EnumText(JobRequest))
    progress: Mapped[Json]
    checkpoint: Mapped[Json | None]
    result: Mapped[Json | None]
    error: Mapped[LongText | None]
    retry_count: Mapped[int]
    max_retries: Mapped[int]
    run: Mapped[int]
    worker_id: Mapped[Id | None]
    unique_key: Mapped[Name | None]
    submitted_by: Mapped[Id | None]
    event_count: Mapped[int]
    due_at: Mapped[datetime] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class Jobs(Repository[Job]):
    row = JobRow
    model = Job
    noun = "job"

    async def find_by_id(self, job_id: str) -> Job | None:
        return await self.find(JobRow.id == job_id)

    async def lock(self, job_id: str) -> Job | None:
        """The job, with its row locked until the transaction ends."""
        statement = select(*self._columns).where(JobRow.id == job_id).with_for_update()
        row = (await self.connection.execute(statement)).first()
        return None if row is None else self._item(row)

    async def find_by_unique_key(self, unique_key: str) -> Job | None:
        return await self.find(JobRow.unique_key == unique_key)

    async def claim(self, worker_id: str, kinds: Collection[str], limit: int, now: datetime) -> Sequence[Job]:
        """Take up to `limit` due jobs for a worker: the most urgent first, each by one worker only."""
        statement = (
            select(*self._columns)
            .where(JobRow.state == JobState.PENDING, JobRow.due_at <= now, JobRow.kind.in_(kinds))
            .order_by(JobRow.priority, JobRow.due_at, JobRow.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
            .with_hint(JobRow, "WITH (UPDLOCK, READPAST, ROWLOCK)", "mssql")
        )
        jobs = await self._items(statement)
        if not jobs:
            return []
        await self.connection.execute(
            update(JobRow)
            .where(JobRow.id.in_([job.id for job in jobs]))
            .values(
                state=JobState.RUNNING,
                worker_id=worker_id,
                run=JobRow.run + 1,
                started_at=func.coalesce(JobRow.started_at, now),
            )
        )
        return await self._items(select(*self._columns).where(JobRow.id.in_([job.id for job in jobs])))

    async def change(self, job_id: str, **values: Any) -> None:
        await self.connection.execute(update(JobRow).where(JobRow.id == job_id).values(**values))

    async def change_run(self, job_id: str, run: int, **values: Any) -> bool:
        """Write as the run that holds the job; false when another run holds it by now."""
        result = await self.connection.execute(
            update(JobRow)
            .where(JobRow.id == job_id, JobRow.run == run, JobRow.state == JobState.RUNNING)
            .values(**values)
        )
        return bool(result.rowcount)

    async def take_event_numbers(self, job_id: str, count: int) -> int:
        """Reserve `count` event numbers and return the first; the row lock keeps them without gaps."""
        await self.connection.execute(
            update(JobRow).where(JobRow.id == job_id).values(event_count=JobRow.event_count + count)
        )
        last = (
            await self.connection.execute(select(JobRow.event_count).where(JobRow.id == job_id))
        ).scalar_one_or_none()
        return 0 if last is None else int(last) - count + 1

    async def requests_of(self, job_ids: Collection[str]) -> Mapping[str, tuple[int, JobState, JobRequest | None]]:
        """For jobs that a worker runs: which run holds each of them now, and what is asked of it."""
        statement = select(JobRow.id, JobRow.run, JobRow.state, JobRow.requested).where(JobRow.id.in_(job_ids))
        return {row.id: (row.run, row.state, row.requested) for row in await self.connection.execute(statement)}

    async def held_by_nobody(self, living_workers: Collection[str]) -> Sequence[Job]:
        """Running jobs whose worker is not among the living."""
        return await self._items(
            select(*self._columns)
            .where(
                JobRow.state == JobState.RUNNING,
                or_(JobRow.worker_id.is_(None), JobRow.worker_id.not_in(living_workers)),
            )
            .with_for_update(skip_locked=True)
        )

    async def next_due(self, kinds: Collection[str]) -> datetime | None:
        """When the next pending job becomes due."""
        statement = select(func.min(JobRow.due_at)).where(JobRow.state == JobState.PENDING, JobRow.kind.in_(kinds))
        due: datetime | None = (await self.connection.execute(statement)).scalar_one()
        return due

    async def finished_before(self, moment: datetime, limit: int) -> Sequence[Job]:
        return await self._items(
            select(*self._columns)
            .where(JobRow.state.in_(FINISHED_STATES), JobRow.finished_at < moment)
            .order_by(JobRow.finished_at)
            .limit(limit)
        )
