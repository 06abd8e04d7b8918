"""From news to a crawl: one urgent job for what a poll found, or patience while the queue of jobs is deep."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.errors import NotFound, ScrubjayError
from scrubjay.model.crawl_spec import CrawlSpec, Extent
from scrubjay.model.destination import Destination
from scrubjay.model.job import Job
from scrubjay.model.plan import Plan
from scrubjay.model.watching import ThrottleLevel, Watch, WatchItem
from scrubjay.queue.signals import JobSignals
from scrubjay.settings import Settings
from scrubjay.storage.collections import Collections
from scrubjay.storage.database import Database
from scrubjay.storage.plans import Plans
from scrubjay.storage.watches import Watches, WatchItems
from scrubjay.telemetry import get_logger, scout_monitor_events_total
from scrubjay.watches.brake import read_brake

WAITING_BATCH = 200
QUEUE_FULL = "Too many jobs wait; it is crawled when there is room."

log = get_logger(__name__)

# Where a plan's documents go is decided by a room that this one does not know.
PlanDestination = Callable[[Plan], Awaitable[tuple[Destination, str | None]]]
# And so is which plan crawls its news: connection, watch, addresses, destination, and a key that is used once.
BeginCrawl = Callable[[AsyncConnection, Watch, CrawlSpec, Destination, str], Awaitable[Job]]


@dataclass(frozen=True, slots=True)
class WatchTrigger:
    database: Database
    settings: Settings
    signals: JobSignals
    plan_destination: PlanDestination
    begin_crawl: BeginCrawl

    async def destination(self, watch: Watch) -> tuple[Destination, str | None]:
        """Where the news of a watch goes, and what is wrong with that; news is never lost over it."""
        collection_id, trouble, found = watch.collection_id, None, None
        if watch.plan_id is not None:
            try:
                async with self.database.reading() as connection:
                    plan = await Plans(connection).get(watch.tenant_id, watch.plan_id)
                collection_id = collection_id or plan.ingestion_settings.collection_id
                found, _ = await self.plan_destination(plan)
            except ScrubjayError as error:
                trouble = f"The watch's plan does not say where its news goes: {error.message}"
        found = Destination.to(collection_id) if found is None else found
        if watch.collection_id is not None:
            found = Destination.to(watch.collection_id, found.tags, found.chunking)
        if found.collection_id is not None:
            try:
                async with self.database.reading() as connection:
                    await Collections(connection).get(watch.tenant_id, found.collection_id)
            except NotFound:
                trouble = "The collection of its news is gone; what is found is in no collection."
                found = Destination.to(None, found.tags, found.chunking)
        return found, trouble

    async def has_room(self, connection: AsyncConnection) -> bool:
        return await Watches(connection).pending_jobs() < self.settings.watch_queue_limit

    async def submit(
        self, connection: AsyncConnection, watch: Watch, items: Sequence[WatchItem], destination: Destination
    ) -> Job:
        """One job for all of them. The same items in the same state are never queued twice."""
        urls = tuple(dict.fromkeys(item.url for item in items))
        spec = CrawlSpec(
            start_urls=urls,
            max_depth=0,
            max_pages=len(urls),
            follow_links=False,
            use_sitemaps=False,
            extent=Extent.ANYWHERE,
        )
        states = sorted(f"{item.key_hash}:{item.updates}" for item in items)
        digest = hashlib.sha256("\n".join(states).encode()).hexdigest()[:32]
        unique_key = f"{watch.tenant_id}:watch:{watch.id}:{digest}"
        job = await self.begin_crawl(connection, watch, spec, destination, unique_key)
        scout_monitor_events_total.labels(event_type="triggered").inc(len(items))
        return job

    async def send_waiting(self, now: datetime) -> int:
        """Queue what had to wait, as far as there is room; how many items that was."""
        if (await read_brake(self.database, self.settings)).level is ThrottleLevel.STOP:
            return 0
        async with self.database.reading() as connection:
            if not await self.has_room(connection):
                return 0
            waiting = await WatchItems(connection).waiting(WAITING_BATCH)
        sent = 0
        for watch_id, items in _by_watch(waiting):
            sent += await self._send(watch_id, items)
        if sent:
            await self.signals.work()
            log.info("news that waited is crawled", items=sent, at=now.isoformat())
        return sent

    async def _send(self, watch_id: str, items: Sequence[WatchItem]) -> int:
        async with self.database.reading() as connection:
            watch = await Watches(connection).get(items[0].tenant_id, watch_id)
        destination, _ = await self.destination(watch)
        async with self.database.writing() as connection:
            if not await self.has_room(connection):
                return 0
            job = await self.submit(connection, watch, items, destination)
            return await WatchItems(connection).enqueue(watch_id, [item.key_hash for item in items], job.id)


def _by_watch(items: Iterable[WatchItem]) -> list[tuple[str, list[WatchItem]]]:
    ordered = sorted(items, key=attrgetter("watch_id"))
    return [(watch_id, list(group)) for watch_id, group in groupby(ordered, key=attrgetter("watch_id"))]
