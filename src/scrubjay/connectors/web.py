"""The web: one durable crawl, from its start URLs to its last page. Steps 5 and 7 of a page's journey.

`WebCrawl.run` is the story: seed the frontier, then keep a window of its URLs in work (`web_pages.py`) and write
what came of them in batches, each in one transaction with the links that were found and the URLs that are next.
Whatever happens between two batches is forgotten and done again; nothing else is.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.connectors.web_batch import BatchWriter
from scrubjay.connectors.web_pages import Outcome, PageFetcher
from scrubjay.connectors.web_tally import Tally
from scrubjay.crawl.frontier import CrawlFrontier
from scrubjay.crawl.robots import RobotsState
from scrubjay.crawl.scope import Scope
from scrubjay.crawl.sitemaps import SitemapEntry, SitemapLimits, SitemapProblem, read_sitemaps
from scrubjay.crawl.urls import parse_url
from scrubjay.errors import JobInterrupted, JobTakenOver, ScrubjayError, UrlInvalid
from scrubjay.jobs.context import JobContext
from scrubjay.model.crawl_spec import CrawlSpec
from scrubjay.model.crawling import FrontierItem, FrontierStatus, KnownPage
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database

BATCH_PAGES = 32
BATCH_SECONDS = 0.15
IDLE_SECONDS = 1.0
LETTING_FINISH_SECONDS = 5.0
SEED_BATCH = 500
SITEMAP_URLS_PER_PAGE = 5  # of max_pages: most of a huge sitemap would never be fetched


class WebCrawl:
    """One run of one crawl job."""

    def __init__(
        self, context: JobContext, spec: CrawlSpec, scope_id: str, pages: PageFetcher, database: Database
    ) -> None:
        self._context = context
        self._spec = spec
        self._scope_id = scope_id
        self._pages = pages
        state = context.state
        self.tally = Tally.load(state.get("tally"))
        scope = Scope(state.get("roots") or spec.start_urls, spec.extent, spec.include, spec.exclude)
        self._frontier = CrawlFrontier(context.job.id, spec, scope)
        self._writer = BatchWriter(context.job, spec, scope_id, self._frontier, self.tally, database)
        self._seeded = bool(state.get("seeded"))
        self._working: dict[asyncio.Task[Outcome], FrontierItem] = {}
        self._done: list[Outcome] = []
        self._news = asyncio.Event()
        self._exhausted = False
        self._seconds_before = self.tally.seconds
        self._started_at = time.monotonic()
        pages.tally = self.tally

    async def run(self) -> dict[str, Any]:
        """Crawl until nothing is left to do or a limit is reached. JobInterrupted passes through, resumably."""
        try:
            await self._seed()
            await self._crawl()
        except JobTakenOver:
            await self._abandon()
            raise
        except JobInterrupted:
            await self._stop_early()
            raise
        except BaseException:
            await self._abandon()
            raise
        return await self._summary()

    async def _seed(self) -> None:
        async with self._context.transaction() as connection:
            await self._frontier.take_back(connection)
            starts = [self._frontier.start_item(url) for url in self._spec.start_urls]
            self.tally.discovered += await self._frontier.add(connection, starts)
            await self._remember(connection)
        if not self._seeded:
            if self._spec.use_sitemaps and self._spec.follow_links and self._spec.max_depth > 0:
                await self._seed_from_sitemaps()
            self._seeded = True

    async def _seed_from_sitemaps(self) -> None:
        """Add what the sites' sitemaps list. Added twice is added once, so this may start over."""
        problems: list[SitemapProblem] = []
        limits = SitemapLimits(max_urls=min(1_000_000, SITEMAP_URLS_PER_PAGE * self._spec.max_pages))
        batch: list[SitemapEntry] = []
        # Not tried again and again: a host that does not answer is noticed by its pages.
        fetcher = replace(self._pages.polite, retries=0)
        async for entry in read_sitemaps(fetcher, await self._sitemap_urls(), problems=problems, limits=limits):
            batch.append(entry)
            if len(batch) >= SEED_BATCH:
                await self._add_entries(batch)
                batch = []
                await self._context.checkpoint()
        await self._add_entries(batch)
        for problem in problems[:20]:
            if not problem.error_type.startswith("http_"):  # most sites have no sitemap, which is no news
                await self._context.log(
                    f"sitemap {problem.url}: {problem.message}", level="warning", error_type=problem.error_type
                )

    async def _sitemap_urls(self) -> list[str]:
        """What robots.txt names, or else the usual place, of every origin that the crawl starts at."""
        found: dict[str, None] = {}
        for origin in {parse_url(url).origin: url for url in self._spec.start_urls}.values():
            named: Sequence[str] = ()
            if self._pages.robots is not None:
                try:
                    rules = await self._pages.robots.rules_for(origin)
                except ScrubjayError as error:
                    # The start URL itself will fail the same way, and be recorded.
                    await self._context.log(f"robots.txt of {origin}: {error.message}", level="warning")
                    continue
                if rules.state is RobotsState.UNREACHABLE:
                    continue
                named = rules.sitemaps
            found.update(dict.fromkeys(named or [parse_url("/sitemap.xml", origin).text]))
        return list(found)

    async def _add_entries(self, entries: Sequence[SitemapEntry]) -> None:
        items = []
        for entry in entries:
            try:
                url = parse_url(entry.url).text
            except UrlInvalid:
                self._frontier.refused["invalid_url"] += 1
                continue
            items += self._frontier.listed(url)
        if items:
            async with self._context.transaction() as connection:
                self.tally.discovered += await self._frontier.add(connection, items)

    async def _crawl(self) -> None:
        last_write = time.monotonic()
        while True:
            await self._context.checkpoint()
            idle = not self._working and not self._done
            if idle and self._exhausted:
                return
            due = time.monotonic() - last_write >= BATCH_SECONDS
            if len(self._done) >= BATCH_PAGES or idle or (due and (self._done or self._has_room)):
                await self._turn_over()
                last_write = time.monotonic()
            else:
                await self._wait_for_news()

    @property
    def _has_room(self) -> bool:
        return not self._exhausted and self._frontier.leased - len(self._done) <= self._frontier.window // 2

    async def _wait_for_news(self) -> None:
        self._news.clear()
        seconds = BATCH_SECONDS if self._done else IDLE_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def _turn_over(self) -> None:
        """Write what is done and take up what is next, in one transaction."""
        done, self._done = self._done, []
        batch = await self._writer.prepare(done)
        async with self._context.transaction() as connection:
            await self._writer.write(connection, batch)
            items = await self._frontier.lease(connection, self._room_after(done))
            await self._remember(connection)
            known = await CrawledPages(connection).known(self._scope_id, [item.url_hash for item in items])
        self._exhausted = not items
        for item in items:
            self._take_up(item, known.get(item.url_hash))
        self.tally.note_rate()
        await self._tell_progress()

    def _room_after(self, done: Sequence[Outcome]) -> int:
        """How many more URLs may be taken up; the outcomes at hand are settled by then."""
        self._frontier.forget(outcome.item for outcome in done)
        if self._out_of_time:
            return 0
        return self._spec.max_pages - self.tally.fetched - len(self._working)

    @property
    def _out_of_time(self) -> bool:
        limit = self._spec.max_seconds
        return limit is not None and self._seconds_before + time.monotonic() - self._started_at >= limit

    def _take_up(self, item: FrontierItem, known: KnownPage | None) -> None:
        task = asyncio.create_task(self._pages.process(item, known))
        self._working[task] = item
        task.add_done_callback(self._put_down)

    def _put_down(self, task: asyncio.Task[Outcome]) -> None:
        item = self._working.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            # A fault of ours must not end the crawl, nor be taken for the page's own.
            self._context.note("crawl.fault", url=item.url, error=f"{type(error).__name__}: {error}")
            outcome = Outcome(item=item, error_type="internal", error=f"{type(error).__name__}: {error}"[:500])
        else:
            outcome = task.result()
        self._done.append(outcome)
        if len(self._done) >= BATCH_PAGES or not self._working:
            self._news.set()

    async def _stop_early(self) -> None:
        """Let what is under way finish for a moment, write it, and give the rest back."""
        if self._working:
            await asyncio.wait(self._working, timeout=LETTING_FINISH_SECONDS)
        await self._abandon()
        done, self._done = self._done, []
        batch = await self._writer.prepare(done, save_memories=True)
        async with self._context.transaction() as connection:
            await self._writer.write(connection, batch)
            await self._frontier.take_back(connection)
            await self._remember(connection)

    async def _abandon(self) -> None:
        tasks = list(self._working)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _remember(self, connection: AsyncConnection) -> None:
        self.tally.seconds = self._seconds_before + time.monotonic() - self._started_at
        state = {"tally": self.tally.dump(), "roots": self._frontier.scope.roots, "seeded": self._seeded}
        await self._context.remember(connection, state)

    async def _tell_progress(self) -> None:
        total = min(self._spec.max_pages, max(self.tally.discovered, self.tally.fetched))
        await self._context.progress(self.tally.fetched, total, "crawling", **self.tally.facts())

    async def _summary(self) -> dict[str, Any]:
        batch = await self._writer.prepare([], save_memories=True)
        async with self._context.transaction() as connection:
            await self._writer.write(connection, batch)
            left = await self._frontier.tally(connection)
            await self._remember(connection)
        await self._tell_progress()
        return {
            **self.tally.dump(),
            "left_in_queue": left.get(FrontierStatus.PENDING, 0),
            "refused_links": dict(self._frontier.refused),
            "scope_id": self._scope_id,
        }
