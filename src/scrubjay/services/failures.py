"""What went wrong and is worth a look: runs of plans and other jobs that failed, newest first, and how many are new."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select

from scrubjay.model.job import Job, JobState
from scrubjay.model.page import Page
from scrubjay.model.plan import Operation, OperationState
from scrubjay.model.tenant import Principal, Scope
from scrubjay.plans.begin import KIND
from scrubjay.services.access import require
from scrubjay.storage.database import Database
from scrubjay.storage.jobs import JobRow, Jobs
from scrubjay.storage.operations import OperationRow, Operations
from scrubjay.storage.plans import PlanRow

MOST = 100  # that are counted: beyond that, the number says nothing more


class FailureService:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self, principal: Principal, since: datetime) -> int:
        """How many plans failed in their last run, and how many other jobs, since a moment; at most `MOST`."""
        require(principal, Scope.READ)
        plans = select(PlanRow.id).where(
            PlanRow.tenant_id == principal.tenant_id,
            PlanRow.last_crawl_success.is_(False),
            PlanRow.last_crawl_finish_at > since,
        )
        jobs = select(JobRow.id).where(
            # Not by its index: few of all jobs of a tenant fail, and those are found by their state.
            func.coalesce(JobRow.tenant_id, "") == principal.tenant_id,
            JobRow.state == JobState.FAILED,
            JobRow.kind != KIND,
            JobRow.finished_at > since,
        )
        async with self._database.reading() as connection:
            total = 0
            for found in (plans, jobs):
                counted = select(func.count()).select_from(found.limit(MOST).subquery())
                total += int((await connection.execute(counted)).scalar_one())
        return min(total, MOST)

    async def runs(self, principal: Principal, *, limit: int, offset: int = 0) -> Page[Operation]:
        """Runs of plans that failed, as a whole or for some of their objects."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            order: list[ColumnElement[Any]] = [OperationRow.created_at.desc(), OperationRow.id.desc()]
            return await Operations(connection).page(*_failed_runs(principal), limit=limit, offset=offset, order=order)

    async def jobs(self, principal: Principal, *, limit: int, offset: int = 0) -> Page[Job]:
        """Other jobs that failed."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            order: list[ColumnElement[Any]] = [JobRow.created_at.desc(), JobRow.id.desc()]
            return await Jobs(connection).page(*_failed_jobs(principal), limit=limit, offset=offset, order=order)


def _failed_runs(principal: Principal) -> list[ColumnElement[bool]]:
    return [OperationRow.tenant_id == principal.tenant_id, OperationRow.state == OperationState.FAILED]


def _failed_jobs(principal: Principal) -> list[ColumnElement[bool]]:
    return [JobRow.tenant_id == principal.tenant_id, JobRow.state == JobState.FAILED, JobRow.kind != KIND]
