"""The seeds of a crawl: what sitemaps list, read beside the crawl itself, at the pace that hosts allow."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from scrubjay.crawler.frontier import CrawlFrontier
from scrubjay.crawler.pages import PageFetcher
from scrubjay.crawler.robots import RobotsState
from scrubjay.crawler.sitemaps import SitemapLimits, SitemapProblem, read_sitemaps
from scrubjay.errors import ScrubjayError, Unavailable, UrlInvalid
from scrubjay.model.crawl_spec import CrawlSpec
from scrubjay.model.crawling import FrontierItem
from scrubjay.model.urls import parse_url
from scrubjay.queue.context import JobContext

BATCH = 500
URLS_PER_PAGE = 5  # of max_pages: most of a huge sitemap would never be fetched
TOLD_PROBLEMS = 20
_LIMITS = {
    "too_many_urls": "sitemap_urls",
    "too_many_files": "sitemap_files",
    "nested_too_deep": "sitemap_levels",
    "too_large": "sitemap_bytes",
}


class SitemapSeeds:
    """Reads in the background; the crawl takes what was found into its next batch.

    What is found twice is added once, so that reading may start over in the next run.
    """

    def __init__(
        self,
        context: JobContext,
        spec: CrawlSpec,
        pages: PageFetcher,
        frontier: CrawlFrontier,
        news: asyncio.Event,
    ) -> None:
        self.wanted = spec.use_sitemaps and spec.follow_links and spec.max_depth > 0
        self.found: list[FrontierItem] = []
        self._context = context
        self._spec = spec
        self._pages = pages
        self._frontier = frontier
        self._news = news
        self._taken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def finished(self) -> bool:
        """Whether everything has been found that will be."""
        task = self._task
        return task is not None and task.done() and not task.cancelled() and task.exception() is None

    def start(self) -> None:
        self._task = asyncio.create_task(self._read())
        self._task.add_done_callback(lambda _: self._news.set())

    def check(self) -> None:
        """Raise what ended the reading, if that was a fault."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    def take(self) -> list[FrontierItem]:
        found, self.found = self.found, []
        self._taken.set()
        return found

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        problems: list[SitemapProblem] = []
        limits = SitemapLimits(max_urls=min(self._pages.max_sitemap_urls, URLS_PER_PAGE * self._spec.max_pages))
        # Not tried again and again: a host that does not answer is noticed by its pages.
        fetcher = replace(self._pages.polite, retries=0)
        async for entry in read_sitemaps(fetcher, await self._addresses(), problems=problems, limits=limits):
            self._add(entry.url)
            if len(self.found) >= BATCH:
                self._taken.clear()
                self._news.set()
                await self._taken.wait()
        # Assigned, not added: a run that starts over reads the same sitemaps again.
        self._pages.tally.limits |= Counter(
            _LIMITS[problem.error_type] for problem in problems if problem.error_type in _LIMITS
        )
        for problem in problems[:TOLD_PROBLEMS]:
            if not problem.error_type.startswith("http_"):  # most sites have no sitemap, which is no news
                await self._context.log(
                    f"sitemap {problem.url}: {problem.message}", level="warning", error_type=problem.error_type
                )

    def _add(self, address: str) -> None:
        try:
            url = parse_url(address).text
        except UrlInvalid:
            self._frontier.refused["invalid_url"] += 1
            return
        self.found += self._frontier.listed(url)

    async def _addresses(self) -> list[str]:
        """What robots.txt names, or else the usual place, of every origin that the crawl starts at."""
        found: dict[str, None] = {}
        for start in {parse_url(url).origin: url for url in self._spec.start_urls}.values():
            named = await self._named(start)
            if named is not None:
                found.update(dict.fromkeys(named or [parse_url("/sitemap.xml", start).text]))
        return list(found)

    async def _named(self, start: str) -> Sequence[str] | None:
        """The sitemaps that the robots.txt of an address names; nothing at all when it says "not now"."""
        robots = self._pages.robots
        if robots is None:
            return ()
        try:
            rules = await robots.rules_for(start)
            verdict = await robots.allowed(start)
        except Unavailable:
            raise
        except ScrubjayError as error:
            # The start URL itself will fail the same way, and be recorded.
            await self._context.log(f"robots.txt of {start}: {error.message}", level="warning")
            return None
        await self._pages.polite.politeness.respect_crawl_delay(parse_url(start).host, verdict.crawl_delay_seconds)
        return None if rules.state is RobotsState.UNREACHABLE else rules.sitemaps
