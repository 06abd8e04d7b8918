"""Crawls as doors see them: start one, find one to resume, read what it brought, fetch a single page."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from scrubjay.crawler.fetcher import Fetcher, FetchRequest, FetchResponse, next_hop
from scrubjay.crawler.page_store import markdown_of, unpack_details
from scrubjay.crawler.politeness import Manners, Politeness
from scrubjay.crawler.relevance import Relevance
from scrubjay.crawler.robots import Robots
from scrubjay.crawler.web_crawler import DISCOVERY_KIND, WebCrawler, seal_spec
from scrubjay.errors import Conflict, FetchFailed, HostBlocked, InvalidRequest, NotFound
from scrubjay.extract.boilerplate import SiteBoilerplate
from scrubjay.model.crawl_spec import CrawlSpec
from scrubjay.model.crawling import CrawledPage
from scrubjay.model.destination import Destination
from scrubjay.model.discovery import DiscoverySpec
from scrubjay.model.extraction import Extraction, ExtractOptions
from scrubjay.model.job import Job, JobPriority, JobState
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.urls import normalize_url, parse_url
from scrubjay.plans.begin import KIND, OneOffCrawl, RunOptions, begin_crawl, crawl_key
from scrubjay.services.access import require
from scrubjay.services.jobs import JobService
from scrubjay.storage.collections import Collections
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans
from scrubjay.storage.site_memories import SiteMemories


class CrawlService:
    def __init__(self, crawler: WebCrawler, jobs: JobService) -> None:
        self._crawler = crawler
        self._jobs = jobs

    async def start(
        self,
        principal: Principal,
        spec: CrawlSpec,
        *,
        priority: JobPriority = JobPriority.NORMAL,
        destination: Destination | None = None,
        webhook: Mapping[str, Any] | None = None,
        notes: Mapping[str, Any] | None = None,
        max_retries: int | None = None,
    ) -> Job:
        """Run a one-off plan for these addresses, or the plan that owns them.

        With a destination, pages become documents.
        `webhook` is called at the end of this job, as `WebhookService.of_job` describes it. `notes` are shown with
        the job; the crawl does not read them.
        """
        require(principal, Scope.WRITE)
        for number, text in enumerate(spec.start_urls):
            url = parse_url(text, field=f"start_urls.{number}")
            self._crawler.network.guard.check_host(url.host)
        await self._require_open(principal, spec)
        if max_retries is not None and not 0 <= max_retries <= 10:
            raise InvalidRequest("max_retries must be between 0 and 10.", field="max_retries")
        if destination is not None:
            await self._check_destination(principal, destination)
        payload: dict[str, Any] = {} if webhook is None else {"webhook": webhook}
        if notes:
            payload["notes"] = dict(notes)
        options = RunOptions(priority=priority, submitted_by=principal.key_id, max_retries=max_retries, payload=payload)
        order = OneOffCrawl(
            tenant_id=principal.tenant_id,
            crawl=seal_spec(spec, self._crawler.secrets),
            key=_key(principal, spec, destination),
            destination=destination,
            may_join=_may_join(spec),
        )
        try:
            job = await self._begin(order, options)
        except Conflict:  # the same first crawl may have begun at the same moment
            job = await self._begin(order, options)
        await self._jobs.tell()
        return job

    async def _begin(self, order: OneOffCrawl, options: RunOptions) -> Job:
        async with self._crawler.database.writing() as connection:
            return await begin_crawl(connection, order, options)

    async def _require_open(self, principal: Principal, spec: CrawlSpec) -> None:
        """A crawl that could only ask blocked hosts is refused; one of several is left to the crawl to report."""
        politeness = Politeness(self._crawler.cache, self._crawler.database, principal.tenant_id, Manners())
        refusals: list[HostBlocked] = []
        for text in spec.start_urls:
            try:
                await politeness.require_open(parse_url(text).host)
            except HostBlocked as error:
                refusals.append(error)
            else:
                return
        if refusals:
            raise refusals[0]

    async def _check_destination(self, principal: Principal, destination: Destination) -> None:
        if destination.collection_id is not None:
            async with self._crawler.database.reading() as connection:
                await Collections(connection).get(principal.tenant_id, destination.collection_id)

    async def discover(
        self, principal: Principal, spec: DiscoverySpec, *, webhook: Mapping[str, Any] | None = None
    ) -> Job:
        """List a site's addresses from its sitemaps and Common Crawl, as a job."""
        require(principal, Scope.WRITE)
        self._crawler.network.guard.check_host(spec.host)
        payload: dict[str, Any] = {"spec": spec.model_dump(mode="json")}
        if webhook is not None:
            payload["webhook"] = webhook
        return await self._jobs.submit(principal, DISCOVERY_KIND, payload)

    async def site_memory(self, principal: Principal, host: str) -> SiteBoilerplate | None:
        """What the newest crawl of a host learned of its boilerplate."""
        require(principal, Scope.READ)
        async with self._crawler.database.reading() as connection:
            stored = await SiteMemories(connection).newest_of_host(principal.tenant_id, host)
        return None if stored is None else SiteBoilerplate.from_bytes(stored.memory)

    async def find_unfinished(
        self, principal: Principal, spec: CrawlSpec, collection_id: str | None = None
    ) -> Job | None:
        """The last crawl from these start URLs if it is not done: paused, failed, or cut off."""
        require(principal, Scope.READ)
        key = _key(principal, spec, Destination.to(collection_id))
        async with self._crawler.database.reading() as connection:
            plan = await Plans(connection).find_by_crawl_key(principal.tenant_id, key)
            newest = None if plan is None else await Operations(connection).newest(plan.id)
            job = None
            if newest is not None and newest.job_id is not None:
                job = await Jobs(connection).find_by_id(newest.job_id)
        if job is None or job.state is JobState.COMPLETED:
            return None
        return job

    async def pages(self, principal: Principal, job_id: str) -> AsyncIterator[CrawledPage]:
        """What a crawl brought or confirmed, in no particular order."""
        job = await self._jobs.get(principal, job_id)
        if job.kind != KIND:
            raise NotFound(f"Job '{job_id}' is not a crawl.")
        after = ""
        while True:
            # A transaction for each batch: whoever reads may take long over a page.
            async with self._crawler.database.reading() as connection:
                batch = await CrawledPages(connection).of_job(job_id, after=after)
            if not batch:
                return
            for page in batch:
                yield page
            after = batch[-1].url_hash

    async def original(self, page: CrawledPage) -> bytes | None:
        """The body as it was fetched, if the crawl kept originals."""
        if page.body_sha256 is None or not await self._crawler.blobs.exists(page.body_sha256):
            return None
        return await self._crawler.blobs.get(page.body_sha256)

    async def fetch_page(
        self, principal: Principal, spec: CrawlSpec, options: ExtractOptions
    ) -> tuple[FetchResponse, Extraction]:
        """One page, now: its answer and what it says. Redirects are followed, where blocks and robots.txt allow it."""
        require(principal, Scope.WRITE)
        crawler = self._crawler
        politeness = Politeness(crawler.cache, crawler.database, principal.tenant_id, Manners())
        async with AsyncExitStack() as stack:
            fetcher = await stack.enter_async_context(await crawler.open_fetcher(principal.tenant_id, spec))
            response = await self._fetch_allowed(fetcher, politeness, spec)
            if response.status >= 400:
                raise FetchFailed(
                    f"{response.url} answered with HTTP status {response.status}.", error_type="http_error"
                )
            extraction = await crawler.open_extractor(stack, politeness).extract(
                response.body,
                url=response.url,
                content_type=response.content_type,
                status=response.status,
                options=options,
            )
        return response, extraction

    async def _fetch_allowed(self, fetcher: Fetcher, politeness: Politeness, spec: CrawlSpec) -> FetchResponse:
        user_agent = spec.user_agent or self._crawler.settings.crawl_user_agent
        robots = Robots(fetcher, self._crawler.cache, user_agent=user_agent)
        request = FetchRequest(
            url=spec.start_urls[0],
            timeout_seconds=spec.timeout_seconds,
            max_bytes=spec.max_bytes,
            follow_redirects=False,
        )
        visited: list[str] = []
        while True:
            await politeness.require_open(parse_url(request.url).host)
            if spec.respect_robots:
                verdict = await robots.allowed(request.url)
                if not verdict.allowed:
                    raise HostBlocked(verdict.message or "robots.txt does not allow this page.")
            response = await fetcher.fetch(request)
            if not (spec.follow_redirects and response.is_redirect):
                return replace(response, requested_url=spec.start_urls[0], redirects=tuple(visited))
            request = replace(request, url=next_hop(response, visited, spec.max_redirects).text)


