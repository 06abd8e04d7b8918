"""A web site as the source of a plan: listing it is crawling it, and reading a page is reading what the crawl kept."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.connectors.source import ConnectorType, Tools
from scrubjay.connectors.web import Guide
from scrubjay.connectors.web_config import describe_config, secret_name, spec_of_plan
from scrubjay.connectors.web_store import markdown_of, unpack_details
from scrubjay.crawl.fetcher import FetchRequest
from scrubjay.crawl.frontier import CrawlFrontier
from scrubjay.crawl.polite import PoliteFetcher
from scrubjay.crawl.politeness import Manners, Politeness
from scrubjay.crawl.urls import hash_url, normalize_url, parse_url
from scrubjay.errors import ExtractionFailed, FetchFailed, JobFailedForGood, NotFound, ScrubjayError
from scrubjay.jobs.context import JobContext
from scrubjay.model.crawl_spec import CrawlSpec, CrawlStrategy
from scrubjay.model.crawling import FrontierItem, PageListing
from scrubjay.model.plan import Plan, RepositoryType, WebSettings
from scrubjay.model.source import Connectivity, SourceContent, SourceItem
from scrubjay.storage.configs import CrawlConfigs
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.frontier import Frontier
from scrubjay.storage.ledger import Ledger

CHECK_SECONDS = 15.0
CHECK_BYTES = 64 * 1024
_GONE_STATUSES = frozenset({404, 410})
_GONE_ERRORS = frozenset({"noindex", "soft_404"})


@dataclass(slots=True)
class WebSource:
    plan: Plan
    tools: Tools
    problems: list[str] = field(default_factory=list)

    async def check(self) -> Connectivity:
        crawler = self.tools.crawler
        try:
            spec = await self._spec()
            politeness = Politeness(crawler.cache, crawler.database, self.plan.tenant_id, Manners())
            await politeness.require_open(parse_url(spec.start_urls[0]).host)
            async with await crawler.open_fetcher(self.plan.tenant_id, spec) as fetcher:
                answer = await PoliteFetcher(fetcher, politeness).fetch(
                    FetchRequest(
                        url=spec.start_urls[0],
                        timeout_seconds=CHECK_SECONDS,
                        max_bytes=CHECK_BYTES,
                        truncate=True,
                        follow_redirects=spec.follow_redirects,
                    )
                )
        except ScrubjayError as error:
            return Connectivity(False, error.message)
        return Connectivity(answer.status < 400, f"{answer.url} answered with HTTP status {answer.status}.")

    async def enumerate(self, context: JobContext, limit: int | None = None) -> AsyncIterator[SourceItem]:
        spec = await self._spec()
        if limit is None:
            async for item in self._crawl(context, spec, self.plan.id, _WholeSite(self.plan, context.job.id)):
                yield item
            return
        scope_id = context.job.id  # a look leaves no trace in what the plan knows
        looking = spec.model_copy(update={"max_pages": limit, "keep_originals": False})
        try:
            async for item in self._crawl(context, looking, scope_id, None):
                yield item
        finally:
            async with self.tools.crawler.database.writing() as connection:
                await CrawledPages(connection).remove_scope(scope_id)

    async def revisit(
        self, context: JobContext, chosen: Sequence[tuple[float, str, str]], budget: int
    ) -> AsyncIterator[SourceItem]:
        """A look at some keys (gain, hash, address), and at what is new behind them, in so many requests."""
        spec = (await self._spec()).model_copy(
            update={"max_pages": budget, "strategy": CrawlStrategy.BEST_FIRST, "use_sitemaps": False}
        )
        async for item in self._crawl(context, spec, self.plan.id, _Revisit(self.plan, chosen)):
            yield item

    async def _crawl(
        self, context: JobContext, spec: CrawlSpec, scope_id: str, guide: Guide | None
    ) -> AsyncIterator[SourceItem]:
        crawler = self.tools.crawler
        summary = await crawler.crawl_site(context, spec, scope_id, guide)
        await self._judge(context, spec, scope_id, summary)
        after = ""
        while True:
            async with crawler.database.reading() as connection:
                pages = await CrawledPages(connection).listing(scope_id, context.job.id, after=after)
            if not pages:
                return
            for page in pages:
                if not _is_gone(page):
                    yield _item(page)
            after = pages[-1].url_hash

    async def _judge(self, context: JobContext, spec: CrawlSpec, scope_id: str, summary: Mapping[str, Any]) -> None:
        """Whether the crawl saw the whole site. A site of which nothing could be read was not seen at all."""
        start = normalize_url(spec.start_urls[0])
        async with self.tools.crawler.database.reading() as connection:
            found = await CrawledPages(connection).by_hashes(scope_id, [hash_url(start)])
        own = [page for page in found if page.job_id == context.job.id and page.error_type is not None]
        fault = f"{start}: {own[0].error or own[0].error_type}" if own else None
        if not summary["pages"]:
            reason = fault or f"{start} led to no page that could be read."
            raise FetchFailed(f"The site could not be read. {reason}", error_type="source_unreadable")
        if fault is not None:
            self.problems.append(f"The start URL could not be read: {fault}")
        if summary["left_in_queue"]:
            self.problems.append(f"{summary['left_in_queue']} known links were left unread.")
        settings = WebSettings.model_validate(self.plan.repository_settings)
        if summary["failed"] and not settings.recheck_missing:
            self.problems.append(f"{summary['failed']} pages could not be read, nor what they may link to.")

    async def read(self, item: SourceItem) -> SourceContent:
        async with self.tools.crawler.database.reading() as connection:
            pages = await CrawledPages(connection).by_hashes(self.plan.id, [item.key_hash])
        if not pages or pages[0].content is None:
            raise FetchFailed(f"{item.key} has no content any more.", error_type="gone")
        page = pages[0]
        details = unpack_details(page.details)
        metadata = dict(details.get("metadata") or {})
        markdown = markdown_of(page)
        if not markdown.strip():
            raise ExtractionFailed(f"{item.key} has no text in it.", error_type="empty_page")
        keeps_original = self.plan.ingestion_settings.store_original
        return SourceContent(
            url=page.url,
            markdown=markdown,
            title=page.title,
            content_type=page.content_type,
            language=metadata.get("language"),
            parent_url=page.parent_url,
            details={**metadata, "extraction_method": page.method},
            size_bytes=page.size_bytes,
            original_sha256=page.body_sha256 if keeps_original else None,
            crawled_at=page.changed_at,
        )

    async def close(self) -> None:
        """Nothing stays open between calls."""

    async def _spec(self) -> CrawlSpec:
        plan, secrets = self.plan, self.tools.crawler.secrets
        settings = WebSettings.model_validate(plan.repository_settings)
        name = secret_name(settings)
        secret = self.tools.unseal(plan, name) if name else None
        config: Mapping[str, Any] = {}
        if settings.crawl_config_id is not None:
            try:
                async with self.tools.crawler.database.reading() as connection:
                    stored = await CrawlConfigs(connection).get(plan.tenant_id, settings.crawl_config_id)
            except NotFound as error:
                raise JobFailedForGood(error.message) from error
            # A config without a depth is for single pages; the plan knows how deep its site goes.
            config = describe_config(stored, secrets, max_depth=stored.max_depth or settings.max_depth)
        return spec_of_plan(settings, secret, config, keep_originals=plan.ingestion_settings.store_original)


def _is_gone(page: PageListing) -> bool:
    """Whether the site says that there is no such page; a fault in between does not say so."""
    return page.error_type is not None and (page.status in _GONE_STATUSES or page.error_type in _GONE_ERRORS)


def _item(page: PageListing) -> SourceItem:
    return SourceItem(
        key=page.url,
        key_hash=page.url_hash,
        content_type=page.content_type,
        content_length=page.size_bytes,
        etag=page.etag,
        sha256=page.body_sha256,
        last_modified_at=_moment(page.last_modified),
        text_sha256=page.content_sha256,
        unreadable=None if page.error_type is None else f"{page.error_type}: {page.error or ''}",
    )


def _moment(text: str | None) -> datetime | None:
    try:
        moment = None if not text else parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(slots=True)
class _WholeSite:
    """Asks for the pages that have documents and that no link led to, before they count as gone."""

    plan: Plan
    job_id: str
    after: str = ""

    async def first(self, connection: AsyncConnection, frontier: CrawlFrontier) -> Sequence[FrontierItem]:
        return ()

    async def admit(self, connection: AsyncConnection, found: Sequence[FrontierItem]) -> Sequence[FrontierItem]:
        return found

    async def last(self, connection: AsyncConnection, frontier: CrawlFrontier) -> Sequence[FrontierItem]:
        if not WebSettings.model_validate(self.plan.repository_settings).recheck_missing:
            return ()
        while True:
            known = await Ledger(connection).unvisited(self.plan.id, self.job_id, after=self.after)
            if not known:
                return ()
            self.after = known[-1][0]
            items = [frontier.known_item(url, 1 if depth is None else depth) for _, url, depth in known]
            chosen = [item for item in items if item is not None]
            if chosen:
                return chosen


@dataclass(slots=True)
class _Revisit:
    """Looks at chosen pages, and at pages behind them that nobody knows yet."""

    plan: Plan
    chosen: Sequence[tuple[float, str, str]]

    async def first(self, connection: AsyncConnection, frontier: CrawlFrontier) -> Sequence[FrontierItem]:
        highest = max((gain for gain, _, _ in self.chosen), default=1.0) or 1.0
        known = await CrawledPages(connection).depths(self.plan.id, [key_hash for _, key_hash, _ in self.chosen])
        items = [
            frontier.known_item(url, known.get(key_hash, 1), score=0.5 + 0.5 * gain / highest)
            for gain, key_hash, url in self.chosen
        ]
        return [item for item in items if item is not None]

    async def admit(self, connection: AsyncConnection, found: Sequence[FrontierItem]) -> Sequence[FrontierItem]:
        if not found:
            return found
        known = await Ledger(connection).by_hashes(self.plan.id, {item.url_hash for item in found})
        return [item for item in found if item.url_hash not in known or item.redirects]

    async def last(self, connection: AsyncConnection, frontier: CrawlFrontier) -> Sequence[FrontierItem]:
        return ()


async def forget_crawl(connection: AsyncConnection, plan_id: str, job_id: str, *, complete: bool) -> None:
    """A run's frontier has served; after a complete one, so have the addresses that were never pages."""
    await Frontier(connection).clear(job_id)
    if complete:
        await CrawledPages(connection).sweep(plan_id, job_id)


WEB = ConnectorType(
    name=RepositoryType.WEB,
    settings=WebSettings,
    secrets=frozenset({"password", "api_key_value", "bearer_token"}),
    required=("start_url",),
    skips_system_files=False,
    open=WebSource,
)
