"""One poll of one watch: ask the source, sort what it says, look at what is new, and write it all at once.

Nothing is written before the end. A process that dies in between leaves a lease that runs out, and the next poll
finds the same; one that lost its lease writes nothing.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from scrubjay.crawler.fetcher import Fetcher
from scrubjay.crawler.polite import PoliteFetcher
from scrubjay.crawler.politeness import Manners, Politeness
from scrubjay.crawler.robots import Robots
from scrubjay.crawler.web_crawler import WebCrawler
from scrubjay.errors import CircuitOpen, ExtractionFailed, FetchFailed, HostBlocked, UrlBlocked, UrlInvalid
from scrubjay.model.clock import utc_now
from scrubjay.model.destination import Destination
from scrubjay.model.watching import ItemState, ThrottleLevel, Watch, WatchItem, WatchKind
from scrubjay.storage.watches import Watches, WatchItems
from scrubjay.telemetry import get_logger, redact, scout_monitor_events_total
from scrubjay.watches import timing
from scrubjay.watches.brake import read_brake
from scrubjay.watches.budget import OVER_BUDGET, Meter, MeteredFetcher
from scrubjay.watches.desk import NewsDesk
from scrubjay.watches.issue import Found, PollTally
from scrubjay.watches.pages import read_page
from scrubjay.watches.sitemaps import forget_reading, read_sitemap
from scrubjay.watches.sorting import Sorting, sort_entries
from scrubjay.watches.sources import Entry, Reader, WatchListing, read_feed

Clock = Callable[[], datetime]
LONG_WRITE = 100  # rows: more than a moment's work for SQLite
MAX_TENANTS = 200
MAX_MESSAGE_CHARACTERS = 1000
_READERS = {WatchKind.FEED: read_feed, WatchKind.SITEMAP: read_sitemap, WatchKind.PAGE: read_page}
# Of the source. What is wrong on our side is not held against it.
_FAILURES = (FetchFailed, ExtractionFailed, UrlBlocked, HostBlocked, UrlInvalid)

log = get_logger(__name__)


class PollStatus(StrEnum):
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    FAILED = "failed"
    OVER_BUDGET = "over_budget"
    LOST = "lost"  # somebody else has the watch by now, or it is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class PollOutcome:
    status: PollStatus
    requests: int = 0
    remembered: int = 0
    tally: PollTally = field(default_factory=PollTally)
    error: str | None = None

    def dump(self) -> dict[str, Any]:
        facts = {"status": str(self.status), "requests": self.requests, "remembered": self.remembered}
        return {**facts, **asdict(self.tally), "error": self.error}


class Poller:
    def __init__(self, crawler: WebCrawler, desk: NewsDesk, clock: Clock = utc_now) -> None:
        self._crawler = crawler
        self._database = crawler.database
        self._desk = desk
        self.clock = clock
        self._fetcher: Fetcher | None = None
        self._politeness: dict[str, Politeness] = {}

    async def close(self) -> None:
        if self._fetcher is not None:
            await self._fetcher.close()

    async def poll(self, watch: Watch) -> PollOutcome:
        """Look at the source of a watch that is leased; its `lease` says by whom."""
        now = self.clock()
        left = watch.daily_budget - timing.used_today(watch, now)
        level = (await read_brake(self._database, self._crawler.settings)).level
        if left <= 0:
            return await self._give_back(watch, now, PollOutcome(status=PollStatus.OVER_BUDGET))
        reader = self._reader(watch, now, left)
        try:
            listing = await _READERS[watch.kind](reader, watch)
            outcome = await self._take(reader, watch, listing, level)
        except _FAILURES as error:
            outcome = await self._fail(reader, watch, error, level)
        _count(outcome)
        return outcome

    def _reader(self, watch: Watch, now: datetime, left: int) -> Reader:
        crawler = self._crawler
        if self._fetcher is None:
            self._fetcher = crawler.network.fetcher(user_agent=crawler.settings.crawl_user_agent)
        polite = PoliteFetcher(self._fetcher, self._polite_to(watch.tenant_id))
        fetcher = MeteredFetcher(polite, Meter(left))
        robots = Robots(fetcher.counting_only, crawler.cache, user_agent=crawler.settings.crawl_user_agent)
        return Reader(fetcher, robots, crawler.pool, now)

    def _polite_to(self, tenant_id: str) -> Politeness:
        """All polls of a tenant wait for their turns in the same line."""
        known = self._politeness.get(tenant_id)
        if known is None:
            if len(self._politeness) >= MAX_TENANTS:
                self._politeness.clear()
            known = Politeness(self._crawler.cache, self._database, tenant_id, Manners())
            self._politeness[tenant_id] = known
        return known

    async def _take(self, reader: Reader, watch: Watch, listing: WatchListing, level: ThrottleLevel) -> PollOutcome:
        sorting, found = Sorting(), list[Found]()
        if not listing.unchanged:
            async with self._database.reading() as connection:
                sorting = await sort_entries(
                    WatchItems(connection), watch, listing, now=reader.now, debounce=self._desk.rules.debounce
                )
            found = await self._desk.look(reader, watch, sorting, timing.reserved_requests(watch, reader.now))
            found = await self._desk.score(watch, found, reader.now)
        destination, trouble = Destination.to(None), None
        if found:
            destination, trouble = await self._desk.rules.trigger.destination(watch)
        problems = [*listing.problems, *sorting.problems, *([trouble] if trouble else [])]
        return await self._write(reader, watch, listing, sorting, found, destination, problems, level)

    async def _write(
        self,
        reader: Reader,
        watch: Watch,
        listing: WatchListing,
        sorting: Sorting,
        found: list[Found],
        destination: Destination,
        problems: list[str],
        level: ThrottleLevel,
    ) -> PollOutcome:
        """Everything at once: the items, their stories, the job, and the watch itself."""
        now, tally = reader.now, PollTally()
        remembered = _unrepeated(sorting.old)
        async with self._database.writing(long=len(remembered) + len(sorting.rebased) > LONG_WRITE) as connection:
            if found:
                await Watches(connection).lock_news(watch.tenant_id)
            changes = self._changes(reader, watch, listing, sorting, problems, level)
            if not await Watches(connection).settle(watch.id, watch.lease or "", **changes):
                return PollOutcome(status=PollStatus.LOST, requests=reader.fetcher.meter.used)
            items = WatchItems(connection)
            await items.add_many([_seen(watch, entry, now) for entry in remembered])
            await items.rehash(watch.id, sorting.rebased)
            if found:
                tally = await self._desk.publish(connection, watch, found, destination, now, level)
            if tally.debounced and listing.memory is not None:
                # It must say again what came too soon.
                await Watches(connection).update(watch.tenant_id, watch.id, **_forgetful(listing, now))
        tally.debounced += sorting.debounced
        if tally.triggered:
            await self._desk.rules.trigger.signals.work()
        if tally.breaking:
            await self._desk.rules.trigger.signals.outbox()
        changed = any((remembered, tally.new, tally.updated, tally.suppressed, tally.debounced))
        return PollOutcome(
            status=PollStatus.CHANGED if changed else PollStatus.UNCHANGED,
            requests=reader.fetcher.meter.used,
            remembered=len(remembered),
            tally=tally,
        )

    def _changes(
        self,
        reader: Reader,
        watch: Watch,
        listing: WatchListing,
        sorting: Sorting,
        problems: list[str],
        level: ThrottleLevel,
    ) -> dict[str, Any]:
        now, meter = reader.now, reader.fetcher.meter
        changes = {
            **self._spent(watch, now, meter.used),
            "failures": 0,
            "last_error": None,
            "last_success_at": now,
            "next_poll_at": timing.next_poll(watch, now, level, left=meter.left),
        }
        if not listing.unchanged:
            changes["notice"] = _sentence(problems)
            known = {} if not sorting.is_complete else {"etag": listing.etag, "last_modified": listing.last_modified}
            changes |= known or _forgetful(listing, now)
            if watch.kind is WatchKind.PAGE and sorting.is_complete and listing.entries:
                changes["last_fingerprint"] = listing.entries[0].fingerprint
        if listing.memory is not None and "memory" not in changes:
            changes["memory"] = dict(listing.memory)
        if sorting.rebased:
            changes["memory"] = {**changes.get("memory", watch.memory), "rebased_at": now.isoformat()}
        return changes

    @staticmethod
    def _spent(watch: Watch, now: datetime, requests: int) -> dict[str, Any]:
        return {
            "requests_today": timing.used_today(watch, now) + requests,
            "budget_day": timing.day_of(now),
            "last_polled_at": now,
        }

    async def _fail(self, reader: Reader, watch: Watch, error: Any, level: ThrottleLevel) -> PollOutcome:
        """The failure in words on the watch; the next try comes later each time."""
        now, used = reader.now, reader.fetcher.meter.used
        if getattr(error, "error_type", None) == OVER_BUDGET:
            return await self._give_back(watch, now, PollOutcome(status=PollStatus.OVER_BUDGET, requests=used))
        message = str(redact(error.message))[:MAX_MESSAGE_CHARACTERS]
        failures = watch.failures + 1
        wait = error.wait_seconds if isinstance(error, CircuitOpen) else error.details.get("retry_after_seconds")
        next_try = timing.next_try(watch, now, level, failures=failures, retry_after_seconds=wait)
        changes = {**self._spent(watch, now, used), "failures": failures, "last_error": message}
        async with self._database.writing() as connection:
            held = await Watches(connection).settle(watch.id, watch.lease or "", next_poll_at=next_try, **changes)
        log.info("poll failed", watch_id=watch.id, failures=failures, reason=message)
        status = PollStatus.FAILED if held else PollStatus.LOST
        return PollOutcome(status=status, requests=used, error=message)

    async def _give_back(self, watch: Watch, now: datetime, outcome: PollOutcome) -> PollOutcome:
        """Nothing more today."""
        changes = self._spent(watch, now, outcome.requests)
        if not outcome.requests:
            del changes["last_polled_at"]
        async with self._database.writing() as connection:
            await Watches(connection).settle(
                watch.id, watch.lease or "", next_poll_at=timing.after_budget(now), **changes
            )
        return outcome


def _forgetful(listing: WatchListing, now: datetime) -> dict[str, Any]:
    """What a watch keeps of a listing that it must be told again."""
    memory = {} if listing.memory is None else forget_reading(listing.memory, now)
    return {"etag": None, "last_modified": None, "memory": memory}


def _unrepeated(entries: list[Entry]) -> list[Entry]:
    return list({entry.key_hash: entry for entry in entries}.values())


def _seen(watch: Watch, entry: Entry, now: datetime) -> WatchItem:
    return WatchItem(
        tenant_id=watch.tenant_id,
        watch_id=watch.id,
        key_hash=entry.key_hash,
        url=entry.url,
        url_hash=entry.url_hash,
        site=entry.site,
        title=entry.title,
        entry_hash=entry.entry_hash,
        fingerprint=entry.text_fingerprint,
        state=ItemState.SEEN,
        published_at=entry.published_at,
        seen_at=now,
    )


def _sentence(problems: list[str]) -> str | None:
    return " ".join(dict.fromkeys(problems))[:MAX_MESSAGE_CHARACTERS] or None


def _count(outcome: PollOutcome) -> None:
    tally = outcome.tally
    events = {
        "poll": 1,
        "unchanged": outcome.status is PollStatus.UNCHANGED,
        "failed": outcome.status is PollStatus.FAILED,
        "over_budget": outcome.status is PollStatus.OVER_BUDGET,
        "new": tally.new,
        "updated": tally.updated,
        "suppressed": tally.suppressed,
        "debounced": tally.debounced,
        "deferred": tally.waiting,
    }
    for name, number in events.items():
        if number:
            scout_monitor_events_total.labels(event_type=name).inc(number)
