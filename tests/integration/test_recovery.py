"""What jobs survive: workers that die, a database or a cache that goes away, and their own old age."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from tests import servers
from tests.workshop import Gate, Steps, Workshop, on_every_database, on_postgres, open_workshop, wait_until

from scrubjay.app import open_scrubjay
from scrubjay.errors import NotFound, Unavailable
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job, JobRequest, JobState, Worker
from scrubjay.queue import control, engine
from scrubjay.queue.context import JobContext
from scrubjay.queue.kinds import JobKind
from scrubjay.settings import Settings
from scrubjay.storage.backups.rows import allow_idling
from scrubjay.storage.cache import open_cache
from scrubjay.storage.database import open_database
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import JobRow, Jobs
from scrubjay.storage.workers import Workers

pytestmark = pytest.mark.slow  # minutes with their like: `make test-all` runs them

FINISHED = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CARE_SECONDS", 0.05)


async def submit_to_dead_worker(shop: Workshop, **facts: Any) -> Job:
    """A job that a worker holds which is not registered any more."""
    async with shop.database.writing() as connection:
        job = await control.submit(connection, Job(tenant_id=shop.who.tenant_id, **facts))
    await claim_and_die(shop, job)
    return job


async def claim_and_die(shop: Workshop, job: Job) -> None:
    async with shop.database.writing() as connection:
        claimed = await Jobs(connection).claim("wrk_gone", [job.kind], 1, utc_now())
    assert [one.id for one in claimed] == [job.id]


@on_every_database
async def test_the_job_of_a_dead_worker_goes_on_from_its_checkpoint(settings: Settings) -> None:
    steps = Steps()
    steps.gate.let(5)
    async with open_workshop(settings, steps.kind) as shop:
        job = await submit_to_dead_worker(shop, kind=steps.kind.name, payload={"steps": 5}, checkpoint={"done": 3})
        async with shop.working():
            done = await shop.wait_for(job, *FINISHED)
        assert (done.state, done.run) == (JobState.COMPLETED, 2)
        assert steps.taken == [4, 5]
        assert await shop.types(job) == [
            "job.submitted", "job.recovered", "job.started", "test.step", "test.step", "job.completed",
        ]  # fmt: skip
        (recovered,) = await shop.events(job, "job.recovered")
        assert recovered.payload == {"worker_id": "wrk_gone", "crashes": 1}


async def test_a_worker_that_falls_silent_loses_its_jobs_and_one_that_speaks_does_not(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind) as shop, shop.working():
        silent, speaking = Worker(host="here", pid=1, concurrency=1), Worker(host="there", pid=2, concurrency=1)
        jobs = []
        async with shop.database.writing() as connection:
            for worker in (silent, speaking):
                await Workers(connection).add(worker)
                job = Job(tenant_id=shop.who.tenant_id, kind=steps.kind.name, payload={"steps": 0})
                jobs.append(await control.submit(connection, job))
                await Jobs(connection).claim(worker.id, [steps.kind.name], 1, utc_now())

        async def speak() -> bool:
            async with shop.database.writing() as connection:
                assert await Workers(connection).beat(speaking.id, utc_now()), "a worker that spoke was declared gone"
            return (await shop.look(jobs[0])).state is JobState.COMPLETED

        before = time.monotonic()
        await wait_until(speak, "the silent worker's job is done", pause=0.1)
        assert time.monotonic() - before >= settings.worker_silence_seconds
        assert (await shop.look(jobs[1])).worker_id == speaking.id
        async with shop.database.reading() as connection:
            assert silent.id not in {worker.id for worker in await Workers(connection).all()}


async def test_a_job_that_kills_ten_workers_before_a_checkpoint_fails_and_says_so(settings: Settings) -> None:
    async with open_workshop(settings) as shop, shop.working():
        job = await submit_to_dead_worker(shop, kind="test.deadly")
        for crashes in range(1, 10):

            async def counted(crashes: int = crashes) -> bool:
                return (await shop.look(job)).crashes == crashes

            await wait_until(counted, f"crash {crashes} is counted")
            await claim_and_die(shop, job)
        failed = await shop.wait_for(job, *FINISHED)
        sentence = "Its worker died 10 times in a row before the job reached a checkpoint."
        assert (failed.state, failed.error, failed.crashes) == (JobState.FAILED, sentence, 10)
        assert failed.finished_at is not None
        assert await shop.types(job) == ["job.submitted", *["job.recovered"] * 9, "job.failed"]


async def test_a_checkpoint_makes_earlier_crashes_forgotten(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind) as shop:
        job = await shop.submit(steps.kind.name, {"steps": 2})
        await shop.change(job, crashes=9)
        async with shop.working():
            await steps.take(1)
            assert (await shop.look(job)).crashes == 0


@pytest.mark.parametrize(
    ("request_", "state"), [(JobRequest.PAUSE, JobState.PAUSED), (JobRequest.CANCEL, JobState.CANCELLED)]
)
async def test_what_was_asked_of_a_dead_workers_job_is_done_at_once(
    settings: Settings, request_: JobRequest, state: JobState
) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind) as shop:
        job = await submit_to_dead_worker(shop, kind=steps.kind.name, payload={"steps": 0})
        assert (await shop.ask(job, request_)).requested is request_
        async with shop.working():
            obeyed = await shop.wait_for(job, state)
            assert (obeyed.requested, obeyed.worker_id) == (None, None)
            assert obeyed.is_finished is (obeyed.finished_at is not None)
            assert (await shop.types(job))[-1] == f"job.{state}"


@on_every_database
async def test_a_worker_wrongly_declared_gone_registers_again_and_nothing_is_done_twice(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind) as shop, shop.working() as working:
        job = await shop.submit(steps.kind.name, {"steps": 6})
        for _ in range(2):
            await steps.take(1)
            async with shop.database.writing() as connection:
                await Workers(connection).remove([working.worker_id])

            async def registered() -> bool:
                async with shop.database.reading() as connection:
                    return working.worker_id in {worker.id for worker in await Workers(connection).all()}

            await wait_until(registered, "the worker is registered again")
        # A run that lost its job may take a step for nothing before it notices.
        steps.gate.let(20)
        done = await shop.wait_for(job, *FINISHED)
        assert done.state is JobState.COMPLETED
        assert [event.payload["step"] for event in await shop.events(job, "test.step")] == [1, 2, 3, 4, 5, 6]
        events = await shop.events(job)
        assert [event.sequence for event in events] == list(range(1, done.event_count + 1))


async def test_a_stopping_worker_goes_on_to_say_that_it_is_alive(settings: Settings) -> None:
    gate = Gate()

    async def dawdle(context: JobContext) -> None:
        await gate.step()

    async with open_workshop(settings, JobKind(name="test.kind", handler=dawdle)) as shop:

        async def heartbeat() -> Any:
            async with shop.database.reading() as connection:
                (worker,) = await Workers(connection).all()
            return worker.heartbeat_at

        async def watch() -> None:
            first = await heartbeat()
            await wait_until(lambda: moved_by(first), "the heart beats while the worker stops", seconds=5)
            gate.let()

        async def moved_by(first: Any) -> bool:
            return bool(await heartbeat() - first > 3 * timedelta(seconds=settings.worker_heartbeat_seconds))

        async with shop.working(shutdown_grace_seconds=20):
            job = await shop.submit("test.kind")
            await gate.wait_until_reached()
            watching = asyncio.create_task(watch())
        await watching
        assert (await shop.look(job)).state is JobState.COMPLETED


async def test_finished_jobs_are_deleted_when_they_are_old_with_their_events(settings: Settings) -> None:
    async def fail_first(context: JobContext) -> None:
        if context.job.run == 1:
            raise RuntimeError("once")

    async with open_workshop(settings, JobKind(name="test.kind", handler=fail_first)) as shop:
        async with shop.working():
            old, young = await shop.submit("test.kind"), await shop.submit("test.kind")
            for job in (old, young):
                assert (await shop.wait_for(job, *FINISHED)).run == 2
        days = settings.job_retention_days
        await shop.change(old, finished_at=utc_now() - timedelta(days=days, minutes=1))
        await shop.change(young, finished_at=utc_now() - timedelta(days=days, minutes=-5))
        async with shop.working():

            async def tidied() -> bool:
                async with shop.database.reading() as connection:
                    return await Jobs(connection).find(JobRow.id == old.id) is None

            await wait_until(tidied, "the old job is deleted")
            with pytest.raises(NotFound):
                await shop.look(old)
            assert (await shop.look(young)).state is JobState.COMPLETED
            async with shop.database.reading() as connection:
                assert await JobEvents(connection).after(old.id, 0) == []
                assert len(await JobEvents(connection).after(young.id, 0)) == 5


async def test_the_run_records_of_an_earlier_version_are_deleted(settings: Settings) -> None:
    records = [settings.home / name for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm")]
    for file in records:
        file.write_bytes(b"records")
    async with open_scrubjay(settings, working=True):
        assert not any(file.exists() for file in records)


@pytest.mark.postgres
async def test_an_idle_transaction_of_a_frozen_worker_ends_and_one_of_a_backup_does_not(
    home: Path, postgres_url: str
) -> None:
    settings = Settings(home=home, database_url=postgres_url, worker_silence_seconds=1)
    database = open_database(settings)

    async def idle(*, allowed: bool) -> None:
        async with database.writing() as connection:
            if allowed:
                await allow_idling(connection)
            await connection.execute(text("SELECT 1"))
            await asyncio.sleep(2)
            await connection.execute(text("SELECT 1"))

    with pytest.raises((Unavailable, SQLAlchemyError)):
        await idle(allowed=False)
    await idle(allowed=True)
    await database.close()


class Outage:
    """Makes a PostgreSQL database fail as a server that crashes or restarts does."""

    def __init__(self, url: str) -> None:
        self._name = urlsplit(url).path.strip("/")

    def cut_connections(self) -> None:
        with psycopg.connect(servers.postgres_url(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [self._name]
            )

    @contextmanager
    def away(self) -> Iterator[None]:
        """Nobody gets in for as long as the context lasts."""
        self._allow("false")
        try:
            self.cut_connections()
            yield
        finally:
            self._allow("true")

    def _allow(self, allowed: str) -> None:
        with psycopg.connect(servers.postgres_url(), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{self._name}" ALLOW_CONNECTIONS {allowed}')


@pytest.fixture
def outage(settings: Settings) -> Outage:
    return Outage(settings.resolved_database_url)


async def try_to_look(shop: Workshop, job: Job) -> Job | None:
    """The job, unless the connection for looking was cut as well."""
    try:
        return await shop.look(job)
    except (Unavailable, SQLAlchemyError):
        return None


def forty_steps() -> JobKind:
    async def work(context: JobContext) -> None:
        for step in range(context.state.get("done", 0) + 1, 41):
            await asyncio.sleep(0.02)
            await context.progress(step, 40)
            await context.checkpoint({"done": step}, events=[("test.step", {"step": step})])

    return JobKind(name="test.kind", handler=work, max_retries=10)


async def assert_each_step_once(shop: Workshop, job: Job) -> None:
    async def finished() -> Job | None:
        found = await try_to_look(shop, job)
        return found if found is not None and found.is_finished else None

    done = await wait_until(finished, "the job has finished")
    assert (done.state, done.error) == (JobState.COMPLETED, None)
    events = await shop.events(job)
    assert [event.sequence for event in events] == list(range(1, done.event_count + 1))
    assert [event.payload["step"] for event in events if event.type == "test.step"] == list(range(1, 41))


async def submit_after_outage(shop: Workshop) -> Job:
    """As a client would: whoever is told that the database is away tries again."""
    while True:
        try:
            return await shop.submit("test.kind")
        except Unavailable:
            await asyncio.sleep(0.1)


@on_postgres
async def test_a_database_that_drops_its_connections_does_not_lose_a_job(settings: Settings, outage: Outage) -> None:
    async with open_workshop(settings, forty_steps()) as shop, shop.working():
        jobs = [await shop.submit("test.kind") for _ in range(2)]
        for step in (5, 20):

            async def reached(step: int = step) -> bool:
                found = await try_to_look(shop, jobs[0])
                return found is not None and (found.checkpoint or {}).get("done", 0) >= step

            await wait_until(reached, f"step {step} is taken")
            await asyncio.to_thread(outage.cut_connections)
        for job in [*jobs, await submit_after_outage(shop)]:
            await assert_each_step_once(shop, job)


@on_postgres
async def test_a_worker_lives_through_a_database_that_is_away_for_a_while(settings: Settings, outage: Outage) -> None:
    async with open_workshop(settings, forty_steps()) as shop, shop.working():
        job = await shop.submit("test.kind")

        async def started() -> bool:
            return bool((await shop.look(job)).checkpoint)

        await wait_until(started, "the job is at work")
        with outage.away():
            await asyncio.sleep(2.5)  # longer than it takes to be declared gone
        await assert_each_step_once(shop, job)
        assert (await shop.look(job)).crashes == 0
        await assert_each_step_once(shop, await shop.submit("test.kind"))


@on_postgres
async def test_a_worker_can_stop_while_the_database_is_away_and_its_job_is_taken_up(
    settings: Settings, outage: Outage
) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind) as shop:
        async with shop.working(shutdown_grace_seconds=0.5) as working:
            job = await shop.submit(steps.kind.name, {"steps": 3})
            await steps.take(1)
            with outage.away():
                async with asyncio.timeout(15):
                    await working.stop()
        assert (await shop.look(job)).state is JobState.RUNNING
        async with shop.working():
            steps.gate.let(2)
            assert (await shop.wait_for(job, *FINISHED)).state is JobState.COMPLETED
        assert steps.taken == [1, 2, 3]


@pytest.fixture
def mute_redis_url() -> Iterator[str]:
    """Something that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}"


