"""The append-only event log of jobs: numbered within each job, readable from any point."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, UniqueConstraint, insert, select
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.job import JobEvent
from scrubjay.storage.jobs import Jobs
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
        if not events:
            return
        first = await Jobs(self.connection).take_event_numbers(job_id, len(events))
        if first == 0:
            return  # the job was deleted meanwhile
        await self.connection.execute(
            insert(JobEventRow),
            [
                {
                    "job_id": job_id,
                    "sequence": first + index,
                    "type": type_,
                    "payload": dict(payload),
                    "at": at,
                }
                for index, (type_, payload, at) in enumerate(events)
            ],
        )

    async def after(self, job_id: str, sequence: int, limit: int = 500) -> Sequence[JobEvent]:
        return await self._items(
            select(*self._columns)
            .where(JobEventRow.job_id == job_id, JobEventRow.sequence > sequence)
            .order_by(JobEventRow.sequence)
            .limit(limit)
        )
