"""A day of 200 sources that publish 1,000 stories: when each is found, and what that costs."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
import pytest_asyncio
from tests.newsroom import LONG, NOON, Article, Newsroom, open_newsroom, publish
from tests.site import Site, running_site

from scrubjay.model.watching import Watch
from scrubjay.settings import Settings
from scrubjay.storage.watches import Watches, WatchItemRow, WatchItems, WatchRow

SOURCES = 200
STORIES = 1000
PAGES = 40  # of each source: what a full crawl would ask for
INTERVAL = timedelta(minutes=30)
BUDGET = 60
STEP = timedelta(minutes=5)
LISTED = 20  # entries of a feed


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site(hosts=SOURCES) as running:
        yield running


@dataclass
class Press:
    """Who publishes what and when, over one day."""

    site: Site
    start: datetime
    due: list[tuple[datetime, int, Article]] = field(default_factory=list)
    feeds: dict[int, list[Article]] = field(default_factory=lambda: {host: [] for host in range(1, SOURCES + 1)})
    published: dict[str, datetime] = field(default_factory=dict)

    def plan(self, chance: random.Random) -> None:
        for number in range(STORIES):
            at = self.start + timedelta(seconds=chance.uniform(0, (timedelta(days=1) - INTERVAL).total_seconds()))
            words = [f"{chance.choice('bdfgklmnprst')}{chance.randrange(10**6):x}" for _ in range(6)]
            article = Article(
                f"/story/{number}", f"{words[0]} {words[1]} {words[2]}", f"{' '.join(words)}. {LONG}", published_at=at
            )
            self.due.append((at, chance.randrange(1, SOURCES + 1), article))
        self.due.sort(key=lambda each: each[0])

    def publish(self, now: datetime) -> None:
        changed = set()
        while self.due and self.due[0][0] <= now:
            at, host, article = self.due.pop(0)
            self.feeds[host].insert(0, article)
            self.published[self.site.url_at(host) + article.path] = at
            changed.add(host)
        for host in changed:
            publish(self.site, f"/{host}/feed", self.feeds[host][:LISTED], host)


async def found(room: Newsroom) -> dict[str, datetime]:
    async with room.jay.database.reading() as connection:
        items = await WatchItems(connection).page(WatchItemRow.news_at.is_not(None), limit=100_000)
    return {item.url: item.seen_at for item in items.items}


async def watches(room: Newsroom) -> list[Watch]:
    async with room.jay.database.reading() as connection:
        return list((await Watches(connection).page(WatchRow.enabled.is_(True), limit=1000)).items)


@pytest.mark.repeat
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_every_story_is_found_within_one_interval_at_a_tenth_of_the_cost_of_crawling(
    settings: Settings, site: Site
) -> None:
    async with open_newsroom(settings, watch_concurrency=64, watch_queue_limit=1_000_000) as room:
        press = Press(site, NOON.replace(hour=0))
        press.plan(random.Random(7))
        room.clock.now = press.start
        for host in range(1, SOURCES + 1):
            await room.watch(
                publish(site, f"/{host}/feed", [], host),
                name=f"source {host}",
                poll_interval_seconds=int(INTERVAL.total_seconds()),
                daily_budget=BUDGET,
            )
        await room.watcher.poll_due()
        while room.clock.now < press.start + timedelta(days=1) - STEP:
            now = room.clock.advance(seconds=STEP.total_seconds())
            press.publish(now)
            await room.watcher.poll_due()

        seen = await found(room)
        assert set(seen) == set(press.published)
        assert len(seen) == STORIES
        latest = max(seen[url] - at for url, at in press.published.items())
        # The test's clock moves in steps, so a poll may be a step late.
        assert latest <= INTERVAL + STEP
        spent = [watch.requests_today for watch in await watches(room)]
        assert max(spent) <= BUDGET
        assert sum(spent) == len(site.requests)
        every_interval = SOURCES * PAGES * (timedelta(days=1) / INTERVAL)
        assert len(site.requests) < 0.1 * every_interval
        print(f"{len(site.requests)} requests, {len(site.requests) / STORIES:.1f} for each story; at worst {latest}")
