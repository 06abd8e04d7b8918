"""Shares a crawl of many hosts among workers: its job hands hosts out in slices, and adds up what these report.

The crawl's own job keeps the host of its first start URL (`loop.py`), so that a crawl of one host loses nothing. Other
hosts with work are given to slices (`host_slice.py`): jobs that any worker runs. While hosts wait, or workers are idle,
it asks slices to end. A slice that ended is added to the crawl's counts and deleted, and its hosts are handed out
again. Only this job creates slices, so a host is never in two of them; all of it is in the database, and a job that
is taken over continues.
"""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.host_slice import SLICE_KIND, SLICES_PER_WORKER, PageBudget
from scrubjay.crawler.tally import CrawlTally, sum_counts
from scrubjay.errors import Conflict, JobFailedForGood, JobHandedBack, JobPauseRequested
from scrubjay.model.crawl_spec import CrawlMode, CrawlSpec, CrawlStrategy
from scrubjay.model.crawling import SharedCrawl
from scrubjay.model.job import Job, JobEvent, JobRequest, JobState
from scrubjay.queue import control
from scrubjay.queue.context import JobContext
from scrubjay.storage.database import Database
from scrubjay.storage.frontier import Frontier
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.shared_crawls import SharedCrawls
from scrubjay.storage.workers import Workers
from scrubjay.telemetry.tracing import TRACEPARENT

LOOK_SECONDS = 0.5
SPLIT_URLS = 64  # pending, of a slice that gives hosts to idle workers; fewer are done sooner where they are
SPLIT_SECONDS = 3.0  # how old a slice is before it gives hosts to idle workers
TURN_SECONDS = 15.0  # how old a slice is before it makes room for hosts that wait
MAX_SLICE_HOSTS = 64
SETTLE_LOOK_SECONDS = 0.1
SETTLE_SECONDS = 30.0
EVENTS_AT_ONCE = 1000
_NOT_PASSED_ON = ("urls", TRACEPARENT)
_ACTIVE = (JobState.PENDING, JobState.RUNNING)


def can_be_shared(spec: CrawlSpec) -> bool:
    """Depth-first, best-first and sequential crawls decide after every page what comes next, so one job does it."""
    return spec.mode is CrawlMode.CONCURRENT and spec.strategy is CrawlStrategy.BFS and spec.concurrent_hosts != 1


@dataclass(slots=True)
class SliceNews:
    """What one look at the slices found, to be written in one transaction."""

    ended: list[Job] = field(default_factory=list)
    stopped: list[Job] = field(default_factory=list)  # a request that was withdrawn had paused them
    new: list[Job] = field(default_factory=list)
    events: list[JobEvent] = field(default_factory=list)
    begins: bool = False  # this is the first time that hosts are handed out
    home_waits: bool = False  # the crawl's own job has URLs to request
    roots: list[str] = field(default_factory=list)  # where start URLs redirected to, when that is news
    yielding: list[str] = field(default_factory=list)  # slices to end

    @property
    def has_changes(self) -> bool:
        told = self.ended or self.stopped or self.new or self.events or self.roots or self.yielding
        return self.begins or bool(told)


