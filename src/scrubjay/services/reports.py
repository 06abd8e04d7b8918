"""Reports of runs as doors see them: find one by its job or operation, page through its items, retry what failed."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace

from scrubjay.errors import Conflict, InvalidRequest, NotFound
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job
from scrubjay.model.plan import ENDED_STATES, Operation, RepositoryType, Trigger, WorkState
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.urls import hash_url, normalize_url
from scrubjay.plans.begin import RunOptions, begin_job
from scrubjay.plans.report import ItemOutcome, ReportItem, RunReport, report_items
from scrubjay.services.access import require
from scrubjay.services.jobs import JobService
from scrubjay.storage.database import Database
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.operation_items import PROBLEM_STATES, OperationItems
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans

AT_ONCE = 1000
MAX_RETRIED = 10_000
_RETRIED = (WorkState.FAILED, WorkState.DENIED, WorkState.CUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItems:
    """A part of a report: its numbers, some of its items, and the number of all items of these outcomes."""

    operation: Operation
    report: RunReport
    items: Sequence[ReportItem]
    total: int
    limit: int
    offset: int

    @property
    def has_more(self) -> bool:
        return self.offset + len(self.items) < self.total


class ReportService:
    def __init__(self, database: Database, jobs: JobService) -> None:
        self._database = database
        self._jobs = jobs

    async def of_job(
        self,
        principal: Principal,
        job_id: str,
        *,
        outcomes: Collection[ItemOutcome] = (),
        limit: int = 100,
        offset: int = 0,
    ) -> RunItems:
        """The report of a crawl job; until it ends, what is known so far."""
        return await self._read(await self.operation_of(principal, job_id), outcomes, "", limit, offset)

    async def of_operation(
        self,
        principal: Principal,
        operation_id: str,
        *,
        outcomes: Collection[ItemOutcome] = (),
        contains: str = "",
        limit: int = 100,
        offset: int = 0,
    ) -> RunItems:
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            operation = await Operations(connection).get(principal.tenant_id, operation_id)
        return await self._read(operation, outcomes, contains, limit, offset)

    async def operation_of(self, principal: Principal, job_id: str) -> Operation:
        job = await self._jobs.get(principal, job_id)
        async with self._database.reading() as connection:
            found = await Operations(connection).find_by_id(
                principal.tenant_id, str(job.payload.get("operation_id") or "")
            )
        if found is None:
            raise NotFound(f"Job '{job_id}' has no report; only crawls have one.")
        return found

    async def document_of(self, operation: Operation, url: str) -> str | None:
        """The document that an address of a run has."""
        async with self._database.reading() as connection:
            hashed = hash_url(normalize_url(url))
            entries = await Ledger(connection).by_hashes(operation.plan_id, [hashed])
        return entries[hashed].document_id if hashed in entries else None

    async def _read(
        self, operation: Operation, outcomes: Collection[ItemOutcome], contains: str, limit: int, offset: int
    ) -> RunItems:
        async with self._database.reading() as connection:
            items = OperationItems(connection)
            found = await items.with_outcomes(operation.id, outcomes, contains=contains, limit=limit, offset=offset)
            total = await items.count_outcomes(operation.id, outcomes, contains=contains)
            report = RunReport.load(operation.report)
            if report is None:  # the run has not ended
                report = RunReport.read(await items.tally(operation.id), unchanged=operation.objects_unchanged)
        return RunItems(
            operation=operation,
            report=report,
            items=report_items(found),
            total=total,
            limit=limit,
            offset=offset,
        )

    async def every_item(
        self, principal: Principal, operation_id: str, outcomes: Collection[ItemOutcome] = ()
    ) -> AsyncIterator[ReportItem]:
        """All items, for a download."""
        offset = 0
        while True:
            part = await self.of_operation(principal, operation_id, outcomes=outcomes, limit=AT_ONCE, offset=offset)
            for item in part.items:
                yield item
            offset += AT_ONCE
            if offset >= part.total:
                return

    async def retry_job(self, principal: Principal, job_id: str) -> Job:
        require(principal, Scope.WRITE)
        return await self.retry(principal, (await self.operation_of(principal, job_id)).id)

    async def retry(self, principal: Principal, operation_id: str) -> Job:
        """Request again what a run could not read: these addresses alone, or the whole source if it has none."""
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            operation = await Operations(connection).get(principal.tenant_id, operation_id)
            if operation.state not in ENDED_STATES:
                raise Conflict("The run has not ended; retry its failures when it has.")
            plan = await Plans(connection).get(principal.tenant_id, operation.plan_id)
            failed = await OperationItems(connection).problems(operation_id, states=_RETRIED, limit=MAX_RETRIED + 1)
            if not failed:
                raise Conflict("Nothing failed in this run.")
            if len(failed) > MAX_RETRIED:
                raise InvalidRequest(
                    f"More than {MAX_RETRIED:,} items failed; run the whole plan.", field="operation_id"
                )
            options = RunOptions(submitted_by=principal.key_id)
            trigger = Trigger.MANUAL
            if plan.repository_type == RepositoryType.WEB:
                trigger = Trigger.TARGETED
                options = replace(options, payload={"urls": [item.key for item in failed]})
            begun = await begin_job(connection, plan, trigger, utc_now(), options)
        if begun is None:
            raise Conflict(f"Plan '{plan.id}' is running already.")
        await self._jobs.tell()
        return begun[1]


def problem_outcomes() -> tuple[ItemOutcome, ...]:
    """The outcomes of items that were not taken in."""
    return tuple(ItemOutcome(state.value) for state in PROBLEM_STATES)
