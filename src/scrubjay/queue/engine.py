"""What both engines share: runs the handlers of claimed jobs, and takes over the jobs of workers without a heartbeat.

Follow a job through this file: `embedded.py` or `cluster.py` claims it, `_start` makes a task for it, `_run` calls the
handler, `_end` writes how it went. `_keep_alive`, `_obey` and `_look_after` are the loops around that.
"""

import asyncio
import os
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay import __version__
from scrubjay.errors import (
    JobCancelRequested,
    JobFailedForGood,
    JobHandedBack,
    JobInterrupted,
    JobPauseRequested,
    JobTakenOver,
    ScrubjayError,
)
from scrubjay.model.clock import utc_now
from scrubjay.model.job import FINISHED_STATES, Job, JobRequest, JobState, Worker
from scrubjay.queue.context import JobContext, storable
from scrubjay.queue.control import backoff, cancel_parts
from scrubjay.queue.endings import ending
from scrubjay.queue.kinds import JobKinds
from scrubjay.queue.signals import CONTROL, JobSignals, wait_for_event
from scrubjay.settings import Settings
from scrubjay.storage.audit_log import AuditLog
from scrubjay.storage.database import Database
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.outbox import Outbox
from scrubjay.storage.workers import Workers
from scrubjay.telemetry import (
    crawl_meter,
    get_logger,
    jobs_finished_total,
    jobs_running,
    jobs_taken_over_total,
    redact,
    span,
)
from scrubjay.telemetry import (
    job_id as current_job_id,
)
from scrubjay.telemetry.metrics import job_run_seconds
from scrubjay.telemetry.tracing import TRACEPARENT, Span

log = get_logger(__name__)

RunKey = tuple[str, int]  # a job's id and the number of its run
CONTROL_SECONDS = 1.0  # how late a request from a process without signals is obeyed
CARE_SECONDS = 1.0
CRASH_LIMIT = 10
MOST_RESTING = 16
OWN_PLACES = 8  # beside `worker_concurrency`, for jobs that somebody waits for
TIDY_SECONDS = 600.0
TIDY_BATCH = 200
ERROR_LENGTH = 4000

_INTERRUPTIONS: Mapping[JobRequest | None, type[JobInterrupted]] = {
    JobRequest.PAUSE: JobPauseRequested,
    JobRequest.CANCEL: JobCancelRequested,
}


