"""Jobs: the queue, the states and the fence. Every change of a running job names the run that makes it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Index,
    String,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.job import FINISHED_STATES, Job, JobPriority, JobRequest, JobState, LogState
from scrubjay.storage.deferral import defer
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import EnumText, Id, Json, LongText, Name, UtcDateTime, partial_index
from scrubjay.storage.workers import WorkerRow


class JobRow(TenantOwned, Base):
    __tablename__ = "jobs"
    __table_args__ = table_options(
        partial_index("ix_jobs_queue", "state", "priority", "due_at", "id", where="state = 'pending'"),
        partial_index("uq_jobs_unique_key", "unique_key", where="unique_key IS NOT NULL", unique=True),
        Index("ix_jobs_state", "state", "worker_id"),
        Index("ix_jobs_tenant", "tenant_id", "created_at"),
        Index("ix_jobs_listed", "tenant_id", "state", "created_at", "id"),
        Index("ix_jobs_kind", "kind", "created_at"),
        Index("ix_jobs_parent", "parent_id"),
    )

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
    parent_id: Mapped[Id | None]
    event_count: Mapped[int]
    due_at: Mapped[datetime] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class Jobs(Repository[Job]):
    row = JobRow
    model = Job
    noun = "job"

    async def add(self, item: Job) -> Job:
        await super().add(item)
        await self._defer([item])
        return item

    async def add_many(self, items: Sequence[Job]) -> None:
        await super().add_many(items)
        await self._defer(items)

    async def _defer(self, jobs: Sequence[Job]) -> None:
        pending = [job.id for job in jobs if job.state is JobState.PENDING]
        if pending:
            await defer(self.connection, pending)

    async def find_by_id(self, job_id: str) -> Job | None:
        return await self.find(JobRow.id == job_id)

    async def lock(self, job_id: str) -> Job | None:
        """The job, with its row locked until the transaction ends."""
        statement = (
            select(*self._columns)
            .where(JobRow.id == job_id)
            # Slices insert URLs that refer to the crawl's job; a lock of its key would deadlock with one of theirs.
            .with_for_update(key_share=True)
            .with_hint(JobRow, "WITH (UPDLOCK, ROWLOCK)", "mssql")
        )
        row = (await self.connection.execute(statement)).first()
        return None if row is None else self._item(row)

    async def find_by_unique_key(self, unique_key: str) -> Job | None:
        return await self.find(JobRow.unique_key == unique_key)

    async def parts(self, job_id: str) -> Sequence[Job]:
        """The jobs that are parts of a job, in the order of their ids."""
        return await self.every(JobRow.parent_id == job_id, order=[JobRow.id])

    async def delete(self, tenant_id: str, *identifier: str | int) -> bool:
        """Delete a job and its parts."""
        are_parts = and_(JobRow.tenant_id == tenant_id, JobRow.parent_id == str(identifier[0]))
        await self.connection.execute(delete(JobRow).where(are_parts))
        return await super().delete(tenant_id, *identifier)

    async def claim(
        self,
        worker_id: str,
        kinds: Collection[str],
        limit: int,
        now: datetime,
        *,
        limits: Mapping[str, int] | None = None,
    ) -> Sequence[Job]:
        """Take up to `limit` due jobs for a worker: the most urgent first, each by one worker only.

        `limits` has the maximum number of jobs of some kinds.
        """
        left = dict(limits or {})
        jobs: list[Job] = []
        for row in await self.connection.execute(_NEXT_DUE.limit(limit), {"due": now, "kinds": list(kinds)}):
            if left.get(row.kind, 1) > 0:
                jobs.append(self._item(row))
                if row.kind in left:
                    left[row.kind] -= 1
        if not jobs:
            return []
        await self.connection.execute(_CLAIM, {"ids": [job.id for job in jobs], "claimed_by": worker_id, "now": now})
        return [
            replace(
                job,
                state=JobState.RUNNING,
                worker_id=worker_id,
                run=job.run + 1,
                started_at=job.started_at or now,
            )
            for job in jobs
        ]

    async def change(self, job_id: str, **values: Any) -> None:
        await self.connection.execute(_CHANGE, {"job_id": job_id, **values})
        if values.get("state") is JobState.PENDING:
            await defer(self.connection, [job_id])

    async def change_held(self, job_id: str, run: int, *, new_events: int = 0, **values: Any) -> bool:
        """Change a job as the run that has it; false when another run has it by now.

        The row stays locked until the transaction ends, so nobody can take the job over in between.
        """
        parameters = {"job_id": job_id, "held_run": run, "new_events": new_events, **values}
        is_held = bool((await self.connection.execute(_CHANGE_HELD, parameters)).rowcount)
        if is_held and values.get("state") is JobState.PENDING:
            await defer(self.connection, [job_id])
        return is_held

    async def requests_of(self, job_ids: Collection[str]) -> Mapping[str, tuple[int, JobState, JobRequest | None]]:
        """For jobs that a worker runs: which run holds each of them now, and what is asked of it."""
        statement = select(JobRow.id, JobRow.run, JobRow.state, JobRow.requested).where(JobRow.id.in_(job_ids))
        return {row.id: (row.run, row.state, row.requested) for row in await self.connection.execute(statement)}

    async def log_states(self, job_ids: Collection[str]) -> Mapping[str, LogState]:
        """How long the logs of these jobs are; jobs that do not exist any more are left out."""
        statement = select(JobRow.id, JobRow.event_count, JobRow.state).where(JobRow.id.in_(job_ids))
        return {
            row.id: LogState(event_count=row.event_count, is_finished=row.state in FINISHED_STATES)
            for row in await self.connection.execute(statement)
        }

    async def pending_by_kind(self) -> Mapping[str, int]:
        """How many jobs of each kind wait in the queue, whoever's they are."""
        counted = select(JobRow.kind, func.count()).where(JobRow.state == JobState.PENDING).group_by(JobRow.kind)
        return {row[0]: row[1] for row in await self.connection.execute(counted)}

    async def orphans_exist(self) -> bool:
        return (await self.connection.execute(select(JobRow.id).where(_is_orphan()).limit(1))).first() is not None

    async def orphans(self) -> Sequence[Job]:
        """Running jobs whose worker is not registered any more, locked."""
        return await self._items(
            select(*self._columns)
            .where(_is_orphan())
            .with_for_update(skip_locked=True, key_share=True)
            .with_hint(JobRow, "WITH (UPDLOCK, READPAST, ROWLOCK)", "mssql")
        )

    async def finished_of(self, tenant_id: str, kinds: Collection[str], limit: int) -> Sequence[Job]:
        """Finished jobs of a tenant, of these kinds or of any."""
        conditions = [JobRow.tenant_id == tenant_id, JobRow.state.in_(FINISHED_STATES), JobRow.parent_id.is_(None)]
        if kinds:
            conditions.append(JobRow.kind.in_(kinds))
        return await self.every(*conditions, limit=limit)

    async def finished_before(self, moment: datetime, limit: int) -> Sequence[Job]:
        return await self.every(
            JobRow.state.in_(FINISHED_STATES),
            JobRow.finished_at < moment,
            JobRow.parent_id.is_(None),
            order=[JobRow.finished_at],
            limit=limit,
        )


