"""Jobs as the `/v2` door sees them: started by an address, known by `jb_N`, told as `start_json`, `log`, `end_json`."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from scrubjay.domains.job_files import JobFiles
from scrubjay.domains.job_stream import describe_event, describe_job, render, result_of, stream_state
from scrubjay.errors import Conflict, InvalidRequest, NotFound
from scrubjay.model.job import Job, JobRequest
from scrubjay.model.numbered_job import NumberedJob, job_number
from scrubjay.model.tenant import Principal, Scope
from scrubjay.queue import control
from scrubjay.queue.kinds import JobKinds
from scrubjay.services.access import require
from scrubjay.services.jobs import JobService
from scrubjay.storage.database import Database
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.numbered_jobs import Numbered, NumberedJobs

PREFIX = "/v2/"
LOOK_BACK = 20  # events among which the last line of a log is looked for
MAX_LISTED = 1000
AT_ONCE = 200
TAIL_EVENTS = 300  # of a log that pages show the end of


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """A job to start, about `object_id`; none of the actions in `alone_in` may be going on with that meanwhile."""

    kind: str
    payload: Mapping[str, Any]
    endpoint: str
    object_id: str | None = None
    alone_in: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class JobTail:
    """A job with the end of its log in words, newest first, as pages show it."""

    id: str  # jb_N
    endpoint: str
    job: Job
    lines: Sequence[tuple[datetime, str]]

    @property
    def result(self) -> dict[str, Any] | None:
        return result_of(self.job) if self.job.is_finished else None


class ActionJobService:
    def __init__(self, database: Database, jobs: JobService, kinds: JobKinds, files: JobFiles) -> None:
        self._database = database
        self._jobs = jobs
        self._kinds = kinds
        self._files = files

    async def start(self, principal: Principal, order: JobOrder) -> dict[str, Any]:
        """Number the job and queue it, in one transaction; returns its metadata."""
        require(principal, Scope.WRITE)
        *folder, action = order.endpoint.partition("?")[0].removeprefix(PREFIX).strip("/").split("/")
        job = Job(
            tenant_id=principal.tenant_id,
            kind=order.kind,
            payload=dict(order.payload),
            max_retries=self._kinds.get(order.kind).max_retries,
            submitted_by=principal.key_id or None,
        )
        numbered = NumberedJob(
            tenant_id=principal.tenant_id,
            job_id=job.id,
            endpoint=order.endpoint,
            folder="/".join(folder),
            action=action,
            object_id=order.object_id,
            created_at=job.created_at,
        )
        async with self._database.writing() as connection:
            if order.object_id is not None and order.alone_in:
                await _require_idle(NumberedJobs(connection), principal.tenant_id, order.object_id, order.alone_in)
            job = await control.submit(connection, job)
            numbered = replace(numbered, number=await NumberedJobs(connection).give_number(numbered))
        await self._jobs.tell()
        return describe_job(numbered, job)

    async def require_idle(self, principal: Principal, object_id: str, actions: Collection[str]) -> None:
        """Conflict while one of these actions is going on with the object."""
        async with self._database.reading() as connection:
            await _require_idle(NumberedJobs(connection), principal.tenant_id, object_id, actions)

    async def all(self, principal: Principal, *, limit: int = MAX_LISTED, offset: int = 0) -> list[dict[str, Any]]:
        """Newest first."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            found = await NumberedJobs(connection).newest(principal.tenant_id, limit=limit, offset=offset)
            modified: dict[str, datetime] = {}
            for start in range(0, len(found), AT_ONCE):
                last = {job.id: job.event_count - 1 for _, job in found[start : start + AT_ONCE]}
                events = await JobEvents(connection).after_each(last, AT_ONCE)
                modified |= {event.job_id: event.at for event in events}
        return [describe_job(numbered, job, modified_at=modified.get(job.id)) for numbered, job in found]

    async def latest(self, principal: Principal, folder: str) -> dict[str, dict[str, Any]]:
        """Object → the newest job about it, of one resource's actions."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            found = await NumberedJobs(connection).newest(principal.tenant_id, limit=MAX_LISTED)
        latest: dict[str, dict[str, Any]] = {}
        for numbered, job in found:
            if numbered.folder == folder and numbered.object_id is not None:
                latest.setdefault(numbered.object_id, describe_job(numbered, job))
        return latest

    async def get(self, principal: Principal, job_id: str) -> dict[str, Any]:
        numbered, job = await self._find(principal, job_id)
        return await self._describe(numbered, job)

    async def monitor(self, principal: Principal, job_id: str) -> dict[str, Any]:
        """The job with the last thing that it said."""
        numbered, job = await self._find(principal, job_id)
        async with self._database.reading() as connection:
            recent = await JobEvents(connection).after(job.id, max(1, job.event_count - LOOK_BACK), LOOK_BACK)
        said = [text for event in recent if (text := describe_event(event))]
        return {**await self._describe(numbered, job), "log": said[-1] if said else ""}

    async def tail(self, principal: Principal, job_id: str) -> JobTail:
        """How far a job is, what came of it, and the end of its log."""
        return await self._tail(*await self._find(principal, job_id))

    async def latest_about(self, principal: Principal, object_id: str) -> JobTail | None:
        """The newest job about an object, whichever action started it."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            found = await NumberedJobs(connection).newest(principal.tenant_id, limit=1, object_id=object_id)
        return await self._tail(*found[0]) if found else None

    async def _tail(self, numbered: NumberedJob, job: Job) -> JobTail:
        async with self._database.reading() as connection:
            recent = await JobEvents(connection).after(job.id, max(0, job.event_count - TAIL_EVENTS), TAIL_EVENTS)
        lines = [(event.at, text) for event in recent if (text := describe_event(event))]
        return JobTail(numbered.id, numbered.endpoint, job, lines[::-1])

    async def results(self, principal: Principal, job_id: str) -> dict[str, Any]:
        numbered, job = await self._find(principal, job_id)
        if not job.is_finished:
            raise Conflict(f"Job '{numbered.id}' has no result yet; it is {stream_state(job)}.")
        return result_of(job)

    async def follow(self, principal: Principal, job_id: str) -> AsyncGenerator[bytes, None]:
        """The whole stream from its first event, live until the end. What is wrong is said before the first."""
        numbered, job = await self._find(principal, job_id)
        return self._frames(principal, numbered, job)

    async def _frames(self, principal: Principal, numbered: NumberedJob, job: Job) -> AsyncGenerator[bytes, None]:
        async with aclosing(await self._jobs.follow_closely(principal, job.id)) as batches:
            async for batch in batches:
                frames = []
                for told in batch:
                    if told.event.may_be_last:
                        job = await self._jobs.get(principal, job.id)
                    frames.append(render(numbered, job, told.event))
                if text := b"".join(frames):
                    yield text

    async def make_request(
        self, principal: Principal, job_id: str, request: JobRequest, *, force: bool = False
    ) -> dict[str, Any]:
        """Pause, resume or cancel; `force` cancels a job that no longer answers."""
        require(principal, Scope.WRITE)
        if force and request is not JobRequest.CANCEL:
            raise InvalidRequest("Parameter 'force' goes with action=cancel only.", field="force")
        numbered, job = await self._find(principal, job_id)
        try:
            await self._jobs.make_request(principal, job.id, request, force=force)
        except Conflict:
            raise Conflict(f"Cannot {request} {stream_state(job)} job '{numbered.id}'.") from None
        message = f"Job '{numbered.id}' is cancelled." if force else f"Requested to {request} job '{numbered.id}'."
        return {"job_id": numbered.id, "action": str(request), "message": message}

    async def delete(self, principal: Principal, job_id: str, *, dry_run: bool = False) -> dict[str, Any]:
        """Forget a finished job, with its log and its file; returns what it was."""
        require(principal, Scope.WRITE)
        numbered, job = await self._find(principal, job_id)
        if not job.is_finished:
            raise Conflict(f"Cannot delete {stream_state(job)} job '{numbered.id}'; cancel it first.")
        described = await self._describe(numbered, job)
        if not dry_run:
            await self._jobs.delete(principal, job.id)
            await asyncio.to_thread(self._files.remove, numbered)
        return described

    async def _describe(self, numbered: NumberedJob, job: Job) -> dict[str, Any]:
        async with self._database.reading() as connection:
            last: Sequence[Any] = await JobEvents(connection).after(job.id, job.event_count - 1, 1)
        return describe_job(numbered, job, modified_at=last[0].at if last else None)

    async def _find(self, principal: Principal, job_id: str) -> Numbered:
        require(principal, Scope.READ)
        number = job_number(job_id)
        if number is not None:
            async with self._database.reading() as connection:
                found = await NumberedJobs(connection).with_job(principal.tenant_id, number)
            if found is not None:
                return found
        raise NotFound(f"Job '{job_id[:64]}' does not exist.")


async def _require_idle(jobs: NumberedJobs, tenant_id: str, object_id: str, actions: Collection[str]) -> None:
    busy = await jobs.unfinished_of(tenant_id, object_id, actions)
    if busy:
        numbered, job = busy[0]
        raise Conflict(f"'{object_id}' is in use by {stream_state(job)} job '{numbered.id}'; cancel it first.")
