"""Workers that poll, killed with -9 at random moments: no news is lost, and none is crawled twice."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest
from tests.newsroom import LONG, Article, publish, reaching_loopback
from tests.processes import worker_processes
from tests.site import Site, running_site
from tests.workshop import wait_until

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.model.clock import utc_now
from scrubjay.model.tenant import Principal
from scrubjay.model.watching import Watch
from scrubjay.settings import Settings
from scrubjay.storage.watches import Watches, WatchItemRow, WatchItems

FEEDS = 12
ROUNDS = 8


class Press:
    """Feeds that publish, and what became of what they published."""

    def __init__(self, jay: Scrubjay, who: Principal, site: Site, chance: random.Random) -> None:
        self.jay = jay
        self.who = who
        self._site = site
        self._chance = chance
        self._feeds: list[list[Article]] = [[] for _ in range(FEEDS)]
        self._watches: list[Watch] = []

    async def open(self) -> None:
        for number in range(FEEDS):
            url = publish(self._site, f"/{number}/feed", [], number + 1)
            self._watches.append(await self.jay.watches.create(self.who, url=url, threshold=0.0))

    def publish(self, round_: int) -> None:
        for number, articles in enumerate(self._feeds):
            title = f"Vessel {round_}x{number} runs aground near island {self._chance.randrange(10**6)}"
            text = f"{round_} {number} {self._chance.randrange(10**9)} {LONG}"
            articles.append(Article(f"/{number}/{round_}", title, text, published_at=utc_now()))
            publish(self._site, f"/{number}/feed", articles, number + 1)

    @property
    def published(self) -> set[str]:
        return {
            f"{self._site.url_at(number + 1)}{article.path}"
            for number, articles in enumerate(self._feeds)
            for article in articles
        }

    async def look_again(self) -> None:
        async with self.jay.database.writing() as connection:
            await Watches(connection).hurry([watch.id for watch in self._watches], utc_now())

    async def wait_for_polls(self, since: datetime) -> None:
        async def done() -> bool:
            now = [await self.jay.watches.get(self.who, watch.id) for watch in self._watches]
            return all(each.last_success_at is not None and each.last_success_at > since for each in now)

        await wait_until(done, "every feed was looked at", seconds=200)

    async def found(self) -> dict[str, str | None]:
        async with self.jay.database.reading() as connection:
            items = await WatchItems(connection).page(WatchItemRow.news_at.is_not(None), limit=100_000)
        return {item.url: item.job_id for item in items.items}

    async def crawled(self) -> Counter[str]:
        jobs: Sequence[object] = (await self.jay.jobs.page(self.who, kind="crawl", limit=1000)).items
        return Counter(url for job in jobs for url in job.payload["spec"]["start_urls"])  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_workers_killed_while_they_poll_lose_nothing_and_double_nothing(
    settings: Settings, tmp_path: Path
) -> None:
    chance = random.Random(20261117)
    chosen = reaching_loopback(settings, extract_processes=1, watch_queue_limit=1_000_000)
    async with running_site(hosts=FEEDS) as site:
        site.latency_seconds = lambda request: chance.uniform(0, 0.3) if request.path.endswith("feed") else 0.0
        with worker_processes(chosen, tmp_path) as workers:
            async with open_scrubjay(chosen) as jay:
                press = Press(jay, await jay.access.open_as_admin(chosen.home), site, chance)
                await press.open()
                worker = workers.start()
                await press.wait_for_polls(datetime.fromisoformat("2000-01-01T00:00:00Z"))
                for number in range(ROUNDS):
                    press.publish(number)
                    await press.look_again()
                    await asyncio.sleep(chance.uniform(0, 1.2))
                    workers.kill(worker)
                    worker = workers.start()
                    await asyncio.sleep(chance.uniform(0, 2.5))
                since = utc_now()
                await press.look_again()
                await press.wait_for_polls(since)
                found, crawled = await press.found(), await press.crawled()
            workers.kill(worker)
    assert set(found) == press.published
    assert all(found.values())
    assert crawled == Counter(press.published)
