"""The life of a job on real databases: run, watch, steer, fail, try again."""

import asyncio
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.processes import SCRUBJAY, environment
from tests.workshop import Gate, Steps, Workshop, on_every_database, open_workshop, wait_until

from scrubjay.errors import Conflict, JobFailedForGood, JobTakenOver
from scrubjay.model.job import Job, JobEvent, JobPriority, JobRequest, JobState
from scrubjay.queue.context import JobContext
from scrubjay.queue.control import submit
from scrubjay.queue.kinds import Handler, JobKind
from scrubjay.queue.live import EventHub
from scrubjay.queue.signals import JobSignals
from scrubjay.settings import Settings
from scrubjay.storage.cache_memory import MemoryCache
from scrubjay.storage.database import open_database
from scrubjay.storage.jobs import Jobs
from scrubjay.telemetry import REDACTED

FINISHED = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)


def kind(handler: Handler, name: str = "test.kind", **options: Any) -> JobKind:
    return JobKind(name=name, handler=handler, **options)


async def wait_forever(context: JobContext) -> None:
    """Never reaches a checkpoint."""
    await asyncio.Event().wait()


async def yield_often(context: JobContext) -> None:
    """Reaches a checkpoint all the time, so it obeys as soon as it is told."""
    while True:
        await context.checkpoint()
        await asyncio.sleep(0.005)


SENTINEL = kind(yield_often, "test.sentinel")


async def make_sure_the_engine_listened(shop: Workshop) -> None:
    """Requests are read all at once: once a later one is obeyed, earlier ones have been told to their jobs."""
    sentinel = await shop.submit(SENTINEL.name)
    await shop.wait_for(sentinel, JobState.RUNNING)
    await shop.ask(sentinel, JobRequest.CANCEL)
    await shop.wait_for(sentinel, JobState.CANCELLED)


@on_every_database
async def test_a_job_runs_and_completes_with_its_result(settings: Settings) -> None:
    async def greet(context: JobContext) -> Mapping[str, Any]:
        return {"greeting": f"Hello {context.payload['name']}"}

    async with open_workshop(settings, kind(greet)) as shop, shop.working():
        job = await shop.submit("test.kind", {"name": "Jay"})
        done = await shop.wait_for(job, *FINISHED)
        assert (done.state, done.result, done.error) == (JobState.COMPLETED, {"greeting": "Hello Jay"}, None)
        assert (done.worker_id, done.requested, done.run) == (None, None, 1)
        assert done.started_at is not None
        assert done.finished_at is not None
        assert job.created_at <= done.started_at <= done.finished_at
        assert await shop.types(job) == ["job.submitted", "job.started", "job.completed"]


@on_every_database
async def test_events_are_numbered_without_gaps_and_read_from_any_point(settings: Settings) -> None:
    async def talk(context: JobContext) -> None:
        async def chatter(name: str) -> None:
            for number in range(10):
                await context.log(f"{name} {number}", number=number)
                await context.emit("test.said", name=name, number=number)
                await context.progress(number, 10)
                await asyncio.sleep(0.03)  # longer than a few flushes

        async def remember() -> None:
            for number in range(20):
                await context.checkpoint({"number": number}, events=[("test.remembered", {"number": number})])
                await asyncio.sleep(0.01)

        await asyncio.gather(chatter("a"), chatter("b"), chatter("c"), remember())

    async with open_workshop(settings, kind(talk)) as shop, shop.working():
        jobs = [await shop.submit("test.kind") for _ in range(3)]
        for job in jobs:
            done = await shop.wait_for(job, *FINISHED)
            events = await shop.events(job)
            assert [event.sequence for event in events] == list(range(1, len(events) + 1))
            assert done.event_count == len(events)
            assert [len(await shop.events(job, type_)) for type_ in ("job.log", "test.said", "test.remembered")] == [
                30,
                30,
                20,
            ]
            numbers = [event.payload["number"] for event in await shop.events(job, "test.remembered")]
            assert numbers == list(range(20))
            for after in (0, 1, 7, len(events) - 1, len(events)):
                rest = await shop.jobs.events(shop.who, job.id, after=after)
                assert [event.sequence for event in rest] == list(range(after + 1, len(events) + 1))


