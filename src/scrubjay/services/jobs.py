"""Jobs as doors see them: submit, look at, steer and follow."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from scrubjay.errors import Conflict, Forbidden, InvalidRequest, NotFound
from scrubjay.model.job import HeldJobs, Job, JobEvent, JobPriority, JobRequest, JobState, LoggedEvent
from scrubjay.model.page import Page
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Principal, Scope
from scrubjay.queue import control
from scrubjay.queue.kinds import JobKinds
from scrubjay.queue.live import EventHub, Told
from scrubjay.queue.signals import JobSignals
from scrubjay.services.access import require
from scrubjay.services.reading import matching, read_page
from scrubjay.storage.database import Database
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import JobRow, Jobs
from scrubjay.storage.workers import Workers

CLEARED_AT_ONCE = 200


class JobService:
    def __init__(self, database: Database, signals: JobSignals, kinds: JobKinds, hub: EventHub) -> None:
        self._database = database
        self._signals = signals
        self._kinds = kinds
        self._hub = hub

    async def submit(
        self,
        principal: Principal,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        priority: JobPriority = JobPriority.NORMAL,
        max_retries: int | None = None,
        unique_key: str | None = None,
    ) -> Job:
        require(principal, Scope.WRITE)
        known = self._kinds.get(kind)
        if max_retries is not None and not 0 <= max_retries <= 10:
            raise InvalidRequest("max_retries must be between 0 and 10.", field="max_retries")
        job = Job(
            tenant_id=principal.tenant_id,
            kind=kind,
            payload=dict(payload or {}),
            priority=priority,
            max_retries=known.max_retries if max_retries is None else max_retries,
            unique_key=None if unique_key is None else f"{principal.tenant_id}:{unique_key}",
            submitted_by=principal.key_id,
        )
        try:
            async with self._database.writing() as connection:
                job = await control.submit(connection, job)
        except Conflict:
            # Somebody used the same key at the same moment, and was first.
            async with self._database.reading() as connection:
                first = await Jobs(connection).find_by_unique_key(job.unique_key or "")
            if first is None:
                raise
            return first
        await self._signals.work()
        return job

    async def tell(self) -> None:
        """Workers look for work, and at what is asked of them: something was queued or ended elsewhere."""
        await self._signals.control()
        await self._signals.work()

    async def get(self, principal: Principal, job_id: str) -> Job:
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            job = await Jobs(connection).find_by_id(job_id)
        if job is None or job.tenant_id != principal.tenant_id:
            raise NotFound(f"Job '{job_id}' does not exist.")
        return job

    async def page(
        self,
        principal: Principal,
        *,
        state: JobState | None = None,
        kind: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Page[Job]:
        """Newest first; parts of jobs are not listed."""
        wanted = [JobRow.parent_id.is_(None), *matching((JobRow.state, state), (JobRow.kind, kind))]
        return await read_page(self._database, principal, Jobs, *wanted, newest_first=True, limit=limit, offset=offset)

    async def make_request(self, principal: Principal, job_id: str, request: JobRequest, *, force: bool = False) -> Job:
        """Pause, resume, cancel or retry; a running job obeys at its next checkpoint."""
        require(principal, Scope.WRITE)
        asked = await self.get(principal, job_id)
        if asked.parent_id is not None:
            raise Conflict(f"Job '{job_id}' is a part of job '{asked.parent_id}'; ask that one.")
        if request in (JobRequest.RESUME, JobRequest.RETRY):
            # A job that acts with somebody's scopes is not set going by those who have less.
            for scope in asked.payload.get("scopes", ()):
                require(principal, Scope(scope))
        async with self._database.writing() as connection:
            job = await control.make_request(connection, principal.tenant_id, job_id, request, force=force)
        await self.tell()
        await self._signals.event(job_id)
        return job

    async def delete(self, principal: Principal, job_id: str) -> None:
        require(principal, Scope.WRITE)
        job = await self.get(principal, job_id)
        if job.parent_id is not None:
            raise Conflict(f"Job '{job_id}' is a part of job '{job.parent_id}'; delete that one.")
        async with self._database.writing() as connection:
            await control.delete_finished(connection, principal.tenant_id, job_id)

    async def events(
        self, principal: Principal, job_id: str, *, after: int = 0, limit: int = 500
    ) -> Sequence[JobEvent]:
        require_within(after, (await self.get(principal, job_id)).event_count)
        async with self._database.reading() as connection:
            return await JobEvents(connection).after(job_id, after, limit)

    async def last_lines(self, principal: Principal, job_id: str, limit: int = 20) -> Sequence[JobEvent]:
        """What the job logged last, the oldest line first."""
        await self.get(principal, job_id)
        async with self._database.reading() as connection:
            return await JobEvents(connection).newest(job_id, ["job.log"], limit)

    async def follow(self, principal: Principal, job_id: str, *, after: int = 0) -> AsyncIterator[JobEvent]:
        """Every event after a point, live, until the job has finished."""
        async with aclosing(await self.follow_closely(principal, job_id, after=after)) as batches:
            async for batch in batches:
                for told in batch:
                    yield told.event

    async def follow_closely(
        self, principal: Principal, job_id: str, *, after: int = 0
    ) -> AsyncGenerator[Sequence[Told], None]:
        """The same in batches, as they come; what is wrong with the request is said before the first."""
        require_within(after, (await self.get(principal, job_id)).event_count)
        return self._hub.follow_job(job_id, after)

    async def events_of_all(
        self, principal: Principal, *, after: int | None = None, limit: int = 500
    ) -> tuple[Sequence[LoggedEvent], int]:
        """The events of all jobs of the tenant after a position, or the latest; and the position to go on from."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            log = JobEvents(connection)
            last = await log.last_position()
            start = max(0, last - limit) if after is None else after
            require_within(start, last)
            events = await log.between(principal.tenant_id, after=start, until=last, limit=limit)
        return events, events[-1].id if len(events) == limit else last

    async def follow_all(
        self, principal: Principal, *, after: int | None = None
    ) -> AsyncGenerator[Sequence[Told], None]:
        """The events of all jobs of the tenant, from a position in their log or from now on; without end."""
        require(principal, Scope.READ)
        if after is not None:
            async with self._database.reading() as connection:
                require_within(after, await JobEvents(connection).last_position())
        return self._hub.follow_tenant(principal.tenant_id, after)

    def send_followers_elsewhere(self) -> None:
        """For a process that stops: whoever follows here comes back to the next, with what it has not seen."""
        self._hub.let_all_go("This server stops")

    @property
    def open_streams(self) -> int:
        """How many event streams this process serves."""
        return self._hub.streams

    async def clear_finished(self, principal: Principal, kinds: Collection[str] = ()) -> Sequence[str]:
        """Delete jobs that have finished, of some kinds or all; returns their ids."""
        require(principal, Scope.WRITE)
        cleared: list[str] = []
        while True:
            async with self._database.writing() as connection:
                jobs = await Jobs(connection).finished_of(principal.tenant_id, kinds, CLEARED_AT_ONCE)
                for job in jobs:
                    await Jobs(connection).delete(job.tenant_id, job.id)
            cleared += [job.id for job in jobs]
            if len(jobs) < CLEARED_AT_ONCE:
                return cleared

    async def workers(self, principal: Principal) -> Sequence[HeldJobs]:
        """The workers, and the jobs of every tenant that each of them runs."""
        require(principal, Scope.ADMIN)
        if principal.tenant_id != DEFAULT_TENANT_ID:
            raise Forbidden("Only an admin of the default tenant may list workers.")
        async with self._database.reading() as connection:
            workers = await Workers(connection).all()
            held = [JobRow.state == JobState.RUNNING, JobRow.worker_id.in_([worker.id for worker in workers])]
            jobs = await Jobs(connection).every(*held, order=[JobRow.started_at, JobRow.id])
        return [HeldJobs(worker=worker, jobs=[job for job in jobs if job.worker_id == worker.id]) for worker in workers]

    async def counts(self, principal: Principal) -> Mapping[str, int]:
        """How many jobs are in each state."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            jobs = Jobs(connection)
            own = [JobRow.tenant_id == principal.tenant_id, JobRow.parent_id.is_(None)]
            return {str(state): await jobs.count(*own, JobRow.state == state) for state in JobState}


def require_within(after: int, last: int) -> None:
    """A point beyond the end was never given out by this log: whoever has it follows another one."""
    if after > last:
        raise InvalidRequest(f"after: there are only {last} events.", field="after", last=last)
