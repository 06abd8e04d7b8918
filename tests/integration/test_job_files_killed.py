"""Workers killed with -9 at random moments: the job goes on, and its file is right, and never in two states."""

import asyncio
import random
from pathlib import Path

import pytest
from tests.acceptance.actions.asking import check_stream, read_events
from tests.processes import worker_processes

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.model.tenant import Principal
from scrubjay.services.action_jobs import JobOrder
from scrubjay.settings import Settings

pytestmark = pytest.mark.slow
KILLS = 5
STEPS = 60
PATIENCE_SECONDS = 60


async def text_of_stream(jay: Scrubjay, who: Principal, job_id: str) -> str:
    frames = [frame async for frame in await jay.action_jobs.follow(who, job_id)]
    return b"".join(frames).decode()


def job_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*_[[]jb_*") if not path.name.startswith(".")]


async def until_file(folder: Path, suffix: str, longer_than: int = 0) -> Path:
    """The job's file, once it is in a state and says more than before."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = [path for path in job_files(folder) if path.suffix == suffix and path.stat().st_size > longer_than]
            if found:
                return found[0]
            await asyncio.sleep(0.05)


@pytest.mark.timeout(180)
async def test_a_killed_workers_job_goes_on_and_its_file_stays_right(settings: Settings, tmp_path: Path) -> None:
    chance = random.Random(7)
    changes = {"worker_silence_seconds": 2.0, "worker_heartbeat_seconds": 0.3}
    settings = settings.model_copy(update=changes)
    settings.model_fields_set.update(changes)
    async with open_scrubjay(settings) as jay:
        who = await jay.access.open_as_admin(settings.home)
        order = JobOrder(
            kind="diagnostic.steps",
            payload={"steps": STEPS, "seconds": 0.1},
            endpoint="/v2/crawler/crawl?domain_id=TEST01",
            object_id="TEST01",
        )
        job_id = (await jay.action_jobs.start(who, order))["job_id"]
        folder = settings.resolved_storage_folder / who.tenant_id / "jobs"
        with worker_processes(settings, tmp_path) as workers:
            size = 0
            for _ in range(KILLS):
                worker = workers.start()
                await until_file(folder, ".running", longer_than=size)
                await asyncio.sleep(chance.uniform(0.0, 0.6))
                workers.kill(worker)
                (path,) = job_files(folder)
                assert path.suffix == ".running", workers.logs()
                size = path.stat().st_size
            workers.start()
            async with asyncio.timeout(PATIENCE_SECONDS):
                text = await text_of_stream(jay, who, job_id)
            path = await until_file(folder, ".completed")
            while path.read_text() != text:
                await asyncio.sleep(0.05)
    events = read_events(text)
    end = check_stream(events)
    assert (end["state"], end["result"]) == ("completed", {"ok": True, "error": "", "data": {"steps": STEPS}})
    assert sum(event.data.startswith("The worker died") for event in events) >= KILLS // 2
    assert [each for each in folder.rglob("*") if each.is_file()] == [path]


@pytest.mark.repeat
@pytest.mark.timeout(120)
@pytest.mark.parametrize("backend", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
async def test_two_workers_and_two_servers_share_a_folder_and_the_numbers(settings: Settings, tmp_path: Path) -> None:
    """Numbers are given once whoever asks, and each job has one file, whole, though two processes could write it."""
    async with open_scrubjay(settings) as one, open_scrubjay(settings) as other:
        who = await one.access.open_as_admin(settings.home)
        orders = [
            JobOrder(kind="diagnostic.steps", payload={"steps": 3, "seconds": 0.02}, endpoint="/v2/crawler/crawl")
            for _ in range(30)
        ]
        started = await asyncio.gather(*(jay.action_jobs.start(who, order) for order in orders for jay in (one, other)))
        ids = {job["job_id"] for job in started}
        assert len(ids) == len(started) == 60
        folder = settings.resolved_storage_folder / who.tenant_id / "jobs"
        with worker_processes(settings, tmp_path) as workers:
            workers.start()
            workers.start()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while sum(path.suffix == ".completed" for path in job_files(folder)) < len(ids):
                    await asyncio.sleep(0.1)
        texts = {check_stream(read_events(path.read_text()))["job_id"]: path.read_text() for path in job_files(folder)}
        assert texts == {job_id: await text_of_stream(one, who, job_id) for job_id in ids}