async def test_progress_is_in_the_job_and_in_its_log(settings: Settings) -> None:
    gate = Gate()

    async def work(context: JobContext) -> None:
        await context.progress(3, 7, "third of seven", rate=1.5)
        await gate.step()

    async with open_workshop(settings, kind(work)) as shop, shop.working():
        job = await shop.submit("test.kind")
        expected = {"current": 3, "total": 7, "message": "third of seven", "rate": 1.5}

        async def told() -> bool:
            return (await shop.look(job)).progress == expected

        await wait_until(told, "the progress of a running job is stored", seconds=5)
        gate.let()
        await shop.wait_for(job, JobState.COMPLETED)
        assert [event.payload for event in await shop.events(job, "job.progress")] == [expected]


async def test_following_from_elsewhere_sees_events_live_and_ends_with_the_last(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind) as shop, shop.working():
        job = await shop.submit(steps.kind.name, {"steps": 3})
        elsewhere, cache = open_database(settings), MemoryCache()  # as another process: nothing but the data is shared
        hub = EventHub(elsewhere, JobSignals(cache), poll_seconds=0.02)
        try:
            seen: list[JobEvent] = []
            async with asyncio.timeout(20):
                async for batch in hub.follow_job(job.id):
                    seen += [told.event for told in batch]
                    # The next event cannot exist before this one was seen.
                    steps.gate.let(sum(told.event.type in ("job.started", "test.step") for told in batch))
            assert [event.type for event in seen] == [
                "job.submitted", "job.started", "test.step", "test.step", "test.step", "job.completed",
            ]  # fmt: skip
            assert [event.sequence for event in seen] == [1, 2, 3, 4, 5, 6]
            tail = [told.event async for batch in hub.follow_job(job.id, after=4) for told in batch]
            assert tail == seen[4:]
        finally:
            await hub.close()
            await cache.close()
            await elsewhere.close()


async def test_the_command_line_follows_a_job_of_another_process(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind) as shop, shop.working():
        job = await shop.submit(steps.kind.name, {"steps": 2})
        command = [str(SCRUBJAY), "--home", str(settings.home), "jobs", "events", "--follow", "--json", job.id]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, env=environment(settings)
        )
        try:
            assert process.stdout is not None
            types = []
            async with asyncio.timeout(40):
                async for line in process.stdout:
                    types.append(json.loads(line)["type"])
                    if types[-1] in ("job.started", "test.step"):
                        steps.gate.let()
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert types == ["job.submitted", "job.started", "test.step", "test.step", "job.completed"]


async def test_following_a_long_log_misses_nothing(settings: Settings) -> None:
    async def talk(context: JobContext) -> None:
        for number in range(1200):
            await context.emit("test.said", number=number)

    async with open_workshop(settings, kind(talk)) as shop, shop.working():
        job = await shop.submit("test.kind")
        async with asyncio.timeout(30):
            seen = [event async for event in shop.jobs.follow(shop.who, job.id)]
        assert [event.sequence for event in seen] == list(range(1, 1204))


@on_every_database
async def test_pause_lands_at_the_next_checkpoint_and_resume_goes_on_from_it(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind, SENTINEL) as shop, shop.working():
        job = await shop.submit(steps.kind.name, {"steps": 5})
        await steps.take(1)
        asked = await shop.ask(job, JobRequest.PAUSE)
        assert (asked.state, asked.requested) == (JobState.RUNNING, JobRequest.PAUSE)
        await make_sure_the_engine_listened(shop)
        assert (await shop.look(job)).state is JobState.RUNNING
        steps.gate.let(1)
        paused = await shop.wait_for(job, JobState.PAUSED)
        assert (paused.checkpoint, paused.requested, paused.worker_id) == ({"done": 2}, None, None)
        assert (await shop.types(job))[2:] == ["test.step", "job.pause_requested", "test.step", "job.paused"]

        steps.gate.let(3)
        await make_sure_the_engine_listened(shop)
        assert steps.taken == [1, 2]
        await shop.ask(job, JobRequest.RESUME)
        done = await shop.wait_for(job, *FINISHED)
        assert (done.state, done.run) == (JobState.COMPLETED, 2)
        assert steps.taken == [1, 2, 3, 4, 5]
        assert [event.payload["step"] for event in await shop.events(job, "test.step")] == [1, 2, 3, 4, 5]


