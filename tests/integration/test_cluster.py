"""A crawl that several workers share (`crawler/sliced_crawl.py`): no page twice, no host asked by two at a time."""

import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import redis
from tests import servers
from tests.many_hosts import ManyHosts, many_hosts
from tests.processes import WorkerProcesses, worker_processes
from tests.workshop import wait_until

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.errors import Conflict
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.job import FINISHED_STATES, Job, JobRequest, JobState
from scrubjay.model.tenant import Principal
from scrubjay.settings import Settings
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.workers import Workers

pytestmark = [
    pytest.mark.slow, pytest.mark.postgres, pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")
]  # fmt: skip

WORKER_PLACES = 4
DELAY_SECONDS = 0.02
LATE_SECONDS = 0.012  # by which a request may come nearer to the one before: the way there does not always take as long


class Cluster:
    """This process only asks and looks; the work is done by workers of their own."""

    def __init__(self, jay: Scrubjay, who: Principal, processes: WorkerProcesses) -> None:
        self.jay = jay
        self.who = who
        self.processes = processes

    async def workers(self, count: int) -> None:
        for _ in range(count):
            self.processes.start()

        async def registered() -> bool:
            async with self.jay.database.reading() as connection:
                there = {worker.pid for worker in await Workers(connection).all()}
            return self.processes.alive.keys() <= there

        await wait_until(registered, f"{count} more workers are there", seconds=60)

    async def start(self, site: ManyHosts, **values: Any) -> Job:
        spec = {
            "start_urls": site.start_urls, "delay_ms": int(1000 * DELAY_SECONDS), "use_sitemaps": False,
            "host_concurrency": 1, "concurrency": 32, "max_pages": 100_000, "max_depth": 1000, **values,
        }  # fmt: skip
        return await self.jay.crawls.start(self.who, read_spec(spec))

    async def look(self, job: Job) -> Job:
        return await self.jay.jobs.get(self.who, job.id)

    async def slices(self, job: Job) -> list[Job]:
        async with self.jay.database.reading() as connection:
            return list(await Jobs(connection).parts(job.id))

    async def a_worker_of(self, job: Job) -> subprocess.Popen[bytes]:
        """A process that runs a slice of this crawl and not the crawl's own job."""

        async def found() -> subprocess.Popen[bytes] | None:
            running = {part.worker_id for part in await self.slices(job) if part.state is JobState.RUNNING}
            running.discard((await self.look(job)).worker_id)
            async with self.jay.database.reading() as connection:
                pids = [worker.pid for worker in await Workers(connection).all() if worker.id in running]
            return next((self.processes.alive[pid] for pid in pids if pid in self.processes.alive), None)

        process: subprocess.Popen[bytes] = await wait_until(found, "a worker has a slice", seconds=30)
        return process

    async def finish(self, job: Job, *states: JobState) -> Job:
        async def there() -> Job | None:
            now = await self.look(job)
            return now if now.state in (states or FINISHED_STATES) else None

        found: Job = await wait_until(there, f"the crawl is {states or 'finished'}", seconds=90)
        return found

    async def fetched(self, site: ManyHosts, pages: int) -> None:
        async def enough() -> bool:
            return len(site.visits) >= pages

        await wait_until(enough, f"{pages} pages are fetched", seconds=60)


def cluster_settings(home: Path, postgres_url: str, redis_url: str) -> Settings:
    return Settings(
        home=home, database_url=postgres_url, cache_url=redis_url, extract_processes=1,
        worker_concurrency=WORKER_PLACES, allowed_private_networks=(ip_network("127.0.0.0/8"),),
        job_poll_seconds=0.2, shutdown_grace_seconds=10,
        worker_heartbeat_seconds=1, worker_silence_seconds=5,
    )  # fmt: skip


