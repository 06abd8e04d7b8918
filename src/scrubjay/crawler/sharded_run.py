"""A crawl in shards: its job sets a job going for each shard, and looks after them until all are done.

The shards do the work by themselves (`loop.py`, `shard.py`). Here is what only the whole can know: that nothing is
left anywhere, how far it is, what happened in all of them, and how it ended. Whoever takes this job up after a crash
finds the shards where they are.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.batch import settle_duplicates
from scrubjay.crawler.shard import FOR_PAGES, shard_job_id
from scrubjay.crawler.tally import CrawlTally, name_limits, sum_counts
from scrubjay.errors import Conflict, JobCancelRequested, JobFailedForGood, JobPauseRequested
from scrubjay.model.crawl_spec import CrawlSpec
from scrubjay.model.crawling import ShardedCrawl, ShardsSeen
from scrubjay.model.job import Job, JobEvent, JobRequest, JobState
from scrubjay.queue import control
from scrubjay.queue.context import JobContext
from scrubjay.storage.database import Database
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.sharded_crawls import ShardedCrawls

SHARD_KIND = "crawl_shard"
LOOK_SECONDS = 0.5
SETTLE_LOOK_SECONDS = 0.1
SETTLE_SECONDS = 30.0  # in which shards that were asked to stop should have done so; they obey in any case
EVENTS_AT_ONCE = 1000
_PASSED_ON = ("spec", "plan_id", "operation_id")
_STOPPED_BY = {JobPauseRequested: JobRequest.PAUSE, JobCancelRequested: JobRequest.CANCEL}


class ShardedRun:
    """One run of the job that looks after the shards."""

    def __init__(self, context: JobContext, spec: CrawlSpec, scope_id: str, database: Database) -> None:
        self._context = context
        self._spec = spec
        self._scope_id = scope_id
        self._database = database
        self._count = spec.effective_shards
        self._tally = CrawlTally.load(context.state.get("tally"), every_host=spec.max_pages_per_host is not None)
        self._relayed: dict[str, int] = dict(context.state.get("relayed") or {})  # events of shards that were told here
        self._is_over = False
        self._started_at = time.monotonic()
        self._seconds_before = self._tally.seconds

    async def run(self) -> dict[str, Any]:
        """Look after the shards until all are done. A pause or an end that was asked for passes through."""
        self._context.has_parts = True
        await self._set_going()
        self._context.rests = True
        while True:
            try:
                await self._context.checkpoint()
            except (JobPauseRequested, JobCancelRequested) as interruption:
                if await self._let_settle(_STOPPED_BY[type(interruption)]):
                    raise
            seen = await self._look()
            if all(job.state is JobState.COMPLETED for job in seen.jobs):
                return await self._summary(seen)
            if any(job.state in (JobState.PAUSED, JobState.CANCELLED) for job in seen.jobs):
                await self._set_going()  # what stopped it was taken back before it had stopped
            await asyncio.sleep(LOOK_SECONDS)

    async def _set_going(self) -> None:
        """Queue the shards that are not there yet, and those that had been stopped."""
        job = self._context.job
        async with self._context.transaction() as connection:
            if await ShardedCrawls(connection).find_by_job(job.id) is None:
                await ShardedCrawls(connection).add(ShardedCrawl(job_id=job.id))
            known = {part.id: part for part in await Jobs(connection).parts(job.id)}
            now = await Jobs(connection).find_by_id(job.id)
            for number in range(self._count):
                part = known.get(shard_job_id(job.id, number))
                if part is None:
                    await control.submit(connection, self._shard(number))
                elif now is not None and now.requested is None:
                    await _go_on(connection, part)
        await self._context.announce_work()

    def _shard(self, number: int) -> Job:
        job = self._context.job
        payload = {name: job.payload[name] for name in _PASSED_ON if name in job.payload}
        return Job(
            id=shard_job_id(job.id, number),
            parent_id=job.id,
            tenant_id=job.tenant_id,
            kind=SHARD_KIND,
            payload={**payload, "shard": {"number": number, "of": self._count}},
            priority=job.priority,
            max_retries=job.max_retries,
            submitted_by=job.submitted_by,
        )

    async def _look(self) -> ShardsSeen:
        """See how far the shards are, pass on what they tell, and end the crawl when nothing is left of it."""
        async with self._database.reading() as connection:
            seen = await ShardedCrawls(connection).look(self._context.job.id)
        failed = next((job for job in seen.jobs if job.state is JobState.FAILED), None)
        if failed is not None:
            raise JobFailedForGood(f"A shard of the crawl failed: {failed.error}")
        self._add_up(seen.jobs)
        if not self._is_over and (self._is_out_of_time or self._is_at_end(seen)):
            self._is_over = True
        await self._write(seen)
        await self._tell_progress(seen)
        return seen

    def _is_at_end(self, seen: ShardsSeen) -> bool:
        waits = [_state(job, "shard").get("waits_for") for job in seen.jobs]
        if seen.mailed or not all(waits):
            return False
        return FOR_PAGES not in waits or seen.granted >= self._spec.max_pages

    @property
    def _is_out_of_time(self) -> bool:
        return self._spec.max_seconds is not None and self._tally.seconds >= self._spec.max_seconds

    def _add_up(self, jobs: Sequence[Job]) -> None:
        self._tally.add_up([_state(job, "tally") for job in jobs])
        self._tally.seconds = self._seconds_before + time.monotonic() - self._started_at
        self._tally.note_rate()

    async def _write(self, seen: ShardsSeen) -> None:
        """What is known of the whole, and what shards told since the last time, in one transaction."""
        events = await self._read_events(seen.jobs)
        relayed = self._relayed | {event.job_id: event.sequence for event in events}
        roots = dict.fromkeys(root for job in seen.jobs for root in (job.checkpoint or {}).get("roots") or ())
        async with self._context.transaction() as connection:
            await ShardedCrawls(connection).change(
                self._context.job.id, is_over=self._is_over, roots=[*roots] or self._spec.start_urls
            )
            state = {"tally": self._tally.dump(), "relayed": relayed}
            await self._context.remember(connection, {**self._context.state, **state})
            told = [(event.type, event.payload) for event in events if _is_told(event)]
            await self._context.tell(connection, told)
        self._relayed = relayed
        if events:
            await self._context.announce()

    async def _read_events(self, jobs: Sequence[Job]) -> Sequence[JobEvent]:
        behind = {job.id: told for job in jobs if (told := self._relayed.get(job.id, 0)) < job.event_count}
        async with self._database.reading() as connection:
            return await JobEvents(connection).after_each(behind, EVENTS_AT_ONCE)

    async def _tell_progress(self, seen: ShardsSeen) -> None:
        tally = self._tally
        total = max(tally.fetched, min(self._spec.max_pages, tally.fetched + tally.queued))
        shards = [
            {"shard": _number(job), "status": str(job.state), "pages": _state(job, "tally").get("pages", 0)}
            for job in sorted(seen.jobs, key=_number)
        ]
        await self._context.progress(tally.fetched, total, "crawling", **tally.facts(), shards=shards)

    async def _let_settle(self, request: JobRequest) -> bool:
        """Wait until the shards, which were asked the same, have stopped; false when it was taken back meanwhile."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            seen = await self._look()
            if not any(job.state in (JobState.RUNNING, JobState.PENDING) for job in seen.jobs):
                break
            if request is JobRequest.PAUSE and await self._context.requested() is None:
                return False
            await asyncio.sleep(SETTLE_LOOK_SECONDS)
        return True

    async def _summary(self, seen: ShardsSeen) -> dict[str, Any]:
        while any(self._relayed.get(job.id, 0) < job.event_count for job in seen.jobs):
            await self._write(seen)
        async with self._context.transaction() as connection:
            wrong = await settle_duplicates(connection, self._scope_id, self._context.job.id)
        self._tally.duplicates = max(0, self._tally.duplicates - wrong)
        results = [job.result or {} for job in seen.jobs]
        left = sum(result.get("left_in_queue", 0) for result in results)
        refused = sum_counts(result.get("refused_links") or {} for result in results)
        self._tally.limits |= name_limits(self._spec, self._tally, left, refused, timed_out=self._is_out_of_time)
        return {
            **self._tally.dump(),
            "left_in_queue": left,
            "refused_links": refused,
            "scope_id": self._scope_id,
            "shards": self._count,
        }


async def _go_on(connection: AsyncConnection, part: Job) -> None:
    request = JobRequest.RESUME if part.state is JobState.PAUSED else JobRequest.RETRY
    with suppress(Conflict):  # it is under way, or done
        await control.make_request(connection, part.tenant_id, part.id, request)


def _is_told(event: JobEvent) -> bool:
    """What shards do is told; that a shard was started, paused or handed over is its own affair."""
    return event.type == "job.log" or not event.type.startswith("job.")


def _state(job: Job, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (job.checkpoint or {}).get(name) or {}
    return found


def _number(job: Job) -> int:
    return int(job.payload["shard"]["number"])
