"""A newsroom for tests: sources on a loopback site, watches on them, and a clock that the test sets."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from html import escape
from ipaddress import ip_network
from typing import Any

from tests.site import Reply, Site, SiteRequest

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.model.job import Job
from scrubjay.model.tenant import Principal
from scrubjay.model.watching import Story, Watch, WatchItem
from scrubjay.plans.begin import begin_watch_crawl
from scrubjay.plans.rules import read_destination
from scrubjay.queue.signals import JobSignals
from scrubjay.settings import Settings
from scrubjay.storage.outbox import Outbox, OutboxRow
from scrubjay.storage.watches import Watches
from scrubjay.watches.opening import open_watcher
from scrubjay.watches.poll import Poller, PollOutcome
from scrubjay.watches.watcher import Watcher

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
LONG = (
    "The report was read to a full room, and the questions that followed took longer than the report itself. "
    "Several of those present said afterwards that they had learned more from the answers than from the text. "
)


class Clock:
    """Stands still until the test moves it."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> datetime:
        self.now += timedelta(**by)
        return self.now


@dataclass(frozen=True)
class Article:
    """An entry of a feed."""

    path: str
    title: str
    text: str = LONG
    published_at: datetime | None = None
    guid: str | None = None


def rss(base: str, articles: Sequence[Article], title: str = "A feed") -> str:
    items = "".join(
        f"<item><title>{escape(each.title)}</title><link>{escape(base + each.path)}</link>"
        + (f"<guid isPermaLink='false'>{escape(each.guid)}</guid>" if each.guid else "")
        + f"<description>{escape(each.text)}</description>"
        + (f"<pubDate>{format_datetime(each.published_at)}</pubDate>" if each.published_at else "")
        + "</item>"
        for each in articles
    )
    head = f"<?xml version='1.0' encoding='utf-8'?><rss version='2.0'><channel><title>{title}</title>"
    return f"{head}{items}</channel></rss>"


def sitemap(entries: Mapping[str, str | None]) -> str:
    urls = "".join(
        f"<url><loc>{escape(url)}</loc>{f'<lastmod>{lastmod}</lastmod>' if lastmod else ''}</url>"
        for url, lastmod in entries.items()
    )
    return f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{urls}</urlset>"


def conditional(body: str, content_type: str = "application/rss+xml") -> Any:
    """An answer with an ETag, which is honoured."""
    etag = f'"{hash(body)}"'

    def answer(request: SiteRequest) -> Reply:
        if request.headers.get("if-none-match") == etag:
            return Reply(status=304, content_type=None, headers={"ETag": etag})
        return Reply(body, content_type=content_type, headers={"ETag": etag})

    return answer


def page(title: str, text: str, extra: str = "") -> str:
    article = f"<article><h1>{title}</h1><p>{text}</p></article>"
    return f"<html><head><title>{title}</title></head><body>{article}{extra}</body></html>"


class Newsroom:
    def __init__(self, jay: Scrubjay, who: Principal, watcher: Watcher, poller: Poller, clock: Clock) -> None:
        self.jay = jay
        self.who = who
        self.watcher = watcher
        self.poller = poller
        self.clock = clock

    async def watch(self, url: str, **values: Any) -> Watch:
        """A watch that is due now, by the test's clock."""
        watch = await self.jay.watches.create(self.who, url=url, **values)
        return await self.set(watch, created_at=self.clock.now, next_poll_at=self.clock.now)

    async def set(self, watch: Watch, **changes: Any) -> Watch:
        async with self.jay.database.writing() as connection:
            return await Watches(connection).update(watch.tenant_id, watch.id, **changes)

    async def poll(self, watch: Watch) -> PollOutcome:
        return await self.watcher.poll_now(await self.look(watch))

    async def look(self, watch: Watch) -> Watch:
        return await self.jay.watches.get(self.who, watch.id)

    async def items(self, watch: Watch) -> dict[str, WatchItem]:
        """By the last part of their addresses."""
        found = await self.jay.watches.items(self.who, watch.id, limit=1000)
        return {item.url.rpartition("/")[2]: item for item in found.items}

    async def jobs(self) -> list[Job]:
        return list((await self.jay.jobs.page(self.who, kind="crawl", limit=1000)).items)

    async def crawled(self) -> list[str]:
        """Every address of every job, in no order; twice means that it is crawled twice."""
        return sorted(url for job in await self.jobs() for url in job.payload["spec"]["start_urls"])

    async def stories(self, **options: Any) -> list[Story]:
        return list((await self.jay.watches.stories(self.who, limit=1000, **options)).items)

    async def told(self) -> list[dict[str, Any]]:
        """The payloads of all events of breaking stories."""
        async with self.jay.database.reading() as connection:
            events = await Outbox(connection).page(OutboxRow.topic == "watch.breaking", limit=1000)
        return [dict(event.payload) for event in events.items]


def reaching_loopback(settings: Settings, **changes: Any) -> Settings:
    changes |= {"allowed_private_networks": (ip_network("127.0.0.0/8"),)}
    chosen = settings.model_copy(update=changes)
    chosen.model_fields_set.update(changes)
    return chosen


@asynccontextmanager
async def open_newsroom(settings: Settings, **changes: Any) -> AsyncIterator[Newsroom]:
    async with open_scrubjay(reaching_loopback(settings, extract_processes=1, **changes)) as jay:
        clock = Clock()
        crawler = jay.watches._crawler
        destination = partial(read_destination, jay.database)
        begin = partial(begin_watch_crawl, jay.secrets)
        watcher, poller = open_watcher(crawler, JobSignals(jay.cache), destination, begin, clock)
        try:
            yield Newsroom(jay, await jay.access.open_as_admin(settings.home), watcher, poller, clock)
        finally:
            await poller.close()


def publish(site: Site, path: str, articles: Sequence[Article], host: int = 1) -> str:
    """A feed at this path, with an ETag; its address."""
    site.add(path, conditional(rss(site.url_at(host), articles)))
    return site.url_at(host) + path
