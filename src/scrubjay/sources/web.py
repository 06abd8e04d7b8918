"""A web site as the source of a plan: listing it is crawling it, and reading a page is reading what the crawl kept."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.fetcher import FetchRequest
from scrubjay.crawler.frontier import CrawlFrontier
from scrubjay.crawler.page_store import markdown_of, unpack_details
from scrubjay.crawler.polite import PoliteFetcher
from scrubjay.crawler.politeness import Manners, Politeness
from scrubjay.crawler.web_crawler import unseal_spec
from scrubjay.errors import (
    ExtractionFailed,
    FetchFailed,
    InvalidRequest,
    JobFailedForGood,
    NotFound,
    ScrubjayError,
    SecretUnreadable,
)
from scrubjay.model.crawl_spec import CrawlSpec, CrawlStrategy
from scrubjay.model.crawling import CrawledPage, FrontierItem, PageListing
from scrubjay.model.extraction import text_limits
from scrubjay.model.plan import Plan, RepositoryType, WebSettings
from scrubjay.model.source import Connectivity, ItemProblem, SourceContent, SourceItem, reason_of
from scrubjay.model.urls import hash_url, normalize_url, parse_url
from scrubjay.queue.context import JobContext
from scrubjay.sources.protocol import ConnectorType, Tools
from scrubjay.sources.web_config import describe_config, secret_name, spec_of_plan
from scrubjay.storage.configs import CrawlConfigs
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.frontier import Frontier
from scrubjay.storage.ledger import Ledger

CHECK_SECONDS = 15.0
CHECK_BYTES = 64 * 1024
_GONE_STATUSES = frozenset({404, 410})
_GONE_ERRORS = frozenset({"noindex", "soft_404"})
# Limits that make a run incomplete, and what their numbers count.
_BUDGETS = ("max_pages", "max_seconds", "max_pages_per_host")
_CUTTING_LIMITS = {
    **dict.fromkeys(_BUDGETS, "links were left unread"),
    "max_depth": "links lead deeper",
    "traps": "links look like an endless series of pages",
    "links_per_page": "pages have more links",
    "blocks_per_page": "pages have more text",
    "characters_per_page": "pages have more text",
    "sitemap_urls": "sitemaps list more addresses",
    "sitemap_files": "sitemaps were left unread",
    "sitemap_levels": "sitemaps were left unread",
    "sitemap_bytes": "sitemaps were not read to their end",
}
# Links that these leave out are not followed on purpose. With `recheck_missing`, known pages among them are requested.
_RECHECKED_LIMITS = frozenset({"max_depth", "traps"})
MAX_CUT_ITEMS = 1000  # in the report; the limit's number counts all of them

# Called with new pages in the transaction that stores them.
Found = Callable[[AsyncConnection, Sequence[SourceItem]], Awaitable[None]]


@dataclass(slots=True)
class WebConnector:
    plan: Plan
    tools: Tools
    problems: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)  # what the crawl counted
    found: Found | None = None  # called with pages that have content while the crawl goes on
    may_share: bool = False  # whether other workers may take part in the crawl

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
        spec = await self._spec(context)
        if limit is None:
            async for item in self._crawl(context, spec, self.plan.id, self._guide(context), self.may_share):
                yield item
            return
        scope_id = context.job.id  # a preview leaves no trace in what the plan knows
        preview = spec.model_copy(update={"max_pages": limit, "keep_originals": False})
        try:
            async for item in self._crawl(context, preview, scope_id, None):
                yield item
        finally:
            async with self.tools.crawler.database.writing() as connection:
                await CrawledPages(connection).remove_scope(scope_id)

    def _guide(self, context: JobContext) -> "_Guide":
        if self.plan.is_one_off:
            return _Guide(self.plan, self.found, context.job.id)
        return _WholeSite(self.plan, self.found, context.job.id)

    async def crawl_slice(self, context: JobContext) -> Mapping[str, Any]:
        """Some hosts of a crawl; the crawl's own job lists what all slices found."""
        spec = await self._spec(context)
        guide = _Guide(self.plan, self.found, context.job.id)
        return await self.tools.crawler.crawl_slice(context, spec, self.plan.id, guide)

    async def revisit(
        self, context: JobContext, chosen: Sequence[tuple[float, str, str]], budget: int
    ) -> AsyncIterator[SourceItem]:
        """Request some keys (gain, hash, address), and pages that are new behind them, within a budget."""
        spec = (await self._spec(context)).model_copy(
            update={"max_pages": budget, "strategy": CrawlStrategy.BEST_FIRST, "use_sitemaps": False}
        )
        guide = _Revisit(self.plan, self.found, context.job.id, chosen)
        async for item in self._crawl(context, spec, self.plan.id, guide):
            yield item

    async def visit(self, context: JobContext, urls: Sequence[str]) -> AsyncIterator[SourceItem]:
        """Request exactly these addresses."""
        spec = visiting(await self._spec(context), urls)
        async for item in self._crawl(context, spec, self.plan.id, _Guide(self.plan, self.found, context.job.id)):
            yield item

    async def _crawl(
        self,
        context: JobContext,
        spec: CrawlSpec,
        scope_id: str,
        guide: "_Guide | None",
        may_share: bool = False,
    ) -> AsyncIterator[SourceItem]:
        crawler = self.tools.crawler
        self.summary = summary = await crawler.crawl(context, spec, scope_id, guide, may_share=may_share)
        await self._judge(context, spec, scope_id, summary)
        only_problems, after = guide is not None and not guide.keeps_documents, ""
        while True:
            async with crawler.database.reading() as connection:
                pages = await CrawledPages(connection).listing(
                    scope_id, context.job.id, after=after, only_problems=only_problems
                )
            if not pages:
                break
            for page in pages:
                yield _item(page)
            after = pages[-1].url_hash
        for item in await self._cut_items(context):
            yield item

    async def _cut_items(self, context: JobContext) -> list[SourceItem]:
        """Addresses that a page or time budget left unread, up to a number."""
        limit = next((name for name in _BUDGETS if name in self.limits), None)
        if limit is None:
            return []
        async with self.tools.crawler.database.reading() as connection:
            left = await Frontier(connection).pending_urls(context.job.id, MAX_CUT_ITEMS)
        problem = ItemProblem(reason=limit, message=f"Not requested: the run reached its limit {limit}.", attempts=0)
        return [SourceItem(key=url, key_hash=url_hash, problem=problem) for url_hash, url in left]

    async def _judge(self, context: JobContext, spec: CrawlSpec, scope_id: str, summary: Mapping[str, Any]) -> None:
        """Note why the crawl may not have seen the whole site, and which limits it hit."""
        is_exact = not spec.follow_links or spec.max_depth == 0
        self.limits |= summary.get("limits") or {}
        if is_exact:
            self.limits.pop("max_depth", None)  # links are not followed on purpose
        settings = WebSettings.model_validate(self.plan.repository_settings)
        for name, number in self.limits.items():
            if name in _CUTTING_LIMITS and not (name in _RECHECKED_LIMITS and settings.recheck_missing):
                self.problems.append(f"The limit {name} cut the run: {number:,} {_CUTTING_LIMITS[name]}.")
        if is_exact:
            await self._judge_exact(context, scope_id, summary)
            return
        start = normalize_url(spec.start_urls[0])
        async with self.tools.crawler.database.reading() as connection:
            found = await CrawledPages(connection).by_hashes(scope_id, [hash_url(start)])
        own = [page for page in found if page.job_id == context.job.id and page.error_type is not None]
        if own:
            self.problems.append(f"The start URL could not be read: {start}: {own[0].error or own[0].error_type}")
        elif not summary["pages"]:
            self.problems.append(f"{start} led to no page that could be read.")
        if summary["failed"] and not settings.recheck_missing:
            self.problems.append(f"{summary['failed']} pages could not be read, nor what they may link to.")

    async def _judge_exact(self, context: JobContext, scope_id: str, summary: Mapping[str, Any]) -> None:
        """Exactly these pages were asked for: one that could not be read may still exist."""
        unread, after = 0, ""
        while True:
            async with self.tools.crawler.database.reading() as connection:
                pages = await CrawledPages(connection).listing(
                    scope_id, context.job.id, after=after, only_problems=True
                )
            if not pages:
                break
            unread += sum(not _is_gone(page) for page in pages)
            after = pages[-1].url_hash
        if unread:
            self.problems.append(f"Addresses that could not be read: {unread:,}.")
        elif not summary["pages"] and not self.plan.is_one_off:
            self.problems.append("None of the addresses could be read.")

    async def read_many(self, items: Sequence[SourceItem]) -> Sequence[SourceContent | ScrubjayError]:
        """What the crawl kept of these pages; an error for a page that has no content."""
        async with self.tools.crawler.database.reading() as connection:
            pages = await CrawledPages(connection).by_hashes(self.plan.id, [item.key_hash for item in items])
        found = {page.url_hash: page for page in pages}
        return [self._content(item, found.get(item.key_hash)) for item in items]

    async def read(self, item: SourceItem) -> SourceContent:
        [content] = await self.read_many([item])
        if isinstance(content, ScrubjayError):
            raise content
        return content

    def _content(self, item: SourceItem, page: CrawledPage | None) -> SourceContent | ScrubjayError:
        if page is None or page.content is None:
            return FetchFailed(f"{item.key} no longer has content.", error_type="gone")
        details = unpack_details(page.details)
        metadata = dict(details.get("metadata") or {})
        markdown = markdown_of(page)
        if not markdown.strip():
            return ExtractionFailed(f"{item.key} has no text in it.", error_type="empty_page")
        keeps_original = self.plan.ingestion_settings.store_original
        return SourceContent(
            url=page.url,
            markdown=markdown,
            title=page.title,
            content_type=page.content_type,
            language=metadata.get("language"),
            parent_url=page.parent_url,
            details={**metadata, "extraction_method": page.method, "job_id": page.job_id},
            size_bytes=page.size_bytes,
            original_sha256=page.body_sha256 if keeps_original else None,
            crawled_at=page.changed_at,
            cuts=text_limits(details.get("cuts") or ()),
        )

    async def close(self) -> None:
        """Nothing stays open between calls."""

    async def _spec(self, context: JobContext | None = None) -> CrawlSpec:
        plan, secrets = self.plan, self.tools.crawler.secrets
        settings = WebSettings.model_validate(plan.repository_settings)
        if plan.crawl is not None:
            # A one-off run keeps the settings that it was started with, whatever a later crawl asks for.
            sealed = context.payload.get("spec") if context is not None and plan.is_one_off else None
            try:
                return unseal_spec(sealed or plan.crawl, secrets)
            except (InvalidRequest, SecretUnreadable, KeyError, TypeError, ValueError) as error:
                raise JobFailedForGood(f"The crawl's settings cannot be read: {error}") from error
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