async def claim_deferred(
    connection: AsyncConnection, job_id: str, due_at: datetime, worker_id: str, now: datetime
) -> Job | None:
    """Take the job of a deferral for a worker, on PostgreSQL; None when the deferral is out of date."""
    parameters = {"job_id": job_id, "deferred_to": due_at, "claimed_by": worker_id, "now": now}
    row = (await connection.execute(_CLAIM_DEFERRED, parameters)).first()
    return None if row is None else Jobs(connection)._item(row)


def _is_orphan() -> ColumnElement[bool]:
    registered = exists().where(WorkerRow.id == JobRow.worker_id)
    return and_(JobRow.state == JobState.RUNNING, or_(JobRow.worker_id.is_(None), ~registered))


# Statements of the hot path, built once.
_TABLE = JobRow.__table__
_NEXT_DUE = (
    select(*Jobs._columns)
    .where(
        JobRow.state == JobState.PENDING,
        JobRow.due_at <= bindparam("due"),
        JobRow.kind.in_(bindparam("kinds", expanding=True)),
    )
    .order_by(JobRow.priority, JobRow.due_at, JobRow.id)
    .with_for_update(skip_locked=True)
    .with_hint(JobRow, "WITH (UPDLOCK, READPAST, ROWLOCK)", "mssql")
    # MariaDB and MySQL lock every row that they look at: choosing by another index would lock the whole queue.
    .with_hint(JobRow, "FORCE INDEX (ix_jobs_queue)", "mysql")
)
_CLAIM = (
    update(JobRow)
    .where(JobRow.id.in_(bindparam("ids", expanding=True)))
    .values(
        state=JobState.RUNNING,
        worker_id=bindparam("claimed_by"),
        run=JobRow.run + 1,
        started_at=func.coalesce(JobRow.started_at, bindparam("now", type_=UtcDateTime)),
    )
)
_CLAIM_DEFERRED = (
    update(JobRow)
    .where(
        JobRow.id == bindparam("job_id"),
        JobRow.state == JobState.PENDING,
        JobRow.due_at == bindparam("deferred_to", type_=UtcDateTime),
    )
    .values(
        state=JobState.RUNNING,
        worker_id=bindparam("claimed_by"),
        run=JobRow.run + 1,
        started_at=func.coalesce(JobRow.started_at, bindparam("now", type_=UtcDateTime)),
    )
    .returning(*Jobs._columns)
)
_CHANGE = update(_TABLE).where(_TABLE.c.id == bindparam("job_id"))  # type: ignore[arg-type]
_CHANGE_HELD = (
    update(_TABLE)  # type: ignore[arg-type]
    .where(
        _TABLE.c.id == bindparam("job_id"),
        _TABLE.c.run == bindparam("held_run"),
        _TABLE.c.state == JobState.RUNNING,
    )
    .values(event_count=_TABLE.c.event_count + bindparam("new_events"))
)