async def test_cancel_ends_a_running_job_at_its_next_checkpoint(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind, SENTINEL) as shop, shop.working():
        job = await shop.submit(steps.kind.name, {"steps": 5})
        await steps.take(1)
        assert (await shop.ask(job, JobRequest.CANCEL)).requested is JobRequest.CANCEL
        await make_sure_the_engine_listened(shop)
        steps.gate.let(5)
        cancelled = await shop.wait_for(job, *FINISHED)
        assert (cancelled.state, cancelled.checkpoint) == (JobState.CANCELLED, {"done": 2})
        assert cancelled.finished_at is not None
        assert (await shop.types(job))[-3:] == ["job.cancel_requested", "test.step", "job.cancelled"]


async def test_a_paused_job_that_never_started_waits_until_it_is_resumed(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind, SENTINEL) as shop:
        job = await shop.submit(steps.kind.name, {"steps": 0})
        assert (await shop.ask(job, JobRequest.PAUSE)).state is JobState.PAUSED
        async with shop.working():
            await make_sure_the_engine_listened(shop)
            assert (await shop.look(job)).state is JobState.PAUSED
            assert (await shop.ask(job, JobRequest.RESUME)).state is JobState.PENDING
            await shop.wait_for(job, JobState.COMPLETED)
        assert await shop.types(job) == [
            "job.submitted", "job.pause_requested", "job.resume_requested", "job.started", "job.completed",
        ]  # fmt: skip


async def test_a_cancelled_job_that_never_started_never_runs(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind, SENTINEL) as shop:
        job = await shop.submit(steps.kind.name, {"steps": 0})
        cancelled = await shop.ask(job, JobRequest.CANCEL)
        assert cancelled.state is JobState.CANCELLED
        assert cancelled.finished_at is not None
        async with shop.working():
            await make_sure_the_engine_listened(shop)
            assert await shop.types(job) == ["job.submitted", "job.cancel_requested"]
            await shop.ask(job, JobRequest.RETRY)
            await shop.wait_for(job, JobState.COMPLETED)


async def test_resume_takes_back_a_pause_before_it_is_obeyed(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind, SENTINEL) as shop, shop.working():
        job = await shop.submit(steps.kind.name, {"steps": 2})
        await steps.take(1)
        await shop.ask(job, JobRequest.PAUSE)
        await make_sure_the_engine_listened(shop)
        assert (await shop.ask(job, JobRequest.RESUME)).requested is None
        await make_sure_the_engine_listened(shop)
        steps.gate.let(1)
        await shop.wait_for(job, JobState.COMPLETED, JobState.PAUSED)
        assert (await shop.types(job))[-4:] == [
            "job.pause_requested", "job.resume_requested", "test.step", "job.completed",
        ]  # fmt: skip


async def test_a_forced_cancel_ends_a_job_that_never_reaches_a_checkpoint(settings: Settings) -> None:
    ended = asyncio.Event()

    async def hang(context: JobContext) -> None:
        try:
            await wait_forever(context)
        finally:
            ended.set()

    async with open_workshop(settings, kind(hang), SENTINEL) as shop, shop.working(worker_concurrency=1):
        job = await shop.submit("test.kind")
        await shop.wait_for(job, JobState.RUNNING)
        assert (await shop.ask(job, JobRequest.CANCEL)).state is JobState.RUNNING
        assert (await shop.ask(job, JobRequest.CANCEL, force=True)).state is JobState.CANCELLED
        async with asyncio.timeout(5):
            await ended.wait()
        await make_sure_the_engine_listened(shop)  # the only place is free again
        assert (await shop.look(job)).state is JobState.CANCELLED
        types = [type_ for type_ in await shop.types(job) if type_ != "job.started"]  # told a moment after the start
        assert types == ["job.submitted", "job.cancel_requested", "job.cancel_requested"]


