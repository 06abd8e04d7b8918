"""Events as they happen: in each process one reader of the log for everybody who follows it.

Somebody who follows a job gets every event later than a point, in order and without gaps: the past is read at the
follower's own pace, and what is new is read once and handed to all. A follower that takes too long to take what it
is handed is let go, and can come back to where it was.

Two logs can be followed: that of one job, numbered 1, 2, 3 …, and that of all jobs of a tenant, numbered by the
position in the whole table, which grows but has gaps.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from scrubjay.errors import FollowerTooSlow, ScrubjayError
from scrubjay.model.clock import utc_now
from scrubjay.model.job import JobEvent, LoggedEvent
from scrubjay.queue.signals import EVENTS, JobSignals, wait_for_event
from scrubjay.storage.database import Database
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs
from scrubjay.telemetry import get_logger

log = get_logger(__name__)
T = TypeVar("T")

POLL_SECONDS = 0.5  # how late an event is whose signal was lost
GATHER_SECONDS = 0.03  # signals within this time are one reading
PAGE_EVENTS = 500
MAX_QUEUED = 5_000  # events that one follower may be behind
SETTLE_SECONDS = 5.0  # after which a missing position in the table is taken for one that was rolled back
JOBS_AT_ONCE = 200


class Told:
    """An event on its way to many: each way of writing it down is worked out once."""

    __slots__ = ("_forms", "event", "position")

    def __init__(self, event: JobEvent, position: int) -> None:
        self.event = event
        self.position = position  # in the log that is followed
        self._forms: dict[Callable[[Told], Any], Any] = {}

    def form(self, write: "Callable[[Told], T]") -> T:
        if write not in self._forms:
            self._forms[write] = write(self)
        form: T = self._forms[write]
        return form


def too_slow(position: int, reason: str = "Too slow") -> FollowerTooSlow:
    return FollowerTooSlow(f"{reason}; go on with after={position}.", position=position)


class Follower:
    """Somebody who follows a log. The hub hands over; `batches` takes out."""

    def __init__(self, position: int) -> None:
        self.position = position  # of the last event handed over
        self._taken = position
        self._queue: deque[Told] = deque()
        self._news = asyncio.Event()
        self._over = False
        self._dropped = False
        self._reason = "Too slow"

    def hand(self, told: Told) -> None:
        if told.position <= self.position or self._dropped:
            return
        if len(self._queue) >= MAX_QUEUED:
            self._dropped = True
            self._queue.clear()
        else:
            self._queue.append(told)
            self.position = told.position
        self._news.set()

    def let_go(self, reason: str) -> None:
        """Send it away before the log ends: it can come back to where it was, here or to another process."""
        self._dropped, self._reason = True, reason
        self._queue.clear()
        self._news.set()

    def end(self) -> None:
        self._over = True
        self._news.set()

    async def batches(self) -> AsyncIterator[list[Told]]:
        """What has been handed over since the last time, until the log ends."""
        while True:
            if self._dropped:
                raise too_slow(self._taken, self._reason)
            if self._queue:
                batch = list(self._queue)
                self._queue.clear()
                yield batch
                self._taken = batch[-1].position
            elif self._over:
                return
            else:
                self._news.clear()
                await self._news.wait()


class _Job:
    """A job that somebody follows: how far its log was read, and by whom it is followed."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.followers: set[Follower] = set()


