"""Jobs outlive their workers: `kill -9` at any moment loses no step and repeats none that was committed."""

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.processes import WorkerProcesses, worker_processes
from tests.workshop import Workshop, on_postgres, on_sqlite, open_workshop, wait_until

from scrubjay.model.job import Job, JobState
from scrubjay.services.diagnostics import STEPS
from scrubjay.settings import Settings
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.workers import Workers

pytestmark = pytest.mark.slow  # minutes with their like: `make test-all` runs them

KILLS = 20
TASK = {"steps": 500, "seconds": 0.02}
LONGEST_RUN_SECONDS = 0.5


@pytest.fixture
def chance() -> random.Random:
    seed = os.environ.get("SCRUBJAY_TEST_SEED") or str(random.SystemRandom().randrange(2**32))
    print(f"SCRUBJAY_TEST_SEED={seed} repeats these moments")
    return random.Random(seed)


@pytest.fixture
async def shop(settings: Settings) -> AsyncIterator[Workshop]:
    """This process only submits and looks; the work is done by others."""
    async with open_workshop(settings, STEPS) as shop:
        yield shop


async def find_holder(
    shop: Workshop, job: Job, processes: WorkerProcesses
) -> tuple[Job, subprocess.Popen[bytes]] | None:
    """The job as it runs, and the living process that has it."""
    async with shop.database.reading() as connection:
        now = await Jobs(connection).find_by_id(job.id)
        workers = {worker.id: worker for worker in await Workers(connection).all()}
    assert now is not None
    if now.state is not JobState.RUNNING or now.worker_id not in workers:
        return None
    process = processes.alive.get(workers[now.worker_id].pid)
    return None if process is None else (now, process)


async def kill_holder_at_some_moment(
    shop: Workshop, job: Job, processes: WorkerProcesses, chance: random.Random
) -> None:
    async def held() -> tuple[Job, subprocess.Popen[bytes]] | None:
        return await find_holder(shop, job, processes)

    _, process = await wait_until(held, "a living worker runs the job")
    await asyncio.sleep(chance.uniform(0, LONGEST_RUN_SECONDS))
    processes.kill(process)


async def unfinished(shop: Workshop, jobs: list[Job]) -> Job:
    """The job to kill workers of: the newest, or one more when that was too quick for us."""
    if not jobs or (await shop.look(jobs[-1])).is_finished:
        jobs.append(await shop.submit(STEPS.name, TASK))
    return jobs[-1]


async def assert_nothing_was_lost(shop: Workshop, jobs: list[Job], kills: int) -> None:
    recovered = 0
    for job in jobs:
        done = await shop.wait_for(job, JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, seconds=90)
        assert (done.state, done.error) == (JobState.COMPLETED, None)
        assert (done.result, done.checkpoint) == ({"steps": TASK["steps"]}, {"done": TASK["steps"]})
        events = await shop.events(job)
        assert [event.sequence for event in events] == list(range(1, done.event_count + 1))
        steps = [event.payload["step"] for event in events if event.type == "diagnostic.step"]
        assert steps == list(range(1, int(TASK["steps"]) + 1))
        types = [event.type for event in events]
        assert types.count("job.completed") == 1
        assert types[-1] == "job.completed"
        assert done.run == types.count("job.recovered") + 1
        recovered += types.count("job.recovered")
    # A worker killed after its job's last commit leaves nothing to recover.
    assert kills - len(jobs) < recovered <= kills
    async with shop.database.reading() as connection:
        assert not await Jobs(connection).orphans_exist()
    counts = await shop.jobs.counts(shop.who)
    assert counts == dict.fromkeys(counts, 0) | {"completed": len(jobs)}


@on_sqlite
@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_job_survives_twenty_kills_of_the_only_worker(
    shop: Workshop, settings: Settings, tmp_path: Path, chance: random.Random
) -> None:
    jobs: list[Job] = []
    with worker_processes(settings, tmp_path) as processes:
        for _ in range(KILLS):
            processes.start()
            await kill_holder_at_some_moment(shop, await unfinished(shop, jobs), processes, chance)
            assert not processes.alive
        processes.start()
        await assert_nothing_was_lost(shop, jobs, KILLS)