def _item(page: PageListing) -> SourceItem:
    problem = None
    if page.error_type is not None:
        problem = ItemProblem(
            reason=reason_of(page.error_type, page.status),
            message=page.error or page.error_type,
            http_status=page.status,
            attempts=page.attempts,
            is_gone=_is_gone(page),
        )
    return SourceItem(
        key=page.url,
        key_hash=page.url_hash,
        content_type=page.content_type,
        content_length=page.size_bytes,
        etag=page.etag,
        sha256=page.body_sha256,
        last_modified_at=_moment(page.last_modified),
        text_sha256=page.content_sha256,
        problem=problem,
    )


def _is_gone(page: PageListing) -> bool:
    """Whether the site says that there is no such page; a fault in between does not say so."""
    return page.status in _GONE_STATUSES or page.error_type in _GONE_ERRORS


def _moment(text: str | None) -> datetime | None:
    try:
        moment = None if not text else parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(slots=True)
class _Guide:
    """Tells the run of pages while they are stored, and asks for nothing beyond the spec."""

    plan: Plan
    found: Found | None
    job_id: str

    @property
    def keeps_documents(self) -> bool:
        return self.plan.ingestion_settings.keeps_items

    async def first(self, connection: AsyncConnection, frontier: CrawlFrontier) -> Sequence[FrontierItem]:
        return ()

    async def admit(self, connection: AsyncConnection, found: Sequence[FrontierItem]) -> Sequence[FrontierItem]:
        return found

    async def last(self, connection: AsyncConnection, frontier: CrawlFrontier) -> Sequence[FrontierItem]:
        return ()

    async def wrote(self, connection: AsyncConnection, pages: Sequence[CrawledPage]) -> None:
        if self.found is not None and self.keeps_documents:
            items = [_item(_listed(page)) for page in pages if page.content is not None and page.error_type is None]
            if items:
                await self.found(connection, items)