async def test_forced_cancels_in_the_middle_of_writing_leave_the_database_usable(settings: Settings) -> None:
    async def write_all_the_time(context: JobContext) -> None:
        number = context.state.get("number", 0)
        while True:
            number += 1
            await context.emit("test.said", number=number)
            await context.checkpoint({"number": number}, events=[("test.remembered", {"number": number})])

    async with open_workshop(settings, kind(write_all_the_time)) as shop, shop.working():
        jobs = [await shop.submit("test.kind") for _ in range(4)]
        for _ in range(5):
            for job in jobs:
                await shop.wait_for(job, JobState.RUNNING)
                await shop.ask(job, JobRequest.CANCEL, force=True)
            for job in jobs:
                await shop.ask(job, JobRequest.RETRY)
        for job in jobs:
            await shop.ask(job, JobRequest.CANCEL)
        for job in jobs:
            done = await shop.wait_for(job, JobState.CANCELLED)
            events = await shop.events(job)
            assert [event.sequence for event in events] == list(range(1, done.event_count + 1))
            remembered = [event.payload["number"] for event in events if event.type == "test.remembered"]
            assert remembered == list(range(1, len(remembered) + 1))


async def test_a_job_retried_while_its_old_run_hangs_is_steered_in_its_new_run(settings: Settings) -> None:
    runs: list[JobContext] = []
    ended: list[int] = []

    async def linger(context: JobContext) -> None:
        runs.append(context)
        try:
            if context.job.run == 1:
                await wait_forever(context)
            await yield_often(context)
        finally:
            ended.append(context.job.run)

    async with open_workshop(settings, kind(linger)) as shop, shop.working():
        job = await shop.submit("test.kind")
        await wait_until(lambda: _answer(runs), "the first run hangs")
        # As when this worker was declared gone for a moment: the job is in the queue again, its old run goes on.
        await shop.change(job, state=JobState.PENDING, worker_id=None)
        await wait_until(lambda: _answer(len(runs) == 2), "the second run started")
        await wait_until(lambda: _answer(1 in ended), "the first run was ended", seconds=5)
        await shop.ask(job, JobRequest.PAUSE)
        await shop.wait_for(job, JobState.PAUSED, seconds=5)
        assert ended == [1, 2]


async def _answer(value: Any) -> Any:
    return value


async def test_a_failing_job_is_tried_again_later_and_later_and_then_fails(settings: Settings) -> None:
    tries: list[float] = []

    async def fail(context: JobContext) -> None:
        tries.append(time.monotonic())
        raise RuntimeError(f"no luck at try {len(tries)}")

    async with open_workshop(settings, kind(fail)) as shop, shop.working():
        job = await shop.submit("test.kind", max_retries=2)
        failed = await shop.wait_for(job, *FINISHED)
        assert (failed.state, failed.error, failed.retry_count) == (JobState.FAILED, "no luck at try 3", 2)
        assert failed.finished_at is not None
        assert len(tries) == 3
        assert tries[1] - tries[0] >= 1
        assert tries[2] - tries[1] >= 2
        assert await shop.types(job) == [
            "job.submitted", "job.started", "job.retrying", "job.started", "job.retrying", "job.started", "job.failed",
        ]  # fmt: skip
        assert [event.payload["error"] for event in await shop.events(job) if "error" in event.payload] == [
            f"no luck at try {number}" for number in (1, 2, 3)
        ]


async def test_a_job_that_says_it_failed_for_good_is_not_tried_again(settings: Settings) -> None:
    async def refuse(context: JobContext) -> None:
        raise JobFailedForGood("There is no such site.")

    async with open_workshop(settings, kind(refuse, max_retries=3)) as shop, shop.working():
        job = await shop.submit("test.kind")
        failed = await shop.wait_for(job, *FINISHED)
        assert (failed.state, failed.error, failed.retry_count) == (JobState.FAILED, "There is no such site.", 0)
        assert await shop.types(job) == ["job.submitted", "job.started", "job.failed"]


