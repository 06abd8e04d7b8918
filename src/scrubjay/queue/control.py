"""Queueing jobs and asking things of them. Callers own the transaction and signal when it is committed."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.errors import Conflict, NotFound
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job, JobRequest, JobState, Reaction, react
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs
from scrubjay.telemetry import crawl_meter, jobs_submitted_total, span, traceparent
from scrubjay.telemetry.tracing import TRACEPARENT

BACKOFF_SECONDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 300)


async def submit(connection: AsyncConnection, job: Job) -> Job:
    """Queue a job. With a `unique_key` that was used before, the job that used it is returned instead."""
    if job.unique_key is not None:
        existing = await Jobs(connection).find_by_unique_key(job.unique_key)
        if existing is not None:
            return existing
    with span("submit job", "producer", job__id=job.id, job__kind=job.kind):
        trace = traceparent()  # its run goes on with it, in whatever process that is
    job = replace(job, event_count=1, payload=job.payload if trace is None else {**job.payload, TRACEPARENT: trace})
    await Jobs(connection).add(job)
    submitted = {"kind": job.kind, "priority": job.priority.label}
    await JobEvents(connection).append(job.id, [("job.submitted", submitted, job.created_at)])
    jobs_submitted_total.labels(kind=job.kind, priority=job.priority.label).inc()
    crawl_meter.job_submitted(job.kind, _mode(job.payload), job.priority.label)
    return job


def _mode(payload: Mapping[str, Any]) -> str:
    spec = payload.get("spec")
    return str(spec.get("mode", "concurrent")) if isinstance(spec, Mapping) else "concurrent"


async def make_request(
    connection: AsyncConnection, tenant_id: str, job_id: str, request: JobRequest, *, force: bool = False
) -> Job:
    """Pause, resume, cancel or retry a job. `force` cancels one whose worker no longer answers."""
    jobs = Jobs(connection)
    job = await jobs.lock(job_id)
    if job is None or job.tenant_id != tenant_id:
        raise NotFound(f"Job '{job_id}' does not exist.")
    reaction = react(job, request)
    if force and request is JobRequest.CANCEL and reaction is Reaction.RECORD:
        reaction = Reaction.CANCEL_NOW
    changes = _changes(job, request, reaction)
    if changes:
        await jobs.change(job.id, event_count=job.event_count + 1, **changes)
        event = {"by": "request", "state": str(changes.get("state", job.state))}
        await JobEvents(connection).append(job.id, [(f"job.{request}_requested", event, utc_now())])
    if job.parent_id is None:
        await _ask_parts(connection, job, request, force=force)
    return await jobs.get(tenant_id, job_id)


async def _ask_parts(connection: AsyncConnection, job: Job, request: JobRequest, *, force: bool) -> None:
    """What is asked of a job is asked of its parts, in the same transaction; those it makes no sense for go on."""
    for part in await Jobs(connection).parts(job.id):
        with suppress(Conflict):
            await make_request(connection, job.tenant_id, part.id, request, force=force)


async def cancel_parts(connection: AsyncConnection, job: Job) -> None:
    """For a job that has ended: nothing of it goes on."""
    await _ask_parts(connection, job, JobRequest.CANCEL, force=False)


def _changes(job: Job, request: JobRequest, reaction: Reaction) -> Mapping[str, Any]:
    if reaction is Reaction.RECORD:
        return {} if job.requested in (request, JobRequest.CANCEL) else {"requested": request}
    if reaction is Reaction.FORGET:
        return {"requested": None}
    if reaction is Reaction.PAUSE_NOW:
        return {"state": JobState.PAUSED, "worker_id": None}
    if reaction is Reaction.CANCEL_NOW:
        return {"state": JobState.CANCELLED, "finished_at": utc_now(), "requested": None, "worker_id": None}
    if reaction is Reaction.ENQUEUE:
        fresh = {"retry_count": 0, "crashes": 0, "error": None, "finished_at": None, "requested": None}
        return {"state": JobState.PENDING, "due_at": utc_now(), **fresh}
    return {}


async def delete_finished(connection: AsyncConnection, tenant_id: str, job_id: str) -> None:
    job = await Jobs(connection).get(tenant_id, job_id)
    if not job.is_finished:
        raise Conflict(f"Cannot delete {job.state} job '{job_id}'; cancel it first.", state=str(job.state))
    await Jobs(connection).delete(tenant_id, job_id)


def backoff(retry_count: int) -> timedelta:
    """How long to wait before try number `retry_count` (the first retry is 1)."""
    return timedelta(seconds=BACKOFF_SECONDS[min(retry_count, len(BACKOFF_SECONDS)) - 1])
