"""Feeds polled on schedule by one process: how late news is found, and what a poll and a changed item cost.

    python bench/watch.py [--feeds 2000] [--interval 60] [--minutes 3] [--news-per-minute 200]

A server in a process of its own has every feed on a loopback address of its own, answers conditional requests with
304, and publishes at random. CPU and memory are those of the process that polls.
"""

import argparse
import asyncio
import multiprocessing
import os
import random
import re
import resource
import tempfile
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from ipaddress import ip_network
from multiprocessing.connection import Connection
from pathlib import Path

from scrubjay.app import open_scrubjay
from scrubjay.model.clock import utc_now
from scrubjay.model.watching import ItemState, Watch, WatchKind
from scrubjay.plans.begin import begin_watch_crawl
from scrubjay.plans.rules import read_destination
from scrubjay.queue.signals import JobSignals
from scrubjay.settings import Settings
from scrubjay.storage.watches import Watches, WatchItemRow, WatchItems
from scrubjay.telemetry import configure_logging, scout_monitor_events_total
from scrubjay.watches.opening import open_watcher

ENTRIES = 20
TEXT = "What follows is told at length, so that nobody has to look at the page behind it to know what it is about. " * 3
FEED = re.compile(rb"GET /(\d+)/feed ")
SHARES = {"median": 0.5, "p99": 0.99, "worst": 1.0}
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class FeedServer:
    """All feeds, in memory; each request is answered in one write."""

    def __init__(self, feeds: int, news_per_minute: float) -> None:
        self._chance = random.Random(3)
        self._versions = [0] * feeds
        self._entries: list[list[str]] = [[] for _ in range(feeds)]
        self._every = 60 / news_per_minute if news_per_minute else None
        self.published = self.requests = self.unchanged = 0
        now = datetime.now(UTC) - timedelta(days=1)
        for feed in range(feeds):
            for _ in range(ENTRIES):
                self._publish(feed, now)
        self.published = 0

    def _publish(self, feed: int, now: datetime) -> None:
        self._versions[feed] += 1
        words = " ".join(f"{self._chance.choice('bdfgklmn')}{self._chance.randrange(10**7):x}" for _ in range(5))
        number = f"{feed}-{self._versions[feed]}"
        entry = (
            f"<item><title>{words}</title><link>http://{address(feed)}/{number}</link><guid>{number}</guid>"
            f"<description>{words}. {TEXT}</description><pubDate>{format_datetime(now)}</pubDate></item>"
        )
        self._entries[feed] = [entry, *self._entries[feed][: ENTRIES - 1]]
        self.published += 1

    async def publish_forever(self) -> None:
        while self._every is not None:
            await asyncio.sleep(self._every)
            self._publish(self._chance.randrange(len(self._versions)), datetime.now(UTC))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(self._answer(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()  # they hung up, or this is over

    def _answer(self, head: bytes) -> bytes:
        self.requests += 1
        asked = FEED.match(head)
        if asked is None:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        feed = int(asked[1])
        etag = f'"{self._versions[feed]}"'
        if etag.encode() in head:
            self.unchanged += 1
            return f"HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n\r\n".encode()
        body = (
            f"<rss version='2.0'><channel><title>{feed}</title>{''.join(self._entries[feed])}</channel></rss>".encode()
        )
        kind = "Content-Type: application/rss+xml"
        return f"HTTP/1.1 200 OK\r\n{kind}\r\nETag: {etag}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def address(feed: int) -> str:
    return f"127.{1 + feed // 62500}.{feed // 250 % 250}.{1 + feed % 250}"


def run_server(feeds: int, news_per_minute: float, pipe: Connection) -> None:
    async def main() -> None:
        server = FeedServer(feeds, news_per_minute)
        listening = await asyncio.start_server(server.serve, "0.0.0.0", 0, backlog=4096)
        pipe.send(listening.sockets[0].getsockname()[1])
        await asyncio.to_thread(pipe.recv)  # every feed was looked at once
        server.requests = server.unchanged = 0
        publishing = asyncio.create_task(server.publish_forever())
        await asyncio.to_thread(pipe.recv)
        publishing.cancel()
        pipe.send((server.requests, server.unchanged, server.published))

    asyncio.run(main())


def memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 1e6


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def counted(event: str) -> float:
    return scout_monitor_events_total.labels(event_type=event)._value.get()


async def measure(options: argparse.Namespace, port: int, pipe: Connection, home: Path) -> None:
    settings = Settings(
        home=home,
        allowed_private_networks=(ip_network("127.0.0.0/8"),),
        watch_concurrency=options.concurrency,
        watch_queue_limit=1_000_000,
        log_level="warning",
    )
    async with open_scrubjay(settings) as jay:
        who = await jay.access.open_as_admin(home)
        destination = partial(read_destination, jay.database)
        watcher, poller = open_watcher(
            jay.watches._crawler, JobSignals(jay.cache), destination, partial(begin_watch_crawl, jay.secrets)
        )
        started = utc_now()
        async with jay.database.writing(long=True) as connection:
            for feed in range(options.feeds):
                await Watches(connection).add(
                    Watch(
                        tenant_id=who.tenant_id,
                        name=f"feed {feed}",
                        url=f"http://{address(feed)}:{port}/{feed}/feed",
                        kind=WatchKind.FEED,
                        poll_interval_seconds=options.interval,
                        daily_budget=100_000,
                        threshold=0.0,
                    )
                )
        before, clock = cpu_seconds(), time.perf_counter()
        await watcher.poll_due()
        took, each = time.perf_counter() - clock, (cpu_seconds() - before) / options.feeds * 1000
        print(f"first look: {options.feeds} feeds of {ENTRIES} entries in {took:.1f} s, {each:.1f} ms CPU each")
        async with jay.database.writing(long=True) as connection:  # as if they had been added over one interval
            for number, watch in enumerate((await Watches(connection).page(limit=options.feeds)).items):
                due = utc_now() + timedelta(seconds=options.interval * number / options.feeds)
                await Watches(connection).update(watch.tenant_id, watch.id, next_poll_at=due)
        pipe.send("go")
        polls, before, began = counted("poll"), cpu_seconds(), time.perf_counter()
        idle = memory_mb()
        await watcher.start()
        await asyncio.sleep(options.minutes * 60)
        used, wall, most = cpu_seconds() - before, time.perf_counter() - began, memory_mb()
        polls = counted("poll") - polls
        await watcher.stop()
        pipe.send("stop")
        requests, unchanged, published = pipe.recv()
        async with jay.database.reading() as connection:
            items = (
                await WatchItems(connection).page(
                    WatchItemRow.news_at > started, WatchItemRow.state == ItemState.QUEUED, limit=1_000_000
                )
            ).items
        await poller.close()
    late = sorted((item.seen_at - item.published_at).total_seconds() for item in items if item.published_at)
    expected = options.feeds * wall / options.interval
    print(f"{wall:.0f} s: {polls:.0f} polls ({polls / wall:.1f}/s; the schedule has {expected:.0f}), ", end="")
    print(f"{requests} requests, {unchanged} × 304")
    shares = ", ".join(f"{quantile(late, share):.0f} s ({name})" for name, share in SHARES.items())
    print(f"news: {published} published, {len(items)} found; after {shares}; the interval is {options.interval} s")
    print(f"requests per changed item: {requests / max(1, len(items)):.1f}")
    print(f"CPU: {used / max(1, polls) * 1000:.2f} ms per poll, {used / wall:.0%} of a core")
    print(f"memory: {idle:.0f} MB before, {most:.0f} MB after")


def quantile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--feeds", type=int, default=2000)
    parser.add_argument("--interval", type=int, default=60, help="seconds between two polls of a feed")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--news-per-minute", type=float, default=200.0, help="of all feeds together")
    parser.add_argument("--concurrency", type=int, default=32)
    options = parser.parse_args()
    configure_logging("warning", "human")
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=run_server, args=(options.feeds, options.news_per_minute, theirs), daemon=True
    )
    server.start()
    with tempfile.TemporaryDirectory(prefix="sj-bench-") as folder:
        home = Path(folder) / "home"
        asyncio.run(measure(options, ours.recv(), ours, home))
    server.join(5)


if __name__ == "__main__":
    main()
