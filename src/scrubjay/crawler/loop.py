"""The web: one durable crawl, from its start URLs to its last page. Steps 5 and 7 of a page's journey.

`WebCrawl.run` is the story: seed the frontier, then keep a window of its URLs in work (`pages.py`) and write
what came of them in batches, each in one transaction with the links that were found and the URLs that are next.
Sitemaps are read meanwhile (`seeds.py`). Whatever happens between two batches is forgotten and done again;
nothing else is.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.batch import Batch, BatchWriter, settle_duplicates
from scrubjay.crawler.frontier import CrawlFrontier
from scrubjay.crawler.host_slice import HostSlice, PageBudget
from scrubjay.crawler.page_events import CrawlTeller, NewEvents
from scrubjay.crawler.page_store import stored_extraction
from scrubjay.crawler.pages import PageFetcher, PageOutcome
from scrubjay.crawler.scope import UrlScope
from scrubjay.crawler.seeds import SitemapSeeds
from scrubjay.crawler.sliced_crawl import LOOK_SECONDS, SlicedCrawl, is_told
from scrubjay.crawler.tally import CrawlTally, name_limits
from scrubjay.errors import Conflict, JobHandedBack, JobInterrupted, JobTakenOver, Unavailable
from scrubjay.model.crawl_spec import CrawlMode, CrawlSpec
from scrubjay.model.crawling import CrawledPage, FrontierItem, FrontierStatus, KnownPage
from scrubjay.model.extraction import Extraction
from scrubjay.model.urls import host_of, parse_url
from scrubjay.queue.context import JobContext
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database
from scrubjay.storage.shared_crawls import SharedCrawls
from scrubjay.telemetry import crawl_meter

T = TypeVar("T")
KnownPages = tuple[Mapping[str, KnownPage], Mapping[str, Sequence[KnownPage]]]  # by this scope, by others

BATCH_PAGES = 32
MOST_BATCH_PAGES = 64  # of a crawl that has as many under way besides
BATCH_SECONDS = 0.2
SLICE_BATCH_SECONDS = 0.5  # a slice has fewer pages in the same time, and a batch costs as much
FEW_PAGES = 4  # under way: then the links of what is done are what the crawl waits for
FEW_SECONDS = 0.01
IDLE_SECONDS = 1.0
LETTING_FINISH_SECONDS = 5.0
LETTING_SLICES_FINISH_SECONDS = 30.0
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
        slice_: HostSlice | None = None,
        sliced: SlicedCrawl | None = None,
    ) -> None:
        self._guide = guide
        self._slice = slice_  # when this job is a slice of a crawl
        self._sliced = sliced  # when this job may give hosts to slices
        self._crawl_id = context.job.id if slice_ is None else slice_.crawl_id
        self._database = database
        self._context = context
        self._spec = spec
        self._scope_id = scope_id
        self._pages = pages
        state = context.state
        own = state.get("own_tally") or state.get("tally")
        self.tally = CrawlTally.load(own, every_host=spec.max_pages_per_host is not None)
        scope = UrlScope(state.get("roots") or spec.start_urls, spec.extent, spec.include, spec.exclude)
        self._frontier = CrawlFrontier(self._crawl_id, spec, scope, slice_, goes_on=context.job.run > 1)
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
        self._seeded = bool(state.get("seeded")) or not self._seeds.wanted or slice_ is not None
        self._working: dict[asyncio.Task[PageOutcome], FrontierItem] = {}
        self._done: list[PageOutcome] = []
        self._exhausted = False
        self._outage: Unavailable | None = None
        self._progressed = False
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
        except JobInterrupted as interruption:
            await self._stop_early()
            if self._sliced is not None and self._sliced.is_active:
                await self._sliced.settle(interruption)
            await self._tell_progress()
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
            taken: Collection[str] = ()
            if self._sliced is not None:
                await self._sliced.begin(connection)
                taken = self._sliced.taken
            asked = await self._frontier.hosts_asked(connection, taken)
            await self._frontier.take_back(connection, taken)
            if self._sliced is not None:
                self._frontier.hosts = self._sliced.own_hosts
            if self._slice is None:
                starts: Sequence[FrontierItem] = [self._frontier.start_item(url) for url in self._spec.start_urls]
                if self._guide is not None:
                    starts = await self._guide.first(connection, self._frontier) or starts
                self.tally.discovered += await self._frontier.add(connection, starts)
            await self._remember(connection)
        hosts = self._frontier.hosts or {host_of(parse_url(url).text) for url in self._spec.start_urls}
        # After the transaction: only now is it certain that the run before is gone for good.
        await self._pages.polite.politeness.free_places({*asked, *hosts} if self._context.job.run > 1 else ())
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
            if self._sliced is not None and self._sliced.is_due:
                await self._look_at_slices(self._sliced)
        if self._out_of_time:
            await self._stop_early()
        if self._sliced is not None and self._sliced.is_active:
            await self._end_slices(self._sliced)

    async def _look_further(self) -> bool:
        """Whether there is something to look at although no link leads to it."""
        if self._slice is not None:
            self._exhausted = False  # others may have found links to these hosts
            return await self._slice.linger()
        if self._sliced is not None and self._frontier.hosts is not None and not self._sliced.is_active:
            await self._look_at_slices(self._sliced)
        if self._sliced is not None and self._sliced.is_active and not self._out_of_time:
            if self._sliced.home is not None:
                await self._leave_home(self._sliced)
            if not self._sliced.is_finished:
                return True
        whole = self._whole_tally
        ended = self._out_of_time or whole.fetched >= self._spec.max_pages or not whole.pages
        if self._guide is None or ended:
            return False
        async with self._context.transaction() as connection:
            items = await self._guide.last(connection, self._frontier)
            added = await self._frontier.add(connection, items)
        self.tally.discovered += added
        self._exhausted = not added
        if self._sliced is not None and added:
            self._sliced.is_finished = False
        return bool(added)

    async def _leave_home(self, sliced: SlicedCrawl) -> None:
        """From here on, this job requests nothing itself and only hands out hosts."""
        async with self._context.transaction() as connection:
            await sliced.budget.give_back(connection, self.tally.fetched)
            sliced.home = None
            await self._remember(connection)
        sliced.is_finished = False  # slices may use what was given back
        self._frontier.hosts, self._context.rests = frozenset(), True

    async def _look_at_slices(self, sliced: SlicedCrawl) -> None:
        """Hand out hosts that have work, and take in what slices report."""
        sliced.add_up(self.tally, self._frontier.refused)
        news = await sliced.look(self._frontier.busy_hosts)
        if news.home_waits:
            self._exhausted = False
        if not sliced.is_active and not news.begins:
            return
        if news.has_changes:
            async with self._context.transaction() as connection:
                under_way = self.tally.fetched + self._frontier.leased
                await sliced.write(connection, news, under_way, self._frontier.scope.roots)
                await self._remember(connection)
                told = [(event.type, event.payload) for event in news.events if is_told(event)]
                await self._context.tell(connection, told)
            self._frontier.hosts = sliced.own_hosts
            if news.new:
                await self._context.announce_work()
            if told:
                await self._context.announce()
        await self._tell_progress()

    async def _end_slices(self, sliced: SlicedCrawl) -> None:
        """Wait for the slices that are left, when a limit ended the crawl, and take in what they report."""
        deadline = time.monotonic() + LETTING_SLICES_FINISH_SECONDS
        await sliced.end()
        while sliced.has_slices and time.monotonic() < deadline:
            await self._look_at_slices(sliced)
            await asyncio.sleep(LOOK_SECONDS)

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
        budget = self._budget
        return self.tally.fetched >= self._spec.max_pages if budget is None else budget.is_used_up

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
        if self._slice is not None:
            return SLICE_BATCH_SECONDS
        if len(self._working) < FEW_PAGES and not self._frontier.keeps_order:
            return FEW_SECONDS
        return BATCH_SECONDS

    async def _wait_for_news(self) -> None:
        self._news.clear()
        idle = IDLE_SECONDS if self._slice is None and self._sliced is None else LOOK_SECONDS
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
            await self._meet_others(connection, free)
            items = await self._frontier.lease(connection, self._room(), self._pages.worth_holding, self._spent)
            hashes, pages = [item.url_hash for item in items], CrawledPages(connection)
            own = await pages.known(self._scope_id, hashes)
            return items, (own, await pages.known_elsewhere(self._context.job.tenant_id, self._scope_id, hashes))

        items, (known, elsewhere) = await self._write(
            batch, lease, [*self._teller.of_pages(done), *self._teller.of_hosts()]
        )
        self._progressed = self._progressed or bool(done)
        if self._slice is not None and items:
            self._slice.note_work()
        if self._sliced is not None:
            self._sliced.is_finished = False  # there may be links to other hosts
        if free > 0:
            self._exhausted = not items and not self._frontier.held_back
        self._frontier.hold(items)
        for item in items:
            self._take_up(item, known.get(item.url_hash), elsewhere.get(item.url_hash, ()))
        self.tally.note_rate()
        await self._tell_progress()

    async def _meet_others(self, connection: AsyncConnection, free: int) -> None:
        """Learn what the crawl's other jobs found, and see to it that the free places may be used."""
        budget = self._budget
        if budget is None:
            return
        wanted = free - self._room()
        if self._slice is None:
            shared = await SharedCrawls(connection).find_by_job(self._crawl_id)
            await budget.ask(connection, wanted, self._spec.max_pages if shared is None else shared.granted)
        else:
            for root in await self._slice.look(connection, wanted):
                self._frontier.scope.add_root(root)

    @property
    def _budget(self) -> PageBudget | None:
        """This job's part of the crawl's pages, if others have parts too."""
        if self._slice is not None:
            return self._slice.budget
        return self._sliced.budget if self._sliced is not None and self._sliced.is_active else None

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
            budget = self._budget
            before, granted = self.tally.discovered, 0 if budget is None else budget.granted
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
                if budget is not None:
                    budget.granted = granted
                if attempt == WRITE_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(random.uniform(0.02, 0.2) * (attempt + 1))  # noqa: S311 - hides nothing
            else:
                crawl_meter.tell(self._crawl_id, batch.counts)
                return outcome
        raise AssertionError("the last attempt returns or raises")

    def _room(self) -> int:
        """How many more URLs may be taken up, if all that are under way turn out to be pages."""
        if self._spec.mode is CrawlMode.SEQUENTIAL and not self._seeded:
            return 0  # what sitemaps list has its place in the exact order
        budget = self._budget
        most = self._spec.max_pages if budget is None else budget.granted
        return most - self.tally.fetched - self._frontier.leased

    @property
    def _spent(self) -> Mapping[str, int] | None:
        """What each host was asked for, if the crawl may ask each only for so much."""
        if self._spec.max_pages_per_host is None:
            return None
        spent = {host: numbers.pages + numbers.failed for host, numbers in self.tally.hosts.items()}
        before = {} if self._slice is None else self._slice.spent
        return {host: spent.get(host, 0) + before.get(host, 0) for host in {*spent, *before}}

    @property
    def _out_of_time(self) -> bool:
        if self._slice is not None:
            return self._slice.is_over or self._slice.yields  # the crawl's own job has the clock
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
        await self._frontier.take_back(connection, () if self._sliced is None else self._sliced.taken)
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
        state: dict[str, Any] = {"roots": self._frontier.scope.roots, "seeded": self._seeded}
        state["tally"], state["refused"] = self.tally.dump(), dict(self._frontier.refused)
        if self._slice is not None:
            state["slice"] = self._slice.state
        if self._sliced is not None and self._sliced.is_active:
            state["own_tally"], state["tally"] = state["tally"], self._whole_tally.dump()
            state["slices"] = self._sliced.state
        # A plan's run remembers more than its crawl.
        await self._context.remember(connection, {**self._context.state, **state})

    async def _tell_progress(self) -> None:
        if self._slice is not None:
            return  # the crawl's own job tells it
        tally = self._whole_tally
        tally.note_rate()
        total = max(tally.fetched, min(self._spec.max_pages, tally.fetched + tally.queued))
        more = {} if self._sliced is None else self._sliced.facts()
        await self._context.progress(tally.fetched, total, "crawling", **tally.facts(), **more)

    @property
    def _whole_tally(self) -> CrawlTally:
        """Of the whole crawl, as far as this job knows it."""
        if self._sliced is None or not self._sliced.is_active:
            return self.tally
        self._sliced.add_up(self.tally, self._frontier.refused)
        return self._sliced.total

    def _last_words(self, done: Sequence[PageOutcome]) -> NewEvents:
        return [*self._teller.of_pages(done), *self._teller.of_hosts(all_of_them=True)]

    async def _summary(self) -> dict[str, Any]:
        done, batch = await self._prepare(save_memories=True)

        duplicates = self.tally.duplicates

        async def close(connection: AsyncConnection) -> int:
            self._count_too_deep(await self._frontier.count_too_deep(connection))
            if self._slice is not None:
                await self._slice.budget.give_back(connection, self.tally.fetched)
                return 0
            wrong = await settle_duplicates(connection, self._scope_id, self._crawl_id)
            self.tally.duplicates = duplicates - wrong
            return (await self._frontier.tally(connection)).get(FrontierStatus.PENDING, 0)

        left = await self._write(batch, close, self._last_words(done))
        await self._tell_progress()
        whole, refused = self._whole_tally, self._frontier.refused
        if self._sliced is not None and self._sliced.is_active:
            refused = Counter(self._sliced.refused)
        whole.duplicates = max(0, whole.duplicates)
        if self._slice is None:
            whole.limits |= name_limits(self._spec, whole, left, refused, timed_out=self._out_of_time)
        return {
            **whole.dump(),
            "left_in_queue": left,
            "refused_links": dict(refused),
            "scope_id": self._scope_id,
            **({} if self._sliced is None else self._sliced.facts()),
        }
