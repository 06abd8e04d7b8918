"""Schedules on real databases: each tick submits one job, whoever is there to take it."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.processes import worker_processes
from tests.workshop import Workshop, on_every_database, on_postgres, open_workshop, wait_until

from scrubjay.jobs import engine
from scrubjay.jobs.context import JobContext
from scrubjay.jobs.kinds import JobKind
from scrubjay.jobs.schedule import submit_due
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job, JobPriority, JobState, Schedule
from scrubjay.services.diagnostics import STEPS
from scrubjay.settings import Settings
from scrubjay.storage.database import open_database
from scrubjay.storage.schedules import Schedules
from scrubjay.storage.workers import Workers


async def do_nothing(context: JobContext) -> None:
    return None


KIND = JobKind(name="test.kind", handler=do_nothing, max_retries=7)


async def add_schedule(shop: Workshop, name: str, **facts: Any) -> Schedule:
    facts = {"kind": KIND.name, "next_run_at": utc_now(), **facts}
    schedule = Schedule(tenant_id=shop.who.tenant_id, name=name, **facts)
    async with shop.database.writing() as connection:
        return await Schedules(connection).add(schedule)


async def jobs_of(shop: Workshop, schedule: Schedule) -> list[Job]:
    """The jobs that a schedule submitted, oldest first."""
    page = await shop.jobs.page(shop.who, limit=1000)
    return [job for job in reversed(page.items) if job.payload.get("schedule_id") == schedule.id]


async def look(shop: Workshop, schedule: Schedule) -> Schedule:
    async with shop.database.reading() as connection:
        return await Schedules(connection).get(schedule.tenant_id, schedule.id)


def tick_of(job: Job) -> datetime:
    return datetime.fromisoformat((job.unique_key or "").rpartition("@")[2])


@on_every_database
async def test_a_tick_is_taken_once_however_many_processes_see_it(settings: Settings) -> None:
    async with open_workshop(settings, KIND) as shop:
        schedule = await add_schedule(shop, "hourly", interval_seconds=3600)
        databases = [open_database(settings) for _ in range(4)]
        try:
            for late in (timedelta(0), timedelta(hours=1), timedelta(hours=2)):
                now = schedule.next_run_at + late
                taken = await asyncio.gather(*(submit_due(each, shop.kinds, now) for each in databases * 2))
                assert sum(taken) == 1
        finally:
            for each in databases:
                await each.close()
        jobs = await jobs_of(shop, schedule)
        # MariaDB, like the others, keeps microseconds, so ticks do not drift.
        assert [tick_of(job) - schedule.next_run_at for job in jobs] == [timedelta(hours=hours) for hours in range(3)]


@on_every_database
async def test_a_cron_schedule_fires_and_waits_for_its_next_match(settings: Settings) -> None:
    async with open_workshop(settings, KIND) as shop, shop.working():
        payload, priority = {"site": "example.org"}, JobPriority.HIGH
        schedule = await add_schedule(shop, "minutely", cron="* * * * *", payload=payload, priority=priority)
        before = utc_now()
        (job,) = await wait_until(lambda: jobs_of(shop, schedule), "the schedule fired")
        after = await look(shop, schedule)
        assert after.next_run_at.second == after.next_run_at.microsecond == 0
        assert before < after.next_run_at <= utc_now() + timedelta(minutes=1)
        assert after.last_run_at is not None
        assert job.payload == {**payload, "schedule_id": schedule.id}
        assert (job.priority, job.max_retries) == (priority, KIND.max_retries)
        await shop.wait_for(job, JobState.COMPLETED)


async def test_ticks_missed_for_days_are_made_up_by_one_job(settings: Settings) -> None:
    async with open_workshop(settings, KIND) as shop:
        start = datetime(2026, 3, 1, tzinfo=UTC)
        schedule = await add_schedule(shop, "often", interval_seconds=60, next_run_at=start)
        now = start + timedelta(days=3, seconds=30)
        assert await submit_due(shop.database, shop.kinds, now) == 1
        assert await submit_due(shop.database, shop.kinds, now) == 0
        assert (await look(shop, schedule)).next_run_at == start + timedelta(days=3, seconds=60)
        assert len(await jobs_of(shop, schedule)) == 1


async def test_a_disabled_schedule_does_not_fire(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CARE_SECONDS", 0.05)
    async with open_workshop(settings, KIND) as shop, shop.working():
        disabled = await add_schedule(shop, "disabled", interval_seconds=1, enabled=False)
        enabled = await add_schedule(shop, "enabled", interval_seconds=1)

        async def fired_twice() -> bool:
            return len(await jobs_of(shop, enabled)) >= 2

        await wait_until(fired_twice, "the enabled schedule fired twice")
        assert await jobs_of(shop, disabled) == []
        assert await look(shop, disabled) == disabled


async def test_a_schedule_disabled_while_its_tick_is_taken_does_not_fire(settings: Settings) -> None:
    async with open_workshop(settings, KIND) as shop:
        seen = await add_schedule(shop, "hourly", interval_seconds=3600)
        async with shop.database.writing() as connection:
            await Schedules(connection).update(seen.tenant_id, seen.id, enabled=False)
            assert not await Schedules(connection).move_on(seen, seen.next_run_at + timedelta(hours=1), utc_now())


async def test_a_schedule_that_cannot_tick_does_not_hold_up_the_others(settings: Settings) -> None:
    async with open_workshop(settings, KIND) as shop, shop.working():
        long_ago = utc_now() - timedelta(days=1)
        broken = [
            await add_schedule(shop, "never", cron="0 0 30 2 *", next_run_at=long_ago),
            await add_schedule(shop, "unknown", kind="test.unknown", interval_seconds=60, next_run_at=long_ago),
            await add_schedule(shop, "neither", next_run_at=long_ago),
        ]
        healthy = await add_schedule(shop, "healthy", interval_seconds=3600)
        (job,) = await wait_until(lambda: jobs_of(shop, healthy), "the healthy schedule fired")
        await shop.wait_for(job, JobState.COMPLETED)
        assert [await jobs_of(shop, schedule) for schedule in broken] == [[], [], []]


@pytest.mark.slow
@on_postgres
async def test_a_cluster_of_three_workers_submits_each_tick_once(settings: Settings, tmp_path: Path) -> None:
    async with open_workshop(settings, STEPS) as shop, shop.working():
        with worker_processes(settings, tmp_path) as processes:
            for _ in range(2):
                processes.start()

            async def all_there() -> bool:
                async with shop.database.reading() as connection:
                    return len(await Workers(connection).all()) == 3

            await wait_until(all_there, "three workers are registered")
            schedule = await add_schedule(
                shop, "every second", kind=STEPS.name, payload={"steps": 0}, interval_seconds=1,
                next_run_at=utc_now() + timedelta(seconds=1),
            )  # fmt: skip

            async def six_seconds_passed() -> bool:
                return utc_now() > schedule.next_run_at + timedelta(seconds=5.5)

            await wait_until(six_seconds_passed, "six ticks are due")
            async with shop.database.writing() as connection:
                await Schedules(connection).update(schedule.tenant_id, schedule.id, enabled=False)
            jobs = await jobs_of(shop, schedule)
            for job in jobs:
                await shop.wait_for(job, JobState.COMPLETED)
                assert (await shop.types(job)).count("job.submitted") == 1
    ticks = [tick_of(job) for job in jobs]
    assert len(set(ticks)) == len(ticks)
    # Ticks keep their beat; a busy machine may be late by more than one, which then counts as one.
    assert {(tick - schedule.next_run_at) % timedelta(seconds=1) for tick in ticks} == {timedelta(0)}
    assert all(before < after for before, after in pairwise(ticks))
    assert 4 <= len(ticks) <= 6
