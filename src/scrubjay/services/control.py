"""Crawls of many sites at once, as those order and watch them who steer hundreds (specification 003)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scrubjay.errors import InvalidRequest
from scrubjay.model.crawl_spec import CrawlMode, Extent, read_spec
from scrubjay.model.destination import Destination
from scrubjay.model.ids import new_id
from scrubjay.model.job import Job, JobEvent, JobPriority
from scrubjay.model.plan import Plan, RepositoryType
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.urls import parse_url
from scrubjay.services.access import require
from scrubjay.services.collections import clean_tag
from scrubjay.services.crawls import CrawlService
from scrubjay.services.jobs import JobService
from scrubjay.services.plans import PlanService

MAX_SITES = 1000
PLANS_AT_ONCE = 1000
_SOME_SOURCES = re.compile(r"sources\s+(\d{1,6})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOrder:
    """What to crawl: whole sites, each up to so many pages, or exactly these addresses."""

    domains: Sequence[str] = ()
    urls: Sequence[str] = ()
    mode: CrawlMode = CrawlMode.CONCURRENT
    priority: JobPriority = JobPriority.NORMAL
    max_articles_per_site: int = 25
    concurrent_sites: int = 3
    max_depth: int = 3
    extraction: str = "markdown"
    timeout_seconds: float = 30.0
    user_agent: str | None = None
    dry_run: bool = False  # crawl and extract, and keep no documents
    collection_id: str | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    webhook: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class JobDetails:
    job: Job
    hosts: Mapping[str, Mapping[str, int]]
    lines: Sequence[JobEvent]


class ControlService:
    def __init__(self, crawls: CrawlService, jobs: JobService, plans: PlanService) -> None:
        self._crawls = crawls
        self._jobs = jobs
        self._plans = plans

    async def start(self, principal: Principal, order: SiteOrder) -> Job:
        require(principal, Scope.WRITE)
        if bool(order.domains) == bool(order.urls):
            raise InvalidRequest("Give either domains or urls.", field="domains")
        values: dict[str, Any] = {
            "mode": order.mode,
            "extraction": order.extraction,
            "timeout_seconds": order.timeout_seconds,
            "user_agent": order.user_agent,
            "use_sitemaps": False,
            "concurrent_hosts": 1 if order.mode is CrawlMode.SEQUENTIAL else order.concurrent_sites,
        }
        values |= _whole_sites(order) if order.domains else _exact_pages(order)
        if order.dry_run:
            values["scope_id"] = new_id("dry")  # what it learns is not to be taken for known by a crawl that counts
        destination = None
        if not order.dry_run:
            destination = Destination.to(order.collection_id, [clean_tag(tag) for tag in order.tags])
        notes = {"metadata": dict(order.metadata), "dry_run": order.dry_run}
        return await self._crawls.start(
            principal,
            read_spec(values),
            priority=order.priority,
            destination=destination,
            webhook=order.webhook,
            notes=notes,
        )

    async def details(self, principal: Principal, job_id: str, *, lines: int = 20) -> JobDetails:
        """A job with what it has done at each host, and what it logged last."""
        job = await self._jobs.get(principal, job_id)
        known: Mapping[str, Any] = (job.checkpoint or {}).get("tally") or {}
        hosts = (job.result or {}).get("hosts") or known.get("hosts") or job.progress.get("hosts") or {}
        return JobDetails(job, hosts, await self._jobs.last_lines(principal, job_id, lines))

    async def find_sites(self, principal: Principal, which: str, limit: int = MAX_SITES) -> list[str]:
        """The sites that a command names: `all`, `sources N` (the N oldest plans), or a list with commas."""
        require(principal, Scope.WRITE)
        text = which.strip()
        match = _SOME_SOURCES.fullmatch(text)
        if text.lower() == "all" or match is not None:
            most = min(limit, int(match.group(1)) if match else MAX_SITES)
            sites = await self._planned_sites(principal, most)
            if not sites:
                raise InvalidRequest("domains: there is no plan for a web site yet.", field="domains")
            return sites
        sites = [part.strip() for part in text.split(",") if part.strip()]
        if not sites:
            raise InvalidRequest("domains: name sites, 'all' or 'sources N'.", field="domains")
        return sites[:limit]

    async def _planned_sites(self, principal: Principal, most: int) -> list[str]:
        found: dict[str, None] = {}
        offset = 0
        while True:
            page = await self._plans.page(principal, limit=PLANS_AT_ONCE, offset=offset, newest_first=False)
            for plan in page.items:
                for url in _start_urls(plan):
                    if len(found) < most:
                        found.setdefault(url)
            offset += PLANS_AT_ONCE
            if not page.has_more or len(found) >= most:
                return list(found)


def _whole_sites(order: SiteOrder) -> dict[str, Any]:
    starts = [
        parse_url(domain if "://" in domain else f"https://{domain}", field=f"domains.{number}").text
        for number, domain in enumerate(order.domains)
    ]
    starts = list(dict.fromkeys(starts))
    return {
        "start_urls": starts,
        "extent": Extent.HOST,
        "max_depth": order.max_depth,
        "max_pages": order.max_articles_per_site * len(starts),
        "max_pages_per_host": order.max_articles_per_site,
    }


def _exact_pages(order: SiteOrder) -> dict[str, Any]:
    urls = [parse_url(url, field=f"urls.{number}").text for number, url in enumerate(order.urls)]
    urls = list(dict.fromkeys(urls))
    return {"start_urls": urls, "follow_links": False, "max_depth": 0, "max_pages": len(urls)}


def _start_urls(plan: Plan) -> list[str]:
    if plan.repository_type != RepositoryType.WEB or not plan.is_active:
        return []
    start = plan.repository_settings.get("start_url")
    return [start] if isinstance(start, str) and start else []
