"""The frontier of one running crawl: which links become work, and which work is taken up next.

The URLs themselves are rows (`storage/frontier.py`); here is what one run knows in memory, and can lose.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.host_slice import HostSlice
from scrubjay.crawler.relevance import Relevance
from scrubjay.crawler.scope import UrlScope
from scrubjay.crawler.traps import TrapMemory, find_trap, strip_session
from scrubjay.model.clock import utc_now
from scrubjay.model.crawl_spec import CrawlMode, CrawlSpec, CrawlStrategy, Extent
from scrubjay.model.crawling import FrontierItem, FrontierStatus
from scrubjay.model.extraction import Anchor
from scrubjay.model.ids import new_id
from scrubjay.model.urls import hash_url, host_of, normal_form, parse_url
from scrubjay.storage.database import Database
from scrubjay.storage.frontier import Frontier

LEASE_SECONDS = 600.0
FEWEST_AT_ONCE = 8  # URLs leased by one statement, so that one host does not take all places before it is noticed
RANK_SECONDS = 1.0  # how long a page under way holds back URLs of a lower rank
SCORE_SHARE = 0.5  # of the best score under way, that a URL needs to be fetched beside it
UNSCORED_PART = 4  # a best-first crawl uses one in so many places for links that match nothing
_NO_PLACE = (2.0**-40, float("inf"))  # of a page that this run did not find itself
PAGES_PER_PLACE = 10  # of the page budget, for each URL that a depth-first or best-first crawl fetches at once
REDIRECT_NOTE = "redirect to "
MAX_REDIRECTS = 10_000
MAX_TOO_DEEP = 10_000  # links below the maximum depth that are counted
MAX_SEEN = 300_000  # addresses remembered in memory; the database knows the rest

_NOT_SAID_OF_STARTS = frozenset({"not_included", "not_a_page"})

Settled = tuple[FrontierItem, FrontierStatus, str | None]


class HostShare:
    """How much of each host a crawl may still ask for, and of how many hosts at the same time.

    `held` counts what is under way, and goes on counting here.
    """

    def __init__(self, spec: CrawlSpec, held: Counter[str], spent: Mapping[str, int]) -> None:
        self._most_pages = spec.max_pages_per_host
        self._most_hosts = spec.concurrent_hosts
        self._held = held
        self._spent = spent

    def _is_used_up(self, host: str) -> bool:
        return self._most_pages is not None and self._spent.get(host, 0) + self._held[host] >= self._most_pages

    @property
    def used_up(self) -> list[str]:
        return [host for host in {*self._spent, *self._held} if self._is_used_up(host)]

    @property
    def open_hosts(self) -> list[str] | None:
        """The only hosts that may be asked while as many as are allowed have something under way."""
        busy = [host for host, count in self._held.items() if count > 0]
        return busy if self._most_hosts is not None and len(busy) >= self._most_hosts else None

    def take(self, host: str) -> bool:
        """Whether one more URL of the host may be taken up; then it counts as such."""
        open_hosts = self.open_hosts
        if self._is_used_up(host) or (open_hosts is not None and host not in open_hosts):
            return False
        self._held[host] += 1
        return True


class CrawlFrontier:
    """One run's view of a job's frontier. Only its `window` of leased URLs is ever in memory."""

    def __init__(
        self, job_id: str, spec: CrawlSpec, scope: UrlScope, slice_: HostSlice | None = None, *, goes_on: bool = False
    ) -> None:
        self.scope = scope
        self.hosts = None if slice_ is None else slice_.hosts  # that this job may request now; none means all
        self._slice_hosts = self.hosts  # that belong to this job alone
        self.refused: Counter[str] = Counter()  # why links did not become work
        self._job_id = job_id
        self._spec = spec
        self._lease_id = new_id("lease")
        self._relevance = Relevance(spec.keywords)
        self._traps = TrapMemory()
        self._seen: set[int] = set()
        self._too_deep: set[str] = set()  # hashes of links below the maximum depth
        self._redirects: dict[str, str] = {}  # from hash to hash; the recent ones
        self._forgot_redirects = goes_on  # an earlier run of the job may have found some, too
        sequential = spec.mode is CrawlMode.SEQUENTIAL
        # Depth-first and best-first decide again after every page, so they hold only what is fetched right now.
        self.keeps_order = spec.strategy is not CrawlStrategy.BFS and not sequential
        self.held_back = False  # the last lease left URLs in the queue because better ones may be found soon
        self._under_way: dict[str, tuple[FrontierItem, float]] = {}  # URL hash → what is leased, and since when
        self._places: dict[str, tuple[float, float]] = {}  # URL hash → its span's width, and where its parent's ends
        # Of a small budget, what is fetched at the same time would be all of it before any page could decide.
        ordered = min(spec.concurrency, max(1, spec.max_pages // PAGES_PER_PLACE))
        self.window = 1 if sequential else ordered if self.keeps_order else 2 * spec.concurrency + 16
        # Beyond this, more URLs of a host would only wait in memory and keep those of other hosts out of it.
        several_hosts = spec.extent in (Extent.DOMAIN, Extent.ANYWHERE) or len(spec.start_urls) > 1
        self._host_window = min(self.window, 4 * spec.host_concurrency) if several_hosts else self.window
        if slice_ is not None:  # its hosts keep nobody else waiting, and fewer batches cost less
            self._host_window = min(self.window, 16 * spec.host_concurrency)
        if self.keeps_order:
            self._host_window = min(self.window, spec.host_concurrency)
        self._at_once = max(FEWEST_AT_ONCE, self._host_window // 4) if several_hosts else self.window
        self._leased: Counter[str] = Counter()

    @property
    def leased(self) -> int:
        return self._leased.total()

    @property
    def busy_hosts(self) -> Collection[str]:
        return self._leased.keys()

    def start_item(self, url: str) -> FrontierItem:
        # As links to it are written: `https://example.org` and `https://example.org/` are one page.
        return self._item(parse_url(url).text, depth=0, score=1.0, parent_url=None)

    def known_item(self, url: str, depth: int, score: float = 0.0) -> FrontierItem | None:
        """An address of an earlier crawl, unless this crawl's patterns exclude it.

        Pages deeper than `max_depth` are requested too: not following links to them does not mean that they are gone.
        """
        if depth > 0 and self.scope.refusal(url) is not None:
            return None
        return self._item(url, depth=min(depth, self._spec.max_depth), score=score, parent_url=None)

    def redirected(self, item: FrontierItem, target: str) -> FrontierItem | None:
        """The work that a redirect leads to; nothing when the target does not belong to the crawl."""
        if item.depth == 0:
            self.scope.add_root(target)
        reason = self.scope.refusal(target)
        # A start is read although nothing includes it, and so is where it leads.
        if reason is not None and not (item.depth == 0 and reason in _NOT_SAID_OF_STARTS):
            self.refused[reason] += 1
            return None
        new = self._item(target, depth=item.depth, score=item.score, parent_url=item.url, redirects=item.redirects + 1)
        if item.url_hash in self._places:
            self._places[new.url_hash] = self._places[item.url_hash]
        return new

    def follow(self, item: FrontierItem, links: Iterable[Sequence[Any]]) -> list[FrontierItem]:
        """The links of a page (anchors, or what was stored of them) that may be new work; the database decides which
        of them are."""
        if not self._spec.follow_links:
            return []
        if item.depth >= self._spec.max_depth:
            self._note_too_deep(item, links)
            return []
        found = []
        best_first, seen = self._spec.strategy is CrawlStrategy.BEST_FIRST, self._seen
        if not best_first:
            links = [link for link in links if hash(link[0]) not in seen]  # most pages have no news
        for anchor in map(Anchor._make, links):
            # The same link can be worth more in other words.
            key = hash((anchor.url, anchor.text) if best_first else anchor.url)
            if key in seen:
                continue
            if len(seen) >= MAX_SEEN:
                seen.clear()
            seen.add(key)
            new = self._consider(item, anchor)
            if new is not None:
                found.append(new)
        if self._spec.strategy is CrawlStrategy.DFS:
            if self.keeps_order:
                return self._place_children(item, found)
            found.reverse()
        return found

    def _note_too_deep(self, item: FrontierItem, links: Iterable[Sequence[Any]]) -> None:
        """Remember the links that only their depth keeps out of the crawl, up to a number."""
        if self._spec.max_depth == 0 or len(self._too_deep) >= MAX_TOO_DEEP:
            return
        seen = self._seen
        for url in {link[0] for link in links if hash(link[0]) not in seen}:
            if self.scope.refusal(url) is None and find_trap(url, item.url) is None:
                self._too_deep.add(hash_url(normal_form(strip_session(url))))

    @property
    def too_deep(self) -> int:
        """The maximum number of links that the crawl's depth left out; some of them may be known by now."""
        return len(self._too_deep)

    async def count_too_deep(self, connection: AsyncConnection) -> int:
        """How many links the crawl's depth left out: those that no shorter way led to either."""
        return len(self._too_deep - await Frontier(connection).known(self._job_id, self._too_deep))

    def _consider(self, item: FrontierItem, anchor: Anchor) -> FrontierItem | None:
        url = strip_session(anchor.url)
        reason = self.scope.refusal(url) or find_trap(url, item.url) or self._traps.find_trap(url)
        if reason is not None:
            self.refused[reason] += 1
            return None
        score = 0.0
        if self._spec.keywords:
            score = self._relevance.score_link(url, anchor.text, anchor.context)
            if self._spec.strategy is CrawlStrategy.BEST_FIRST and score < self._spec.score_threshold:
                self.refused["irrelevant"] += 1
                return None
        return self._item(url, depth=item.depth + 1, score=score, parent_url=item.url)

    def listed(self, url: str) -> list[FrontierItem]:
        """The work that an entry of a sitemap is, if it belongs to the crawl."""
        root = FrontierItem(job_id=self._job_id, url_hash="", url=self.scope.roots[0], host="")
        return self.follow(root, [Anchor(url)])

    def learn(self, url: str, content_hash: str) -> None:
        """Tell the trap memory what a page contained."""
        self._traps.learn(url, content_hash)

    def _item(self, url: str, **values: Any) -> FrontierItem:
        return FrontierItem(
            job_id=self._job_id, url_hash=hash_url(normal_form(url)), url=url, host=host_of(url), **values
        )

    async def hosts_asked(self, connection: AsyncConnection, but_hosts: Collection[str] = ()) -> Sequence[str]:
        """The hosts that an earlier run of this job was requesting when it ended."""
        found = await Frontier(connection).leased_hosts(self._job_id)
        return [
            host for host in found if host not in but_hosts and (self._slice_hosts is None or host in self._slice_hosts)
        ]

    async def take_back(self, connection: AsyncConnection, but_hosts: Collection[str] = ()) -> None:
        """Free what an earlier run of this job had leased; `but_hosts` belong to slices of the crawl."""
        await Frontier(connection).release(self._job_id, only_hosts=self._slice_hosts, but_hosts=but_hosts)
        self._leased.clear()
        self._under_way.clear()

    async def add(self, connection: AsyncConnection, items: Sequence[FrontierItem]) -> int:
        """Take in what is new; returns how many were."""
        best_first = self._spec.strategy is CrawlStrategy.BEST_FIRST
        if not items:
            return 0
        return await Frontier(connection).add_new(items, raise_scores=best_first, is_shared=self.hosts is not None)

    def free_places(self, worth_holding: Callable[[str], int]) -> int:
        """The free part of the window. What a slow host keeps waiting takes no place from other hosts."""
        return self.window - sum(min(count, worth_holding(host)) for host, count in self._leased.items())

    async def lease(
        self,
        connection: AsyncConnection,
        room: int,
        worth_holding: Callable[[str], int],
        spent: Mapping[str, int] | None = None,
    ) -> Sequence[FrontierItem]:
        """Take up work for the free part of the window, at most `room`; `hold` it when that is committed.

        `worth_holding` says how many URLs of a host are worth having in memory: those whose turn comes soon.
        `spent` says how much of what a host may be asked for it has been asked for, where the spec limits that.
        """
        free = min(room, self.free_places(worth_holding))
        held, items, now = self._leased.copy(), list[FrontierItem](), utc_now()
        self.held_back = False
        share = HostShare(self._spec, held, spent or {})
        while len(items) < free:
            limit = min(free - len(items), self._at_once)
            full = [host for host in held if held[host] >= min(self._host_window, worth_holding(host))]
            allowed = share.open_hosts
            if self.hosts is not None:
                allowed = [host for host in (self.hosts if allowed is None else allowed) if host in self.hosts]
                if not allowed:
                    break
            taken = await Frontier(connection).lease(
                self._job_id,
                self._lease_id,
                limit=limit,
                now=now,
                until=now + timedelta(seconds=LEASE_SECONDS),
                strategy=CrawlStrategy.BEST_FIRST if self.keeps_order else self._spec.strategy,
                avoid_hosts=[*full, *share.used_up],
                only_hosts=allowed,
            )
            too_many = []
            for item in taken:
                if self.keeps_order and self._is_worth_waiting(item, items):
                    self.held_back = True
                    too_many.append(item.url_hash)
                elif share.take(item.host):
                    items.append(item)
                else:
                    too_many.append(item.url_hash)
            await Frontier(connection).give_back(self._job_id, too_many)
            if len(taken) < limit or self.held_back:
                break
        return items

    def _is_worth_waiting(self, item: FrontierItem, chosen: Sequence[FrontierItem]) -> bool:
        """Whether a URL waits because what is under way may lead to better ones. A page that takes long holds nothing
        back."""
        recent = time.monotonic() - RANK_SECONDS
        under_way = [leased for leased, at in self._under_way.values() if at >= recent]
        best = max((*under_way, *chosen), key=lambda each: each.score, default=None)
        if best is None:
            return False
        if self._spec.strategy is CrawlStrategy.DFS:
            # Beside a page, the other links of its parent are fetched, and nothing that comes after all of them.
            end = self._places.get(best.url_hash, _NO_PLACE)[1]
            return item.depth > best.depth or 1 - item.score >= end
        if item.score <= 0:
            # Nothing says which of these is better: a few at a time, until a better one is found.
            others = sum(each.score <= 0 for each in (*under_way, *chosen))
            return best.score > 0 or others >= max(1, self.window // UNSCORED_PART)
        return item.score < SCORE_SHARE * best.score

    def _place_children(self, item: FrontierItem, found: Sequence[FrontierItem]) -> list[FrontierItem]:
        """Give links the score of their place in depth-first order: each page has a span of the numbers from 0 to 1,
        and its links share it out. What comes first scores highest."""
        start = 1 - item.score
        width = self._places.get(item.url_hash, _NO_PLACE if item.depth else (1.0, 1.0))[0]
        step = width / (len(found) + 1)
        if len(self._places) >= MAX_SEEN:
            self._places.clear()
        placed = [replace(child, score=1 - (start + step * number)) for number, child in enumerate(found, start=1)]
        self._places.update((child.url_hash, (step, start + width)) for child in placed)
        return placed

    def hold(self, items: Iterable[FrontierItem]) -> None:
        """These URLs are leased, and in the window."""
        self._leased.update(item.host for item in items)
        if self.keeps_order:
            now = time.monotonic()
            self._under_way.update((item.url_hash, (item, now)) for item in items)

    async def settle(self, connection: AsyncConnection, settled: Sequence[Settled]) -> None:
        rows = [(item.url_hash, status, error) for item, status, error in settled]
        await Frontier(connection).settle(self._job_id, rows)

    def forget(self, items: Iterable[FrontierItem]) -> None:
        """These URLs are settled; their places in the window are free."""
        for item in items:
            self._under_way.pop(item.url_hash, None)
            self._leased[item.host] -= 1
            if self._leased[item.host] <= 0:
                del self._leased[item.host]

    async def leads_back(self, database: Database, item: FrontierItem, target: str) -> bool:
        """Whether redirects lead from the target back to the item, as far as they are known."""
        if len(self._redirects) >= MAX_REDIRECTS:
            self._redirects.clear()
            self._forgot_redirects = True
        at = self._redirects[item.url_hash] = hash_url(normal_form(target))
        for _ in range(self._spec.max_redirects + 1):
            if at == item.url_hash:
                return True
            further = self._redirects.get(at)
            if further is None and self._forgot_redirects:
                further = await self._recall_redirect(database, at)
            if further is None:
                return False
            at = further
        return False

    async def _recall_redirect(self, database: Database, url_hash: str) -> str | None:
        async with database.reading() as connection:
            note = await Frontier(connection).note_of(self._job_id, url_hash)
        if note is None or not note.startswith(REDIRECT_NOTE):
            return None
        return hash_url(normal_form(note.removeprefix(REDIRECT_NOTE)))

    async def tally(self, connection: AsyncConnection) -> Mapping[FrontierStatus, int]:
        return await Frontier(connection).tally(self._job_id)
