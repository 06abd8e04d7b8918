"""One poll's news on its way into the database: suppressed, judged, put into its story, and queued to be crawled."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from urllib.parse import unquote, urlsplit

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.model.destination import Destination
from scrubjay.model.watching import ItemState, Watch, WatchItem
from scrubjay.storage.watches import WatchItems
from scrubjay.watches.analysis import NewsScore
from scrubjay.watches.similarity import read_telling
from scrubjay.watches.sources import Entry
from scrubjay.watches.stories import STORY_SPAN, StoryBook
from scrubjay.watches.trigger import QUEUE_FULL, WatchTrigger

STORED_LEAD_CHARACTERS = 500
_SLUG_WORD = re.compile(r"[^\W\d_]{2,}")
_KEYS = frozenset({"watch_id", "key_hash", "tenant_id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Something new or changed, with what a look at it gave."""

    entry: Entry
    item: WatchItem | None = None  # what was known of it
    title: str | None
    lead: str
    fingerprint: str | None
    preview: str | None = None  # why there is none, if one was wanted
    score: NewsScore = field(default_factory=lambda: NewsScore(0.0))

    @property
    def is_update(self) -> bool:
        return self.item is not None


@dataclass(slots=True)
class PollTally:
    """What a poll came to."""

    new: int = 0
    updated: int = 0
    suppressed: int = 0
    debounced: int = 0
    triggered: int = 0
    waiting: int = 0
    breaking: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides about all news."""

    book: StoryBook
    trigger: WatchTrigger
    threshold: float
    debounce: timedelta


class Issue:
    """One poll's news on its way into the database."""

    def __init__(
        self, rules: Rules, connection: AsyncConnection, watch: Watch, destination: Destination, now: datetime
    ) -> None:
        self._rules = rules
        self._connection = connection
        self._items = WatchItems(connection)
        self._watch = watch
        self._destination = destination
        self._now = now
        self._by_url: dict[str, WatchItem] = {}
        self._by_text: dict[str, WatchItem] = {}
        self._to_crawl: list[WatchItem] = []
        self.stories: dict[str, None] = {}
        self.tally = PollTally()

    async def open(self, found: Sequence[Found]) -> None:
        urls = {each.entry.url_hash for each in found}
        texts = {each.fingerprint for each in found if each.fingerprint}
        for item in await self._items.elsewhere(self._watch.tenant_id, self._watch.id, urls, texts):
            if item.watch_id != self._watch.id:
                self._by_url.setdefault(item.url_hash, item)
            if item.fingerprint:
                self._by_text.setdefault(item.fingerprint, item)
        self._chapter = await self._rules.book.open(self._connection, self._watch.tenant_id, self._now)

    async def take(self, found: Found) -> None:
        if found.item is not None and self._is_cosmetic(found, found.item):
            await self._items.change(self._watch.id, found.item.key_hash, entry_hash=found.entry.entry_hash)
            return
        if found.item is not None and self._is_too_soon(found):
            self.tally.debounced += 1
            return
        item = self._item(found)
        first = self._seen_before(found)
        if first is not None:
            same_address = first.url_hash == item.url_hash
            reason = "Another watch saw this address first." if same_address else f"{first.url} says the same."
            item = replace(item, state=ItemState.SUPPRESSED, reason=reason)
            # The same text from another site is another source of the story, though there is nothing new to crawl.
            if not same_address and first.site != item.site and first.story_id is not None:
                item = await self._placed(found, item, first.story_id)
            self.tally.suppressed += 1
        else:
            item = await self._placed(found, self._judged(found, item))
            self.tally.updated += found.is_update
            self.tally.new += not found.is_update
        if item.fingerprint:
            self._by_text.setdefault(item.fingerprint, item)
        if item.state is ItemState.QUEUED:
            self._to_crawl.append(item)
        else:
            await self._put(item)

    def _is_cosmetic(self, found: Found, item: WatchItem) -> bool:
        return found.fingerprint is not None and found.fingerprint == item.fingerprint

    def _is_too_soon(self, found: Found) -> bool:
        other = self._by_url.get(found.entry.url_hash)
        return other is not None and other.news_at is not None and self._now - other.news_at < self._rules.debounce

    def _seen_before(self, found: Found) -> WatchItem | None:
        if found.is_update:
            return None
        by_url = self._by_url.get(found.entry.url_hash)
        return by_url or (self._by_text.get(found.fingerprint) if found.fingerprint else None)

    def _item(self, found: Found) -> WatchItem:
        entry, known = found.entry, found.item
        return WatchItem(
            tenant_id=self._watch.tenant_id,
            watch_id=self._watch.id,
            key_hash=entry.key_hash if known is None else known.key_hash,
            url=entry.url,
            url_hash=entry.url_hash,
            site=entry.site,
            title=found.title,
            lead=found.lead[:STORED_LEAD_CHARACTERS] or None,
            entry_hash=entry.entry_hash,
            fingerprint=found.fingerprint,
            news_score=found.score.value,
            factors=found.score.factors,
            story_id=None if known is None else known.story_id,
            job_id=None if known is None else known.job_id,
            updates=0 if known is None else known.updates + 1,
            published_at=entry.published_at,
            news_at=self._now,
            seen_at=self._now if known is None else known.seen_at,
        )

    def _judged(self, found: Found, item: WatchItem) -> WatchItem:
        threshold = self._rules.threshold if self._watch.threshold is None else self._watch.threshold
        if found.score.value < threshold:
            return replace(item, state=ItemState.BELOW, reason=f"Its score is below {threshold:g}.")
        if not found.entry.is_page:
            return replace(item, state=ItemState.BELOW, reason="It has no page that could be crawled.")
        return replace(item, state=ItemState.QUEUED)

    async def _placed(self, found: Found, item: WatchItem, story_id: str | None = None) -> WatchItem:
        """In its story. What is old, though we hear of it only now, tells nothing of what happens now."""
        if item.story_id is None:
            published = item.published_at
            if published is not None and published < self._now - STORY_SPAN:
                return item
            heading = heading_of(found)
            telling = read_telling(heading, found.lead)
            if not telling.all:
                return item
            story = await self._chapter.place(self._connection, telling, heading or item.url, story_id)
            item = replace(item, story_id=story.id)
        self.stories[str(item.story_id)] = None
        return item

    async def trigger(self) -> None:
        """One job for all that is worth it, written with the items; or they wait."""
        if not self._to_crawl:
            return
        trigger, job_id, state, reason = self._rules.trigger, None, ItemState.QUEUED, None
        if await trigger.has_room(self._connection):
            job = await trigger.submit(self._connection, self._watch, self._to_crawl, self._destination)
            job_id = job.id
            self.tally.triggered = len(self._to_crawl)
        else:
            state, reason = ItemState.WAITING, QUEUE_FULL
            self.tally.waiting = len(self._to_crawl)
        for item in self._to_crawl:
            await self._put(replace(item, state=state, reason=reason, job_id=job_id or item.job_id))

    async def _put(self, item: WatchItem) -> None:
        if item.updates == 0:
            await self._items.add(item)
            return
        values = {each.name: getattr(item, each.name) for each in fields(item) if each.name not in _KEYS}
        await self._items.change(item.watch_id, item.key_hash, **values)


def heading_of(found: Found) -> str | None:
    """Its title, or else the words of its address."""
    if found.title:
        return found.title
    slug = unquote(urlsplit(found.entry.url).path).rstrip("/").rpartition("/")[2]
    words = _SLUG_WORD.findall(slug.partition(".")[0])
    return " ".join(words).capitalize() if len(words) > 1 else None