def forget_hosts(redis_url: str) -> str:
    """Circuits and turns that another test left for the same loopback addresses are none of ours."""
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
    return redis_url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """One cluster for all tests: starting workers takes longer than what most of them do."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "home").mkdir(mode=0o700)
    with servers.reused_postgres_database() as postgres_url:
        async with opened(cluster_settings(folder / "home", postgres_url, servers.redis_url()), folder) as cluster:
            yield cluster


@pytest_asyncio.fixture(loop_scope="module")
async def cluster(house: Cluster) -> Cluster:
    """With two workers, and nothing known of any host."""
    forget_hosts(servers.redis_url())
    await house.workers(2 - len(house.processes.alive))
    return house


@asynccontextmanager
async def opened(settings: Settings, folder: Path) -> AsyncIterator[Cluster]:
    async with open_scrubjay(settings, working=False) as jay:
        with worker_processes(settings, folder) as processes:
            yield Cluster(jay, await jay.access.open_as_admin(settings.home), processes)


def assert_polite(site: ManyHosts) -> None:
    """By the site's clock: a host was asked one thing at a time, and not before the delay was over."""
    for host, visits in site.by_host().items():
        for earlier, later in pairwise(visits):
            assert later.began >= earlier.ended, f"{host} was asked by two at a time"
            assert later.began - earlier.began >= DELAY_SECONDS - LATE_SECONDS, f"{host} was not given its delay"


async def test_workers_fetch_every_page_of_thirty_hosts_once_and_politely(cluster: Cluster) -> None:
    async with many_hosts(30, 8, answer_seconds=0.005) as site:
        job = await cluster.finish(await cluster.start(site))
        assert (job.state, job.error) == (JobState.COMPLETED, None)
        assert len(site.counts) == site.total
        assert set(site.counts.values()) == {1}
        assert_polite(site)
        result = job.result or {}
        assert result["pages"] == site.total
        assert result["slices"] >= 2
        assert sum(host["pages"] for host in result["hosts"].values()) == site.total
        assert await cluster.slices(job) == []
        events = await cluster.jay.jobs.events(cluster.who, job.id, limit=10_000)
        told = [event.payload["url"] for event in events if event.type == "article.processed"]
        assert (len(told), len(set(told))) == (site.total, site.total)


async def test_a_budget_of_pages_holds_exactly_over_all_slices(cluster: Cluster) -> None:
    async with many_hosts(20, 10) as site:
        job = await cluster.finish(await cluster.start(site, max_pages=83, delay_ms=0))
        assert job.state is JobState.COMPLETED, job.error
        assert len(site.visits) == 83 == (job.result or {})["pages"]
        site.visits.clear()
        job = await cluster.finish(await cluster.start(site, max_pages_per_host=3, delay_ms=0, refresh=True))
        assert {host: len(visits) for host, visits in site.by_host().items()} == dict.fromkeys(site.by_host(), 3)
        assert len(site.by_host()) == 20


async def test_a_killed_workers_slices_go_on_elsewhere_and_only_pages_under_way_are_fetched_again(
    cluster: Cluster,
) -> None:
    async with many_hosts(24, 12, answer_seconds=0.03) as site:
        job = await cluster.start(site, delay_ms=50)
        await cluster.fetched(site, 80)
        victim = await cluster.a_worker_of(job)
        cluster.processes.kill(victim)
        killed_at = time.monotonic()
        job = await cluster.finish(job)
        assert job.state is JobState.COMPLETED, job.error
        assert len(site.counts) == site.total
        # What was under way, or fetched since the last batch was written, is fetched once more; nothing else is.
        twice = {page for page, count in site.counts.items() if count > 1}
        assert len(twice) <= 40
        first = {f"{visit.host} {visit.path}": visit for visit in reversed(site.visits)}
        # The site, in this process, answers what had been sent before the kill only after it; take-over needs 5 s.
        assert all(first[page].began < killed_at + 2.5 for page in twice)
        assert max(site.counts.values()) <= 2
        assert_polite(site)
        # Also of the hosts that the dead worker was asking, whose places it never gave back.
        late = [visits[-1].began - killed_at for visits in site.by_host().values() if visits[-1].began > killed_at]
        assert max(late) < 30


