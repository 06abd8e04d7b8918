"""Stories: the same news from several sources. One that many tell at once is breaking, and said to be so once."""

import sys
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.model.content import OutboxEvent
from scrubjay.model.watching import Story, ThrottleLevel
from scrubjay.storage.outbox import Outbox
from scrubjay.storage.watches import Stories, Watches, WatchItemRow, WatchItems
from scrubjay.telemetry import scout_monitor_events_total
from scrubjay.watches.similarity import SAME_STORY, Rarity, Telling, members_of, similarity, with_member

TOPIC = "watch.breaking"
STORY_SPAN = timedelta(hours=48)  # what comes later is another story
MOST_STORIES = 300
MOST_CACHED = 900
MOST_URLS = 100
_TICK = timedelta(microseconds=1)
ESCALATED_SECONDS = 60.0  # the sources of a breaking story are looked at again by then


@dataclass(frozen=True, slots=True)
class Nearest:
    story: Story | None = None
    similarity: float = 0.0

    @property
    def is_same(self) -> bool:
        return self.story is not None and self.similarity >= SAME_STORY


@dataclass(frozen=True, slots=True)
class _Remembered:
    story: Story
    members: tuple[Telling, ...]
    terms: frozenset[str]


class StoryBook:
    """The recent stories of all tenants. What was read once is kept until it grows."""

    def __init__(self, *, breaking_sources: int, window: timedelta) -> None:
        self._breaking_sources = breaking_sources
        self._window = window
        self._cache: OrderedDict[str, _Remembered] = OrderedDict()

    async def open(self, connection: AsyncConnection, tenant_id: str, now: datetime) -> "Chapter":
        """The stories as they are in this transaction."""
        recent = await Stories(connection).recent(tenant_id, now - STORY_SPAN, MOST_STORIES)
        missing = [
            story_id
            for story_id, grown_at in recent
            if (known := self._cache.get(story_id)) is None or known.story.last_seen_at != grown_at
        ]
        for story in await Stories(connection).by_ids(tenant_id, missing):
            self._remember(story)
        found = [self._cache[story_id] for story_id, _ in recent if story_id in self._cache]
        for each in found:
            self._cache.move_to_end(each.story.id)
        while len(self._cache) > MOST_CACHED:
            self._cache.popitem(last=False)
        return Chapter(tenant_id, found, now)

    def _remember(self, story: Story) -> None:
        self._cache[story.id] = _remembered(story)

    async def check_breaking(
        self, connection: AsyncConnection, tenant_id: str, story_id: str, now: datetime, level: ThrottleLevel
    ) -> bool:
        """Count a story's sources; true when it is breaking from now on. Everything is written with the change."""
        stories = Stories(connection)
        story = await stories.get(tenant_id, story_id)  # as it is now: it must break once
        sources = await stories.sites(story.id)
        changes: dict[str, object] = {"source_count": len(sources)}
        breaks = False
        if story.breaking_at is None:
            lately = await stories.sites(story.id, now - self._window)
            breaks = len(lately) >= self._breaking_sources
        if breaks:
            changes["breaking_at"] = now
            await Outbox(connection).add(await self._event(connection, story, sources, now))
            scout_monitor_events_total.labels(event_type="breaking").inc()
        await stories.update(story.tenant_id, story.id, **changes)
        if (breaks or story.breaking_at is not None) and level is ThrottleLevel.OFF:
            await self._escalate(connection, story, now)
        return breaks

    async def _escalate(self, connection: AsyncConnection, story: Story, now: datetime) -> None:
        """Its sources are looked at more often, until nothing was heard of it for a while."""
        watch_ids = await Stories(connection).watches(story.id)
        await Watches(connection).escalate(watch_ids, now + self._window)
        await Watches(connection).hurry(watch_ids, now + timedelta(seconds=ESCALATED_SECONDS))

    async def _event(
        self, connection: AsyncConnection, story: Story, sources: Sequence[str], now: datetime
    ) -> OutboxEvent:
        items = await WatchItems(connection).page(
            WatchItemRow.tenant_id == story.tenant_id, WatchItemRow.story_id == story.id, limit=MOST_URLS
        )
        return OutboxEvent(
            tenant_id=story.tenant_id,
            topic=TOPIC,
            payload={
                "story_id": story.id,
                "title": story.title,
                "source_count": len(sources),
                "sources": list(sources),
                "urls": list(dict.fromkeys(item.url for item in items.items)),
                "first_seen_at": story.first_seen_at.isoformat(),
                "breaking_at": now.isoformat(),
            },
            created_at=now,
        )

    async def end_quiet(self, connection: AsyncConnection, now: datetime) -> int:
        """End what nobody tells any more; escalation ends by itself."""
        ended = await Stories(connection).end_quiet(
            breaking_before=now - self._window, other_before=now - STORY_SPAN, now=now
        )
        scout_monitor_events_total.labels(event_type="ended").inc(ended)
        return ended


class Chapter:
    """The recent stories of a tenant at one moment, to find the one that something belongs to."""

    def __init__(self, tenant_id: str, remembered: Sequence[_Remembered], now: datetime) -> None:
        self._tenant_id = tenant_id
        self._stories = {each.story.id: each for each in remembered}
        self._rarity = Rarity(each.terms for each in remembered)
        self._now = now

    def nearest(self, telling: Telling) -> Nearest:
        best = Nearest()
        for each in self._stories.values():
            if not telling.all & each.terms:
                continue
            alike = max(similarity(telling, member, self._rarity) for member in each.members)
            if alike > best.similarity:
                best = Nearest(each.story, alike)
        return best

    async def place(
        self, connection: AsyncConnection, telling: Telling, title: str, story_id: str | None = None
    ) -> Story:
        """Put something into the story that it tells, or begin one; `story_id` says which, if that is known."""
        known = self._stories.get(story_id or "")
        if known is None:
            nearest = self.nearest(telling)
            known = self._stories[nearest.story.id] if nearest.story is not None and nearest.is_same else None
        if known is None:
            story = Story(
                tenant_id=self._tenant_id,
                title=title,
                features=with_member({}, telling),
                first_seen_at=self._now,
                last_seen_at=self._now,
            )
            await Stories(connection).add(story)
        else:
            story = replace(
                known.story,
                features=with_member(known.story.features, telling),
                # Always later than before: that is how others see that it grew.
                last_seen_at=max(self._now, known.story.last_seen_at + _TICK),
            )
            await Stories(connection).update(
                story.tenant_id, story.id, features=story.features, last_seen_at=story.last_seen_at
            )
        self._stories[story.id] = _remembered(story)
        return story


def _remembered(story: Story) -> _Remembered:
    members = tuple(_interned(member) for member in members_of(story.features))
    return _Remembered(story, members, frozenset().union(*(member.all for member in members)))


def _interned(telling: Telling) -> Telling:
    """The same words in many stories are kept once."""
    parts = (frozenset(map(sys.intern, part)) for part in (telling.title, telling.lead, telling.names))
    return Telling(*parts)
