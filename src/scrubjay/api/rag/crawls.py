"""Crawls and discoveries over `/api/v1`: start, look, follow live, pause, resume, cancel."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, WebSocket
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints

from scrubjay.api.deps import Jay, SocketJay, SocketWho, Who
from scrubjay.api.rag.documents import TagName
from scrubjay.api.rag.ids import CollectionRef, ConfigRef, JobId, ProxyRef, maybe_wire, wire
from scrubjay.api.rag.schemas import JobStartedResponse, Limit, Offset, RequestModel
from scrubjay.api.streams import (
    SERVER_SENT_EVENT,
    Dialect,
    EventStream,
    LastEventId,
    event_stream,
    position_of,
    serve_socket,
)
from scrubjay.app import Scrubjay
from scrubjay.errors import HostBlocked, InvalidRequest, NotFound, UrlBlocked
from scrubjay.model.crawl_limits import HeaderName, HeaderValue
from scrubjay.model.crawl_spec import CrawlMode, CrawlStrategy, Extent, read_spec
from scrubjay.model.destination import Destination
from scrubjay.model.discovery import read_discovery_spec
from scrubjay.model.job import Job, JobPriority, JobRequest, JobState
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.urls import host_of, registrable_domain
from scrubjay.plans.report import ItemOutcome
from scrubjay.queue.live import Told
from scrubjay.services.access import require
from scrubjay.services.collections import clean_tag
from scrubjay.services.crawls import score_urls
from scrubjay.services.reports import problem_outcomes
from scrubjay.sources.web_config import chunking_of_config

router = APIRouter()

MAX_BATCH = 100
MAX_PAGES = 1000
MAX_SCORED = 10_000
SHOWN_FAILURES = 100
EVERY_OUTCOME: list[ItemOutcome] = []
CRAWL_KIND, DISCOVERY_KIND = "crawl", "discovery"

Address = Annotated[str, StringConstraints(min_length=1, max_length=2048)]
Keyword = Annotated[str, StringConstraints(min_length=1, max_length=100)]
PriorityName = Annotated[str, Field(pattern="^(high|normal|low)$")]


class ToldRequest(RequestModel):
    """Whom the end of a job is told, besides those who listen to all of them."""

    webhook_url: Address | None = Field(None, description="Told once the job has completed or failed.")
    webhook_headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict, max_length=50)
    webhook_secret: str | None = Field(
        None, min_length=1, max_length=500, repr=False, description="Signs what is sent; without it nothing is signed."
    )


def _webhook(jay: Scrubjay, who: Principal, body: ToldRequest) -> Mapping[str, Any] | None:
    return jay.webhooks.of_job(who, body.webhook_url, body.webhook_headers, body.webhook_secret)


class CrawlTarget(ToldRequest):
    """Where the pages of a crawl go, and how it behaves."""

    config_id: ConfigRef | None = Field(None, description="Default: the built-in config.")
    collection_id: CollectionRef | None = None
    tags: list[TagName] = Field(default_factory=list, max_length=100)
    priority: PriorityName = "normal"
    proxy_id: ProxyRef | None = None
    mode: CrawlMode = Field(CrawlMode.CONCURRENT, description="sequential: one page at a time, in the exact order.")
    max_retries: int | None = Field(None, ge=0, le=10, description="Of the job. Default: 3.")
    max_failed_share: float = Field(0.5, ge=0, le=1, description="The crawl fails if a larger share of pages fails.")


class CrawlRequest(CrawlTarget):
    url: Address


class BatchCrawlRequest(CrawlTarget):
    urls: list[Address] = Field(min_length=1, max_length=MAX_BATCH)


class DeepCrawlRequest(CrawlTarget):
    url: Address
    strategy: CrawlStrategy = CrawlStrategy.BFS
    max_depth: int = Field(3, ge=0, le=100)
    max_pages: int = Field(100, ge=1, le=MAX_PAGES)
    score_threshold: float = Field(0.0, ge=0, le=1)
    keywords: list[Keyword] = Field(default_factory=list, max_length=100)
    extent: Extent = Extent.HOST
    include: list[str] = Field(default_factory=list, max_length=100)
    exclude: list[str] = Field(default_factory=list, max_length=100)


class RefusedResponse(BaseModel):
    """An address of a batch that cannot be crawled."""

    job_id: None = None
    status: Literal["failed"] = "failed"
    message: str


class CrawlsResponse(BaseModel):
    jobs: list[JobStartedResponse | RefusedResponse]
    total_submitted: int
    failed_count: int


class ReportItemResponse(BaseModel):
    """One address of a crawl, what became of it, and what to do about it."""

    key: str
    outcome: ItemOutcome
    reason: str | None
    message: str | None
    next_step: str | None
    http_status: int | None
    attempts: int
    document_id: str | None


class FailedItem(ReportItemResponse):
    """An address that a crawl could not take in, and what to do about it."""

    key: str = Field(serialization_alias="url", title="Url")
    document_id: Annotated[str | None, BeforeValidator(maybe_wire)]


class CrawlReportResponse(BaseModel):
    """What became of every address of a crawl."""

    job_id: str
    operation_id: str
    plan_id: str
    complete: bool = Field(description="Whether the crawl saw everything that it was asked for.")
    counts: dict[str, int] = Field(description="Number of items by outcome.")
    reasons: dict[str, int] = Field(description="Number of items that were not taken in, by reason.")
    limits: dict[str, int] = Field(description="Limits that cut the crawl, and how often.")
    problems: list[str] = Field(description="Why the crawl is not complete.")
    items: list[FailedItem]
    total: int
    limit: int
    offset: int
    has_more: bool


class CrawlResponse(BaseModel):
    id: str
    job_id: str
    status: JobState
    url: str | None
    domain: str | None
    document_id: str | None = Field(None, description="Of a crawl of one page.")
    retry_count: int
    max_retries: int
    failed_items: list[FailedItem] = Field(default_factory=list, description="The first 100; the report has all.")
    urls: list[str]
    strategy: str
    max_depth: int
    max_pages: int
    collection_id: str | None
    priority: str
    pages_discovered: int
    pages_crawled: int
    pages_failed: int
    current_depth: int
    documents: dict[str, int] | None = Field(description="How many documents were added, changed, unchanged, removed.")
    progress: dict[str, Any]
    result: dict[str, Any] | None
    error: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None


class DiscoverRequest(ToldRequest):
    domain: str = Field(min_length=1, max_length=300)
    sources: list[str] = Field(default_factory=lambda: ["sitemap"], min_length=1, max_length=10)
    pattern: str | None = Field(None, min_length=1, max_length=1000)
    max_urls: int = Field(500, ge=1, le=10_000)
    score_query: str | None = Field(None, min_length=1, max_length=500)
    score_threshold: float = Field(0.0, ge=0, le=1)


class DiscoveryResponse(BaseModel):
    job_id: str
    status: JobState
    domain: str
    urls_found: int
    urls: list[dict[str, Any]] | None
    problems: list[dict[str, Any]] | None
    error: str | None
    created_at: datetime
    completed_at: datetime | None


class ScoreRequest(RequestModel):
    urls: list[Address] = Field(min_length=1, max_length=MAX_SCORED)
    query: str = Field(min_length=1, max_length=500)
    threshold: float = Field(0.0, ge=0, le=1)


class ScoredUrl(BaseModel):
    url: str
    score: float


class ScoresResponse(BaseModel):
    urls: list[ScoredUrl]


async def _start(jay: Scrubjay, who: Principal, target: CrawlTarget, urls: Sequence[str], **asked: Any) -> Job:
    config = await jay.crawl_settings.config(who, target.config_id)
    if target.proxy_id is not None:
        await jay.crawl_settings.proxy(who, target.proxy_id)
    asked |= {"mode": target.mode, "max_failed_share": target.max_failed_share, "proxy_id": target.proxy_id}
    spec = read_spec(jay.crawl_settings.spec_of(config, start_urls=list(urls), **asked))
    chunking = chunking_of_config(config).model_dump(mode="json", exclude_defaults=True)
    destination = Destination.to(target.collection_id, [clean_tag(tag) for tag in target.tags], chunking)
    priority = JobPriority[target.priority.upper()]
    webhook = _webhook(jay, who, target)
    return await jay.crawls.start(
        who, spec, priority=priority, destination=destination, webhook=webhook, max_retries=target.max_retries
    )


def _one_page(url: str) -> Mapping[str, Any]:
    return {"urls": [url], "max_pages": MAX_PAGES, "use_sitemaps": False}


@router.post("/crawl", tags=["crawl"], response_model=CrawlsResponse)
async def crawl(jay: Jay, who: Who, body: CrawlRequest) -> CrawlsResponse:
    """Crawl one address as a job: the page alone, or as deep as the config says."""
    job = await _start(jay, who, body, **_one_page(body.url))
    started = JobStartedResponse(job_id=wire(job.id), status=job.state)
    return CrawlsResponse(jobs=[started], total_submitted=1, failed_count=0)


@router.post("/crawl/batch", tags=["crawl"], response_model=CrawlsResponse)
async def crawl_batch(jay: Jay, who: Who, body: BatchCrawlRequest) -> CrawlsResponse:
    """Crawl up to 100 addresses, each as a job. An address that cannot be crawled does not keep the others back."""
    _webhook(jay, who, body)  # one that cannot be told is wrong for all of them
    jobs: list[JobStartedResponse | RefusedResponse] = []
    for url in body.urls:
        try:
            job = await _start(jay, who, body, **_one_page(url))
        except (InvalidRequest, UrlBlocked, HostBlocked) as error:
            jobs.append(RefusedResponse(message=f"{url[:200]}: {error.message}"))
        else:
            jobs.append(JobStartedResponse(job_id=wire(job.id), status=job.state))
    failed = sum(isinstance(each, RefusedResponse) for each in jobs)
    return CrawlsResponse(jobs=jobs, total_submitted=len(jobs) - failed, failed_count=failed)


@router.post("/crawl/deep", tags=["crawl"], response_model=JobStartedResponse)
async def crawl_deep(jay: Jay, who: Who, body: DeepCrawlRequest) -> JobStartedResponse:
    """Follow a site's links breadth first, depth first, or the most relevant first."""
    job = await _start(
        jay,
        who,
        body,
        urls=[body.url],
        **body.model_dump(exclude={"url", *CrawlTarget.model_fields}),
    )
    return JobStartedResponse(job_id=wire(job.id), status=job.state)