@on_every_database
async def test_retrying_a_failed_job_goes_on_from_its_checkpoint(settings: Settings) -> None:
    taken: list[int] = []
    broken = True

    async def work(context: JobContext) -> Mapping[str, Any]:
        for step in range(context.state.get("done", 0) + 1, 5):
            if step == 3 and broken:
                raise RuntimeError("step 3 is broken")
            taken.append(step)
            await context.checkpoint({"done": step})
        return {"steps": 4}

    async with open_workshop(settings, kind(work)) as shop, shop.working():
        job = await shop.submit("test.kind", max_retries=0)
        failed = await shop.wait_for(job, *FINISHED)
        assert (failed.state, failed.checkpoint) == (JobState.FAILED, {"done": 2})
        broken = False
        queued = await shop.ask(job, JobRequest.RETRY)
        assert (queued.error, queued.finished_at) == (None, None)
        done = await shop.wait_for(job, *FINISHED)
        assert (done.state, done.error, done.result) == (JobState.COMPLETED, None, {"steps": 4})
        assert taken == [1, 2, 3, 4]


@on_every_database
async def test_urgent_jobs_run_first(settings: Settings) -> None:
    order: list[str] = []

    async def note(context: JobContext) -> None:
        order.append(context.payload["name"])

    async with open_workshop(settings, kind(note)) as shop:
        for priority in (JobPriority.LOW, JobPriority.NORMAL, JobPriority.HIGH):
            for number in (1, 2):
                job = await shop.submit("test.kind", {"name": f"{priority.label} {number}"}, priority=priority)
        async with shop.working(worker_concurrency=1):
            await wait_until(lambda: _answer(len(order) == 6), "all jobs ran")
            await shop.wait_for(job, JobState.COMPLETED)
    assert order == ["high 1", "high 2", "normal 1", "normal 2", "low 1", "low 2"]


async def test_the_limit_of_a_kind_is_never_exceeded_and_does_not_hold_up_other_kinds(settings: Settings) -> None:
    limited, free = Steps("test.limited", worker_limit=2), Steps("test.free")
    async with open_workshop(settings, limited.kind, free.kind) as shop, shop.working(worker_concurrency=6):
        jobs = [await shop.submit("test.limited", {"steps": 1}) for _ in range(6)]
        others = [await shop.submit("test.free", {"steps": 1}) for _ in range(4)]
        await free.gate.wait_until_reached(4)
        for left in (6, 5, 4, 3):
            await limited.gate.wait_until_reached(2)
            running = [job for job in jobs if (await shop.look(job)).state is JobState.RUNNING]
            assert (limited.gate.waiting, len(running)) == (2, 2)
            limited.gate.let(1)
            await wait_until(lambda left=left: _answer(len(limited.taken) == 7 - left), "one ended")
        limited.gate.let(2)
        free.gate.let(4)
        for job in [*jobs, *others]:
            await shop.wait_for(job, JobState.COMPLETED)


async def test_what_somebody_waits_for_does_not_wait_for_long_jobs_to_end(settings: Settings) -> None:
    long, short = Steps("test.long"), Steps("test.short", is_waited_for=True)
    async with open_workshop(settings, long.kind, short.kind) as shop, shop.working(worker_concurrency=2):
        jobs = [await shop.submit("test.long", {"steps": 1}) for _ in range(4)]
        await long.gate.wait_until_reached(2)
        for _ in range(3):
            waited_for = await shop.submit("test.short", {"steps": 1})
            await short.gate.wait_until_reached()
            short.gate.let(1)
            await shop.wait_for(waited_for, JobState.COMPLETED)
        assert long.gate.waiting == 2, "places of their own let no long job in"
        long.gate.let(4)
        for job in jobs:
            await shop.wait_for(job, JobState.COMPLETED)