async def test_pausing_resuming_and_cancelling_the_crawl_reach_every_slice(cluster: Cluster) -> None:
    async with many_hosts(16, 40, answer_seconds=0.01) as site:
        job = await cluster.start(site)
        await cluster.fetched(site, 40)
        await cluster.jay.jobs.make_request(cluster.who, job.id, JobRequest.PAUSE)
        paused = await cluster.finish(job, JobState.PAUSED)
        assert {part.state for part in await cluster.slices(job)} <= {JobState.PAUSED, JobState.COMPLETED}
        assert paused.progress["pages"] == len(site.visits)
        stood_at = len(site.visits)
        await cluster.jay.jobs.make_request(cluster.who, job.id, JobRequest.RESUME)
        await cluster.fetched(site, stood_at + 40)
        await cluster.jay.jobs.make_request(cluster.who, job.id, JobRequest.CANCEL)
        await cluster.finish(job, JobState.CANCELLED)
        slices = await cluster.slices(job)
        assert {part.state for part in slices} <= {JobState.CANCELLED, JobState.COMPLETED}
        assert set(site.counts.values()) == {1}
        assert not {part.id for part in slices} & {each.id for each in (await cluster.jay.jobs.page(cluster.who)).items}
        for part in slices[:1]:
            with pytest.raises(Conflict, match="is a part of"):
                await cluster.jay.jobs.make_request(cluster.who, part.id, JobRequest.RETRY)
        await cluster.jay.jobs.delete(cluster.who, job.id)
        assert await cluster.slices(job) == []


async def test_a_worker_that_was_frozen_asks_for_nothing_once_others_have_its_slices(cluster: Cluster) -> None:
    async with many_hosts(16, 40, answer_seconds=0.005) as site:
        job = await cluster.start(site, delay_ms=100)
        await cluster.fetched(site, 60)
        frozen = await cluster.a_worker_of(job)
        frozen.send_signal(signal.SIGSTOP)
        try:

            async def taken_over() -> bool:
                return any(part.run > 1 and part.state is JobState.RUNNING for part in await cluster.slices(job))

            await wait_until(taken_over, "the other worker has its slices", seconds=30)
        finally:
            frozen.send_signal(signal.SIGCONT)
        job = await cluster.finish(job)
        assert job.state is JobState.COMPLETED, job.error
        assert len(site.counts) == site.total
        assert max(site.counts.values()) <= 2
        assert sum(count > 1 for count in site.counts.values()) <= 40
        assert_polite(site)


async def test_a_crawl_with_more_hosts_than_places_comes_to_the_end(cluster: Cluster) -> None:
    async with many_hosts(40, 3, answer_seconds=0.05) as site:
        job = await cluster.finish(await cluster.start(site, delay_ms=200))
        assert job.state is JobState.COMPLETED, job.error
        assert site.counts == dict.fromkeys(site.counts, 1)
        assert len(site.counts) == site.total
        assert await cluster.slices(job) == []


async def test_both_workers_take_part_in_a_crawl_that_asks_for_nothing_special(cluster: Cluster) -> None:
    async with many_hosts(20, 200) as site:
        job = await cluster.start(site, delay_ms=300)

        async def both() -> bool:
            running = [part for part in await cluster.slices(job) if part.state is JobState.RUNNING]
            return len({part.worker_id for part in running}) == 2

        await wait_until(both, "both workers have slices", seconds=60)
        await cluster.jay.jobs.make_request(cluster.who, job.id, JobRequest.CANCEL)
        await cluster.finish(job, JobState.CANCELLED)


async def test_a_killed_coordinator_is_taken_over_and_its_slices_are_counted_once(cluster: Cluster) -> None:
    async with many_hosts(16, 12, answer_seconds=0.03) as site:
        job = await cluster.start(site, delay_ms=50)
        await cluster.fetched(site, 60)
        async with cluster.jay.database.reading() as connection:
            pids = {worker.id: worker.pid for worker in await Workers(connection).all()}
        cluster.processes.kill(cluster.processes.alive[pids[(await cluster.look(job)).worker_id or ""]])
        job = await cluster.finish(job)
        assert job.state is JobState.COMPLETED, job.error
        assert (job.result or {})["pages"] == len(site.counts) == site.total
        assert max(site.counts.values()) <= 2
        assert_polite(site)