async def _job_of(jay: Scrubjay, who: Principal, job_id: str, *kinds: str) -> Job:
    job = await jay.jobs.get(who, job_id)
    if job.kind not in kinds:
        raise NotFound(f"Job '{job_id}' is no {kinds[0]}.")
    return job


def crawl_response(job: Job) -> CrawlResponse:
    spec: Mapping[str, Any] = job.payload.get("spec") or {}
    facts: Mapping[str, Any] = {**job.progress, **(job.result or {})}
    urls = list(job.payload.get("urls") or spec.get("start_urls") or ())
    return CrawlResponse(
        id=wire(job.id),
        job_id=wire(job.id),
        status=job.state,
        url=urls[0] if urls else None,
        domain=registrable_domain(host_of(urls[0])) if urls else None,
        retry_count=job.retry_count,
        max_retries=job.max_retries,
        urls=urls,
        strategy=str(spec.get("strategy") or CrawlStrategy.BFS),
        max_depth=int(spec.get("max_depth", 10)),
        max_pages=int(spec.get("max_pages", 1000)),
        collection_id=maybe_wire(job.payload.get("collection_id")),
        priority=job.priority.label,
        pages_discovered=int(facts.get("discovered") or 0),
        pages_crawled=int(facts.get("pages") or 0),
        pages_failed=int(facts.get("failed") or 0),
        current_depth=int(facts.get("depth") or 0),
        documents=facts.get("documents"),
        progress=dict(job.progress),
        result=None if job.result is None else dict(job.result),
        error=job.error,
        created_at=job.created_at,
        started_at=job.started_at,
        completed_at=job.finished_at,
    )


