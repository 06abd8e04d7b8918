"""`/jobs`: order crawls, look at them, steer them, follow them live."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response, WebSocket
from starlette.responses import JSONResponse, StreamingResponse

from scrubjay.api.control.schemas import (
    EventsResponse,
    JobDetail,
    JobId,
    JobsResponse,
    JobSummary,
    Limit,
    Offset,
    Position,
    ReportResponse,
    StartedResponse,
    StartJobRequest,
    all_events_body,
    event_of_all,
    event_of_job,
    event_type,
    events_body,
    job_detail,
    job_summary,
    json_lines,
    report_response,
)
from scrubjay.api.deps import Jay, SocketJay, SocketWho, Who
from scrubjay.api.streams import SERVER_SENT_EVENT, Dialect, LastEventId, event_stream, position_of, serve_socket
from scrubjay.app import Scrubjay
from scrubjay.model.job import JobRequest, JobState
from scrubjay.model.tenant import Principal
from scrubjay.plans.report import ItemOutcome

router = APIRouter(tags=["jobs"])

OF_JOB = Dialect(name=lambda told: event_type(told.event), body=event_of_job)
OF_ALL = Dialect(name=lambda told: event_type(told.event), body=event_of_all)
STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The events; with `Accept: text/event-stream` one after the other as they happen",
        "content": {"text/event-stream": SERVER_SENT_EVENT},
    }
}
EVERY_OUTCOME: list[ItemOutcome] = []
Accept = Annotated[str, Header(max_length=500)]


@router.post("/jobs", status_code=202, response_model=StartedResponse)
async def start_job(jay: Jay, who: Who, body: StartJobRequest) -> StartedResponse:
    """Crawl sites up to a number of pages each, or exactly some pages, as one job."""
    webhook = jay.webhooks.of_job(who, body.webhook_url, body.webhook_headers, body.webhook_secret)
    job = await jay.control.start(who, body.order(webhook))
    return StartedResponse(job_id=job.id, status=job.state)


@router.get("/jobs", response_model=JobsResponse | dict[str, JobState])
async def list_jobs(
    jay: Jay,
    who: Who,
    status: JobState | None = None,
    kind: Annotated[str | None, Query(max_length=64, pattern=r"^[\w.-]+$")] = None,
    view: Literal["list", "map"] = "list",
    limit: Limit = 100,
    offset: Offset = 0,
) -> Any:
    """Newest first. `view=map` gives only each job's state, by id."""
    page = await jay.jobs.page(who, state=status, kind=kind, limit=limit, offset=offset)
    if view == "map":
        return {job.id: job.state for job in page.items}
    return JobsResponse(jobs=[job_summary(job) for job in page.items], total=page.total)


@router.get("/jobs/events", responses=STREAMED, response_model=EventsResponse)
async def list_all_events(
    jay: Jay,
    who: Who,
    after: Position = None,
    limit: Limit = 500,
    accept: Accept = "application/json",
    last_event_id: LastEventId = None,
) -> Response:
    """The events of all jobs: those after a position or else the latest, or as a stream from there or from now on."""
    start = position_of(last_event_id, after)
    if "text/event-stream" in accept:
        return event_stream(await jay.jobs.follow_all(who, after=start), OF_ALL)
    events, position = await jay.jobs.events_of_all(who, after=start, limit=limit)
    return JSONResponse(all_events_body(events, position))


@router.get("/jobs/{job_id}", response_model=JobDetail)
async def get_job(
    jay: Jay, who: Who, job_id: JobId, lines: Annotated[int, Query(ge=0, le=500, description="Of the log.")] = 20
) -> JobDetail:
    """State, progress, what was done at each host, the most frequent errors, and the last lines of the log."""
    return job_detail(await jay.control.details(who, job_id, lines=lines))


