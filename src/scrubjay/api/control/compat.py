"""What scripts and dashboards called before Scrubjay. They get what they got, from the jobs of today."""

from typing import Any

from fastapi import APIRouter
from pydantic import ValidationError

from scrubjay.api.control.schemas import (
    AcceptedResponse,
    ClearedJobsResponse,
    CommandResponse,
    CompatRequest,
    CompatSites,
    CrawlCommand,
    JobId,
    LegacyStatus,
    StoppedResponse,
)
from scrubjay.api.deps import Jay, Who
from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.job import JobRequest, JobState
from scrubjay.services.control import SiteOrder
from scrubjay.telemetry.crawls import CRAWL_KINDS

router = APIRouter(tags=["compatibility"])


def read_sites(body: CompatRequest) -> CompatSites:
    """`args` may hold the list of sites, and `kwargs` everything by name."""
    values: dict[str, Any] = dict(body.kwargs)
    if body.args:
        values.setdefault("domains", body.args[0])
    try:
        return CompatSites.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "domains"
        raise InvalidRequest(f"{field}: {first['msg']}.", field=field) from error


@router.post("/unified_production_crawl", status_code=202, response_model=AcceptedResponse)
async def unified_production_crawl(jay: Jay, who: Who, body: CompatRequest) -> AcceptedResponse:
    """`{args: [[sites]], kwargs: {max_articles_per_site, concurrent_sites}}`"""
    sites = read_sites(body)
    job = await jay.control.start(who, SiteOrder(**sites.model_dump()))
    return AcceptedResponse(job_id=job.id)


@router.get("/job_status/{job_id}", response_model=LegacyStatus, response_model_exclude_none=True)
async def job_status(jay: Jay, who: Who, job_id: JobId) -> LegacyStatus:
    """The state of a crawl, and its result once it has completed."""
    job = await jay.jobs.get(who, job_id)
    if job.kind not in CRAWL_KINDS:
        raise NotFound(f"Job '{job_id}' is no crawl.")
    if job.state is JobState.COMPLETED:
        return LegacyStatus(status=job.state, result=await jay.articles.legacy_result(who, job))
    return LegacyStatus(status=job.state, error=job.error)


@router.post("/stop_job/{job_id}", response_model=StoppedResponse)
async def stop_job(jay: Jay, who: Who, job_id: JobId) -> StoppedResponse:
    job = await jay.jobs.make_request(who, job_id, JobRequest.CANCEL)
    stopped = job.state is JobState.CANCELLED
    message = "It has stopped." if stopped else "It stops at its next checkpoint."
    return StoppedResponse(job_id=job.id, status=job.state, message=message)


@router.post("/clear_jobs", response_model=ClearedJobsResponse)
async def clear_jobs(jay: Jay, who: Who) -> ClearedJobsResponse:
    """Delete crawls that have finished. What runs, waits or rests is left alone."""
    cleared = await jay.jobs.clear_finished(who, CRAWL_KINDS)
    return ClearedJobsResponse(cleared=len(cleared), cleared_jobs=list(cleared)[:1000])


@router.post("/api/crawl/start", status_code=202, response_model=CommandResponse)
async def start_crawl(jay: Jay, who: Who, body: CrawlCommand) -> CommandResponse:
    """Crawl the sites that a command names: `all`, `sources N`, or a list with commas."""
    sites = await jay.control.find_sites(who, body.domains, body.max_sites)
    order = SiteOrder(
        domains=sites,
        mode=body.mode,
        max_articles_per_site=body.max_articles_per_site,
        concurrent_sites=body.concurrent_sites,
        extraction=body.extraction,
        timeout_seconds=body.timeout,
        user_agent=body.user_agent,
    )
    job = await jay.control.start(who, order)
    return CommandResponse(job_id=job.id, domains=sites)