class JobEngine(ABC):
    """One per process. `start` begins working, `stop` hands unfinished work back."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        signals: JobSignals,
        kinds: JobKinds,
        *,
        alone: bool,
    ) -> None:
        self.kinds = kinds
        self._settings = settings
        self._database = database
        self._signals = signals
        self._alone = alone  # nobody else can be working here: every other worker in the table is gone
        self._worker = Worker(
            host=platform.node(), pid=os.getpid(), concurrency=settings.worker_concurrency, version=__version__
        )
        # By job and run: for a moment, a job that was taken over and came back may have two runs here.
        self._running: dict[RunKey, JobContext] = {}
        self._tasks: dict[RunKey, asyncio.Task[None]] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._freed = asyncio.Event()
        self._kinds = kinds.named(settings.worker_queues)  # what this worker takes
        self._care_seconds = CARE_SECONDS
        self._stopping = False
        self._giving_up = False
        self._seen_alive: dict[str, tuple[Any, float]] = {}
        self._heard_at = time.monotonic()  # when our last heartbeat that was written had begun

    @property
    def worker_id(self) -> str:
        return self._worker.id

    async def start(self) -> None:
        async with self._database.writing() as connection:
            if self._alone:
                await Workers(connection).remove([worker.id for worker in await Workers(connection).all()])
            self._heard_at = time.monotonic()
            await Workers(connection).add(self._worker)
        await self._take_over_orphans()
        await self._begin_taking()
        for loop in (self._keep_alive, self._obey, self._look_after):
            self._loops.append(asyncio.create_task(self._forever(loop), name=f"jobs.{loop.__name__.strip('_')}"))
        log.info("worker started", worker_id=self.worker_id, concurrency=self._worker.concurrency)

    async def stop(self) -> None:
        """Claim nothing more, let every job reach a checkpoint, and hand back what does not in time."""
        grace = self._settings.shutdown_grace_seconds
        self._stopping = True
        await self._end_taking()
        for context in self._running.values():
            context.interrupt(JobHandedBack)
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=grace)
        self._giving_up = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self._sign_off()
        log.info("worker stopped", worker_id=self.worker_id)

    @abstractmethod
    async def _begin_taking(self) -> None:
        """Claim due jobs and `_start` them from now on, as places come free."""

    @abstractmethod
    async def _end_taking(self) -> None:
        """Claim nothing more. When this returns, every job that was claimed has been started."""

    async def _sign_off(self) -> None:
        try:
            async with self._database.writing() as connection:
                await Workers(connection).remove([self.worker_id])
        except (ScrubjayError, SQLAlchemyError, OSError) as error:
            log.warning("not signed off; others will notice the silence", reason=str(error))

    async def _forever(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Keep a loop going through passing faults of the database or the cache."""
        while True:
            try:
                return await loop()
            except (ScrubjayError, SQLAlchemyError, OSError) as error:
                log.warning("worker loop failed; trying again", loop=loop.__name__, reason=str(error))
            except Exception:  # a loop that ended would leave a worker that looks alive and does nothing
                log.exception("worker loop failed; trying again", loop=loop.__name__)
            await asyncio.sleep(1)

    def _start(self, job: Job) -> tuple[JobContext, asyncio.Task[None]]:
        key = (job.id, job.run)
        context = self._running[key] = JobContext(job, self._database, self._signals, is_unheard=self._is_unheard)
        context.note("job.started", run=job.run)
        task = self._tasks[key] = asyncio.create_task(self._carry(context), name=f"job.{job.id}:{job.run}")
        jobs_running.set(len(self._tasks))
        crawl_meter.job_started(job.kind, job.id)
        started = time.monotonic()

        def _forget(_: asyncio.Task[None]) -> None:
            self._tasks.pop(key, None)
            self._running.pop(key, None)
            jobs_running.set(len(self._tasks))
            crawl_meter.job_left(job.kind, job.id)
            job_run_seconds.labels(kind=job.kind).observe(time.monotonic() - started)
            self._freed.set()

        task.add_done_callback(_forget)
        return context, task

    async def _carry(self, context: JobContext) -> None:
        try:
            await self._run(context)
        except asyncio.CancelledError:
            await self._end(context, "handed_back", state=JobState.PENDING, due_at=utc_now())
        finally:
            await context.close()

    async def _run(self, context: JobContext) -> None:
        """Run the handler and write how it ended."""
        token = current_job_id.set(context.job.id)
        try:
            with _traced(context.job):
                result = await self.kinds.get(context.job.kind).handler(context)
        except JobTakenOver:
            log.warning("another worker took this job over", run=context.job.run)
            return
        except JobInterrupted as interruption:
            outcome, changes = _after_interruption(interruption)
        except Exception as error:  # noqa: BLE001 - the one place where a handler's failure becomes data
            outcome, changes = self._after_failure(context.job, error)
        else:
            outcome = "completed"
            changes = {"state": JobState.COMPLETED, "result": storable(result or {}), "error": None}
        finally:
            current_job_id.reset(token)
        await self._end(context, outcome, **changes)

    def _after_failure(self, job: Job, error: Exception) -> tuple[str, dict[str, Any]]:
        message = _describe(error)
        if isinstance(error, ScrubjayError):
            log.info("job failed", job_id=job.id, error=message)
        else:
            log.error("job failed", job_id=job.id, error=message, exc_info=error)
        final = isinstance(error, JobFailedForGood) or job.retry_count >= job.max_retries
        if final:
            result = getattr(error, "result", None)
            told = {} if result is None else {"result": storable(result)}
            return "failed", {"state": JobState.FAILED, "error": message, **told}
        retry = job.retry_count + 1
        due_at = utc_now() + backoff(retry)
        return "retrying", {
            "state": JobState.PENDING, "error": message, "retry_count": retry, "due_at": due_at,
        }  # fmt: skip

    async def _end(self, context: JobContext, outcome: str, **changes: Any) -> None:
        """Write how a run ended, however long the database takes to answer: nobody else would.

        Only a worker that must stop now leaves it unwritten; then its silence tells others.
        """
        while True:
            try:
                return await self._write_end(context, outcome, changes)
            except (ScrubjayError, SQLAlchemyError, OSError) as error:
                log.warning("the end of a run is not written yet", job_id=context.job.id, reason=str(error))
                if self._giving_up:
                    return None
                await asyncio.sleep(1)

    async def _write_end(self, context: JobContext, outcome: str, changes: Mapping[str, Any]) -> None:
        job = context.job
        if changes["state"] is JobState.PENDING:
            # What is asked from here on stays recorded for the next run.
            outcome, changes = _obey_between_runs(await context.requested(), outcome, changes)
        if changes["state"] is not JobState.PENDING:
            changes = {**changes, "requested": None}
        if changes["state"] in FINISHED_STATES:
            changes = {**changes, "finished_at": utc_now()}
        facts = {"run": job.run} | ({"error": changes["error"]} if changes.get("error") else {})
        closing = (f"job.{outcome}", facts, utc_now())
        told = ending(self.kinds, job, changes)
        if await context.finish(closing, told, worker_id=None, **changes):
            jobs_finished_total.labels(kind=job.kind, outcome=outcome).inc()
            if "finished_at" in changes:
                seconds = (changes["finished_at"] - (job.started_at or job.created_at)).total_seconds()
                crawl_meter.job_finished(job.kind, job.id, max(0.0, seconds))
            await self._signals.event(job.id)
            if told is not None:
                await self._signals.outbox()
            if outcome == "handed_back":
                await self._signals.work()  # another worker can go on at once
            if context.has_parts and "finished_at" in changes:
                async with self._database.writing() as connection:
                    await cancel_parts(connection, job)
                await self._signals.control()

    async def _keep_alive(self) -> None:
        """Also while stopping: a worker that waits for its jobs to reach a checkpoint still has them."""
        while True:
            began = time.monotonic()
            async with self._database.writing() as connection:
                known = await Workers(connection).beat(self.worker_id, utc_now())
                if not known:
                    log.warning("this worker was declared gone; it goes on under its old name")
                    await Workers(connection).add(self._worker)
            if not known or self._is_unheard():
                await self._look_at_requests()  # what was taken over meanwhile must not go on
            self._heard_at = began
            await asyncio.sleep(self._settings.worker_heartbeat_seconds)

    def _is_unheard(self) -> bool:
        """Whether our heartbeat stood still for so long that others may have taken our jobs over.

        They count from when they saw it, which is later than when it was written.
        """
        return not self._alone and time.monotonic() - self._heard_at > self._settings.worker_silence_seconds

    async def _obey(self) -> None:
        """Tell running jobs what is asked of them, and which of them now belong to somebody else."""
        async with self._signals.wake_up(CONTROL) as signalled:
            while True:
                await wait_for_event(signalled, CONTROL_SECONDS)
                await self._look_at_requests()

    async def _look_at_requests(self) -> None:
        if self._running:
            running = dict(self._running)
            async with self._database.reading() as connection:
                asked = await Jobs(connection).requests_of({context.job.id for context in running.values()})
            for key, context in running.items():
                self._tell(key, context, asked.get(context.job.id))

    def _tell(self, key: RunKey, context: JobContext, asked: tuple[int, JobState, JobRequest | None] | None) -> None:
        if asked is None or asked[0] != context.job.run or asked[1] is not JobState.RUNNING:
            context.interrupt(JobTakenOver)
            task = self._tasks.get(key)
            if task is not None and not task.cancelling():
                task.cancel()  # forced: the handler may never reach a checkpoint
            return
        interruption = _INTERRUPTIONS.get(asked[2])
        if interruption is not None:
            context.interrupt(interruption)
        elif not self._stopping:
            context.withdraw_interruption(JobPauseRequested)

    async def _look_after(self) -> None:
        """Take over jobs of silent workers, and delete what is older than its retention."""
        next_tidy = 0.0
        self._seen_alive.clear()  # while nobody could look, nobody was silent
        while not self._stopping:
            await self._repair()
            if time.monotonic() >= next_tidy:
                next_tidy = time.monotonic() + TIDY_SECONDS
                await self._tidy()
            await asyncio.sleep(self._care_seconds)

    async def _repair(self) -> None:
        """Put the queue right after what a process left behind."""
        await self._bury_silent_workers()

    async def _bury_silent_workers(self) -> None:
        """A worker is gone when its heartbeat stood still for long enough by our own clock.

        Comparing what we saw when, instead of two machines' clocks, makes a clock that jumps harmless.
        """
        now = time.monotonic()
        async with self._database.reading() as connection:
            workers = await Workers(connection).all()
        silent = []
        for worker in workers:
            beat, since = self._seen_alive.get(worker.id, (None, now))
            if beat != worker.heartbeat_at:
                self._seen_alive[worker.id] = (worker.heartbeat_at, now)
            elif worker.id != self.worker_id and now - since > self._settings.worker_silence_seconds:
                silent.append(worker.id)
        if silent:
            log.warning("workers fell silent; taking up their jobs", workers=silent)
            async with self._database.writing() as connection:
                await Workers(connection).remove(silent)
            for worker_id in silent:
                self._seen_alive.pop(worker_id, None)
        await self._take_over_orphans()

    async def _take_over_orphans(self) -> None:
        async with self._database.reading() as connection:
            if not await Jobs(connection).orphans_exist():
                return
        async with self._database.writing() as connection:
            orphans = await Jobs(connection).orphans()
            for job in orphans:
                await self._requeue(connection, job)
        if orphans:
            jobs_taken_over_total.inc(len(orphans))
            await self._signals.work()

    async def _requeue(self, connection: AsyncConnection, job: Job) -> None:
        now, crashes = utc_now(), job.crashes + 1
        changes: dict[str, Any] = {"worker_id": None, "crashes": crashes, "event_count": job.event_count + 1}
        facts: dict[str, Any] = {"worker_id": job.worker_id, "crashes": crashes}
        if crashes >= CRASH_LIMIT and job.requested is not JobRequest.CANCEL:
            facts["error"] = f"Its worker died {crashes} times in a row before the job reached a checkpoint."
            outcome = "failed"
            after: Mapping[str, Any] = {"state": JobState.FAILED, "error": facts["error"]}
        else:
            after = {"state": JobState.PENDING, "due_at": now}
            outcome, after = _obey_between_runs(job.requested, "recovered", after)
        if after["state"] in FINISHED_STATES:
            changes["finished_at"] = now
        await Jobs(connection).change(job.id, requested=None, **changes, **after)
        await JobEvents(connection).append(job.id, [(f"job.{outcome}", facts, now)])
        told = ending(self.kinds, job, {**changes, **after})
        if told is not None:
            await Outbox(connection).add(told)
        if after["state"] in FINISHED_STATES and job.parent_id is None:
            await cancel_parts(connection, job)

    async def _tidy(self) -> None:
        """Delete finished jobs, their events, and audit entries after their retention."""
        before = utc_now() - timedelta(days=self._settings.job_retention_days)
        async with self._database.writing() as connection:
            old = await Jobs(connection).finished_before(before, TIDY_BATCH)
            for job in old:
                await Jobs(connection).delete(job.tenant_id, job.id)
            done_before = utc_now() - timedelta(days=self._settings.audit_retention_days)
            await AuditLog(connection).remove_before(done_before, TIDY_BATCH)


