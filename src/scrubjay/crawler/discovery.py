"""Discovery: a site's addresses from its sitemaps and from Common Crawl, filtered, scored and without doubles."""

import heapq
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace

from scrubjay.crawler.common_crawl import list_captures
from scrubjay.crawler.fetching import Fetching
from scrubjay.crawler.relevance import Relevance
from scrubjay.crawler.robots import Robots, RobotsState
from scrubjay.crawler.sitemaps import SitemapLimits, SitemapProblem, read_sitemaps
from scrubjay.errors import FetchFailed, HostBlocked, UrlBlocked, UrlInvalid
from scrubjay.model.discovery import DiscoveredUrl, Discovery, DiscoveryProblem, DiscoverySource, DiscoverySpec
from scrubjay.model.patterns import UrlPattern
from scrubjay.model.urls import normal_form, parse_url

MAX_CANDIDATES = 200_000  # looked at for the best of them, when there is a query to score by
USUAL_SITEMAPS = ("/sitemap.xml", "/sitemap_index.xml")
_NOT_PAGES = ("image/", "video/", "audio/", "font/", "text/css", "text/javascript", "application/javascript")


async def discover(spec: DiscoverySpec, fetcher: Fetching, robots: Robots, *, common_crawl_url: str) -> Discovery:
    """Ask the sources in their order until there are enough addresses. What fails is told in `problems`."""
    search = _Search(spec, fetcher, robots, common_crawl_url)
    gathering = _Gathering(spec)
    for source in spec.sources:
        async with aclosing(search.ask(source)) as found:
            async for candidate in found:
                gathering.add(candidate)
                if gathering.is_full:
                    break
        if gathering.is_full:
            break
    return Discovery(urls=gathering.best(), problems=search.told(), seen=gathering.seen, complete=not gathering.is_full)


class _Search:
    """Asks the sources, and remembers what they could not answer."""

    def __init__(self, spec: DiscoverySpec, fetcher: Fetching, robots: Robots, common_crawl_url: str) -> None:
        self._spec = spec
        self._fetcher = fetcher
        self._robots = robots
        self._common_crawl_url = common_crawl_url
        self._problems: list[DiscoveryProblem] = []
        self._sitemap_problems: list[SitemapProblem] = []
        self._guessed: list[str] = []

    async def ask(self, source: DiscoverySource) -> AsyncGenerator[DiscoveredUrl, None]:
        try:
            if source is DiscoverySource.SITEMAP:
                async for candidate in self._ask_sitemaps():
                    yield candidate
            else:
                async for candidate in self._ask_common_crawl():
                    yield candidate
        except UrlInvalid as error:
            self._problems.append(DiscoveryProblem(source, self._spec.domain, "invalid_url", error.message))
        except (FetchFailed, UrlBlocked, HostBlocked) as error:
            self._problems.append(DiscoveryProblem(source, self._spec.domain, error.error_type, error.message))

    def told(self) -> list[DiscoveryProblem]:
        # That a sitemap which nobody spoke of is not there is no problem.
        told = [
            one
            for one in self._sitemap_problems
            if one.url not in self._guessed or one.error_type not in ("http_404", "http_410", "not_a_sitemap")
        ]
        kind = DiscoverySource.SITEMAP
        return [*self._problems, *(DiscoveryProblem(kind, one.url, one.error_type, one.message) for one in told)]

    async def _ask_sitemaps(self) -> AsyncIterator[DiscoveredUrl]:
        origin, listed = await self._find_origin()
        if not listed:
            self._guessed = [origin + path for path in USUAL_SITEMAPS]
        limits = SitemapLimits(max_urls=MAX_CANDIDATES)
        starts = listed or self._guessed
        async for entry in read_sitemaps(self._fetcher, starts, problems=self._sitemap_problems, limits=limits):
            yield DiscoveredUrl(entry.url, DiscoverySource.SITEMAP, lastmod=entry.lastmod)

    async def _find_origin(self) -> tuple[str, list[str]]:
        """The first origin that answers for its robots.txt, and the sitemaps that it names there."""
        message: str | None = None
        for origin in self._spec.origins:
            rules = await self._robots.rules_for(f"{origin}/")
            if rules.state is not RobotsState.UNREACHABLE:
                return origin, [_absolute(sitemap, origin) for sitemap in rules.sitemaps]
            message = message or rules.file.message
        raise FetchFailed(message, error_type="robots_unreachable")

    async def _ask_common_crawl(self) -> AsyncIterator[DiscoveredUrl]:
        async for capture in list_captures(self._fetcher, self._common_crawl_url, self._spec.host):
            if not str(capture.get("mime", "")).startswith(_NOT_PAGES):
                yield DiscoveredUrl(capture["url"], DiscoverySource.COMMON_CRAWL)


class _Gathering:
    """Keeps what belongs to the domain and fits; with a query, the best of all that was looked at."""

    def __init__(self, spec: DiscoverySpec) -> None:
        self._spec = spec
        self._host = spec.host
        self._pattern = UrlPattern(spec.pattern) if spec.pattern is not None else None
        self._relevance = Relevance(spec.score_query) if spec.score_query is not None else None
        self._known: set[int] = set()
        self._kept: list[DiscoveredUrl] = []
        self._heap: list[tuple[float, int, DiscoveredUrl]] = []

    @property
    def seen(self) -> int:
        return len(self._known)

    @property
    def is_full(self) -> bool:
        if self._relevance is None:
            return len(self._kept) >= self._spec.max_urls
        return self.seen >= MAX_CANDIDATES

    def add(self, candidate: DiscoveredUrl) -> None:
        try:
            parsed = parse_url(candidate.url)
        except UrlInvalid:
            return
        if parsed.host != self._host and not parsed.host.endswith(f".{self._host}"):
            return
        url = normal_form(parsed.text)
        # Indexes list pages under http that sitemaps list under https; they are the same pages.
        key = hash(url.partition("://")[2])
        if key in self._known:
            return
        self._known.add(key)
        if self._pattern is not None and not self._pattern.search(url):
            return
        self._keep(replace(candidate, url=url))

    def _keep(self, found: DiscoveredUrl) -> None:
        if self._relevance is None:
            self._kept.append(found)
            return
        score = self._relevance.score_url(found.url)
        if score < self._spec.score_threshold:
            return
        # Of equal scores, the first found is the better one; the number also keeps the heap from comparing further.
        entry = (score, -self.seen, replace(found, score=score))
        if len(self._heap) < self._spec.max_urls:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def best(self) -> list[DiscoveredUrl]:
        if self._relevance is None:
            return self._kept
        return [found for _, _, found in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]


def _absolute(sitemap: str, origin: str) -> str:
    try:
        return parse_url(sitemap, f"{origin}/").text
    except UrlInvalid:
        return sitemap  # reading it will tell what is wrong with it
