"""The append-only event log of jobs: numbered within each job, readable from any point."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Select, String, UniqueConstraint, and_, bindparam, func, insert, or_, select
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.job import JobEvent, LoggedEvent
from scrubjay.storage.jobs import JobRow
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import BIG, Id, Json, UtcDateTime

RECENT = 10_000
NewEvent = tuple[str, Mapping[str, Any], datetime]


class JobEventRow(Base):
    __tablename__ = "job_events"
    # Positions in the log are never used again, not even those of jobs that were deleted.
    __table_args__ = table_options(
        UniqueConstraint("job_id", "sequence", name="uq_job_events_sequence"), sqlite_autoincrement=True
    )

    id: Mapped[int] = mapped_column(BIG, primary_key=True, autoincrement=True)
    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    sequence: Mapped[int]
    type: Mapped[str] = mapped_column(String(64))
    payload: Mapped[Json]
    at: Mapped[datetime] = mapped_column(UtcDateTime)


class JobEvents(Repository[JobEvent]):
    row = JobEventRow
    model = JobEvent
    noun = "job event"

    async def append(self, job_id: str, events: Sequence[NewEvent]) -> None:
        """Write events whose numbers were already counted in the job's row, in this transaction."""
        rows = [
            {"of_job": job_id, "job_id": job_id, "back": back, "type": type_, "payload": payload, "at": at}
            for back, (type_, payload, at) in zip(range(len(events) - 1, -1, -1), events, strict=True)
        ]
        if rows:
            # A single row is spared the machinery that SQLAlchemy has for many.
            await self.connection.execute(_APPEND, rows if len(rows) > 1 else rows[0])

    async def after(self, job_id: str, sequence: int, limit: int = 500) -> Sequence[JobEvent]:
        return await self.every(
            JobEventRow.job_id == job_id, JobEventRow.sequence > sequence, order=[JobEventRow.sequence], limit=limit
        )

    async def after_each(self, positions: Mapping[str, int], limit: int) -> Sequence[JobEvent]:
        """Of several jobs, each after its own point: in order within a job, and at most `limit` in all."""
        if not positions:
            return []
        behind = [
            and_(JobEventRow.job_id == job_id, JobEventRow.sequence > sequence)
            for job_id, sequence in positions.items()
        ]
        return await self.every(or_(*behind), order=[JobEventRow.job_id, JobEventRow.sequence], limit=limit)

    async def newest(self, job_id: str, types: Sequence[str], limit: int) -> Sequence[JobEvent]:
        """The last events of these types, the oldest of them first."""
        found = await self.every(
            JobEventRow.job_id == job_id, JobEventRow.type.in_(types), order=[JobEventRow.sequence.desc()], limit=limit
        )
        return list(reversed(found))

    async def after_position(self, position: int, limit: int) -> Sequence[LoggedEvent]:
        """Of every tenant, by position in the table; also of parts, so that no position seems to be missing."""
        return await self._logged(_LOGGED.where(JobEventRow.id > position).limit(limit))

    async def between(self, tenant_id: str, *, after: int, until: int, limit: int) -> Sequence[LoggedEvent]:
        """A tenant's events; what happens to a part of a job is told by the whole."""
        own = [JobRow.tenant_id == tenant_id, JobRow.parent_id.is_(None)]
        return await self._logged(_LOGGED.where(*own, JobEventRow.id > after, JobEventRow.id <= until).limit(limit))

    async def last_before(self, moment: datetime) -> int:
        """The position of the last event that was written before a moment; 0 when there is none."""
        newest = select(JobEventRow.id, JobEventRow.at).order_by(JobEventRow.id.desc()).limit(RECENT).subquery()
        found = (await self.connection.execute(select(func.max(newest.c.id)).where(newest.c.at <= moment))).scalar()
        if found is None:
            found = (await self.connection.execute(select(func.min(newest.c.id) - 1))).scalar()
        return int(found or 0)

    async def last_position(self) -> int:
        return int((await self.connection.execute(select(func.max(JobEventRow.id)))).scalar() or 0)

    async def _logged(self, statement: Select[Any]) -> Sequence[LoggedEvent]:
        return [
            LoggedEvent(
                id=row.id,
                tenant_id=row.tenant_id,
                is_of_part=row.parent_id is not None,
                event=JobEvent(job_id=row.job_id, sequence=row.sequence, type=row.type, payload=row.payload, at=row.at),
            )
            for row in await self.connection.execute(statement)
        ]


_LOGGED = (
    select(*JobEventRow.__table__.c, JobRow.tenant_id, JobRow.parent_id)
    .join(JobRow, JobRow.id == JobEventRow.job_id)
    .order_by(JobEventRow.id)
)
# The job's row is locked by whoever counted these events in it, so the numbers have no gaps and no doubles.
_APPEND = insert(JobEventRow).values(
    sequence=select(JobRow.event_count).where(JobRow.id == bindparam("of_job")).scalar_subquery()
    - bindparam("back", type_=BIG)
)
