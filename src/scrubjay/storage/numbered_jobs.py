"""Jobs of the `/v2` door: numbers that are never given twice, and which job files are still to be written."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, Row, Select, String, false, select, true, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.job import FINISHED_STATES, Job, JobState
from scrubjay.model.numbered_job import NumberedJob
from scrubjay.storage.jobs import JobRow, Jobs
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import BIG, Id, LongText, Name, UtcDateTime

UNFINISHED_STATES = tuple(state for state in JobState if state not in FINISHED_STATES)
Numbered = tuple[NumberedJob, Job]


class NumberedJobRow(Base):
    __tablename__ = "numbered_jobs"
    # Numbers are never used again, not even those of jobs that were deleted.
    __table_args__ = table_options(
        Index("ix_numbered_jobs_tenant", "tenant_id", "number"),
        Index("ix_numbered_jobs_filed", "is_filed"),
        Index("ix_numbered_jobs_object", "tenant_id", "object_id"),
        Index("ix_numbered_jobs_job", "job_id"),
        sqlite_autoincrement=True,
    )

    number: Mapped[int] = mapped_column(BIG, primary_key=True, autoincrement=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    endpoint: Mapped[LongText]
    folder: Mapped[Name]
    action: Mapped[str] = mapped_column(String(64))
    object_id: Mapped[Name | None]
    is_filed: Mapped[bool]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class NumberedJobs(Repository[NumberedJob]):
    row = NumberedJobRow
    model = NumberedJob
    noun = "numbered job"
    key = ("number",)

    async def give_number(self, new: NumberedJob) -> int:
        """Store it; the database counts, so that no two processes get the same number."""
        values = self._values(new)
        del values["number"]
        result = await self.connection.execute(self._insert, values)
        (number,) = result.inserted_primary_key or (0,)
        return int(number)

    async def with_job(self, tenant_id: str, number: int) -> Numbered | None:
        statement = _WITH_JOBS.where(NumberedJobRow.tenant_id == tenant_id, NumberedJobRow.number == number)
        found = await self._numbered(statement)
        return found[0] if found else None

    async def newest(
        self, tenant_id: str, *, limit: int, offset: int = 0, object_id: str | None = None
    ) -> Sequence[Numbered]:
        """Newest first; of one object only, if it is named."""
        statement = _WITH_JOBS.where(NumberedJobRow.tenant_id == tenant_id)
        if object_id is not None:
            statement = statement.where(NumberedJobRow.object_id == object_id)
        return await self._numbered(statement.order_by(NumberedJobRow.number.desc()).limit(limit).offset(offset))

    async def unfinished_of(self, tenant_id: str, object_id: str, actions: Collection[str]) -> Sequence[Numbered]:
        """What is going on with an object, oldest first."""
        return await self._numbered(
            _WITH_JOBS.where(
                NumberedJobRow.tenant_id == tenant_id,
                NumberedJobRow.object_id == object_id,
                NumberedJobRow.action.in_(actions),
                JobRow.state.in_(UNFINISHED_STATES),
            ).order_by(NumberedJobRow.number)
        )

    async def to_be_filed(self, limit: int) -> Sequence[Numbered]:
        """Jobs, whoever's, whose file does not have all of them yet; or not any more, because they go on."""
        waiting = await self._numbered(_WITH_JOBS.where(NumberedJobRow.is_filed == false()).limit(limit))
        again = await self._numbered(
            _WITH_JOBS.where(NumberedJobRow.is_filed == true(), JobRow.state.in_(UNFINISHED_STATES)).limit(limit)
        )
        return [*waiting, *again]

    async def set_filed(self, number: int, is_filed: bool) -> None:
        await self.connection.execute(
            update(NumberedJobRow).where(NumberedJobRow.number == number).values(is_filed=is_filed)
        )

    async def existing(self, numbers: Collection[int]) -> set[int]:
        """Of these numbers, those that jobs still have."""
        rows = await self.connection.execute(select(NumberedJobRow.number).where(NumberedJobRow.number.in_(numbers)))
        return {int(row[0]) for row in rows}

    async def _numbered(self, statement: Select[Any]) -> list[Numbered]:
        return [_pair(row) for row in await self.connection.execute(statement)]


_JOB_COLUMNS = [column.label(f"job__{column.name}") for column in Jobs._columns]
_WITH_JOBS = select(*NumberedJobs._columns, *_JOB_COLUMNS).join(JobRow, JobRow.id == NumberedJobRow.job_id)


def _pair(row: Row[Any]) -> Numbered:
    values: dict[str, Any] = dict(row._mapping)
    own = {name: value for name, value in values.items() if not name.startswith("job__")}
    job = {name.removeprefix("job__"): value for name, value in values.items() if name.startswith("job__")}
    return NumberedJob(**own), Job(**job)
