"""Keeps job files equal to the event log, and obeys control files. Of those who share the folder, one process does it.

The files are made of stored rows alone, and never read back: after a crash, those of unfinished jobs are written anew.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from scrubjay.domains.job_files import ControlFile, JobFiles
from scrubjay.domains.job_stream import StreamState, render, stream_state
from scrubjay.errors import Conflict, NotFound, ScrubjayError
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job, JobEvent
from scrubjay.model.numbered_job import NumberedJob
from scrubjay.queue import control
from scrubjay.queue.polling import PollLoop, wait_until_set
from scrubjay.queue.signals import EVENTS, JobSignals
from scrubjay.storage.database import Database
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.numbered_jobs import NumberedJobs
from scrubjay.telemetry import get_logger

log = get_logger(__name__)
LOOK_SECONDS = 0.5  # control files are obeyed within two seconds
GATHER_SECONDS = 0.1
TIDY_SECONDS = 3600.0
PAGE_EVENTS = 500
JOBS_AT_ONCE = 200
MOST_JOBS = 5000  # that are followed at the same time
LOCK = ".jobs.lock"


@dataclass(slots=True)
class _Written:
    """How much of a job is in its file."""

    events: int
    state: StreamState


class JobKeeper:
    def __init__(self, database: Database, signals: JobSignals, files: JobFiles, keep_days: int) -> None:
        self._database = database
        self._signals = signals
        self._files = files
        self._keep_days = keep_days
        self._written: dict[int, _Written] = {}
        self._lock: int | None = None
        self._next_tidy = 0.0
        self._loop = PollLoop(
            "job files", self._keep, poll_seconds=LOOK_SECONDS - GATHER_SECONDS, signals=signals, channel=EVENTS
        )

    async def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        """Write what there is to write, and leave."""
        await self._loop.stop()
        if self._lock is not None:
            await self._update()
            os.close(self._lock)

    async def _keep(self) -> None:
        if self._lock is None:
            self._lock = await asyncio.to_thread(self._take_lock)
            self._written.clear()
        if self._lock is None:  # another process writes the files
            await wait_until_set(self._loop.stopping, LOOK_SECONDS)
        else:
            await self._update()
            await wait_until_set(self._loop.stopping, GATHER_SECONDS)  # signals of a busy moment are one reading

    def _take_lock(self) -> int | None:
        """One process keeps the files; the lock ends with it, however it ends."""
        try:
            self._files.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._files.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            log.warning("the storage folder cannot be used; job files are not written", reason=str(error))
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    async def _update(self) -> None:
        try:
            await self._obey()
            await self._mirror()
            if time.monotonic() >= self._next_tidy:
                self._next_tidy = time.monotonic() + TIDY_SECONDS
                await self._tidy()
        except (ScrubjayError, SQLAlchemyError, OSError) as error:
            log.warning("job files are not up to date; retrying", reason=str(error))

    async def _obey(self) -> None:
        for found in await asyncio.to_thread(self._files.controls):
            await self._obey_one(found)
            await asyncio.to_thread(_unlink, found.path)

    async def _obey_one(self, found: ControlFile) -> None:
        try:
            async with self._database.writing() as connection:
                known = await NumberedJobs(connection).with_job(found.tenant_id, found.number)
                job_id = "" if known is None else known[1].id
                await control.make_request(connection, found.tenant_id, job_id, found.request)
        except (NotFound, Conflict) as error:
            log.warning("a control file asks for what cannot be", file=found.path.name, reason=error.message)
            return
        await self._signals.control()
        await self._signals.work()
        await self._signals.event(job_id)

    async def _mirror(self) -> None:
        async with self._database.reading() as connection:
            waiting = await NumberedJobs(connection).to_be_filed(MOST_JOBS)
        for numbered, job in waiting:
            await self._mirror_one(numbered, job)

    async def _mirror_one(self, numbered: NumberedJob, job: Job) -> None:
        """Bring one file up to what the job's row, read a moment ago, says."""
        if numbered.is_filed:  # it ended, and goes on again: the end in the file is none any more
            self._written.pop(numbered.number, None)
            await self._note(numbered, is_filed=False)
        written = self._written.get(numbered.number)
        state = stream_state(job)
        if written is not None and written.events == job.event_count and written.state is state and not job.is_finished:
            return
        appended = written is not None and await self._append(numbered, job, written.events, state, anew=False)
        if not appended:
            await self._append(numbered, job, 0, state, anew=True)
        self._written[numbered.number] = _Written(job.event_count, state)
        if job.is_finished:
            await self._note(numbered, is_filed=True)
            self._written.pop(numbered.number, None)

    async def _append(self, numbered: NumberedJob, job: Job, after: int, state: StreamState, *, anew: bool) -> bool:
        content = b"".join([render(numbered, job, event) for event in await self._events(job, after)])
        return await asyncio.to_thread(self._files.write, numbered, state, content, anew=anew)

    async def _events(self, job: Job, after: int) -> Sequence[JobEvent]:
        """As many as the row counts: what came since belongs to the next round, with the row as it is then."""
        events: list[JobEvent] = []
        while after < job.event_count:
            limit = min(PAGE_EVENTS, job.event_count - after)
            async with self._database.reading() as connection:
                page = await JobEvents(connection).after(job.id, after, limit)
            if not page:
                break  # the job was deleted meanwhile
            events += page
            after = page[-1].sequence
        return events

    async def _note(self, numbered: NumberedJob, *, is_filed: bool) -> None:
        async with self._database.writing() as connection:
            await NumberedJobs(connection).set_filed(numbered.number, is_filed)

    async def _tidy(self) -> None:
        """Remove old files of jobs that are not known any more."""
        before = (utc_now() - timedelta(days=self._keep_days)).timestamp()
        old = await asyncio.to_thread(self._files.finished, before)
        for start in range(0, len(old), JOBS_AT_ONCE):
            batch = old[start : start + JOBS_AT_ONCE]
            async with self._database.reading() as connection:
                known = await NumberedJobs(connection).existing({file.number for file in batch})
            for file in batch:
                if file.number not in known:
                    await asyncio.to_thread(_unlink, file.path)


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
