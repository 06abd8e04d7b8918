"""Crawls and discoveries as jobs: they make fetcher, manners and extractor from a spec, and run it."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from scrubjay.crawler.browser import BrowserRenderer, RenderedPage
from scrubjay.crawler.discovery import discover
from scrubjay.crawler.fetcher import Credentials, Fetcher, Network, is_secret_header
from scrubjay.crawler.host_slice import HostSlice
from scrubjay.crawler.loop import Guide, WebCrawl
from scrubjay.crawler.page_extractor import LanguageModel, PageExtractor
from scrubjay.crawler.pages import PageFetcher
from scrubjay.crawler.polite import PoliteFetcher
from scrubjay.crawler.politeness import Manners, Politeness
from scrubjay.crawler.proxies import ProxyPool, ProxyServer
from scrubjay.crawler.robots import Robots
from scrubjay.crawler.sliced_crawl import SlicedCrawl, can_be_shared
from scrubjay.errors import InvalidRequest, JobFailedForGood, NotFound
from scrubjay.extract.pool import ExtractionPool
from scrubjay.model.crawl_spec import CrawlAuth, CrawlMode, CrawlSpec, CrawlStrategy, read_spec
from scrubjay.model.discovery import read_discovery_spec
from scrubjay.model.extraction import ExtractOptions
from scrubjay.model.urls import host_of, parse_url
from scrubjay.queue.context import JobContext
from scrubjay.queue.kinds import JobKind
from scrubjay.settings import Settings
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.cache import Cache
from scrubjay.storage.database import Database
from scrubjay.storage.proxies import Proxies
from scrubjay.storage.secrets import SecretBox

DISCOVERY_KIND = "discovery"
MAX_PROBLEMS = 100
AUTH_CONTEXT = "crawl:auth"
HEADER_CONTEXT = "crawl:header"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebCrawler:
    """What every crawl of this process shares."""

    settings: Settings
    network: Network
    pool: ExtractionPool
    browser: BrowserRenderer
    database: Database
    cache: Cache
    blobs: BlobStore
    secrets: SecretBox

    @property
    def kinds(self) -> tuple[JobKind, ...]:
        """Discovery; crawls are runs of plans (`plans/run.py`)."""
        return (JobKind(name=DISCOVERY_KIND, handler=self.discover),)

    async def discover(self, context: JobContext) -> Mapping[str, Any]:
        """List a site's addresses without crawling it."""
        try:
            spec = read_discovery_spec(dict(context.payload["spec"]))
        except (InvalidRequest, KeyError) as error:
            raise JobFailedForGood(f"The discovery cannot be run as it was asked for: {error}") from error
        user_agent = self.settings.crawl_user_agent
        async with self.network.fetcher() as fetcher:
            politeness = Politeness(self.cache, self.database, context.job.tenant_id, Manners())
            polite = PoliteFetcher(fetcher, politeness, retries=2)
            robots = Robots(polite, self.cache, user_agent=user_agent)
            found = await discover(spec, polite, robots, common_crawl_url=self.settings.common_crawl_url)
        await context.checkpoint()
        return {
            "urls_found": len(found.urls),
            "urls": [
                {"url": entry.url, "source": str(entry.source), "score": entry.score, "lastmod": entry.lastmod}
                for entry in found.urls
            ],
            "problems": [
                {"url": problem.url, "error_type": problem.error_type, "message": problem.message}
                for problem in found.problems[:MAX_PROBLEMS]
            ],
            "complete": found.complete,
        }

    async def crawl(
        self,
        context: JobContext,
        spec: CrawlSpec,
        scope_id: str,
        guide: Guide | None = None,
        *,
        may_share: bool = False,
    ) -> Mapping[str, Any]:
        """A crawl inside any job; what it found is in the scope's pages. With `may_share`, other workers take part."""
        sliced, setting = None, self.settings.crawl_sharing
        # In a SQLite database only one process works.
        wanted = setting == "always" or (setting == "auto" and self.database.dialect != "sqlite")
        if may_share and wanted and can_be_shared(spec):
            home = host_of(parse_url(spec.start_urls[0]).text)
            sliced = SlicedCrawl(context, spec, home, self.database, always=setting == "always")
        return await self._crawl(context, spec, scope_id, guide, sliced=sliced)

    async def crawl_slice(
        self, context: JobContext, spec: CrawlSpec, scope_id: str, guide: Guide | None = None
    ) -> Mapping[str, Any]:
        """One slice of a crawl, as `sliced_crawl.py` queued it."""
        state = context.state.get("slice") or {}
        slice_ = HostSlice(context.job.id, context.job.parent_id or "", context.payload, spec.max_pages, state)
        share = max(1, spec.concurrency // int(context.payload["parts"]))
        own = spec.model_copy(update={"concurrency": share, "concurrent_hosts": None})
        return await self._crawl(context, own, scope_id, guide, slice_=slice_)

    async def _crawl(
        self, context: JobContext, spec: CrawlSpec, scope_id: str, guide: Guide | None, **parts: Any
    ) -> Mapping[str, Any]:
        async with AsyncExitStack() as stack:
            pages = await self._open_pages(context, spec, stack)
            return await WebCrawl(context, spec, scope_id, pages, self.database, guide, **parts).run()

    async def _open_pages(self, context: JobContext, spec: CrawlSpec, stack: AsyncExitStack) -> PageFetcher:
        tenant_id = context.job.tenant_id
        fetcher = await stack.enter_async_context(await self.open_fetcher(tenant_id, spec))
        sequential = spec.mode is CrawlMode.SEQUENTIAL
        manners = Manners(
            delay_seconds=spec.delay_ms / 1000,
            rate_limit_rps=spec.rate_limit_rps,
            host_concurrency=1 if sequential else spec.host_concurrency,
            timeout_seconds=spec.timeout_seconds,
        )
        places = 1 if sequential else spec.concurrency
        politeness = Politeness(self.cache, self.database, tenant_id, manners, places=places, owner=context.job.id)
        polite = PoliteFetcher(fetcher, politeness, spec.retries, may_ask=context.require_hold)
        robots = None
        if spec.respect_robots:
            robots = Robots(polite, self.cache, user_agent=spec.user_agent or self.settings.crawl_user_agent)
        return PageFetcher(
            spec=spec,
            polite=polite,
            robots=robots,
            extractor=self.open_extractor(stack, politeness),
            options=ExtractOptions(
                strategy=spec.extraction,
                fields=spec.fields,
                contexts=spec.strategy is CrawlStrategy.BEST_FIRST,
                limits=self.pool.limits,
            ),
            blobs=self.blobs,
            max_sitemap_urls=self.settings.max_sitemap_urls,
        )

    def open_extractor(self, stack: AsyncExitStack, politeness: Politeness) -> PageExtractor:
        """Extraction by any strategy; what is not configured says so and the next best is used."""
        settings, model = self.settings, None
        fetcher = self.network.fetcher()
        stack.push_async_callback(fetcher.close)
        if settings.llm_url and settings.llm_model:
            key = settings.llm_api_key.get_secret_value() if settings.llm_api_key else None
            model = LanguageModel(url=settings.llm_url, model=settings.llm_model, api_key=key)
        return PageExtractor(self.pool, browser=_PoliteBrowser(self.browser, politeness), fetcher=fetcher, model=model)

    async def open_fetcher(self, tenant_id: str, spec: CrawlSpec) -> Fetcher:
        credentials = None if spec.auth is None else self._credentials(spec.auth, spec.start_urls[0])
        return self.network.fetcher(
            user_agent=spec.user_agent or self.settings.crawl_user_agent,
            headers=spec.headers,
            headers_origin=parse_url(spec.start_urls[0]).origin,
            credentials=credentials,
            proxies=await self._proxies(tenant_id, spec.proxy_id),
        )

    @staticmethod
    def _credentials(auth: CrawlAuth, start_url: str) -> Credentials:
        url = parse_url(start_url)
        if auth.type == "basic":
            return Credentials.basic(url, auth.name or "", auth.secret)
        if auth.type == "bearer":
            return Credentials.bearer(url, auth.secret)
        return Credentials.api_key(url, auth.name or "X-Api-Key", auth.secret)

    async def _proxies(self, tenant_id: str, proxy_id: str | None) -> ProxyPool | None:
        if proxy_id is None:
            return None
        try:
            async with self.database.reading() as connection:
                proxy = await Proxies(connection).get(tenant_id, proxy_id)
        except NotFound as error:
            raise JobFailedForGood(error.message) from error
        servers = [
            ProxyServer.parse(
                str(server["url"]),
                server.get("username"),
                self._unseal_password(proxy_id, server.get("password")),
            )
            for server in proxy.servers
        ]
        return ProxyPool(servers, proxy.rotation)

    def _unseal_password(self, proxy_id: str, sealed: str | None) -> str | None:
        return None if not sealed else self.secrets.unseal(sealed, context=f"proxy:{proxy_id}:password")


def seal_spec(spec: CrawlSpec, secrets: SecretBox) -> dict[str, Any]:
    """The spec as a job's payload keeps it: whatever authenticates is sealed, also when it stands in an address."""
    values = spec.model_dump(mode="json", exclude_defaults=True)
    for name, value in values.get("headers", {}).items():
        if is_secret_header(name):
            values["headers"][name] = secrets.seal(value, context=HEADER_CONTEXT)
    start = parse_url(spec.start_urls[0])
    auth = spec.auth
    if auth is None and (start.username or start.password):
        auth = CrawlAuth(type="basic", name=start.username or "", secret=start.password or "")
    if auth is not None:
        values["auth"] = {**auth.model_dump(), "secret": secrets.seal(auth.secret, context=AUTH_CONTEXT)}
    values["start_urls"] = [parse_url(url).text for url in spec.start_urls]
    return values


def unseal_spec(payload: Mapping[str, Any], secrets: SecretBox) -> CrawlSpec:
    values = dict(payload)
    values.pop("shards", None)  # older versions stored it
    if values.get("auth"):
        secret = secrets.unseal(values["auth"]["secret"], context=AUTH_CONTEXT)
        values["auth"] = {**values["auth"], "secret": secret}
    if values.get("headers"):
        values["headers"] = {
            name: secrets.unseal(value, context=HEADER_CONTEXT) if is_secret_header(name) else value
            for name, value in values["headers"].items()
        }
    return read_spec(values)


class _PoliteBrowser:
    """A browser that waits for its turn at a host like every other request."""

    def __init__(self, browser: BrowserRenderer, politeness: Politeness) -> None:
        self._browser = browser
        self._politeness = politeness

    async def render(self, url: str) -> RenderedPage:
        async with self._politeness.turn(host_of(parse_url(url).text)):
            return await self._browser.render(url)