@on_postgres
@pytest.mark.repeat
@pytest.mark.timeout(240)
async def test_a_job_survives_twenty_kills_of_the_worker_that_has_it(
    shop: Workshop, settings: Settings, tmp_path: Path, chance: random.Random
) -> None:
    jobs: list[Job] = []
    with worker_processes(settings, tmp_path) as processes:

        async def both_registered() -> bool:
            async with shop.database.reading() as connection:
                registered = {worker.pid for worker in await Workers(connection).all()}
            return processes.alive.keys() <= registered

        processes.start()
        for _ in range(KILLS):
            processes.start()
            await wait_until(both_registered, "two workers are there")
            await kill_holder_at_some_moment(shop, await unfinished(shop, jobs), processes, chance)
            assert len(processes.alive) == 1
        await assert_nothing_was_lost(shop, jobs, KILLS)


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(120)
async def test_with_default_settings_a_job_runs_again_within_thirty_seconds(home: Path, postgres_url: str) -> None:
    settings = Settings(home=home, database_url=postgres_url)
    assert (settings.worker_heartbeat_seconds, settings.worker_silence_seconds) == (5, 20)
    async with open_workshop(settings, STEPS) as shop:
        with worker_processes(settings, home.parent) as processes:
            first, second = processes.start(), processes.start()

            async def both_registered() -> bool:
                async with shop.database.reading() as connection:
                    return len(await Workers(connection).all()) == 2

            await wait_until(both_registered, "two workers are there")
            job = await shop.submit(STEPS.name, {"steps": 100_000, "seconds": 0.1})

            async def held() -> tuple[Job, subprocess.Popen[bytes]] | None:
                return await find_holder(shop, job, processes)

            _, holder = await wait_until(held, "the job runs")
            survivor = second if holder is first else first

            async def progressed() -> bool:
                return bool((await shop.look(job)).checkpoint)

            await wait_until(progressed, "the job reached a checkpoint")
            processes.kill(holder)
            before, killed_at = (await shop.look(job)).checkpoint or {}, time.monotonic()

            async def goes_on() -> bool:
                return ((await shop.look(job)).checkpoint or {})["done"] > before["done"]

            await wait_until(goes_on, "the job goes on with the other worker", seconds=30)
            print(f"taken over after {time.monotonic() - killed_at:.1f} s")
            _, taker = await wait_until(held, "the other worker has the job")
            assert taker is survivor
            types = await shop.types(job)
            assert types.count("job.recovered") == 1


@pytest.mark.timeout(120)
async def test_a_worker_told_to_stop_hands_its_job_back_at_once_and_ends_well(
    shop: Workshop, settings: Settings, tmp_path: Path
) -> None:
    # Were the job found by the worker's silence, it would take ten minutes.
    patient = settings.model_copy(update={"worker_silence_seconds": 600.0})
    with worker_processes(patient, tmp_path) as processes:
        worker = processes.start()
        job = await shop.submit(STEPS.name, {"steps": 100_000, "seconds": 0.05})

        async def progressed() -> bool:
            return bool((await shop.look(job)).checkpoint)

        await wait_until(progressed, "the job reached a checkpoint")
        worker.send_signal(signal.SIGTERM)
        back = await shop.wait_for(job, JobState.PENDING, seconds=10)
        assert await asyncio.to_thread(worker.wait, 20) == 0, processes.logs()
        assert (back.worker_id, back.crashes, back.retry_count) == (None, 0, 0)
        assert (await shop.types(job))[-1] == "job.handed_back"
        async with shop.database.reading() as connection:
            assert await Workers(connection).all() == []

        processes.start()

        async def goes_on() -> bool:
            return ((await shop.look(job)).checkpoint or {})["done"] > (back.checkpoint or {})["done"]

        await wait_until(goes_on, "the next worker goes on with the job")
        steps = [event.payload["step"] for event in await shop.events(job, "diagnostic.step")]
        assert steps == list(range(1, len(steps) + 1))


@on_sqlite
async def test_no_worker_outlives_its_test(settings: Settings, tmp_path: Path) -> None:
    pids: list[int] = []

    def fail_with_a_worker_running() -> None:
        with worker_processes(settings, tmp_path) as processes:
            pids.append(processes.start().pid)
            raise RuntimeError("as a test that fails")

    with pytest.raises(RuntimeError, match="as a test"):
        fail_with_a_worker_running()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
