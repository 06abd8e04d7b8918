"""The web: one durable crawl, from its start URLs to its last page. Steps 5 and 7 of a page's journey.

`WebCrawl.run` is the story: seed the frontier, then keep a window of its URLs in work (`pages.py`) and write
what came of them in batches, each in one transaction with the links that were found and the URLs that are next.
Sitemaps are read meanwhile (`seeds.py`). Whatever happens between two batches is forgotten and done again;
nothing else is.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.batch import Batch, BatchWriter, settle_duplicates
from scrubjay.crawler.frontier import CrawlFrontier
from scrubjay.crawler.page_events import CrawlTeller, NewEvents
from scrubjay.crawler.page_store import stored_extraction
from scrubjay.crawler.pages import PageFetcher, PageOutcome
from scrubjay.crawler.scope import UrlScope
from scrubjay.crawler.seeds import SitemapSeeds
from scrubjay.crawler.shard import Shard
from scrubjay.crawler.tally import CrawlTally, name_limits
from scrubjay.errors import Conflict, JobHandedBack, JobInterrupted, JobTakenOver, Unavailable
from scrubjay.model.crawl_spec import CrawlMode, CrawlSpec
from scrubjay.model.crawling import CrawledPage, FrontierItem, FrontierStatus, KnownPage
from scrubjay.model.extraction import Extraction
from scrubjay.model.urls import host_of, parse_url
from scrubjay.queue.context import JobContext
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database
from scrubjay.telemetry import crawl_meter

T = TypeVar("T")
KnownPages = tuple[Mapping[str, KnownPage], Mapping[str, Sequence[KnownPage]]]  # by this scope, by others

BATCH_PAGES = 32
MOST_BATCH_PAGES = 64  # of a crawl that has as many under way besides
BATCH_SECONDS = 0.2
SHARD_BATCH_SECONDS = 0.5  # a shard has fewer pages in the same time, and a batch costs as much
FEW_PAGES = 4  # under way: then the links of what is done are what the crawl waits for
FEW_SECONDS = 0.01
IDLE_SECONDS = 1.0
MAIL_SECONDS = 0.25  # how late a shard that has nothing to do hears of links that another found for it
LETTING_FINISH_SECONDS = 5.0
WRITE_ATTEMPTS = 6


class Guide(Protocol):
    """What a plan has to say to a crawl of its site, beyond the spec."""

    async def first(self, connection: AsyncConnection, frontier: CrawlFrontier) -> Sequence[FrontierItem]:
        """What to begin with, beside or instead of the start URLs."""

    async def admit(self, connection: AsyncConnection, found: Sequence[FrontierItem]) -> Sequence[FrontierItem]:
        """Which of the links that were found are to be followed."""

    async def last(self, connection: AsyncConnection, frontier: CrawlFrontier) -> Sequence[FrontierItem]:
        """What to look at when nothing else is left, and something was there at all; nothing ends the crawl."""

    async def wrote(self, connection: AsyncConnection, pages: Sequence[CrawledPage]) -> None:
        """Called with the pages of a batch in the transaction that stores them."""

    @property
    def keeps_documents(self) -> bool:
        """Whether the pages become documents; then their events are sent when they have."""


class WebCrawl:
    """One run of one crawl job."""

    def __init__(
        self,
        context: JobContext,
        spec: CrawlSpec,
        scope_id: str,
        pages: PageFetcher,
        database: Database,
        guide: Guide | None = None,
        shard: Shard | None = None,
    ) -> None:
        self._guide = guide
        self._shard = shard
        self._database = database
        self._context = context
        self._spec = spec
        self._scope_id = scope_id
        self._pages = pages
        state = context.state
        self.tally = CrawlTally.load(state.get("tally"), every_host=spec.max_pages_per_host is not None)
        scope = UrlScope(state.get("roots") or spec.start_urls, spec.extent, spec.include, spec.exclude)
        self._frontier = CrawlFrontier(context.job.id, spec, scope, shard, goes_on=context.job.run > 1)
        kept = guide is not None and guide.keeps_documents
        self._teller = CrawlTeller(self.tally, kept=kept)
        limits = pages.options.limits
        self._writer = BatchWriter(
            context.job, spec, scope_id, self._frontier, self.tally, database, limits, keeps_documents=kept
        )
        self._too_deep_before = self.tally.limits.get("max_depth", 0)
        self._frontier.refused.update(state.get("refused") or {})
        self._batch_pages = max(BATCH_PAGES, min(MOST_BATCH_PAGES, self._frontier.window // 2))
        if self._frontier.keeps_order:
            self._batch_pages = 1  # every page may change what comes next
        self._news = asyncio.Event()
        self._seeds = SitemapSeeds(context, spec, pages, self._frontier, self._news)
        self._seeded = bool(state.get("seeded")) or not self._seeds.wanted
        self._working: dict[asyncio.Task[PageOutcome], FrontierItem] = {}
        self._done: list[PageOutcome] = []
        self._exhausted = False
        self._outage: Unavailable | None = None
        self._progressed = False
        self._looked_at = 0.0
        self._seconds_before = self.tally.seconds
        self._started_at = time.monotonic()
        pages.tally = self.tally
        pages.recall = self._recall

    async def run(self) -> dict[str, Any]:
        """Crawl until nothing is left to do or a limit is reached. JobInterrupted passes through, resumably."""
        try:
            await self._seed()
            await self._crawl()
            return await self._summary()
        except JobTakenOver:
            raise
        except JobInterrupted:
            await self._stop_early()
            raise
        except Unavailable as error:
            if not self._progressed:
                raise
            # What has come this far goes on when the database is back, and is not counted as having failed.
            await self._context.log(f"The crawl starts again from its last batch: {error.message}", level="warning")
            raise JobHandedBack from error
        finally:
            await self._abandon()

    async def _seed(self) -> None:
        async with self._context.transaction() as connection:
            asked = await self._frontier.hosts_asked(connection)
            await self._frontier.take_back(connection)
            starts: Sequence[FrontierItem] = [self._frontier.start_item(url) for url in self._spec.start_urls]
            if self._guide is not None:
                starts = await self._guide.first(connection, self._frontier) or starts
            starts = [item for item in starts if self._frontier.owns(item.host)]
            self.tally.discovered += await self._frontier.add(connection, starts)
            await self._remember(connection)
        starts_at = [host for url in self._spec.start_urls if self._frontier.owns(host := host_of(parse_url(url).text))]
        # After the transaction: only now is it certain that the run before is gone for good.
        await self._pages.polite.politeness.free_places({*asked, *starts_at} if self._context.job.run > 1 else ())
        if not self._seeded:
            self._seeds.start()

    async def _crawl(self) -> None:
        last_write = time.monotonic()
        while not self._is_over or await self._look_further():
            await self._context.checkpoint()
            if self._outage is not None:
                raise self._outage
            self._seeds.check()
            # With nothing under way, nothing more would come into the batch.
            due = not self._working or time.monotonic() - last_write >= self._patience
            if len(self._done) >= self._batch_pages or (due and (self._done or self._has_seeds or self._has_room)):
                await self._turn_over()
                last_write = time.monotonic()
            else:
                await self._wait_for_news()
            if self._shard is not None and self._exhausted:
                await self._look_for_mail(self._shard)
        if self._out_of_time:
            await self._stop_early()

    async def _look_further(self) -> bool:
        """Whether there is something to look at although no link leads to it."""
        if self._shard is not None:
            return await self._stay_ready(self._shard)
        ended = self._out_of_time or self.tally.fetched >= self._spec.max_pages or not self.tally.pages
        if self._guide is None or ended:
            return False
        async with self._context.transaction() as connection:
            items = await self._guide.last(connection, self._frontier)
            added = await self._frontier.add(connection, items)
        self.tally.discovered += added
        self._exhausted = not added
        return bool(added)

    async def _stay_ready(self, shard: Shard) -> bool:
        """A shard with nothing to do waits for what others find, in nobody's way; false when the crawl is over."""
        if not shard.is_over and shard.waits_for is None:
            async with self._context.transaction() as connection:
                await shard.rest(connection, self.tally.fetched)
                await self._remember(connection)
            self._context.rests = True
            await self._tell_progress()
        return not shard.is_over

    async def _look_for_mail(self, shard: Shard) -> None:
        if time.monotonic() - self._looked_at < MAIL_SECONDS:
            return
        self._looked_at = time.monotonic()
        async with self._database.reading() as connection:
            news = await shard.has_news(connection)
        if news:
            self._exhausted, self._context.rests, shard.waits_for = False, False, None

    @property
    def _is_over(self) -> bool:
        if self._out_of_time:
            return True
        if self._working or self._done or self._has_seeds or not self._exhausted:
            return False
        return self._seeded or self._is_spent

    @property
    def _is_spent(self) -> bool:
        """Whether the crawl has all the pages that it may have."""
        return self.tally.fetched >= self._spec.max_pages if self._shard is None else self._shard.is_starved

    @property
    def _has_seeds(self) -> bool:
        return bool(self._seeds.found) or (self._seeds.finished and not self._seeded)

    @property
    def _has_room(self) -> bool:
        free = self._frontier.free_places(self._pages.worth_holding) + len(self._done)
        return not self._exhausted and 2 * free >= self._frontier.window

    @property
    def _patience(self) -> float:
        """How long pages that are done wait for others to be written with them."""
        if len(self._working) < FEW_PAGES and not self._frontier.keeps_order:
            return FEW_SECONDS
        return BATCH_SECONDS if self._shard is None else SHARD_BATCH_SECONDS

    async def _wait_for_news(self) -> None:
        self._news.clear()
        idle = IDLE_SECONDS if self._shard is None else MAIL_SECONDS
        seconds = self._patience if self._done or self._has_seeds else idle
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def _turn_over(self) -> None:
        """Write what is done and take up what is next, in one transaction."""
        done, batch = await self._prepare()
        self._count_too_deep(self._frontier.too_deep)
        free = self._frontier.free_places(self._pages.worth_holding)

        async def lease(connection: AsyncConnection) -> tuple[Sequence[FrontierItem], KnownPages]:
            if self._shard is not None:
                await self._meet_others(connection, self._shard, free)
            items = await self._frontier.lease(connection, self._room(), self._pages.worth_holding, self._spent)
            hashes, pages = [item.url_hash for item in items], CrawledPages(connection)
            own = await pages.known(self._scope_id, hashes)
            return items, (own, await pages.known_elsewhere(self._context.job.tenant_id, self._scope_id, hashes))

        items, (known, elsewhere) = await self._write(
            batch, lease, [*self._teller.of_pages(done), *self._teller.of_hosts()]
        )
        self._progressed = self._progressed or bool(done)
        if free > 0:
            self._exhausted = not items and not self._frontier.held_back
        self._frontier.hold(items)
        for item in items:
            self._take_up(item, known.get(item.url_hash), elsewhere.get(item.url_hash, ()))
        self.tally.note_rate()
        await self._tell_progress()

    async def _meet_others(self, connection: AsyncConnection, shard: Shard, free: int) -> None:
        """Take in what other shards found, and see to it that the free places may be used."""
        shard.waits_for = None
        for root in await shard.look(connection):
            self._frontier.scope.add_root(root)
        self.tally.discovered += await self._frontier.add_mail(connection)
        await shard.ask_for_pages(connection, free - self._room())

    async def _prepare(self, *, save_memories: bool = False) -> tuple[Sequence[PageOutcome], Batch]:
        """All that is done and found by now, as one batch. Whatever fails from here on ends the run."""
        done, self._done = self._done, []
        self._seeded = self._seeded or self._seeds.finished
        listed = self._seeds.take()
        batch = await self._writer.prepare(done, save_memories=save_memories)
        batch.found += listed
        self._frontier.forget(outcome.item for outcome in done)
        return done, batch

    async def _write(
        self, batch: Batch, also: Callable[[AsyncConnection], Awaitable[T]], events: NewEvents | None = None
    ) -> T:
        """Write a batch, something else, what is to be told, and the state in one transaction.

        Two crawls may write the same pages of a site in the same moment; then the database turns one of them down,
        which simply tries again.
        """
        for attempt in range(WRITE_ATTEMPTS):
            before, granted = self.tally.discovered, 0 if self._shard is None else self._shard.granted
            try:
                async with self._context.transaction() as connection:
                    if self._guide is not None:
                        batch.found = list(await self._guide.admit(connection, batch.found))
                    self.tally.discovered += await self._writer.write(connection, batch)
                    if self._guide is not None:
                        await self._guide.wrote(connection, batch.pages)
                    outcome = await also(connection)
                    await self._remember(connection)
                    await self._context.tell(connection, events or ())
            except (Conflict, DBAPIError):
                self.tally.discovered = before
                if self._shard is not None:
                    self._shard.granted = granted
                if attempt == WRITE_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(random.uniform(0.02, 0.2) * (attempt + 1))  # noqa: S311 - hides nothing
            else:
                crawl_meter.tell(self._context.job.parent_id or self._context.job.id, batch.counts)
                return outcome
        raise AssertionError("the last attempt returns or raises")

    def _room(self) -> int:
        """How many more URLs may be taken up, if all that are under way turn out to be pages."""
        if self._spec.mode is CrawlMode.SEQUENTIAL and not self._seeded:
            return 0  # what sitemaps list has its place in the exact order
        most = self._spec.max_pages if self._shard is None else self._shard.granted
        return most - self.tally.fetched - self._frontier.leased

    @property
    def _spent(self) -> Mapping[str, int] | None:
        """What each host was asked for, if the crawl may ask each only for so much."""
        if self._spec.max_pages_per_host is None:
            return None
        return {host: numbers.pages + numbers.failed for host, numbers in self.tally.hosts.items()}

    @property
    def _out_of_time(self) -> bool:
        if self._shard is not None:
            return self._shard.is_over  # whoever looks after the shards has the clock
        limit = self._spec.max_seconds
        return limit is not None and self._seconds_before + time.monotonic() - self._started_at >= limit

    async def _recall(self, known: KnownPage) -> Extraction | None:
        """The extraction that a scope stored, if the page still has the same bytes there."""
        async with self._database.reading() as connection:
            stored = await CrawledPages(connection).by_hashes(known.scope_id, [known.url_hash])
        same = [page for page in stored if page.body_sha256 == known.body_sha256 and page.content is not None]
        return stored_extraction(same[0]) if same else None

    def _take_up(self, item: FrontierItem, known: KnownPage | None, elsewhere: Sequence[KnownPage]) -> None:
        task = asyncio.create_task(self._pages.process(item, known, elsewhere))
        self._working[task] = item
        task.add_done_callback(self._put_down)

    def _put_down(self, task: asyncio.Task[PageOutcome]) -> None:
        item = self._working.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, Unavailable):
            self._outage = error
            self._news.set()
            return
        if error is not None:
            # A fault of ours must not end the crawl, nor be taken for the page's own.
            self._context.note("crawl.fault", url=item.url, error=f"{type(error).__name__}: {error}")
            outcome = PageOutcome(item=item, error_type="internal", error=f"{type(error).__name__}: {error}"[:500])
        else:
            outcome = task.result()
        self._done.append(outcome)
        if len(self._done) >= self._batch_pages or len(self._working) < FEW_PAGES:
            self._news.set()

    async def _stop_early(self) -> None:
        """Let what is under way finish for a moment, write it, and give the rest back."""
        for task in self._working:
            if self._pages.polite.politeness.is_in_line(task):
                task.cancel()
        if self._working:
            await asyncio.wait(self._working, timeout=LETTING_FINISH_SECONDS)
        await self._abandon()
        try:
            done, batch = await self._prepare(save_memories=True)
            await self._write(batch, self._take_back, self._last_words(done))
        except Unavailable as error:
            # The next run takes it back, and does again what could not be written.
            await self._context.log(f"The last pages are not written: {error.message}", level="warning")

    async def _take_back(self, connection: AsyncConnection) -> None:
        await self._frontier.take_back(connection)
        self._count_too_deep(await self._frontier.count_too_deep(connection))

    def _count_too_deep(self, links: int) -> None:
        """Put the number of links that this run left out because of their depth into the tally."""
        if links + self._too_deep_before:
            self.tally.limits["max_depth"] = links + self._too_deep_before
        else:
            self.tally.limits.pop("max_depth", None)

    async def _abandon(self) -> None:
        tasks = list(self._working)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._seeds.stop(), return_exceptions=True)

    async def _remember(self, connection: AsyncConnection) -> None:
        self.tally.seconds = self._seconds_before + time.monotonic() - self._started_at
        state = {"tally": self.tally.dump(), "roots": self._frontier.scope.roots, "seeded": self._seeded}
        state["refused"] = dict(self._frontier.refused)
        if self._shard is not None:
            state["shard"] = self._shard.state
        # A plan's run remembers more than its crawl.
        await self._context.remember(connection, {**self._context.state, **state})

    async def _tell_progress(self) -> None:
        total = max(self.tally.fetched, min(self._spec.max_pages, self.tally.fetched + self.tally.queued))
        await self._context.progress(self.tally.fetched, total, "crawling", **self.tally.facts())

    def _last_words(self, done: Sequence[PageOutcome]) -> NewEvents:
        return [*self._teller.of_pages(done), *self._teller.of_hosts(all_of_them=True)]

    async def _summary(self) -> dict[str, Any]:
        done, batch = await self._prepare(save_memories=True)

        duplicates = self.tally.duplicates

        async def close(connection: AsyncConnection) -> int:
            if self._shard is None:
                wrong = await settle_duplicates(connection, self._scope_id, self._context.job.id)
                self.tally.duplicates = max(0, duplicates - wrong)
            self._count_too_deep(await self._frontier.count_too_deep(connection))
            left = (await self._frontier.tally(connection)).get(FrontierStatus.PENDING, 0)
            if self._shard is None:
                limits = self.tally.limits
                limits |= name_limits(self._spec, self.tally, left, self._frontier.refused, timed_out=self._out_of_time)
            return left

        left = await self._write(batch, close, self._last_words(done))
        await self._tell_progress()
        return {
            **self.tally.dump(),
            "left_in_queue": left,
            "refused_links": dict(self._frontier.refused),
            "scope_id": self._scope_id,
        }