@on_every_database
async def test_a_unique_key_submits_one_job_however_many_ask_at_once(settings: Settings) -> None:
    async with open_workshop(settings, SENTINEL) as shop:
        jobs = await asyncio.gather(*(shop.submit(SENTINEL.name, {"n": n}, unique_key="nightly") for n in range(12)))
        assert len({job.id for job in jobs}) == 1
        await shop.ask(jobs[0], JobRequest.CANCEL)
        again = await shop.submit(SENTINEL.name, unique_key="nightly")
        assert (again.id, again.state) == (jobs[0].id, JobState.CANCELLED)
        other = await shop.submit(SENTINEL.name, unique_key="weekly")
        assert other.id != again.id
        assert (await shop.jobs.page(shop.who)).total == 2


@on_every_database
async def test_a_worker_that_stops_hands_its_job_back_and_the_next_goes_on(settings: Settings) -> None:
    steps = Steps()
    async with open_workshop(settings, steps.kind) as shop:
        async with shop.working(shutdown_grace_seconds=20):
            job = await shop.submit(steps.kind.name, {"steps": 4})
            await steps.take(2)
            asyncio.get_running_loop().call_later(0.3, steps.gate.let, 2)  # while it stops: only one is to be taken
        back = await shop.look(job)
        assert (back.state, back.checkpoint, back.worker_id) == (JobState.PENDING, {"done": 3}, None)
        assert (back.crashes, back.retry_count) == (0, 0)
        assert (await shop.types(job))[-1] == "job.handed_back"
        async with shop.working():
            await shop.wait_for(job, JobState.COMPLETED)
        assert steps.taken == [1, 2, 3, 4]
        assert (await shop.types(job))[-4:] == ["job.handed_back", "job.started", "test.step", "job.completed"]


async def test_a_worker_that_stops_does_not_wait_for_ever_for_a_checkpoint(settings: Settings) -> None:
    async with open_workshop(settings, kind(wait_forever)) as shop:
        async with shop.working(shutdown_grace_seconds=0.2):
            job = await shop.submit("test.kind")
            await shop.wait_for(job, JobState.RUNNING)
        back = await shop.look(job)
        assert (back.state, back.worker_id, back.crashes) == (JobState.PENDING, None, 0)
        assert (await shop.types(job))[-1] == "job.handed_back"


@pytest.mark.parametrize(
    ("request_", "state"), [(JobRequest.PAUSE, JobState.PAUSED), (JobRequest.CANCEL, JobState.CANCELLED)]
)
async def test_what_was_asked_of_a_job_is_obeyed_when_its_worker_stops(
    settings: Settings, request_: JobRequest, state: JobState
) -> None:
    async with open_workshop(settings, kind(wait_forever)) as shop:
        async with shop.working(shutdown_grace_seconds=0.2):
            job = await shop.submit("test.kind")
            await shop.wait_for(job, JobState.RUNNING)
            await shop.ask(job, request_)
        obeyed = await shop.look(job)
        assert (obeyed.state, obeyed.requested) == (state, None)
        assert obeyed.is_finished is (obeyed.finished_at is not None)
        assert (await shop.types(job))[-1] == f"job.{state}"


@pytest.mark.parametrize(
    ("request_", "state"), [(JobRequest.PAUSE, JobState.PAUSED), (JobRequest.CANCEL, JobState.CANCELLED)]
)
async def test_what_was_asked_of_a_job_is_obeyed_when_it_fails_first(
    settings: Settings, request_: JobRequest, state: JobState
) -> None:
    gate = Gate()

    async def fail(context: JobContext) -> None:
        await gate.step()
        raise RuntimeError("broken")

    async with open_workshop(settings, kind(fail)) as shop, shop.working():
        job = await shop.submit("test.kind")
        await gate.wait_until_reached()
        await shop.ask(job, request_)
        gate.let()
        obeyed = await shop.wait_for(job, state, seconds=5)
        assert (obeyed.requested, obeyed.error) == (None, "broken")
        assert (await shop.types(job))[-1] == f"job.{state}"