class EventHub:
    """One for each process. It reads only while somebody follows."""

    def __init__(self, database: Database, signals: JobSignals, poll_seconds: float = POLL_SECONDS) -> None:
        self._database = database
        self._signals = signals
        self._poll_seconds = poll_seconds
        self._jobs: dict[str, _Job] = {}
        self._tenants: dict[str, set[Follower]] = {}  # who follows all of a tenant's jobs
        self._position: int | None = None  # of the table, up to which every tenant's followers have everything
        self._dirty: set[str] = set()
        self._wake = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._reading = False
        self._leaving: str | None = None  # why this process ends all streams
        self.streams = 0  # that are open

    def let_all_go(self, reason: str) -> None:
        """End all streams, so that clients reconnect elsewhere; those that are still catching up end after that."""
        self._leaving = reason
        for follower in self._everybody:
            follower.let_go(reason)

    @property
    def _everybody(self) -> list[Follower]:
        followings = [*(job.followers for job in self._jobs.values()), *self._tenants.values()]
        return [follower for followers in followings for follower in followers]

    async def close(self) -> None:
        """End every following, and the reading with it."""
        for follower in self._everybody:
            follower.end()
        self._jobs.clear()
        self._tenants.clear()
        self._wake.set()
        if self._reader is not None:
            await self._reader

    async def follow_job(self, job_id: str, after: int = 0) -> AsyncGenerator[list[Told], None]:
        """Every event of a job later than `after`, until the job has finished."""
        self.streams += 1
        try:
            while True:
                async with self._database.reading() as connection:
                    events = await JobEvents(connection).after(job_id, after, PAGE_EVENTS)
                if events:
                    yield [Told(event, event.sequence) for event in events]
                    after = events[-1].sequence
                if len(events) < PAGE_EVENTS:
                    break
            with self._following_job(job_id, after) as follower:
                async for batch in follower.batches():
                    yield batch
        finally:
            self.streams -= 1

    async def follow_tenant(self, tenant_id: str, after: int | None = None) -> AsyncGenerator[list[Told], None]:
        """Every event of a tenant's jobs later than the position `after`, or from now on; without end."""
        self.streams += 1
        try:
            await self._find_position()
            while after is not None and after < (until := self._known_position):
                async with self._database.reading() as connection:
                    events = await JobEvents(connection).between(tenant_id, after=after, until=until, limit=PAGE_EVENTS)
                if events:
                    yield [Told(logged.event, logged.id) for logged in events]
                after = events[-1].id if len(events) == PAGE_EVENTS else until
            with self._following_tenant(tenant_id, self._known_position if after is None else after) as follower:
                async for batch in follower.batches():
                    yield batch
        finally:
            self.streams -= 1

    @property
    def _known_position(self) -> int:
        return self._position or 0

    @contextmanager
    def _following_job(self, job_id: str, after: int) -> Iterator[Follower]:
        job = self._jobs.setdefault(job_id, _Job(after))
        # Others may be further; they ignore what they have already been handed.
        job.position = min(job.position, after)
        follower = Follower(after)
        job.followers.add(follower)
        if self._leaving is not None:
            follower.let_go(self._leaving)
        self._dirty.add(job_id)
        self._read_soon()
        try:
            yield follower
        finally:
            job.followers.discard(follower)
            if not job.followers and self._jobs.get(job_id) is job:
                del self._jobs[job_id]
            self._wake.set()

    @contextmanager
    def _following_tenant(self, tenant_id: str, after: int) -> Iterator[Follower]:
        followers = self._tenants.setdefault(tenant_id, set())
        follower = Follower(after)
        followers.add(follower)
        if self._leaving is not None:
            follower.let_go(self._leaving)
        # Between catching up and here the others may have been handed more: read that once again.
        self._position = min(self._known_position, after)
        self._read_soon()
        try:
            yield follower
        finally:
            followers.discard(follower)
            if not followers and self._tenants.get(tenant_id) is followers:
                del self._tenants[tenant_id]
            self._wake.set()

    async def _find_position(self) -> None:
        """Where following from now on begins: before whatever might still be on its way into the table."""
        if self._tenants and self._position is not None:
            return
        settled = utc_now() - timedelta(seconds=0 if self._is_serial else SETTLE_SECONDS)
        async with self._database.reading() as connection:
            self._position = await JobEvents(connection).last_before(settled)

    @property
    def _is_serial(self) -> bool:
        """SQLite has one writer: what is written later has a later position."""
        return self._database.dialect == "sqlite"

    def _read_soon(self) -> None:
        self._wake.set()
        if not self._reading:
            self._reading = True
            self._reader = asyncio.create_task(self._read_on(), name="jobs.events")

    def _heard(self, message: bytes) -> None:
        job_id = message.decode(errors="replace")
        if job_id in self._jobs:
            self._dirty.add(job_id)
        elif not self._tenants:
            return
        self._wake.set()

    async def _read_on(self) -> None:
        try:
            async with self._signals.listening(EVENTS, self._heard):
                await self._read_while_followed()
        except BaseException:
            self._reading = False
            raise

    async def _read_while_followed(self) -> None:
        clock, looked_at = asyncio.get_running_loop().time, 0.0
        while self._jobs or self._tenants:
            behind = False
            try:
                if clock() - looked_at >= self._poll_seconds:
                    looked_at = clock()
                    await self._look_at_jobs(list(self._jobs))
                await self._read_jobs()
                behind = await self._read_table()
            except (ScrubjayError, SQLAlchemyError, OSError) as error:
                log.warning("events could not be read; trying again", reason=str(error))
                await asyncio.sleep(self._poll_seconds)
            if not (behind or self._dirty):
                await wait_for_event(self._wake, self._poll_seconds)
                await asyncio.sleep(GATHER_SECONDS)
        self._reading = False  # at once: whoever comes next needs another reader

    async def _look_at_jobs(self, job_ids: Sequence[str]) -> None:
        """End the following of jobs that are over and told to the end; notice what no signal told of."""
        for start in range(0, len(job_ids), JOBS_AT_ONCE):
            some = job_ids[start : start + JOBS_AT_ONCE]
            async with self._database.reading() as connection:
                states = await Jobs(connection).log_states(some)
            for job_id in some:
                job, state = self._jobs.get(job_id), states.get(job_id)
                if job is None:
                    continue
                if state is not None and state.event_count > job.position:
                    self._dirty.add(job_id)
                elif state is None or state.is_finished:
                    for follower in job.followers:
                        follower.end()

    async def _read_jobs(self) -> None:
        dirty = [job_id for job_id in self._dirty if job_id in self._jobs]
        self._dirty.clear()
        ended: list[str] = []
        for start in range(0, len(dirty), JOBS_AT_ONCE):
            some = dirty[start : start + JOBS_AT_ONCE]
            positions = {job_id: self._jobs[job_id].position for job_id in some if job_id in self._jobs}
            async with self._database.reading() as connection:
                events = await JobEvents(connection).after_each(positions, PAGE_EVENTS)
            if len(events) >= PAGE_EVENTS:
                self._dirty.update(positions)  # there is more than was asked for
            for event in events:
                job = self._jobs.get(event.job_id)
                # Somebody who joined meanwhile may have put the position back: then all of it is read again.
                if job is None or event.sequence != job.position + 1:
                    continue
                job.position = event.sequence
                told = Told(event, event.sequence)
                for follower in job.followers:
                    follower.hand(told)
                if event.may_be_last:
                    ended.append(event.job_id)
        if ended:
            await self._look_at_jobs(ended)

    async def _read_table(self) -> bool:
        """Hand the newest of the whole log to those who follow all of it; true when there is more already."""
        if not self._tenants:
            return False
        start = self._known_position
        async with self._database.reading() as connection:
            events = await JobEvents(connection).after_position(start, PAGE_EVENTS)
        position = start
        for logged in events:
            if logged.id != position + 1 and not self._is_settled(logged):
                break
            position = logged.id
            if logged.is_of_part:
                continue
            told = Told(logged.event, logged.id)
            for follower in self._tenants.get(logged.tenant_id, ()):
                follower.hand(told)
        # Unless somebody who joined meanwhile put it back.
        if self._known_position == start:
            self._position = position
        return len(events) == PAGE_EVENTS and position > start

    def _is_settled(self, logged: LoggedEvent) -> bool:
        """Whether what is missing before it will not come any more.

        Two transactions may take positions 7 and 8, and the second may end first: then 7 is waited for. A position
        whose transaction was undone never comes, which only time tells.
        """
        return self._is_serial or utc_now() - logged.event.at > timedelta(seconds=SETTLE_SECONDS)
