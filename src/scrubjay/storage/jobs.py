"""Jobs: the queue, the states and the fence. Every change of a running job names the run that makes it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, ForeignKey, Index, String, and_, exists, func, or_, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.job import FINISHED_STATES, Job, JobPriority, JobRequest, JobState
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import EnumText, Id, Json, LongText, Name, UtcDateTime, partial_index
from scrubjay.storage.workers import WorkerRow


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
    crashes: Mapped[int]
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
        """Take up to `limit` due jobs for a worker: the most urgent first, each by one worker only.

        Each claimed job has one event number reserved, its last, for saying that it started.
        """
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
                event_count=JobRow.event_count + 1,
                started_at=func.coalesce(JobRow.started_at, now),
            )
        )
        return [
            replace(
                job,
                state=JobState.RUNNING,
                worker_id=worker_id,
                run=job.run + 1,
                event_count=job.event_count + 1,
                started_at=job.started_at or now,
            )
            for job in jobs
        ]

    async def change(self, job_id: str, **values: Any) -> None:
        await self.connection.execute(update(JobRow).where(JobRow.id == job_id).values(**values))

    async def hold(self, job_id: str, run: int) -> int | None:
        """Lock the job if this run still has it, and return its event count; None when another run has it.

        The lock lasts until the transaction ends, so nobody can take the job over in between.
        """
        statement = (
            select(JobRow.event_count)
            .where(JobRow.id == job_id, JobRow.run == run, JobRow.state == JobState.RUNNING)
            .with_for_update()
            .with_hint(JobRow, "WITH (UPDLOCK, ROWLOCK)", "mssql")
        )
        return (await self.connection.execute(statement)).scalar_one_or_none()

    async def requests_of(self, job_ids: Collection[str]) -> Mapping[str, tuple[int, JobState, JobRequest | None]]:
        """For jobs that a worker runs: which run holds each of them now, and what is asked of it."""
        statement = select(JobRow.id, JobRow.run, JobRow.state, JobRow.requested).where(JobRow.id.in_(job_ids))
        return {row.id: (row.run, row.state, row.requested) for row in await self.connection.execute(statement)}

    async def orphans_exist(self) -> bool:
        return (await self.connection.execute(select(JobRow.id).where(_is_orphan()).limit(1))).first() is not None

    async def orphans(self) -> Sequence[Job]:
        """Running jobs whose worker is not registered any more, locked."""
        return await self._items(select(*self._columns).where(_is_orphan()).with_for_update(skip_locked=True))

    async def finished_before(self, moment: datetime, limit: int) -> Sequence[Job]:
        return await self._items(
            select(*self._columns)
            .where(JobRow.state.in_(FINISHED_STATES), JobRow.finished_at < moment)
            .order_by(JobRow.finished_at)
            .limit(limit)
        )


def _is_orphan() -> ColumnElement[bool]:
    registered = exists().where(WorkerRow.id == JobRow.worker_id)
    return and_(JobRow.state == JobState.RUNNING, or_(JobRow.worker_id.is_(None), ~registered))