@router.get("/crawl/{job_id}", tags=["crawl"], response_model=CrawlResponse)
async def get_crawl(jay: Jay, who: Who, job_id: JobId) -> CrawlResponse:
    """State, counts and the first failed items of a crawl."""
    answer = crawl_response(await _job_of(jay, who, job_id, CRAWL_KIND))
    try:
        failed = await jay.reports.of_job(who, job_id, outcomes=problem_outcomes(), limit=SHOWN_FAILURES)
        answer.failed_items = [FailedItem(**item.record()) for item in failed.items]
        if len(answer.urls) == 1:
            answer.document_id = await jay.reports.document_of(failed.operation, answer.urls[0])
    except NotFound:
        return answer  # retention has removed the report
    return answer


Outcomes = Annotated[list[ItemOutcome], Query(description="Only items of these outcomes. Default: all.")]


@router.get("/crawl/{job_id}/report", tags=["crawl"], response_model=CrawlReportResponse)
async def get_crawl_report(
    jay: Jay, who: Who, job_id: JobId, outcome: Outcomes = EVERY_OUTCOME, limit: Limit = 100, offset: Offset = 0
) -> CrawlReportResponse:
    """What became of every address, problems first. Unchanged pages are counted and not listed."""
    await _job_of(jay, who, job_id, CRAWL_KIND)
    found = await jay.reports.of_job(who, job_id, outcomes=outcome, limit=limit, offset=offset)
    report = found.report.dump()
    return CrawlReportResponse(
        job_id=wire(job_id),
        operation_id=found.operation.id,
        plan_id=found.operation.plan_id,
        items=[FailedItem(**item.record()) for item in found.items],
        total=found.total,
        limit=limit,
        offset=offset,
        has_more=found.has_more,
        **{name: report[name] for name in ("complete", "counts", "reasons", "limits", "problems")},
    )