@dataclass(slots=True)
class _WholeSite(_Guide):
    """Requests the pages that have documents and that no link led to, before they count as gone."""

    after: str = ""

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
class _Revisit(_Guide):
    """Requests chosen pages, and pages behind them that the ledger does not have."""

    chosen: Sequence[tuple[float, str, str]] = ()

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


def _listed(page: CrawledPage) -> PageListing:
    return PageListing(*(getattr(page, name) for name in PageListing._fields))


def visiting(spec: CrawlSpec, urls: Sequence[str]) -> CrawlSpec:
    """The crawl of exactly these addresses, with the plan's manners.

    Credentials and headers go to the origin of the first start URL. So addresses of the plan's own origin come first,
    and where there are none, nothing that authenticates is sent.
    """
    origin = parse_url(spec.start_urls[0]).origin
    ordered = sorted(urls, key=lambda url: parse_url(url).origin != origin)
    changes = exact_pages(ordered)
    if parse_url(ordered[0]).origin != origin:
        changes |= {"auth": None, "headers": {}}
    return spec.model_copy(update=changes)


def exact_pages(urls: Sequence[str]) -> dict[str, Any]:
    """The part of a spec that requests these addresses and follows no links."""
    return {
        "start_urls": tuple(urls),
        "follow_links": False,
        "max_depth": 0,
        "max_pages": len(urls),
        "use_sitemaps": False,
    }


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
    streams=True,
    open=WebConnector,
)