@router.get("/jobs/{job_id}/report", response_model=ReportResponse)
async def get_report(
    jay: Jay,
    who: Who,
    job_id: JobId,
    outcome: Annotated[list[ItemOutcome], Query(description="Only items of these outcomes.")] = EVERY_OUTCOME,
    shape: Annotated[
        Literal["json", "jsonl"], Query(alias="format", description="jsonl: all items as a download.")
    ] = "json",
    limit: Limit = 100,
    offset: Offset = 0,
) -> Any:
    """What became of every address of a crawl, problems first. Unchanged pages are counted and not listed."""
    if shape == "jsonl":
        operation = await jay.reports.operation_of(who, job_id)
        items = jay.reports.every_item(who, operation.id, outcome)
        headers = {"Content-Disposition": f'attachment; filename="{job_id}.report.jsonl"'}
        return StreamingResponse(json_lines(items), media_type="application/x-ndjson", headers=headers)
    found = await jay.reports.of_job(who, job_id, outcomes=outcome, limit=limit, offset=offset)
    return report_response(job_id, found)


@router.post("/jobs/{job_id}/retry-failed", status_code=202, response_model=StartedResponse)
async def retry_failed(jay: Jay, who: Who, job_id: JobId) -> StartedResponse:
    """Crawl the addresses that failed, were denied or were cut again, as a new job."""
    job = await jay.reports.retry_job(who, job_id)
    return StartedResponse(job_id=job.id, status=job.state)


async def _steer(jay: Scrubjay, who: Principal, job_id: str, request: JobRequest, *, force: bool = False) -> JobSummary:
    return job_summary(await jay.jobs.make_request(who, job_id, request, force=force))


@router.post("/jobs/{job_id}/stop", response_model=JobSummary)
async def stop_job(
    jay: Jay,
    who: Who,
    job_id: JobId,
    force: Annotated[bool, Query(description="End it now, even if its worker no longer answers.")] = False,
) -> JobSummary:
    """A running job ends at its next checkpoint; what it has brought stays. Stopping it twice is stopping it once."""
    return await _steer(jay, who, job_id, JobRequest.CANCEL, force=force)


@router.post("/jobs/{job_id}/pause", response_model=JobSummary)
async def pause_job(jay: Jay, who: Who, job_id: JobId) -> JobSummary:
    return await _steer(jay, who, job_id, JobRequest.PAUSE)


@router.post("/jobs/{job_id}/resume", response_model=JobSummary)
async def resume_job(jay: Jay, who: Who, job_id: JobId) -> JobSummary:
    return await _steer(jay, who, job_id, JobRequest.RESUME)


@router.post("/jobs/{job_id}/retry", response_model=JobSummary)
async def retry_job(jay: Jay, who: Who, job_id: JobId) -> JobSummary:
    """Queue a failed or stopped job again; it goes on from its last checkpoint."""
    return await _steer(jay, who, job_id, JobRequest.RETRY)


@router.delete("/jobs/{job_id}", status_code=204)
async def delete_job(jay: Jay, who: Who, job_id: JobId) -> None:
    """Delete a finished job and its log."""
    await jay.jobs.delete(who, job_id)


@router.get("/jobs/{job_id}/events", responses=STREAMED, response_model=EventsResponse)
async def list_events(
    jay: Jay,
    who: Who,
    job_id: JobId,
    after: Offset = 0,
    limit: Limit = 500,
    accept: Accept = "application/json",
    last_event_id: LastEventId = None,
) -> Response:
    """The job's log after an event: what is there now, or as a stream until the job has finished."""
    start = position_of(last_event_id, after) or 0
    if "text/event-stream" in accept:
        return event_stream(await jay.jobs.follow_closely(who, job_id, after=start), OF_JOB)
    events = await jay.jobs.events(who, job_id, after=start, limit=limit)
    return JSONResponse(events_body(events, start))


@router.websocket("/ws/jobs")
async def watch_jobs(socket: WebSocket, jay: SocketJay, who: SocketWho, after: Position = None) -> None:
    """The events of all jobs, one JSON message each, from a position or from now on."""
    await serve_socket(socket, await jay.jobs.follow_all(who, after=after), OF_ALL)


@router.websocket("/ws/jobs/{job_id}")
async def watch_job(socket: WebSocket, jay: SocketJay, who: SocketWho, job_id: JobId, after: Offset = 0) -> None:
    """The job's events, one JSON message each; the socket closes when the job has finished."""
    await serve_socket(socket, await jay.jobs.follow_closely(who, job_id, after=after), OF_JOB)
