"""The embedded engine: claims due rows of the table `jobs` by polling and on the WORK signal.

It runs on SQLite in one process, and on MariaDB and SQL Server in any number of them.
"""

import asyncio
from collections import Counter

from scrubjay.model.clock import utc_now
from scrubjay.queue.engine import MOST_RESTING, OWN_PLACES, JobEngine
from scrubjay.queue.kinds import JobKinds
from scrubjay.queue.signals import WORK, JobSignals, wait_for_event
from scrubjay.settings import Settings
from scrubjay.storage.database import Database
from scrubjay.storage.jobs import Jobs
from scrubjay.telemetry import job_wait_seconds

GATHER_SECONDS = 0.025


class EmbeddedEngine(JobEngine):
    """Runs jobs of every database except PostgreSQL."""

    def __init__(self, settings: Settings, database: Database, signals: JobSignals, kinds: JobKinds) -> None:
        # The lock of the data folder makes this the only process on SQLite: every other worker in the table is gone.
        super().__init__(settings, database, signals, kinds, alone=database.dialect == "sqlite")
        self._dispatcher: asyncio.Task[None] | None = None

    async def _begin_taking(self) -> None:
        self._dispatcher = asyncio.create_task(self._forever(self._dispatch), name="jobs.dispatch")

    async def _end_taking(self) -> None:
        self._freed.set()
        if self._dispatcher is not None:
            # A claim that is under way is waited for: its jobs are to be handed back too.
            await asyncio.wait([self._dispatcher], timeout=self._settings.shutdown_grace_seconds)
            self._dispatcher.cancel()
            await asyncio.gather(self._dispatcher, return_exceptions=True)

    async def _dispatch(self) -> None:
        async with self._signals.wake_up(WORK) as signalled:
            listener = asyncio.create_task(_forward(signalled, self._freed))
            try:
                while not self._stopping:
                    if not await self._claim_and_start():
                        await wait_for_event(self._freed, self._settings.job_poll_seconds)
                    elif self._tasks:
                        # Places come free one by one; claiming for several at once costs one transaction.
                        await asyncio.sleep(GATHER_SECONDS)
            finally:
                listener.cancel()

    async def _claim_and_start(self) -> bool:
        """Fill the free places; false when there was nothing to do."""
        running = Counter(context.job.kind for context in self._running.values())
        room, names = self._room(running), self._kinds.names_with_room(running)
        if room <= 0:
            room = OWN_PLACES - self._waited_for(running)
            names = [name for name in names if name in self._kinds.waited_for]
        if room <= 0 or not names:
            return False
        now, limits = utc_now(), self._kinds.room_of_limited(running)
        async with self._database.writing() as connection:
            jobs = await Jobs(connection).claim(self.worker_id, names, room, now, limits=limits)
        for job in jobs:
            job_wait_seconds.labels(kind=job.kind).observe(max(0.0, (now - job.due_at).total_seconds()))
            self._start(job)
        return bool(jobs)

    def _room(self, running: Counter[str]) -> int:
        """The free places; what rests takes none, within reason, and what somebody waits for has some of its own."""
        resting = sum(context.rests for context in self._running.values())
        own = min(self._waited_for(running), OWN_PLACES)
        return self._worker.concurrency - len(self._tasks) + own + min(resting, MOST_RESTING)

    def _waited_for(self, running: Counter[str]) -> int:
        return sum(running[name] for name in self._kinds.waited_for)


async def _forward(source: asyncio.Event, target: asyncio.Event) -> None:
    while True:
        await source.wait()
        source.clear()
        target.set()
