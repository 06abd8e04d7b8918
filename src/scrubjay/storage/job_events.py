"""The append-only event log of jobs: numbered within each job, readable from any point."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, UniqueConstraint, bindparam, insert, select
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.job import JobEvent
from scrubjay.storage.jobs import JobRow
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import BIG, Id, Json, UtcDateTime

NewEvent = tuple[str, Mapping[str, Any], datetime]


class JobEventRow(Base):
    __tablename__ = "job_events"
    __table_args__ = table_options(UniqueConstraint("job_id", "sequence", name="uq_job_events_sequence"))

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
        return await self._items(
            select(*self._columns)
            .where(JobEventRow.job_id == job_id, JobEventRow.sequence > sequence)
            .order_by(JobEventRow.sequence)
            .limit(limit)
        )


# The job's row is locked by whoever counted these events in it, so the numbers have no gaps and no doubles.
_APPEND = insert(JobEventRow).values(
    sequence=select(JobRow.event_count).where(JobRow.id == bindparam("of_job")).scalar_subquery()
    - bindparam("back", type_=BIG)
)