def _traced(job: Job) -> Span:
    """Goes on with the trace of whoever submitted the job."""
    return span(
        f"job {job.kind}",
        "consumer",
        parent=job.payload.get(TRACEPARENT),
        job__id=job.id,
        job__kind=job.kind,
        job__run=job.run,
    )


def _after_interruption(interruption: JobInterrupted) -> tuple[str, dict[str, Any]]:
    if isinstance(interruption, JobPauseRequested):
        return "paused", {"state": JobState.PAUSED}
    if isinstance(interruption, JobCancelRequested):
        return "cancelled", {"state": JobState.CANCELLED}
    return "handed_back", {"state": JobState.PENDING, "due_at": utc_now()}


def _obey_between_runs(
    requested: JobRequest | None, outcome: str, changes: Mapping[str, Any]
) -> tuple[str, Mapping[str, Any]]:
    """Between two runs a job stands at a checkpoint, so what was asked of it is done at once."""
    if requested is JobRequest.PAUSE:
        return "paused", {**changes, "state": JobState.PAUSED}
    if requested is JobRequest.CANCEL:
        return "cancelled", {**changes, "state": JobState.CANCELLED}
    return outcome, changes


def _describe(error: Exception) -> str:
    """What to tell the job's owner. A database's error would quote the statement with all its values."""
    cause = str(getattr(error, "orig", None) or error)
    lines = cause.splitlines() if isinstance(error, SQLAlchemyError) else [cause]
    message: str = redact(storable(lines[0] if lines else ""))
    return message[:ERROR_LENGTH] or type(error).__name__