@asynccontextmanager
async def open_steps(settings: Settings, steps: Steps, cache_url: str) -> AsyncIterator[Workshop]:
    async with open_workshop(settings.model_copy(update={"cache_url": cache_url}), steps.kind) as shop:
        yield shop


@pytest.mark.parametrize("redis", ["unreachable", "mute"])
async def test_jobs_run_and_obey_without_the_cache(settings: Settings, redis: str, mute_redis_url: str) -> None:
    steps = Steps()
    cache_url = "redis://127.0.0.1:1" if redis == "unreachable" else mute_redis_url
    async with open_steps(settings, steps, cache_url) as shop, shop.working():
        before = time.monotonic()
        job = await shop.submit(steps.kind.name, {"steps": 30})
        await steps.take(1)
        await shop.ask(job, JobRequest.PAUSE)
        steps.gate.let(30)
        await shop.wait_for(job, JobState.PAUSED, JobState.COMPLETED)
        if (await shop.look(job)).state is JobState.PAUSED:
            await shop.ask(job, JobRequest.RESUME)
        await shop.wait_for(job, JobState.COMPLETED)
        # A cache that does not answer costs a moment now and then, not a moment for each checkpoint.
        assert time.monotonic() - before < 20
        assert steps.taken == list(range(1, 31))


@pytest.mark.redis
async def test_a_shared_cache_wakes_a_worker_that_would_not_look_for_a_minute(
    settings: Settings, redis_url: str
) -> None:
    steps = Steps()
    steps.gate.let(2)
    async with open_steps(settings, steps, redis_url) as shop, shop.working(job_poll_seconds=60):
        elsewhere = open_cache(shop.settings)
        try:
            first = await shop.submit(steps.kind.name, {"steps": 1})
            await shop.wait_for(first, JobState.COMPLETED, seconds=10)
            # From another process: nothing but Redis can tell this worker.
            async with shop.database.writing() as connection:
                second = await control.submit(
                    connection, Job(tenant_id=shop.who.tenant_id, kind=steps.kind.name, payload={"steps": 1})
                )
            await elsewhere.publish("jobs:work", b"1")
            await shop.wait_for(second, JobState.COMPLETED, seconds=10)
        finally:
            await elsewhere.close()
