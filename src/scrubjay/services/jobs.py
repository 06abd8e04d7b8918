"""Jobs as doors see them: submit, look at, steer and follow."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from scrubjay.errors import Conflict, InvalidRequest, NotFound
from scrubjay.jobs import control
from scrubjay.jobs.events import follow
from scrubjay.jobs.kinds import JobKinds
from scrubjay.jobs.signals import JobSignals
from scrubjay.model.job import Job, JobEvent, JobPriority, JobRequest, JobState
from scrubjay.model.page import Page
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.storage.database import Database
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import JobRow, Jobs


class JobService:
    def __init__(self, database: Database, signals: JobSignals, kinds: JobKinds) -> None:
        self._database = database
        self._signals = signals
        self._kinds = kinds

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
        """Newest first."""
        require(principal, Scope.READ)
        conditions = [JobRow.tenant_id == principal.tenant_id]
        if state is not None:
            conditions.append(JobRow.state == state)
        if kind is not None:
            conditions.append(JobRow.kind == kind)
        async with self._database.reading() as connection:
            return await Jobs(connection).page(
                *conditions, limit=limit, offset=offset, order=[JobRow.created_at.desc(), JobRow.id.desc()]
            )

    async def make_request(self, principal: Principal, job_id: str, request: JobRequest, *, force: bool = False) -> Job:
        """Pause, resume, cancel or retry; a running job obeys at its next checkpoint."""
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            job = await control.make_request(connection, principal.tenant_id, job_id, request, force=force)
        await self.tell()
        await self._signals.event(job_id)
        return job

    async def delete(self, principal: Principal, job_id: str) -> None:
        require(principal, Scope.WRITE)
        await self.get(principal, job_id)
        async with self._database.writing() as connection:
            await control.delete_finished(connection, principal.tenant_id, job_id)

    async def events(
        self, principal: Principal, job_id: str, *, after: int = 0, limit: int = 500
    ) -> Sequence[JobEvent]:
        await self.get(principal, job_id)
        async with self._database.reading() as connection:
            return await JobEvents(connection).after(job_id, after, limit)

    async def follow(self, principal: Principal, job_id: str, *, after: int = 0) -> AsyncIterator[JobEvent]:
        """Every event after a point, live, until the job has finished."""
        await self.get(principal, job_id)
        async for event in follow(self._database, self._signals, job_id, after):
            yield event

    async def counts(self, principal: Principal) -> Mapping[str, int]:
        """How many jobs are in each state."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            jobs = Jobs(connection)
            return {
                str(state): await jobs.count(JobRow.tenant_id == principal.tenant_id, JobRow.state == state)
                for state in JobState
            }
