"""The scheduler of plans: starts due runs once a minute, and applies retention once an hour, in the whole cluster.

Any process that runs jobs may take these turns. Runs whose job is gone are ended at every start and every turn.
"""

from collections.abc import AsyncIterator
from datetime import timedelta

from scrubjay.model.clock import utc_now
from scrubjay.model.job import JobState
from scrubjay.model.plan import ENDED_STATES, OperationState, Plan, PlanState, Trigger
from scrubjay.plans.begin import begin_run
from scrubjay.plans.enumeration_file import EnumerationFiles
from scrubjay.plans.run import RECOVERED
from scrubjay.plans.timing import latest_plausible
from scrubjay.queue.polling import PollLoop
from scrubjay.queue.signals import JobSignals
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans
from scrubjay.storage.turns import TurnTaker
from scrubjay.telemetry import get_logger

DUE_SECONDS = 60.0
RETENTION_SECONDS = 3600.0
LOOK_SECONDS = 5.0

log = get_logger(__name__)


class PlanScheduler:
    def __init__(
        self, database: Database, signals: JobSignals, files: EnumerationFiles, *, due_seconds: float = DUE_SECONDS
    ) -> None:
        self._database = database
        self._signals = signals
        self._files = files
        self._due_seconds = due_seconds
        self._turns = TurnTaker(database)
        self._loop = PollLoop("plans.scheduler", self._keep_time, poll_seconds=min(LOOK_SECONDS, due_seconds))

    async def start(self) -> None:
        await self.recover()
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    async def _keep_time(self) -> None:
        if await self._turns.is_due("plans.due", self._due_seconds):
            await self.recover()
            await self.begin_due()
        if await self._turns.is_due("plans.retention", RETENTION_SECONDS):
            await self.remove_old()

    async def begin_due(self) -> int:
        """Begin every run whose time has come; a plan that missed several of its times runs once."""
        now, begun = utc_now(), 0
        await self._correct_clock()
        async with self._database.reading() as connection:
            due = await Plans(connection).due(now)
        for plan in due:
            async with self._database.writing() as connection:
                trigger = Trigger.SCHEDULE if plan.schedule.requests_per_day is None else Trigger.ADAPTIVE
                if trigger is Trigger.ADAPTIVE and plan.last_complete_at is None:
                    trigger = Trigger.SCHEDULE  # nothing is known yet that could be chosen from
                begun += await begin_run(connection, plan, trigger, now) is not None
        if begun:
            await self._signals.work()
        return begun

    async def _correct_clock(self) -> None:
        """A plan must not wait for a time that only a wrong clock could have meant."""
        now = utc_now()
        async for plan in self._plans():
            latest = latest_plausible(plan, now)
            if latest is not None and plan.next_crawl_at is not None and plan.next_crawl_at > latest:
                async with self._database.writing() as connection:
                    await Plans(connection).update(plan.tenant_id, plan.id, next_crawl_at=latest)
                log.warning("a plan's next run was further away than its interval", plan_id=plan.id)

    async def recover(self) -> int:
        """End the runs that no job carries any more; returns how many those were."""
        recovered, after = 0, ""
        while True:
            async with self._database.reading() as connection:
                running = await Plans(connection).running(after)
            if not running:
                return recovered
            for plan in running:
                recovered += await self.recover_plan(plan)
            after = running[-1].id

    async def recover_plan(self, plan: Plan) -> bool:
        """End a plan's run if no job carries it any more."""
        async with self._database.writing() as connection:
            operation = await Operations(connection).of_plan(plan.id, plan.operation_id or "")
            job = None
            if operation is not None and operation.job_id is not None:
                job = await Jobs(connection).find_by_id(operation.job_id)
            if job is not None and not job.is_finished:
                return False
            cancelled = job is not None and job.state is JobState.CANCELLED
            now = utc_now()
            if operation is not None and operation.state not in ENDED_STATES:
                await Operations(connection).change(
                    operation.id,
                    state=OperationState.CANCELED if cancelled else OperationState.FAILED,
                    status_message="Canceled on request." if cancelled else RECOVERED,
                    finished_at=now,
                    updated_at=now,
                )
            return await Plans(connection).end_run(
                plan.id, plan.operation_id or "", last_crawl_finish_at=now, last_crawl_success=False
            )

    async def remove_old(self) -> int:
        """Remove operations that are older than their plan keeps them, with their files."""
        removed = 0
        async for plan in self._plans():
            before = utc_now() - timedelta(days=plan.retention_days)
            while True:
                async with self._database.writing() as connection:
                    old = await Operations(connection).ended_before(plan.id, before)
                    for operation in old:
                        await Operations(connection).delete(operation.tenant_id, operation.id)
                for operation in old:
                    self._files.remove(plan.id, operation.id)
                removed += len(old)
                if not old:
                    break
            await self._remove_forgotten(plan)
        return removed

    async def _remove_forgotten(self, plan: Plan) -> None:
        """Remove a one-off plan that no later crawl finds again, once its last run is gone; documents stay."""
        if not plan.is_one_off or plan.crawl_key is not None or plan.state is PlanState.RUNNING:
            return
        async with self._database.writing() as connection:
            if await Operations(connection).newest(plan.id) is None:
                await CrawledPages(connection).remove_scope(plan.id)
                await Plans(connection).delete(plan.tenant_id, plan.id)

    async def _plans(self) -> AsyncIterator[Plan]:
        after = ""
        while True:
            async with self._database.reading() as connection:
                plans = await Plans(connection).all(after)
            if not plans:
                return
            for plan in plans:
                yield plan
            after = plans[-1].id