@on_every_database
async def test_a_run_that_lost_its_job_cannot_commit_anything(settings: Settings) -> None:
    outcome: dict[str, Any] = {}
    gate = Gate()

    async def work(context: JobContext) -> None:
        await context.checkpoint({"done": 1})
        await gate.step()
        await context.emit("test.late")
        try:
            async with context.transaction() as connection:
                await submit(connection, Job(tenant_id=context.job.tenant_id, kind="test.child"))
        except JobTakenOver:
            outcome["transaction"] = "taken over"
        try:
            await context.checkpoint({"done": 2}, events=[("test.late", {})])
        except JobTakenOver:
            outcome["checkpoint"] = "taken over"
        try:
            await context.checkpoint()
        except JobTakenOver:
            outcome["next"] = "taken over"
        await context.flush()
        outcome["flush"] = "nothing"

    async with open_workshop(settings, kind(work)) as shop, shop.working():
        job = await shop.submit("test.kind")
        await gate.wait_until_reached()
        async with shop.database.writing() as connection:  # as a taker would, before the engine can notice
            taken = await Jobs(connection).lock(job.id)
            assert taken is not None
            await Jobs(connection).change(job.id, run=taken.run + 1)
            gate.let()
            if shop.database.dialect != "sqlite":  # there, nobody else could write before this is committed
                await asyncio.sleep(0.05)
                assert outcome == {}
        await wait_until(lambda: _answer("flush" in outcome), "the run ended")
        assert outcome == {
            "transaction": "taken over", "checkpoint": "taken over", "next": "taken over", "flush": "nothing",
        }  # fmt: skip
        after = await shop.look(job)
        assert (after.state, after.checkpoint, after.run) == (JobState.RUNNING, {"done": 1}, 2)
        assert await shop.types(job) == ["job.submitted", "job.started"]
        assert (await shop.jobs.page(shop.who)).total == 1


@on_every_database
async def test_work_and_what_is_remembered_of_it_commit_together(settings: Settings) -> None:
    tries = 0

    async def spawn(context: JobContext) -> Mapping[str, Any]:
        nonlocal tries
        tries += 1
        for number in range(context.state.get("spawned", 0) + 1, 4):
            async with context.transaction() as connection:
                child = Job(tenant_id=context.job.tenant_id, kind="test.child", payload={"number": number})
                await submit(connection, child)
                await context.remember(connection, {"spawned": number})
                if (tries, number) == (1, 2):
                    raise RuntimeError("killed between the work and its commit")
            await context.checkpoint()
        return {"tries": tries}

    async with open_workshop(settings, kind(spawn)) as shop, shop.working():
        job = await shop.submit("test.kind")
        await wait_until(lambda: shop.events(job, "job.retrying"), "the first try failed")
        assert (await shop.look(job)).checkpoint == {"spawned": 1}
        assert (await shop.jobs.page(shop.who, kind="test.child")).total == 1
        done = await shop.wait_for(job, *FINISHED)
        assert (done.result, done.checkpoint) == ({"tries": 2}, {"spawned": 3})
        children = (await shop.jobs.page(shop.who, kind="test.child")).items
        assert sorted(child.payload["number"] for child in children) == [1, 2, 3]


async def test_secrets_do_not_reach_the_log_of_a_job(settings: Settings) -> None:
    async def leak(context: JobContext) -> None:
        await context.emit("test.signed_in", user="jay", password="hunter2", nested={"api_key": "hunter2"})
        await context.log("sent Authorization: Bearer hunter2hunter2", token="hunter2")
        await context.progress(1, 2, "fetching https://jay:hunter2@example.org/", cookie="hunter2")
        await context.checkpoint({"done": 1}, events=[("test.done", {"secret": "hunter2"})])
        raise JobFailedForGood("GET https://jay:hunter2@example.org/ was refused")

    async with open_workshop(settings, kind(leak)) as shop, shop.working():
        job = await shop.submit("test.kind")
        failed = await shop.wait_for(job, *FINISHED)
        events = await shop.events(job)
        assert "hunter2" not in repr(events)
        assert "hunter2" not in repr(failed)
        (signed_in,) = await shop.events(job, "test.signed_in")
        assert signed_in.payload == {"user": "jay", "password": REDACTED, "nested": {"api_key": REDACTED}}
        (logged,) = await shop.events(job, "job.log")
        assert logged.payload["message"] == f"sent Authorization: Bearer {REDACTED}"
        assert failed.error == f"GET https://{REDACTED}@example.org/ was refused"


