"""The clock of plans: who is due, who waits, what was left behind, what is too old; and adaptive runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.plans import ONCE, Planner, article, set_pages
from tests.site import Site, running_site
from tests.workshop import wait_until

from scrubjay.app import open_scrubjay
from scrubjay.extract.pool import ExtractionPool
from scrubjay.model.clock import utc_now
from scrubjay.model.plan import (
    IntervalType,
    Operation,
    OperationState,
    Plan,
    PlanState,
    RepositoryType,
    ScheduleSettings,
    Trigger,
)
from scrubjay.plans.enumeration_file import EnumerationFiles
from scrubjay.plans.scheduler import PlanScheduler
from scrubjay.queue.signals import JobSignals
from scrubjay.services.plans import PlanValues
from scrubjay.settings import Settings
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans
from scrubjay.storage.turns import Turns, TurnTaker

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOURLY = ScheduleSettings(interval_type=IntervalType.HOURS, interval_value=1)
NAMES = [f"page{number}" for number in range(6)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ExtractionPool]:
    async with ExtractionPool(processes=1) as pool:
        yield pool


async def _take_no_turns(_: PlanScheduler) -> None:
    """Tests take the turns themselves."""


@pytest_asyncio.fixture(loop_scope="module")
async def planner(
    settings: Settings, pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Planner]:
    monkeypatch.setattr("scrubjay.app.resources.open_pool", lambda _: nullcontext(pool))
    monkeypatch.setattr(PlanScheduler, "_keep_time", _take_no_turns)
    chosen = settings.model_copy(
        update={"allowed_private_networks": (ip_network("127.0.0.0/8"),), "file_roots": (tmp_path,)}
    )
    async with open_scrubjay(chosen, working=True) as jay:
        yield Planner(jay, await jay.access.open_as_admin(settings.home))


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        set_pages(running, NAMES)
        yield running


def scheduler(planner: Planner) -> PlanScheduler:
    jay = planner.jay
    files = EnumerationFiles(jay.settings.resolved_enumeration_folder, jay.database)
    return PlanScheduler(jay.database, JobSignals(jay.cache), files)


async def set_plan(planner: Planner, plan: Plan, **changes: Any) -> Plan:
    async with planner.jay.database.writing() as connection:
        return await Plans(connection).update(plan.tenant_id, plan.id, **changes)


async def latest(planner: Planner, plan: Plan) -> list[Operation]:
    return list((await planner.jay.operations.page(planner.who, plan.id)).items)


async def test_a_new_plan_is_due_at_once_and_a_due_plan_is_begun_by_one_of_many(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, schedule=HOURLY, is_active=True)
    assert plan.next_crawl_at is not None

    begun = await asyncio.gather(*(scheduler(planner).begin_due() for _ in range(5)))

    assert sum(begun) == 1
    [operation] = await latest(planner, plan)
    assert operation.trigger is Trigger.SCHEDULE
    await planner.finish(plan, operation)
    after = await planner.jay.plans.get(planner.who, plan.id)
    assert after.next_crawl_at is not None
    assert after.next_crawl_at > utc_now() + timedelta(minutes=59)


async def test_times_that_were_missed_run_once(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, schedule=HOURLY, is_active=True)
    await set_plan(planner, plan, next_crawl_at=utc_now() - timedelta(hours=10))

    assert await scheduler(planner).begin_due() == 1
    await planner.finish(plan, (await latest(planner, plan))[0])

    assert await scheduler(planner).begin_due() == 0


async def test_a_cancelled_run_waits_for_its_interval(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, schedule=HOURLY, is_active=True)
    site.latency_seconds = 0.3
    await scheduler(planner).begin_due()
    [operation] = await latest(planner, plan)
    await planner.jay.plans.stop(planner.who, plan.id)
    assert (await planner.finish(plan, operation)).state is OperationState.CANCELED

    assert await scheduler(planner).begin_due() == 0


async def test_an_inactive_plan_and_one_that_lacks_its_start_are_never_due(planner: Planner, site: Site) -> None:
    await planner.plan(site.url, schedule=HOURLY, is_active=False)
    await planner.plan("", web={"start_url": None}, is_active=True)

    assert await scheduler(planner).begin_due() == 0


async def test_a_turn_is_one_process_only_and_survives_a_clock_that_is_put_back(planner: Planner) -> None:
    now = utc_now()

    async def take(moment: Any) -> bool:
        async with planner.jay.database.writing() as connection:
            return await Turns(connection).take("test", 60, moment)

    assert [await take(now) for _ in range(3)] == [True, False, False]
    assert await take(now + timedelta(seconds=61))
    assert await take(now - timedelta(days=2))
    assert not await take(now - timedelta(days=2))


async def test_two_processes_take_a_turn_once_and_the_other_takes_over_later(planner: Planner) -> None:
    now = [utc_now()]
    first, second = (TurnTaker(planner.jay.database, lambda: now[0]) for _ in range(2))

    assert await first.is_due("test.taker", 60)
    assert not await second.is_due("test.taker", 60)
    assert not await first.is_due("test.taker", 60)
    now[0] += timedelta(seconds=61)
    assert await second.is_due("test.taker", 60)
    assert not await first.is_due("test.taker", 60)
    now[0] -= timedelta(days=2)  # the clock is set back
    assert await first.is_due("test.taker", 60)


async def test_a_plan_does_not_wait_for_a_time_that_a_wrong_clock_meant(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, schedule=HOURLY, is_active=True)
    await set_plan(planner, plan, next_crawl_at=utc_now() + timedelta(days=400), last_crawl_start_at=utc_now())

    await scheduler(planner).begin_due()

    after = await planner.jay.plans.get(planner.who, plan.id)
    assert after.next_crawl_at is not None
    assert after.next_crawl_at < utc_now() + timedelta(hours=2)


async def test_a_run_that_no_job_carries_any_more_is_recovered(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url)
    done = await planner.run(plan)
    async with planner.jay.database.writing() as connection:
        await Operations(connection).change(done.id, state=OperationState.RETRIEVING, finished_at=None)
    await set_plan(planner, plan, state=PlanState.RUNNING, operation_id=done.id)

    assert await scheduler(planner).recover() == 1

    after = await planner.jay.plans.get(planner.who, plan.id)
    assert (after.state, after.operation_id, after.last_crawl_success) == (PlanState.STOPPED, None, False)
    [operation] = await latest(planner, plan)
    assert (operation.state, operation.status_message) == (OperationState.FAILED, "Recovered during startup")
    assert await scheduler(planner).recover() == 0


async def test_old_operations_and_their_files_go_and_the_next_run_adds_nothing(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, retention_days=3)
    done = await planner.run(plan)
    file = Path(done.enumeration_file or "")
    assert await scheduler(planner).remove_old() == 0
    async with planner.jay.database.writing() as connection:
        await Operations(connection).change(done.id, created_at=utc_now() - timedelta(days=4))

    assert await scheduler(planner).remove_old() == 1

    assert await latest(planner, plan) == []
    assert not file.exists()
    again = await planner.run(plan)
    assert (again.objects_added, again.objects_unchanged) == (0, 7)


async def test_an_adaptive_run_looks_at_some_pages_and_finds_what_changed_there(planner: Planner, site: Site) -> None:
    budget = ScheduleSettings(requests_per_day=24 * 4)
    plan = await planner.plan(site.url, schedule=budget, is_active=True)
    await scheduler(planner).begin_due()
    first = await planner.finish(plan, (await latest(planner, plan))[0])
    assert (first.trigger, first.objects_added) == (Trigger.SCHEDULE, 7)
    site.forget()
    for name in NAMES:
        site.add(f"/{name}", article(name, "/", text=f"All of {name} was written anew, to the last of its words. " * 9))
    seen: set[str] = set()
    for _ in range(6):
        await set_plan(planner, plan, next_crawl_at=utc_now() - timedelta(seconds=1))
        assert await scheduler(planner).begin_due() == 1
        run = await planner.finish(plan, (await latest(planner, plan))[0])
        assert (run.trigger, run.is_complete, run.state) == (Trigger.ADAPTIVE, False, OperationState.SUCCESS)
        asked = {request.path for request in site.requests} - {"/robots.txt"}
        assert len(site.requests) <= 5
        seen |= asked
        site.forget()

    assert seen >= {f"/{name}" for name in NAMES}
    said = await planner.documents(plan)
    assert sum("written anew" in text for text in said.values()) == 6
    assert 0 <= await planner.jay.plans.staleness(planner.who, plan.id) < 0.2


async def test_an_adaptive_run_ends_what_it_is_told_is_gone_and_nothing_else(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, schedule=ScheduleSettings(requests_per_day=24 * 20), is_active=True)
    await planner.run(plan)
    set_pages(site, NAMES[1:])
    await set_plan(planner, plan, next_crawl_at=utc_now() - timedelta(seconds=1))
    await scheduler(planner).begin_due()

    run = await planner.finish(plan, (await latest(planner, plan))[0])

    assert (run.trigger, run.objects_deleted) == (Trigger.ADAPTIVE, 1)
    assert await planner.paths(plan) == {"/", *(f"/{name}" for name in NAMES[1:])}


async def test_a_folder_is_a_source_like_any_other(planner: Planner, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "jays.md").write_text("# Jays\n\nScrub jays hide acorns, and remember where.\n")
    (folder / "owls.txt").write_text("Owls hunt at night, and sleep while jays are about.")
    (folder / "thumbs.db").write_text("not for reading")
    values = PlanValues(
        repository_type=RepositoryType.FILE,
        repository_settings={"path": str(folder)},
        schedule=ONCE,
        process_deletions=True,
        is_active=False,
    )
    plan = await planner.jay.plans.create(planner.who, values)
    first = await planner.run(plan)
    assert (first.state, first.objects_enumerated, first.objects_added) == (OperationState.SUCCESS, 2, 2)
    (folder / "jays.md").write_text("# Jays\n\nScrub jays hide acorns, and this line is new.\n")
    (folder / "owls.txt").unlink()
    (folder / "wrens.md").write_text("# Wrens\n\nWrens are small, and loud for their size.\n")

    second = await planner.run(plan)

    assert (second.objects_added, second.objects_updated, second.objects_deleted) == (1, 1, 1)
    said = await planner.documents(plan)
    assert sorted(url.rsplit("/", 1)[1] for url in said) == ["jays.md", "wrens.md"]
    assert any("this line is new" in text for text in said.values())
    for path in folder.iterdir():
        path.unlink()
    third = await planner.run(plan)
    assert (third.objects_deleted, third.objects_withheld) == (0, 2)  # an empty folder may be one that is not mounted
    fourth = await planner.run(plan)
    assert (fourth.objects_deleted, fourth.objects_withheld) == (0, 2)
    fifth = await planner.run(plan, confirm_deletions=True)
    assert fifth.objects_deleted == 2
    await planner.index_agrees()


async def test_a_plan_whose_folder_is_gone_fails_and_keeps_its_documents(planner: Planner, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "jays.md").write_text("# Jays\n\nScrub jays hide acorns, and remember where.\n")
    values = PlanValues(repository_type="file", repository_settings={"path": str(folder)}, process_deletions=True)
    plan = await planner.jay.plans.create(planner.who, replace(values, schedule=ONCE, is_active=False))
    await planner.run(plan)
    folder.rename(tmp_path / "elsewhere")

    run = await planner.run(plan)

    assert (run.state, run.objects_deleted) == (OperationState.FAILED, 0)
    assert str(folder) in (run.status_message or "")
    assert len(await planner.documents(plan)) == 1

    async def stopped() -> bool:
        return (await planner.jay.plans.get(planner.who, plan.id)).state is PlanState.STOPPED

    await wait_until(stopped, "the plan stands still")
