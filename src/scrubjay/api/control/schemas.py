"""Wire shapes of the control door: snake_case, ids in our own spelling."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Query
from pydantic import BaseModel, Field, StrictBool, StringConstraints

from scrubjay.api.deps import identifier
from scrubjay.api.rag.crawls import ReportItemResponse, ToldRequest
from scrubjay.api.rag.documents import TagName
from scrubjay.api.rag.ids import CollectionRef
from scrubjay.api.rag.schemas import RequestModel
from scrubjay.model.crawl_spec import CrawlMode
from scrubjay.model.job import FINISHED_STATES, Job, JobEvent, JobPriority, JobState, LoggedEvent
from scrubjay.plans.report import ReportItem
from scrubjay.queue.live import Told
from scrubjay.services.control import MAX_SITES, JobDetails, SiteOrder
from scrubjay.services.reports import RunItems

JobId = Annotated[str, Depends(identifier("job", "job", "job_id"))]
Site = Annotated[str, StringConstraints(min_length=1, max_length=2048)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]
Position = Annotated[int | None, Query(ge=0, le=2**63 - 1)]
Extraction = Literal["markdown", "structured", "raw", "browser", "trafilatura", "crawl4ai", "llm"]

MAX_METADATA = 50


class StartJobRequest(ToldRequest):
    domains: list[Site] = Field(
        default_factory=list, max_length=MAX_SITES, description="Sites: host names, or addresses to start at."
    )
    urls: list[Site] = Field(default_factory=list, max_length=MAX_SITES, description="Exactly these pages, instead.")
    mode: CrawlMode = CrawlMode.CONCURRENT
    priority: Literal["high", "normal", "low"] = "normal"
    metadata: dict[str, Any] = Field(default_factory=dict, max_length=MAX_METADATA, description="Kept with the job.")
    max_articles_per_site: int = Field(25, strict=True, ge=1, le=100_000)
    concurrent_sites: int = Field(3, strict=True, ge=1, le=100)
    max_depth: int = Field(3, strict=True, ge=0, le=100)
    extraction: Extraction = "markdown"
    timeout: float = Field(30.0, ge=1, le=600, description="Seconds that one page may take.")
    user_agent: str | None = Field(None, min_length=1, max_length=500)
    dry_run: StrictBool = Field(False, description="Crawl and extract, and keep no documents.")
    collection_id: CollectionRef | None = None
    tags: list[TagName] = Field(default_factory=list, max_length=100)

    def order(self, webhook: Mapping[str, Any] | None) -> SiteOrder:
        values = self.model_dump(exclude={*ToldRequest.model_fields, "priority", "timeout"})
        priority = JobPriority[self.priority.upper()]
        return SiteOrder(**values, priority=priority, timeout_seconds=self.timeout, webhook=webhook)


class StartedResponse(BaseModel):
    job_id: str
    status: JobState


class JobSummary(BaseModel):
    job_id: str
    kind: str
    status: JobState
    requested: str | None = Field(description="What is asked of a running job; it obeys at its next checkpoint.")
    mode: str | None
    priority: str
    dry_run: bool
    metadata: dict[str, Any]
    targets: list[str] = Field(description="Where it starts; at most the first 20.")
    progress: dict[str, Any]
    throughput: float = Field(description="Pages in a second, lately.")
    error: str | None
    submitted_by: str | None
    submitted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    event_count: int


class HostBreakdown(BaseModel):
    domain: str
    pages: int
    failed: int
    bytes: int


class LogLine(BaseModel):
    at: datetime
    level: str
    message: str


class JobDetail(JobSummary):
    hosts: list[HostBreakdown] = Field(description="What was done at each host, the busiest first.")
    errors: dict[str, int] = Field(description="How often each kind of error came up, the most frequent first.")
    documents: dict[str, int] | None
    log: list[LogLine]
    retry_count: int
    result: dict[str, Any] | None


class ReportResponse(BaseModel):
    job_id: str
    operation_id: str
    complete: bool
    counts: dict[str, int]
    reasons: dict[str, int]
    limits: dict[str, int]
    problems: list[str]
    warnings: int
    items: list[ReportItemResponse]
    total: int


def report_response(job_id: str, found: RunItems) -> ReportResponse:
    return ReportResponse(
        job_id=job_id,
        operation_id=found.operation.id,
        items=[ReportItemResponse(**item.record()) for item in found.items],
        total=found.total,
        **found.report.dump(),
    )


async def json_lines(items: AsyncIterator[ReportItem]) -> AsyncIterator[str]:
    async for item in items:
        yield json.dumps(item.record(), ensure_ascii=False) + "\n"


class JobsResponse(BaseModel):
    jobs: list[JobSummary]
    total: int


class EventResponse(BaseModel):
    sequence: int
    job_id: str
    type: str
    at: datetime
    payload: dict[str, Any]


class EventsResponse(BaseModel):
    events: list[EventResponse]
    next_after: int = Field(description="Give this as `after` to go on.")


def _notes(job: Job) -> Mapping[str, Any]:
    notes: Mapping[str, Any] = job.payload.get("notes") or {}
    return notes


def job_summary(job: Job) -> JobSummary:
    spec: Mapping[str, Any] = job.payload.get("spec") or {}
    is_running = job.state is JobState.RUNNING
    return JobSummary(
        job_id=job.id,
        kind=job.kind,
        status=job.state,
        requested=None if job.requested is None else str(job.requested),
        mode=str(spec.get("mode") or CrawlMode.CONCURRENT) if spec else None,
        priority=job.priority.label,
        dry_run=bool(_notes(job).get("dry_run")),
        metadata=dict(_notes(job).get("metadata") or {}),
        targets=list(spec.get("start_urls") or ())[:20],
        progress=dict(job.progress),
        throughput=float(job.progress.get("pages_per_second") or 0.0) if is_running else 0.0,
        error=job.error,
        submitted_by=job.submitted_by,
        submitted_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        event_count=job.event_count,
    )


def job_detail(details: JobDetails) -> JobDetail:
    job = details.job
    facts: Mapping[str, Any] = {**job.progress, **(job.result or {})}
    hosts = sorted(details.hosts.items(), key=lambda entry: -entry[1].get("pages", 0))
    errors = sorted((facts.get("errors") or {}).items(), key=lambda entry: -entry[1])
    return JobDetail(
        **job_summary(job).model_dump(),
        hosts=[
            HostBreakdown(domain=host, **{name: numbers.get(name, 0) for name in ("pages", "failed", "bytes")})
            for host, numbers in hosts
        ],
        errors=dict(errors),
        documents=facts.get("documents"),
        log=[
            LogLine(at=event.at, level=event.payload.get("level", "info"), message=event.payload.get("message", ""))
            for event in details.lines
        ],
        retry_count=job.retry_count,
        result=None if job.result is None else dict(job.result),
    )


_ENDS = frozenset(f"job.{state}" for state in FINISHED_STATES)


def event_type(event: JobEvent) -> str:
    """However a job ends, this door calls it by one name; the payload says how."""
    return "job.complete" if event.type in _ENDS else event.type


def event_body(event: JobEvent, sequence: int) -> dict[str, Any]:
    payload = dict(event.payload)
    if event.type in _ENDS:
        payload["status"] = event.type.removeprefix("job.")
    return {
        "sequence": sequence,
        "job_id": event.job_id,
        "type": event_type(event),
        "at": event.at.isoformat(),
        "payload": payload,
    }


def event_of_job(told: Told) -> dict[str, Any]:
    return event_body(told.event, told.position)


def event_of_all(told: Told) -> dict[str, Any]:
    """`sequence` counts in the log of all jobs; the number within the job is there too."""
    return {**event_body(told.event, told.position), "job_sequence": told.event.sequence}


def events_body(events: Sequence[JobEvent], after: int) -> dict[str, Any]:
    """An `EventsResponse`, with each event exactly as the streams write it."""
    last = events[-1].sequence if events else after
    return {"events": [event_body(event, event.sequence) for event in events], "next_after": last}


def all_events_body(events: Sequence[LoggedEvent], position: int) -> dict[str, Any]:
    return {"events": [event_body(logged.event, logged.id) for logged in events], "next_after": position}


class CompatRequest(RequestModel):
    """How scripts called the production crawler before: positional and named arguments."""

    args: list[Any] = Field(default_factory=list, max_length=10)
    kwargs: dict[str, Any] = Field(default_factory=dict, max_length=50)


class CompatSites(RequestModel):
    domains: list[Site] = Field(min_length=1, max_length=MAX_SITES)
    max_articles_per_site: int = Field(25, ge=1, le=100_000)
    concurrent_sites: int = Field(3, ge=1, le=100)


class CrawlCommand(RequestModel):
    domains: str = Field(min_length=1, max_length=20_000, description="'all', 'sources N', or sites with commas.")
    max_sites: int = Field(MAX_SITES, ge=1, le=MAX_SITES)
    max_articles_per_site: int = Field(25, ge=1, le=100_000)
    concurrent_sites: int = Field(3, ge=1, le=100)
    strategy: Literal[
        "auto", "generic", "ultra_fast", "ai_enhanced", "markdown", "trafilatura", "browser", "crawl4ai", "llm"
    ] = "auto"
    enable_ai: StrictBool = False
    timeout: float = Field(30.0, ge=1, le=600)
    user_agent: str | None = Field(None, min_length=1, max_length=500)
    mode: CrawlMode = CrawlMode.CONCURRENT

    @property
    def extraction(self) -> str:
        if self.enable_ai or self.strategy == "ai_enhanced":
            return "crawl4ai"
        return "markdown" if self.strategy in ("auto", "generic", "ultra_fast") else self.strategy


class AcceptedResponse(BaseModel):
    status: Literal["accepted"] = "accepted"
    job_id: str


class CommandResponse(AcceptedResponse):
    domains: list[str]


class LegacyStatus(BaseModel):
    """What the scripts before Scrubjay ask for: the result once there is one, or why there is none."""

    status: JobState
    result: dict[str, Any] | None = None
    error: str | None = None


class StoppedResponse(BaseModel):
    job_id: str
    status: JobState
    message: str


class ClearedJobsResponse(BaseModel):
    status: Literal["success"] = "success"
    cleared: int
    cleared_jobs: list[str]