@router.post("/crawl/{job_id}/retry-failed", tags=["crawl"], response_model=JobStartedResponse)
async def retry_failed(jay: Jay, who: Who, job_id: JobId) -> JobStartedResponse:
    """Crawl the addresses that failed, were denied or were cut again, as a new job."""
    job = await jay.reports.retry_job(who, job_id)
    return JobStartedResponse(job_id=wire(job.id), status=job.state)


async def _steer(jay: Scrubjay, who: Principal, job_id: str, request: JobRequest) -> CrawlResponse:
    require(who, Scope.WRITE)
    await _job_of(jay, who, job_id, CRAWL_KIND)
    return crawl_response(await jay.jobs.make_request(who, job_id, request))


@router.post("/crawl/{job_id}/cancel", tags=["crawl"], response_model=CrawlResponse)
async def cancel_crawl(jay: Jay, who: Who, job_id: JobId) -> CrawlResponse:
    """A running crawl obeys at its next checkpoint; what it has brought stays."""
    return await _steer(jay, who, job_id, JobRequest.CANCEL)


@router.post("/crawl/{job_id}/pause", tags=["crawl"], response_model=CrawlResponse)
async def pause_crawl(jay: Jay, who: Who, job_id: JobId) -> CrawlResponse:
    return await _steer(jay, who, job_id, JobRequest.PAUSE)


@router.post("/crawl/{job_id}/resume", tags=["crawl"], response_model=CrawlResponse)
async def resume_crawl(jay: Jay, who: Who, job_id: JobId) -> CrawlResponse:
    return await _steer(jay, who, job_id, JobRequest.RESUME)


def _event(told: Told) -> dict[str, Any]:
    event = told.event
    return {"sequence": event.sequence, "type": event.type, "at": event.at.isoformat(), "payload": dict(event.payload)}


EVENTS = Dialect(name=lambda told: told.event.type, body=_event)


@router.get(
    "/crawl/{job_id}/stream",
    tags=["crawl"],
    response_class=EventStream,
    responses={200: {"description": "One event after the other", "content": {"text/event-stream": SERVER_SENT_EVENT}}},
)
async def stream_crawl(
    jay: Jay, who: Who, job_id: JobId, after: Offset = 0, last_event_id: LastEventId = None
) -> EventStream:
    """The crawl's events as they happen (SSE); `Last-Event-ID` or `after` goes on where somebody left off."""
    await _job_of(jay, who, job_id, CRAWL_KIND)
    start = position_of(last_event_id, after) or 0
    return event_stream(await jay.jobs.follow_closely(who, job_id, after=start), EVENTS)


@router.websocket("/ws/crawl/{job_id}")
async def follow_crawl(socket: WebSocket, jay: SocketJay, who: SocketWho, job_id: JobId, after: Offset = 0) -> None:
    """The crawl's events as they happen, one JSON message each; the socket closes when the crawl has finished."""
    await _job_of(jay, who, job_id, CRAWL_KIND)
    await serve_socket(socket, await jay.jobs.follow_closely(who, job_id, after=after), EVENTS)


@router.post("/discover", tags=["discovery"], status_code=200, response_model=JobStartedResponse)
async def discover(jay: Jay, who: Who, body: DiscoverRequest) -> JobStartedResponse:
    """List a site's addresses from its sitemaps and Common Crawl, as a job."""
    values = body.model_dump(exclude_none=True, exclude=set(ToldRequest.model_fields))
    job = await jay.crawls.discover(who, read_discovery_spec(values), webhook=_webhook(jay, who, body))
    return JobStartedResponse(job_id=wire(job.id), status=job.state)


@router.post("/discover/score", tags=["discovery"], response_model=ScoresResponse)
async def score(jay: Jay, who: Who, body: ScoreRequest) -> ScoresResponse:
    """How well addresses suit a query, judged by the addresses alone; the best first."""
    scored = score_urls(who, body.urls, body.query, body.threshold)
    return ScoresResponse(urls=[ScoredUrl(url=url, score=points) for url, points in scored])


@router.get("/discover/{job_id}", tags=["discovery"], response_model=DiscoveryResponse)
async def get_discovery(jay: Jay, who: Who, job_id: JobId) -> DiscoveryResponse:
    job = await _job_of(jay, who, job_id, DISCOVERY_KIND)
    result: Mapping[str, Any] = job.result or {}
    return DiscoveryResponse(
        job_id=wire(job.id),
        status=job.state,
        domain=str((job.payload.get("spec") or {}).get("domain", "")),
        urls_found=int(result.get("urls_found") or 0),
        urls=result.get("urls"),
        problems=result.get("problems"),
        error=job.error,
        created_at=job.created_at,
        completed_at=job.finished_at,
    )