def score_urls(
    principal: Principal, urls: Sequence[str], query: str, threshold: float = 0.0
) -> list[tuple[str, float]]:
    """Addresses with how well they suit a query, the best first; those below the threshold are left out."""
    require(principal, Scope.READ)
    relevance = Relevance(query)
    scored = [(url, relevance.score_url(url)) for url in dict.fromkeys(urls)]
    return sorted((each for each in scored if each[1] >= threshold), key=lambda each: (-each[1], each[0]))


# Fields of a spec that change when exact pages are requested, and not what is stored of them.
_SAME_RESULT = frozenset(
    {
        "start_urls", "follow_links", "max_depth", "max_pages", "max_seconds", "max_failed_share", "use_sitemaps",
        "strategy", "mode", "concurrency", "concurrent_hosts", "host_concurrency", "delay_ms", "rate_limit_rps",
        "timeout_seconds", "retries", "extent", "include", "exclude", "keywords", "score_threshold",
    }
)  # fmt: skip


def _key(principal: Principal, spec: CrawlSpec, destination: Destination | None) -> str:
    collection_id = None if destination is None else destination.collection_id
    try:
        return crawl_key(principal.tenant_id, spec.scope_id, spec.start_urls, collection_id)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, field="start_urls") from error


def _may_join(spec: CrawlSpec) -> bool:
    """Whether these are exact pages that any plan would crawl with the same result."""
    if spec.follow_links and spec.max_depth > 0:
        return False
    return spec.model_dump(exclude_defaults=True).keys() <= _SAME_RESULT


def page_record(page: CrawledPage) -> dict[str, Any]:
    """A page as programs read it: spec 001's CrawlResult."""
    details: Mapping[str, Any] = unpack_details(page.details)
    return {
        "url": details.get("fetched_url") or page.url,
        "normalized_url": normalize_url(page.url),
        "success": page.error_type is None,
        "status_code": page.status,
        "content_type": page.content_type,
        "title": page.title,
        "markdown": markdown_of(page) or None,
        "metadata": details.get("metadata") or {},
        "fields": details.get("fields"),
        "links": list(dict.fromkeys(link[0] for link in details.get("links", ()))),
        "headers": details.get("headers") or {},
        "extraction_method": page.method,
        "error": page.error,
        "error_type": page.error_type,
        "depth": page.depth,
        "parent_url": page.parent_url,
        "content_sha256": page.content_sha256,
        "duplicate": page.duplicate_of is not None,
        "etag": page.etag,
        "last_modified": page.last_modified,
        "size_bytes": page.size_bytes,
        "crawled_at": page.fetched_at.isoformat(),
        "changed_at": page.changed_at.isoformat(),
        "duration_ms": page.duration_ms,
    }