NUL, LONE_SURROGATE = chr(0), chr(0xD800)
STRANGE = {"at": datetime(2026, 3, 1, tzinfo=UTC), "set": {1}, "nan": float("nan"), "text": f"a{NUL}b{LONE_SURROGATE}"}


@on_every_database
async def test_a_job_that_says_strange_things_still_ends(settings: Settings) -> None:
    async def babble(context: JobContext) -> None:
        await context.emit("test.said", **STRANGE)
        await context.log(STRANGE["text"], facts=STRANGE)
        await context.progress(1, 2, STRANGE["text"], path=Path("/tmp"))
        raise JobFailedForGood(f"it broke at {STRANGE['text']}")

    async with open_workshop(settings, kind(babble)) as shop, shop.working():
        job = await shop.submit("test.kind")
        failed = await shop.wait_for(job, *FINISHED, seconds=10)
        assert (failed.state, failed.error) == (JobState.FAILED, "it broke at a\ufffdb\ufffd")
        (said,) = await shop.events(job, "test.said")
        assert said.payload == {"at": "2026-03-01T00:00:00+00:00", "set": [1], "nan": "nan", "text": "a\ufffdb\ufffd"}


@on_every_database
async def test_a_result_that_cannot_be_stored_as_it_is_does_not_keep_a_job_running(settings: Settings) -> None:
    async def work(context: JobContext) -> Mapping[str, Any]:
        return STRANGE

    async with open_workshop(settings, kind(work)) as shop, shop.working():
        job = await shop.submit("test.kind")
        done = await shop.wait_for(job, *FINISHED, seconds=10)
        assert done.state is JobState.COMPLETED
        assert (done.result or {})["at"] == "2026-03-01T00:00:00+00:00"


@on_every_database
async def test_a_checkpoint_that_cannot_be_stored_fails_the_job_and_says_so(settings: Settings) -> None:
    async def work(context: JobContext) -> None:
        await context.checkpoint({"at": STRANGE["at"]})

    async with open_workshop(settings, kind(work)) as shop, shop.working():
        job = await shop.submit("test.kind", max_retries=0)
        failed = await shop.wait_for(job, *FINISHED, seconds=10)
        assert failed.state is JobState.FAILED
        assert "datetime" in (failed.error or "")


async def test_a_request_that_makes_no_sense_changes_nothing(settings: Settings) -> None:
    async with open_workshop(settings, SENTINEL) as shop:
        job = await shop.submit(SENTINEL.name)
        with pytest.raises(Conflict, match=f"^Cannot resume pending job '{job.id}'"):
            await shop.ask(job, JobRequest.RESUME)
        assert await shop.types(job) == ["job.submitted"]
        assert await shop.look(job) == job


async def test_a_finished_job_is_deleted_with_its_log_and_a_live_one_is_not(settings: Settings) -> None:
    async with open_workshop(settings, SENTINEL) as shop:
        job, live = await shop.submit(SENTINEL.name), await shop.submit(SENTINEL.name)
        await shop.ask(job, JobRequest.CANCEL)
        await shop.jobs.delete(shop.who, job.id)
        with pytest.raises(Conflict, match="cancel it first"):
            await shop.jobs.delete(shop.who, live.id)
        assert [left.id for left in (await shop.jobs.page(shop.who)).items] == [live.id]


async def test_jobs_are_counted_by_state(settings: Settings) -> None:
    async with open_workshop(settings, SENTINEL) as shop:
        jobs = [await shop.submit(SENTINEL.name) for _ in range(3)]
        await shop.ask(jobs[0], JobRequest.CANCEL)
        assert await shop.jobs.counts(shop.who) == {
            "pending": 2, "running": 0, "paused": 0, "completed": 0, "failed": 0, "cancelled": 1,
        }  # fmt: skip