class SlicedCrawl:
    """The slices of one crawl, as its job sees them."""

    def __init__(self, context: JobContext, spec: CrawlSpec, home: str, database: Database, *, always: bool) -> None:
        state = context.state.get("slices") or {}
        every_host = spec.max_pages_per_host is not None
        self.total = CrawlTally.load(None, every_host=every_host)  # of the crawl's own job and of all slices
        self.refused: dict[str, int] = {}  # the same for links that were left out
        self.is_active = bool(state)
        self.is_finished = False  # no slice has or will get work
        self.is_over = False  # a limit ended the crawl
        self.home: str | None = state.get("home") if state else home  # the host that this job requests itself
        self.budget = PageBudget(context.job.id, spec.max_pages, 1, int(state.get("granted", 0)))
        self.taken: frozenset[str] = frozenset()  # hosts of slices
        self._context = context
        self._spec = spec
        self._database = database
        self._always = always
        self._absorbed: Mapping[str, Any] = state.get("absorbed") or {}
        self._absorbed_refused: Mapping[str, int] = state.get("refused") or {}
        self._count = int(state.get("count", 0))  # slices so far
        self._relayed: dict[str, int] = dict(state.get("relayed") or {})  # slice → events in the crawl's own log
        self._parts: Sequence[Job] = ()
        self._roots: list[str] = []
        self._yielding: list[str] = []
        self._workers = 1
        self._seen_at: dict[str, float] = {}  # slice → when this run first saw it running
        self._looked_at = time.monotonic()
        context.has_parts = self.is_active

    @property
    def state(self) -> Mapping[str, Any]:
        return {
            "granted": self.budget.granted,
            "home": self.home,
            "absorbed": self._absorbed,
            "refused": self._absorbed_refused,
            "count": self._count,
            "relayed": self._relayed,
        }

    @property
    def own_hosts(self) -> frozenset[str] | None:
        """The hosts that the crawl's own job requests; none means all."""
        if not (self.is_active or self._always or self._workers > 1):
            return None
        return frozenset() if self.home is None else frozenset({self.home})

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self._looked_at >= LOOK_SECONDS

    async def begin(self, connection: AsyncConnection) -> None:
        """Find out whether there are other workers and, after another run of this job, which hosts slices have."""
        self._workers = await Workers(connection).count()
        self._see(await Jobs(connection).parts(self._context.job.id))

    def _see(self, parts: Sequence[Job]) -> None:
        self._parts = parts
        self.taken = frozenset(host for part in parts for host in part.payload["hosts"])

    def add_up(self, own: CrawlTally, refused: Mapping[str, int]) -> None:
        parts = [part.checkpoint or {} for part in self._parts]
        self.total.add_up([own.dump(), self._absorbed, *(part.get("tally") or {} for part in parts)])
        self.total.seconds = own.seconds
        self.refused = sum_counts([refused, self._absorbed_refused, *(part.get("refused") or {} for part in parts)])

    async def look(self, busy: Collection[str]) -> SliceNews:
        """Read how far the slices are. `busy` hosts have requests of this job under way."""
        news, crawl_id, began_at = SliceNews(), self._context.job.id, time.monotonic()
        async with self._database.reading() as connection:
            self._workers = await Workers(connection).count()
            if not self.is_active and self._workers < 2 and not self._always:
                self._looked_at = time.monotonic() + 4 * LOOK_SECONDS
                return news
            # In this order: when no slice is active, only this job adds URLs.
            self._see(await Jobs(connection).parts(crawl_id))
            waiting = await Frontier(connection).waiting_hosts(crawl_id)
            shared = await SharedCrawls(connection).find_by_job(crawl_id)
            behind = {p.id: told for p in self._parts if (told := self._relayed.get(p.id, 0)) < p.event_count}
            news.events = list(await JobEvents(connection).after_each(behind, EVENTS_AT_ONCE)) if behind else []
        now = time.monotonic()
        self._looked_at = now + (now - began_at)  # a large frontier takes long to search
        relayed = self._relayed | {event.job_id: event.sequence for event in news.events}
        for part in self._parts:
            if part.state is JobState.FAILED:
                raise JobFailedForGood(f"A slice of the crawl failed: {part.error}")
            if part.state is JobState.PAUSED:
                news.stopped.append(part)
            elif part.is_finished and relayed.get(part.id, 0) >= part.event_count:
                news.ended.append(part)
        is_used_up = shared is not None and shared.granted >= self._spec.max_pages
        if is_used_up or self.is_over:
            waiting = {}
        elif (limit := self._spec.max_pages_per_host) is not None:
            waiting = {host: count for host, count in waiting.items() if self._spent(host) < limit}
        news.home_waits = self.home in waiting
        here = {*busy, *([self.home] if self.home else ())}
        free = sorted(waiting.keys() - self.taken - here)
        # From then on, this job requests nothing of other hosts, so that these can be handed out.
        news.begins = not self.is_active and bool({*waiting, *busy} - {self.home})
        room = self._room(len(here))
        news.new = self._divide(free, room)
        left = len(free) - sum(len(job.payload["hosts"]) for job in news.new)
        news.yielding = self._choose_yielding(waiting, left, room - len(news.new))
        self.is_finished = not self._parts and not (waiting.keys() - {self.home})
        found = [root for part in self._parts for root in (part.checkpoint or {}).get("roots") or ()]
        news.roots = [root for root in found if root not in self._roots]
        return news

    @property
    def has_slices(self) -> bool:
        return bool(self._parts)

    def _room(self, here: int) -> int:
        """How many slices may be added; this job itself has URLs of `here` hosts under way."""
        most = self._most
        if self._spec.concurrent_hosts is not None:
            most = min(most, self._spec.concurrent_hosts - here)
        return max(0, most - sum(not part.is_finished for part in self._parts))

    @property
    def _most(self) -> int:
        return min(SLICES_PER_WORKER * max(1, self._workers), max(1, self._spec.concurrency - 1))

    def _divide(self, hosts: Sequence[str], room: int) -> list[Job]:
        """Up to `room` slices for hosts."""
        if not (hosts and room):
            return []
        size = 1 if self._spec.concurrent_hosts is not None else min(MAX_SLICE_HOSTS, -(-len(hosts) // room))
        chosen = [hosts[start : start + size] for start in range(0, len(hosts), size)][:room]
        return [self._slice(each) for each in chosen]

    def _choose_yielding(self, waiting: Mapping[str, int], free: int, idle: int) -> list[str]:
        """Slices that are to end: the oldest while hosts wait, and those with most to do while places are idle."""
        now, running = time.monotonic(), [part for part in self._parts if part.state is JobState.RUNNING]
        self._seen_at = {part.id: self._seen_at.get(part.id, now) for part in running}
        if free and not idle:
            oldest = min(self._seen_at.items(), key=lambda seen: seen[1], default=("", now))
            chosen = [oldest[0]] if now - oldest[1] >= TURN_SECONDS else []
        else:
            pending = {
                part.id: [waiting[host] for host in part.payload["hosts"] if host in waiting] for part in running
            }
            splittable = [
                part.id
                for part in running
                if len(pending[part.id]) > 1
                and sum(pending[part.id]) >= SPLIT_URLS
                and now - self._seen_at[part.id] >= SPLIT_SECONDS
            ]
            chosen = sorted(splittable, key=lambda part_id: -sum(pending[part_id]))[:idle]
        return [part_id for part_id in chosen if part_id not in self._yielding]

    def _slice(self, hosts: Sequence[str]) -> Job:
        job = self._context.job
        spent = {host: self._spent(host) for host in hosts} if self._spec.max_pages_per_host is not None else {}
        payload = {name: value for name, value in job.payload.items() if name not in _NOT_PASSED_ON}
        return Job(
            parent_id=job.id,
            tenant_id=job.tenant_id,
            kind=SLICE_KIND,
            payload={**payload, "hosts": list(hosts), "spent": spent, "parts": self._most + 1},
            priority=job.priority,
            max_retries=job.max_retries,
            submitted_by=job.submitted_by,
        )

    def _spent(self, host: str) -> int:
        numbers = self.total.hosts.get(host)
        return 0 if numbers is None else numbers.pages + numbers.failed

    async def write(self, connection: AsyncConnection, news: SliceNews, under_way: int, roots: Sequence[str]) -> None:
        """Start new slices, absorb those that ended, and write what all of them have to know.

        `under_way` is the number of pages that the crawl's own job has requested so far.
        """
        crawl_id = self._context.job.id
        if news.begins:
            self._roots = list(roots)
            await SharedCrawls(connection).begin(SharedCrawl(job_id=crawl_id, granted=under_way, roots=self._roots))
            self.budget.granted = under_way
            self.is_active = self._context.has_parts = True
        elif news.roots or news.yielding or list(roots) != self._roots[: len(roots)]:
            self._roots = list(dict.fromkeys([*roots, *self._roots, *news.roots]))
            known = {part.id for part in self._parts}
            self._yielding = [id_ for id_ in [*self._yielding, *news.yielding] if id_ in known]
            await SharedCrawls(connection).change(
                crawl_id, is_over=self.is_over, roots=self._roots, yielding=self._yielding
            )
        for part in news.ended:
            await self._absorb(connection, part)
        for part in news.stopped:
            with suppress(Conflict):  # it goes on by now
                await control.make_request(connection, part.tenant_id, part.id, JobRequest.RESUME)
        for job in news.new:
            await control.submit(connection, job)
        self._count += len(news.new)
        left = [part for part in self._parts if part not in news.ended]
        told = self._relayed | {event.job_id: event.sequence for event in news.events}
        self._relayed = {part.id: told[part.id] for part in left if part.id in told}
        self._see([*left, *news.new])

    async def _absorb(self, connection: AsyncConnection, part: Job) -> None:
        state = part.checkpoint or {}
        total = CrawlTally.load(None, every_host=self._spec.max_pages_per_host is not None)
        total.add_up([self._absorbed, state.get("tally") or {}])
        self._absorbed = total.dump()
        self._absorbed_refused = sum_counts([self._absorbed_refused, state.get("refused") or {}])
        if part.state is not JobState.COMPLETED:  # it was stopped with URLs under way
            await Frontier(connection).release(self._context.job.id, only_hosts=part.payload["hosts"])
            granted = int((state.get("slice") or {}).get("granted", 0))
            used = int((state.get("tally") or {}).get("fetched", 0))
            await SharedCrawls(connection).give_back(self._context.job.id, granted - used)
        await Jobs(connection).delete(part.tenant_id, part.id)

    async def end(self) -> None:
        """Tell the slices that the crawl is over. Those that no worker has taken yet are cancelled."""
        self.is_over = True
        async with self._context.transaction() as connection:
            await SharedCrawls(connection).change(self._context.job.id, is_over=True, roots=self._roots)
            for part in await Jobs(connection).parts(self._context.job.id):
                if part.state is JobState.PENDING:
                    await control.make_request(connection, part.tenant_id, part.id, JobRequest.CANCEL)
        await self._wait()

    async def settle(self, interruption: BaseException) -> None:
        """The slices were asked for the same as this job: wait until they have stopped."""
        if isinstance(interruption, JobHandedBack):
            return  # they continue, and so does the next run
        await self._wait()
        if isinstance(interruption, JobPauseRequested) and await self._context.requested() is None:
            raise JobHandedBack from interruption  # resumed meanwhile

    async def _wait(self) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            async with self._database.reading() as connection:
                self._see(await Jobs(connection).parts(self._context.job.id))
            if not any(part.state in _ACTIVE for part in self._parts):
                return
            await asyncio.sleep(SETTLE_LOOK_SECONDS)

    def facts(self) -> dict[str, Any]:
        """For the result and the progress."""
        return {"slices": self._count} if self.is_active else {}


def is_told(event: JobEvent) -> bool:
    """Events of pages and hosts belong to the crawl; that a slice was started or handed over does not."""
    return event.type == "job.log" or not event.type.startswith("job.")
