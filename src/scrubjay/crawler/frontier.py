"""The frontier of one running crawl: which links become work, and which work is taken up next.

The URLs themselves are rows (`storage/frontier.py`); here is what one run knows in memory, and can lose.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawl.relevance import Relevance
from scrubjay.crawl.scope import Scope
from scrubjay.crawl.shard import Shard
from scrubjay.crawl.traps import TrapMemory, find_trap, strip_session
from scrubjay.crawl.urls import hash_url, host_of, normal_form, parse_url
from scrubjay.model.clock import utc_now
from scrubjay.model.crawl_spec import CrawlMode, CrawlSpec, CrawlStrategy, Extent
from scrubjay.model.crawling import FrontierItem, FrontierStatus
from scrubjay.model.extraction import Anchor
from scrubjay.model.ids import new_id
from scrubjay.storage.database import Database
from scrubjay.storage.frontier import Frontier

LEASE_SECONDS = 600.0
FEWEST_AT_ONCE = 8  # URLs leased by one statement, so that one host does not take all places before it is noticed
REDIRECT_NOTE = "redirect to "
MAX_REDIRECTS = 10_000
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
        self, job_id: str, spec: CrawlSpec, scope: Scope, shard: Shard | None = None, *, goes_on: bool = False
    ) -> None:
        self.scope = scope
        self._shard = shard
        self.refused: Counter[str] = Counter()  # why links did not become work
        self._job_id = job_id
        self._spec = spec
        self._lease_id = new_id("lease")
        self._relevance = Relevance(spec.keywords)
        self._traps = TrapMemory()
        self._seen: set[int] = set()
        self._redirects: dict[str, str] = {}  # from hash to hash; the recent ones
        self._forgot_redirects = goes_on  # an earlier run of the job may have found some, too
        sequential = spec.mode is CrawlMode.SEQUENTIAL
        self.window = 1 if sequential else 2 * spec.concurrency + 16
        # Beyond this, more URLs of a host would only wait in memory and keep those of other hosts out of it.
        several_hosts = spec.extent in (Extent.DOMAIN, Extent.ANYWHERE) or len(spec.start_urls) > 1
        self._host_window = min(self.window, 4 * spec.host_concurrency) if several_hosts else self.window
        self._at_once = max(FEWEST_AT_ONCE, self._host_window // 4) if several_hosts else self.window
        self._leased: Counter[str] = Counter()

    @property
    def leased(self) -> int:
        return self._leased.total()

    def start_item(self, url: str) -> FrontierItem:
        # As links to it are written: `https://example.org` and `https://example.org/` are one page.
        return self._item(parse_url(url).text, depth=0, score=1.0, parent_url=None)

    def known_item(self, url: str, depth: int, score: float = 0.0) -> FrontierItem | None:
        """An address that an earlier crawl came across, if it still belongs to this one."""
        if depth > self._spec.max_depth or (depth > 0 and self.scope.refusal(url) is not None):
            return None
        return self._item(url, depth=depth, score=score, parent_url=None)

    def redirected(self, item: FrontierItem, target: str) -> FrontierItem | None:
        """The work that a redirect leads to; nothing when the target does not belong to the crawl."""
        if item.depth == 0:
            self.scope.add_root(target)
        reason = self.scope.refusal(target)
        # A start is read although nothing includes it, and so is where it leads.
        if reason is not None and not (item.depth == 0 and reason in _NOT_SAID_OF_STARTS):
            self.refused[reason] += 1
            return None
        return self._item(target, depth=item.depth, score=item.score, parent_url=item.url, redirects=item.redirects + 1)

    def follow(self, item: FrontierItem, links: Iterable[Sequence[Any]]) -> list[FrontierItem]:
        """The links of a page (anchors, or what was stored of them) that may be new work; the database decides which
        of them are."""
        if not self._spec.follow_links or item.depth >= self._spec.max_depth:
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
            found.reverse()
        return found

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

    async def hosts_asked(self, connection: AsyncConnection) -> Sequence[str]:
        """The hosts that an earlier run of this job was asking when it ended."""
        return await Frontier(connection).leased_hosts(self._job_id)

    async def take_back(self, connection: AsyncConnection) -> None:
        """Free what an earlier run of this job had leased."""
        await Frontier(connection).release(self._job_id)
        self._leased.clear()

    def owns(self, host: str) -> bool:
        """Whether a host is asked by this run, and not by another shard of the crawl."""
        return self._shard is None or self._shard.owns(host)

    async def add(self, connection: AsyncConnection, items: Sequence[FrontierItem]) -> int:
        """Take in what is new; what belongs to other shards is sent to them. Returns how many were new here."""
        if self._shard is not None:
            items = await self._shard.send(connection, items)
        return await Frontier(connection).add_new(items) if items else 0

    async def add_mail(self, connection: AsyncConnection) -> int:
        """Take in what other shards found for this one."""
        links = await self._shard.receive(connection) if self._shard is not None else ()
        items = []
        for link in links:
            if link.depth == 0:
                self.scope.add_root(link.url)  # where a start redirected to
            values = {"depth": link.depth, "score": link.score, "redirects": link.redirects}
            items.append(self._item(link.url, parent_url=link.parent_url, **values))
        return await Frontier(connection).add_new(items) if items else 0

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
        share = HostShare(self._spec, held, spent or {})
        while len(items) < free:
            limit = min(free - len(items), self._at_once)
            full = [host for host in held if held[host] >= min(self._host_window, worth_holding(host))]
            taken = await Frontier(connection).lease(
                self._job_id,
                self._lease_id,
                limit=limit,
                now=now,
                until=now + timedelta(seconds=LEASE_SECONDS),
                strategy=self._spec.strategy,
                avoid_hosts=[*full, *share.used_up],
                only_hosts=share.open_hosts,
            )
            too_many = []
            for item in taken:
                if share.take(item.host):
                    items.append(item)
                else:
                    too_many.append(item.url_hash)
            await Frontier(connection).give_back(self._job_id, too_many)
            if len(taken) < limit:
                break
        return items

    def hold(self, items: Iterable[FrontierItem]) -> None:
        """These URLs are leased, and in the window."""
        self._leased.update(item.host for item in items)

    async def settle(self, connection: AsyncConnection, settled: Sequence[Settled]) -> None:
        rows = [(item.url_hash, status, error) for item, status, error in settled]
        await Frontier(connection).settle(self._job_id, rows)

    def forget(self, items: Iterable[FrontierItem]) -> None:
        """These URLs are settled; their places in the window are free."""
        for item in items:
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
