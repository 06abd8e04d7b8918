"""Jobs: the live table, one job with its hosts, errors and log, and the buttons that steer it."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from scrubjay.app import Scrubjay
from scrubjay.dashboard.identifiers import JobId, Offset
from scrubjay.dashboard.live import live_response
from scrubjay.dashboard.rendering import render, show
from scrubjay.dashboard.session import Jay, Looking, Ordering, Visitor
from scrubjay.errors import InvalidRequest
from scrubjay.model.job import REACTIONS, Job, JobRequest, JobState
from scrubjay.model.page import Page
from scrubjay.model.tenant import Principal
from scrubjay.queue.live import Told
from scrubjay.services.job_history import tally_of

router = APIRouter(include_in_schema=False)

ROWS = 30
LINES = 60
SHOWN_HOSTS = 25
SHOWN_ERRORS = 12
POINTS = 500  # events that a chart is made of
STATES = tuple(str(state) for state in JobState)
REQUESTS = {
    "pause": (JobRequest.PAUSE, "paused"),
    "resume": (JobRequest.RESUME, "resumed"),
    "stop": (JobRequest.CANCEL, "stopped"),
    "retry": (JobRequest.RETRY, "retried"),
}
State = Annotated[str, Query(max_length=20)]


def offered(job: Job) -> tuple[str, ...]:
    """What may be asked of a job in its state."""
    found = [name for name, (request, _) in REQUESTS.items() if (job.state, request) in REACTIONS]
    if job.state is JobState.CANCELLED:
        found.remove("stop")
    if job.state is JobState.PAUSED:
        found.remove("pause")
    if job.requested is JobRequest.PAUSE:
        found = ["resume" if name == "pause" else name for name in found]
    return tuple(found)


@router.get("/jobs")
async def list_jobs(request: Request, jay: Jay, visitor: Looking, state: State = "", offset: Offset = 0) -> Response:
    """All jobs, newest first."""
    return show(
        request,
        "jobs.html",
        visitor,
        states=STATES,
        state=state if state in STATES else "",
        offset=offset,
        **await _table(jay, visitor, state, offset),
    )


async def _table(jay: Scrubjay, visitor: Visitor, state: str, offset: int) -> dict[str, Any]:
    wanted = JobState(state) if state in STATES else None
    page: Page[Job] = await jay.jobs.page(visitor.who, state=wanted, limit=ROWS, offset=offset)
    return {
        "page": page,
        "counts": await jay.jobs.counts(visitor.who),
        "offered": offered,
        "plan_names": await plan_names(jay, visitor.who, page.items),
    }


async def plan_names(jay: Scrubjay, who: Principal, jobs: Sequence[Job]) -> Mapping[str, str]:
    """What the plans are called that jobs belong to."""
    return await jay.plans.names(who, {str(plan_id) for job in jobs if (plan_id := job.payload.get("plan_id"))})


@router.get("/jobs/live")
async def follow_jobs(jay: Jay, visitor: Looking, state: State = "", offset: Offset = 0) -> Response:
    """The table of jobs, whenever it changes."""
    _, position = await jay.jobs.events_of_all(visitor.who, limit=1)

    async def parts(batch: Sequence[Told]) -> Mapping[str, str]:
        table = await _table(jay, visitor, state, offset)
        return {"jobs": render("parts/jobs.html", visitor=visitor, state=state, **table)}

    return live_response(await jay.jobs.follow_all(visitor.who, after=position), parts)


@router.get("/jobs/{job_id}")
async def show_job(request: Request, jay: Jay, visitor: Looking, job_id: JobId) -> Response:
    """One job: how far it is, what it did at each host, what went wrong, and its last log lines."""
    details = await _details(jay, visitor, job_id)
    chart = await _rate_over_time(jay, visitor.who, job_id)
    return show(request, "job.html", visitor, **details, chart=chart)


@router.get("/jobs/{job_id}/live")
async def follow_job(jay: Jay, visitor: Looking, job_id: JobId) -> Response:
    """The page of a job, until it has finished."""
    job = await jay.jobs.get(visitor.who, job_id)

    async def parts(batch: Sequence[Told]) -> Mapping[str, str]:
        return {"job": render("parts/job.html", visitor=visitor, **await _details(jay, visitor, job_id))}

    return live_response(await jay.jobs.follow_closely(visitor.who, job_id, after=job.event_count), parts)


async def _details(jay: Scrubjay, visitor: Visitor, job_id: str) -> dict[str, Any]:
    details = await jay.control.details(visitor.who, job_id, lines=LINES)
    job = details.job
    counted = tally_of(job.result, job.checkpoint)
    facts: Mapping[str, Any] = {**{name: counted.get(name) for name in FACTS}, **job.progress, **(job.result or {})}
    errors: Mapping[str, int] = facts.get("errors") or counted.get("errors") or {}
    hosts = sorted(details.hosts.items(), key=lambda entry: -entry[1].get("pages", 0))
    return {
        "job": job,
        "facts": {name: value for name, value in facts.items() if isinstance(value, int | float) and name in FACTS},
        "fact_names": FACTS,
        "hosts": hosts[:SHOWN_HOSTS],
        "host_total": len(hosts),
        "errors": sorted(errors.items(), key=lambda entry: -entry[1])[:SHOWN_ERRORS],
        "lines": list(reversed(details.lines)),
        "offered": offered,
        "plan_names": await plan_names(jay, visitor.who, [job]),
    }


FACTS = {
    "pages": "Pages",
    "failed": "Failed",
    "unchanged": "Unchanged",
    "skipped": "Skipped",
    "queued": "Queued",
    "discovered": "Discovered",
    "bytes": "Read",
    "pages_per_second": "Pages per second",
}


async def _rate_over_time(jay: Scrubjay, who: Principal, job_id: str) -> str | None:
    """Seconds since the start and pages per second, as the script that draws them wants it; nothing for few points."""
    job = await jay.jobs.get(who, job_id)
    events = await jay.jobs.events(who, job_id, after=max(0, job.event_count - POINTS), limit=POINTS)
    points = [
        (round((event.at - (job.started_at or job.created_at)).total_seconds(), 1), event.payload["pages_per_second"])
        for event in events
        if event.type == "job.progress" and "pages_per_second" in event.payload
    ]
    if len(points) < 3:
        return None
    return json.dumps([[at for at, _ in points], [rate for _, rate in points]])


@router.post("/jobs/{job_id}/{request}")
async def steer_job(jay: Jay, order: Ordering, job_id: JobId, request: str) -> Response:
    """Pause, resume, stop or retry a job."""
    await jay.jobs.get(order.who, job_id)
    if request not in REQUESTS:
        raise InvalidRequest("A job can be asked to pause, resume, stop or retry.", field="request")
    wanted, notice = REQUESTS[request]
    await jay.jobs.make_request(order.who, job_id, wanted)
    return RedirectResponse(f"/ui/jobs/{job_id}?done={notice}", status_code=303)
