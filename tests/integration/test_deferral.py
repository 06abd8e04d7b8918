"""Jobs on PostgreSQL reach workers as deferrals of Procrastinate: none is lost, none runs twice."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import text
from tests import servers
from tests.workshop import Steps, Workshop, on_every_database, on_postgres, open_workshop, wait_until

from scrubjay.errors import InvalidRequest, Unavailable
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job, JobRequest, JobState
from scrubjay.queue import control
from scrubjay.queue.context import JobContext
from scrubjay.queue.kinds import JobKind
from scrubjay.settings import Settings
from scrubjay.storage.jobs import Jobs


async def note_run(context: JobContext) -> dict[str, Any]:
    return {"run": context.job.run}


KIND = JobKind(name="test.kind", handler=note_run)


async def query(shop: Workshop, statement: str, **values: Any) -> Sequence[Any]:
    async with shop.database.writing() as connection:
        result = await connection.execute(text(statement), values)
        return result.all() if result.returns_rows else ()


async def deferrals(shop: Workshop) -> list[tuple[str, str]]:
    """The job and the status of every deferral."""
    rows = await query(shop, "SELECT args ->> 'job_id', status::text FROM procrastinate.procrastinate_jobs ORDER BY id")
    return [(row[0], row[1]) for row in rows]


async def wait_until_listening(shop: Workshop) -> None:
    async def listening() -> bool:
        activity = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        try:
            return bool(await query(shop, activity))
        except Unavailable:  # this connection was cut as well
            return False

    await wait_until(listening, "a worker listens")


async def submit_unannounced(shop: Workshop, **values: Any) -> Job:
    """As another process without a shared cache does: nothing but the database can tell the worker."""
    async with shop.database.writing() as connection:
        return await control.submit(connection, Job(tenant_id=shop.who.tenant_id, kind=KIND.name, **values))


@on_postgres
async def test_a_transaction_that_is_rolled_back_leaves_neither_job_nor_deferral(settings: Settings) -> None:
    async with open_workshop(settings, KIND) as shop:

        async def fail() -> None:
            async with shop.database.writing() as connection:
                await control.submit(connection, Job(tenant_id=shop.who.tenant_id, kind=KIND.name))
                raise RuntimeError("after the job was queued")

        with pytest.raises(RuntimeError, match="after the job"):
            await fail()
        assert await deferrals(shop) == []
        assert (await shop.jobs.page(shop.who)).total == 0
        job = await submit_unannounced(shop)
        assert await deferrals(shop) == [(job.id, "todo")]


@on_postgres
async def test_many_jobs_are_deferred_with_one_statement(settings: Settings) -> None:
    async with open_workshop(settings, KIND) as shop:
        jobs = [Job(tenant_id=shop.who.tenant_id, kind=KIND.name) for _ in range(3)]
        finished = Job(tenant_id=shop.who.tenant_id, kind=KIND.name, state=JobState.COMPLETED)
        async with shop.database.writing() as connection:
            await Jobs(connection).add_many([*jobs, finished])
        assert sorted(await deferrals(shop)) == sorted((job.id, "todo") for job in jobs)
        async with shop.working():
            for job in jobs:
                await shop.wait_for(job, JobState.COMPLETED)


@on_postgres
@pytest.mark.parametrize("is_cut", [False, True], ids=["connected", "reconnected"])
async def test_the_database_wakes_a_worker_that_would_not_look_for_a_minute(settings: Settings, is_cut: bool) -> None:
    async with open_workshop(settings, KIND) as shop, shop.working(job_poll_seconds=60, worker_silence_seconds=60):
        await wait_until_listening(shop)
        if is_cut:
            cut_connections(settings)
            await wait_until_listening(shop)
        job = await submit_unannounced(shop)
        await shop.wait_for(job, JobState.COMPLETED, seconds=20)


def cut_connections(settings: Settings) -> None:
    name = urlsplit(settings.resolved_database_url).path.strip("/")
    with psycopg.connect(servers.postgres_url(), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])


@on_postgres
async def test_deferrals_are_gone_when_their_jobs_have_run(settings: Settings) -> None:
    async with open_workshop(settings, KIND) as shop, shop.working():
        jobs = [await submit_unannounced(shop) for _ in range(5)]
        for job in jobs:
            await shop.wait_for(job, JobState.COMPLETED)

        async def gone() -> bool:
            return await deferrals(shop) == []

        await wait_until(gone, "no deferral is left")


@on_postgres
async def test_a_job_with_several_deferrals_runs_once(settings: Settings) -> None:
    async with open_workshop(settings, KIND) as shop:
        job = await submit_unannounced(shop)
        for _ in range(2):
            await shop.ask(job, JobRequest.PAUSE)
            await shop.ask(job, JobRequest.RESUME)
        assert await deferrals(shop) == [(job.id, "todo")] * 3
        async with shop.working():

            async def gone() -> bool:
                return await deferrals(shop) == []

            await wait_until(gone, "every deferral was dealt with")
            done = await shop.wait_for(job, JobState.COMPLETED)
        assert done.run == 1


@on_every_database
async def test_a_job_does_not_start_before_it_is_due(settings: Settings) -> None:
    async with open_workshop(settings, KIND) as shop, shop.working():
        later = await submit_unannounced(shop, due_at=utc_now() + timedelta(seconds=1.5))
        now = await submit_unannounced(shop)
        await shop.wait_for(now, JobState.COMPLETED)
        done = await shop.wait_for(later, JobState.COMPLETED)
        assert done.started_at is not None
        assert done.started_at >= later.due_at


@on_postgres
@pytest.mark.parametrize("heartbeat", ["now() - interval '1 hour'", "now() + interval '1 hour'"], ids=["dead", "alive"])
async def test_a_deferral_that_a_worker_fetched_and_lost_reaches_another(settings: Settings, heartbeat: str) -> None:
    async with open_workshop(settings, KIND) as shop:
        job = await submit_unannounced(shop)
        await query(shop, f"INSERT INTO procrastinate.procrastinate_workers (last_heartbeat) VALUES ({heartbeat})")
        async with shop.database.writing() as connection:
            await connection.execute(text("SET LOCAL search_path TO procrastinate"))
            await connection.execute(
                text(
                    "UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT id FROM procrastinate_workers)"
                )
            )
        async with shop.working():
            done = await shop.wait_for(job, JobState.COMPLETED)
        assert (done.run, done.crashes) == (1, 0)


@on_postgres
async def test_a_pending_row_without_a_deferral_is_deferred(settings: Settings) -> None:
    """As an earlier version makes it during a rolling upgrade, or a backup that was restored."""
    async with open_workshop(settings, KIND) as shop, shop.working():
        async with shop.database.writing() as connection:
            job = await control.submit(connection, Job(tenant_id=shop.who.tenant_id, kind=KIND.name))
            await connection.execute(text("SET LOCAL search_path TO procrastinate"))
            await connection.execute(text("DELETE FROM procrastinate_jobs"))
        await shop.wait_for(job, JobState.COMPLETED)


@on_postgres
async def test_a_worker_that_procrastinate_declared_dead_registers_again(settings: Settings) -> None:
    async with open_workshop(settings, KIND) as shop, shop.working():
        await shop.wait_for(await submit_unannounced(shop), JobState.COMPLETED)
        await query(shop, "DELETE FROM procrastinate.procrastinate_workers")
        done = await shop.wait_for(await submit_unannounced(shop), JobState.COMPLETED)
        assert done.run == 1


@on_postgres
async def test_two_workers_share_the_jobs_and_run_each_once(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind) as shop, shop.working(), shop.working():
        jobs = [await shop.submit(steps.kind.name, {"steps": 1}) for _ in range(8)]
        await steps.gate.wait_until_reached(8)  # four places each
        holders = {(await shop.look(job)).worker_id for job in jobs}
        assert len(holders) == 2
        steps.gate.let(8)
        for job in jobs:
            assert (await shop.wait_for(job, JobState.COMPLETED)).run == 1


@on_every_database
async def test_a_worker_runs_only_the_kinds_that_it_is_for(settings: Settings) -> None:
    wanted, other = Steps("test.wanted"), Steps("test.other")
    for steps in (wanted, other):
        steps.gate.let(2)
    async with open_workshop(settings, wanted.kind, other.kind) as shop:
        async with shop.working(worker_queues=("test.wanted",)):
            left = await shop.submit("test.other", {"steps": 1})
            taken = await shop.submit("test.wanted", {"steps": 1})
            await shop.wait_for(taken, JobState.COMPLETED)
            assert (await shop.look(left)).state is JobState.PENDING
        async with shop.working():
            await shop.wait_for(left, JobState.COMPLETED)
        with pytest.raises(InvalidRequest, match="no kind of job called"):
            async with shop.working(worker_queues=("test.unknown",)):
                pass


@on_every_database
async def test_a_job_that_rests_takes_no_place(settings: Settings) -> None:
    ended = asyncio.Event()

    async def rest(context: JobContext) -> None:
        context.rests = True
        await ended.wait()

    async with (
        open_workshop(settings, KIND, JobKind(name="test.resting", handler=rest)) as shop,
        shop.working(worker_concurrency=1),
    ):
        resting = [await shop.submit("test.resting") for _ in range(2)]
        for job in resting:
            await shop.wait_for(job, JobState.RUNNING)
        await shop.wait_for(await shop.submit(KIND.name), JobState.COMPLETED)
        ended.set()
        for job in resting:
            await shop.wait_for(job, JobState.COMPLETED)
