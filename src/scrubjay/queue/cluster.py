"""The engine of a cluster: Procrastinate on PostgreSQL brings jobs to any number of workers.

`storage/deferral.py` defers a job in the transaction that makes it pending. A Procrastinate worker fetches the
deferral, and its task `_run_deferred` claims the row of `jobs` and runs it as every engine does. The row is the record:
a deferral that is out of date does nothing, and a row without a deferral is deferred again.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from procrastinate import App, RetryStrategy
from procrastinate.exceptions import ConnectorException
from sqlalchemy.exc import SQLAlchemyError

from scrubjay.errors import ScrubjayError
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job
from scrubjay.queue.connector import SteadyConnector
from scrubjay.queue.engine import MOST_RESTING, OWN_PLACES, JobEngine, RunKey
from scrubjay.queue.kinds import JobKinds
from scrubjay.queue.signals import JobSignals
from scrubjay.settings import Settings
from scrubjay.storage.database import Database
from scrubjay.storage.deferral import RUN_TASK, defer_overdue, try_sweep_lock
from scrubjay.storage.jobs import claim_deferred
from scrubjay.telemetry import get_logger, job_wait_seconds

NEVER_SECONDS = 86_400.0  # Procrastinate's own requests to abort are not used: the row of the job has what is asked
RESTART_SECONDS = 1.0
RETRY_SECONDS = 1
LOOKS_PER_SILENCE = 4

log = get_logger(__name__)


class ClusterEngine(JobEngine):
    """Runs jobs of a PostgreSQL database."""

    def __init__(self, settings: Settings, database: Database, signals: JobSignals, kinds: JobKinds) -> None:
        super().__init__(settings, database, signals, kinds, alone=False)
        self._care_seconds = settings.worker_silence_seconds / LOOKS_PER_SILENCE
        self._connector = SteadyConnector(database.engine.url)
        self._app = App(connector=self._connector)
        # A deferral whose job could not be claimed, because the worker stops or the database fails, is fetched again.
        self._app.task(name=RUN_TASK, retry=RetryStrategy(wait=RETRY_SECONDS))(self._run_deferred)
        self._pools: list[asyncio.Task[None]] = []
        self._claims: set[asyncio.Task[RunKey | None]] = set()
        self._places: dict[RunKey, asyncio.Future[None]] = {}  # resolved when the run gives its place back

    async def _begin_taking(self) -> None:
        await self._app.open_async()
        for queues, places in self._split_into_pools():
            self._pools.append(asyncio.create_task(self._take(queues, places), name=f"jobs.{queues[0]}"))

    async def _end_taking(self) -> None:
        self._connector.give_up()
        for pool in self._pools:
            pool.cancel()
        await asyncio.gather(*self._pools, return_exceptions=True)
        await asyncio.gather(*self._claims, return_exceptions=True)
        await self._app.close_async()

    def _split_into_pools(self) -> Sequence[tuple[Sequence[str], int]]:
        """Queues, which are named after kinds, and how many of their jobs run at once."""
        limited = [kind for kind in self._kinds if kind.worker_limit is not None]
        short = [kind.name for kind in self._kinds if kind.is_waited_for and kind not in limited]
        other = [kind.name for kind in self._kinds if not kind.is_waited_for and kind not in limited]
        pools = [(other, self._worker.concurrency), (short, OWN_PLACES)]
        pools += [([kind.name], kind.worker_limit or 1) for kind in limited]
        return [(queues, places) for queues, places in pools if queues]

    async def _take(self, queues: Sequence[str], places: int) -> None:
        """Keep a Procrastinate worker going for some queues. Runs outlive it: only their deferrals are its own."""
        while not self._stopping:
            try:
                await self._app.run_worker_async(
                    name=self.worker_id,
                    queues=queues,
                    concurrency=places,
                    install_signal_handlers=False,
                    listen_notify=True,
                    fetch_job_polling_interval=self._settings.job_poll_seconds,
                    abort_job_polling_interval=NEVER_SECONDS,
                    shutdown_graceful_timeout=0,
                    delete_jobs="always",
                    update_heartbeat_interval=self._settings.worker_heartbeat_seconds,
                    stalled_worker_timeout=self._settings.worker_silence_seconds,
                )
            except ConnectorException as error:
                reason = str(error.__cause__ or error)
                if self._stopping:
                    log.warning("Procrastinate worker not signed off; others will notice the silence", reason=reason)
                    return
                log.warning("Procrastinate worker failed; starting another", queues=queues, reason=reason)
            await asyncio.sleep(RESTART_SECONDS)

    async def _run_deferred(self, job_id: str, due_at: str) -> None:
        """Procrastinate's task: claim the job and hold a place until its run ends or rests."""
        claim = asyncio.create_task(self._claim_and_start(job_id, datetime.fromisoformat(due_at)))
        self._claims.add(claim)
        claim.add_done_callback(self._claims.discard)
        try:
            key = await asyncio.shield(claim)
        except (ScrubjayError, SQLAlchemyError, OSError) as error:
            log.warning("job not claimed; trying again", job_id=job_id, reason=str(error))
            raise
        place = None if key is None else self._places.get(key)
        if place is not None:
            with suppress(asyncio.CancelledError):  # the worker stops; the run is handed back by `stop`
                await asyncio.shield(place)

    async def _claim_and_start(self, job_id: str, due_at: datetime) -> RunKey | None:
        now = utc_now()
        async with self._database.committing_each() as connection:
            job = await claim_deferred(connection, job_id, due_at, self.worker_id, now)
        if job is None:
            return None
        job_wait_seconds.labels(kind=job.kind).observe(max(0.0, (now - job.due_at).total_seconds()))
        return self._start_in_place(job)

    def _start_in_place(self, job: Job) -> RunKey:
        key = (job.id, job.run)
        place = self._places[key] = asyncio.get_running_loop().create_future()
        context, task = self._start(job)

        def free(_: object = None) -> None:
            if not place.done():
                place.set_result(None)

        def rest() -> None:
            if sum(each.rests for each in self._running.values()) <= MOST_RESTING:
                free()

        def end(_: object) -> None:
            free()
            self._places.pop(key, None)

        context.when_resting = rest
        task.add_done_callback(end)
        return key

    async def _repair(self) -> None:
        await super()._repair()
        await self._sweep()

    async def _sweep(self) -> None:
        """One worker at a time: retry the deferrals of dead workers, and defer rows that have none."""
        silence = self._settings.worker_silence_seconds
        async with self._database.writing() as connection:
            if not await try_sweep_lock(connection):
                return
            manager = self._app.job_manager
            for stalled in await manager.get_stalled_jobs(task_name=RUN_TASK, seconds_since_heartbeat=silence):
                with suppress(ConnectorException):  # its worker woke up and has finished it
                    await manager.retry_job(stalled)
            found = await defer_overdue(connection, utc_now() - timedelta(seconds=silence))
        if found:
            log.warning("deferred jobs that were pending without a deferral", jobs=found)
