"""`/v2/jobs`: streams, job files, control by endpoint and by control file."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.actions.asking import (
    call,
    check_stream,
    job_files,
    job_folder,
    reached,
    read_events,
    start_steps,
    until,
)
from tests.acceptance.house import House, Key

from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.action_jobs import JobOrder
from scrubjay.services.verbs import ACTION_KIND

pytestmark = pytest.mark.asyncio(loop_scope="module")
UTC = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
LONG: dict[str, Any] = {"steps": 500, "seconds": 0.05}


async def stream(house: House, key: Key, job_id: str) -> str:
    answer = await house.ask("GET", f"/v2/jobs/monitor?job_id={job_id}&format=stream", key)
    assert answer.headers["content-type"].startswith("text/event-stream")
    return answer.text


async def test_a_job_is_told_from_its_start_to_its_end(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, steps=3, seconds=0.3)
    events = read_events(await stream(library, owner, job_id))
    end = check_stream(events)
    begun = events[0].values
    assert begun["endpoint"] == begun["source_url"] == "/v2/crawler/crawl?domain_id=TEST01&format=stream"
    assert (begun["state"], begun["end_utc"]) == ("running", None)
    assert re.fullmatch(UTC, begun["start_utc"])
    assert begun["start_utc"] == begun["started_utc"]
    assert begun["monitor_url"] == f"/v2/jobs/monitor?job_id={job_id}&format=stream"
    assert "[ 3 / 3 ] step 3 of 3" in [event.data for event in events if event.name == "log"]
    assert (end["state"], end["result"]) == ("completed", {"ok": True, "error": "", "data": {"steps": 3}})
    assert re.fullmatch(UTC, end["end_utc"])
    assert end["end_utc"] == end["finished_utc"] > end["start_utc"]


async def test_a_stream_is_live_and_a_listener_who_leaves_stops_nothing(
    library: House, owner: Key, address: str
) -> None:
    job_id = await start_steps(library, owner, steps=40, seconds=0.05)
    headers = {"Authorization": f"Bearer {owner.text}"}
    async with httpx.AsyncClient(trust_env=False, headers=headers) as client:
        url = f"http://{address}/v2/jobs/monitor?job_id={job_id}&format=stream"
        async with client.stream("GET", url) as answer:
            lines = aiter(answer.aiter_lines())
            assert await anext(lines) == "event: start_json"
            assert (await call(library, "GET", f"jobs/get?job_id={job_id}", owner))["state"] == "running"
    job = await reached(library, owner, job_id, "completed")
    assert job["end_utc"]


async def test_get_says_what_the_start_of_the_stream_says(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, steps=1, seconds=0)
    job = await reached(library, owner, job_id, "completed")
    begun = read_events(await stream(library, owner, job_id))[0].values
    assert set(job) == set(begun)
    assert {name: job[name] for name in ("job_id", "endpoint", "start_utc")} == {
        name: begun[name] for name in ("job_id", "endpoint", "start_utc")
    }


async def test_the_file_is_the_stream_and_its_name_tells_the_state(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, steps=30, seconds=0.05)
    (running,) = await until(lambda: job_files(library, owner, job_id))
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d_\d\d-\d\d-\d\d_\[crawl\]_\[{job_id}\]_\[TEST01\]\.running", running.name)
    assert running.parent == job_folder(library, owner)
    text = await stream(library, owner, job_id)
    (completed,) = await until(
        lambda: [path for path in job_files(library, owner, job_id) if path.suffix == ".completed"]
    )
    assert completed.stem == running.stem
    assert completed.read_text() == "".join(re.sub(r"(?m)^:.*\n+", "", text))
    assert job_files(library, owner, job_id) == [completed]


async def test_a_job_without_an_object_has_none_in_its_file_name(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, object_id=None, steps=1, seconds=0)
    (path,) = await until(lambda: [path for path in job_files(library, owner, job_id) if path.suffix == ".completed"])
    assert path.name.endswith(f"_[crawl]_[{job_id}].completed")


async def test_pause_resume_and_cancel_by_endpoint(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, **LONG)
    await until(lambda: job_files(library, owner, job_id))
    paused = await call(library, "GET", f"jobs/control?job_id={job_id}&action=pause", owner)
    assert paused == {"job_id": job_id, "action": "pause", "message": f"Requested to pause job '{job_id}'."}
    await reached(library, owner, job_id, "paused")
    await until(lambda: [path.suffix for path in job_files(library, owner, job_id)] == [".paused"])
    await call(library, "GET", f"jobs/control?job_id={job_id}&action=resume", owner)
    await reached(library, owner, job_id, "running")
    await until(lambda: [path.suffix for path in job_files(library, owner, job_id)] == [".running"])
    error = await call(library, "GET", f"jobs/control?job_id={job_id}&action=resume", owner, status=400)
    assert error == f"Cannot resume running job '{job_id}'."
    await call(library, "GET", f"jobs/control?job_id={job_id}&action=cancel", owner)
    events = read_events(await stream(library, owner, job_id))
    end = check_stream(events)
    assert (end["state"], end["result"]["ok"], end["result"]["error"]) == ("cancelled", False, "Cancelled.")
    assert {"Pause requested.", "Paused.", "Resume requested."} <= {event.data for event in events}
    (path,) = await until(lambda: [path for path in job_files(library, owner, job_id) if path.suffix == ".cancelled"])
    assert read_events(path.read_text()) == events
    error = await call(library, "GET", f"jobs/control?job_id={job_id}&action=pause", owner, status=400)
    assert error == f"Cannot pause cancelled job '{job_id}'."


async def test_a_job_cancelled_while_paused_still_ends_with_end_json(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, **LONG)
    await call(library, "GET", f"jobs/control?job_id={job_id}&action=pause", owner)
    await reached(library, owner, job_id, "paused")
    await call(library, "GET", f"jobs/control?job_id={job_id}&action=cancel", owner)
    assert check_stream(read_events(await stream(library, owner, job_id)))["state"] == "cancelled"


async def test_force_ends_a_job_at_once(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, steps=1, seconds=60)
    await asyncio.sleep(0.3)
    answer = await call(library, "GET", f"jobs/control?job_id={job_id}&action=cancel&force=true", owner)
    assert answer["message"] == f"Job '{job_id}' is cancelled."
    assert (await call(library, "GET", f"jobs/get?job_id={job_id}", owner))["state"] == "cancelled"
    assert check_stream(read_events(await stream(library, owner, job_id)))["state"] == "cancelled"
    error = await call(library, "GET", f"jobs/control?job_id={job_id}&action=pause&force=true", owner, status=400)
    assert error == "Parameter 'force' goes with action=cancel only."


@pytest.mark.parametrize("exact", [True, False], ids=["the job's own name", "another time, no object"])
async def test_control_files_are_obeyed_within_two_seconds(library: House, owner: Key, exact: bool) -> None:
    job_id = await start_steps(library, owner, **LONG)
    (running,) = await until(lambda: job_files(library, owner, job_id))
    stem = running.stem if exact else f"2025-11-26_14-26-00_[crawl]_[{job_id}]"
    for ending, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        control = running.with_name(f"{stem}.{ending}_requested")
        control.touch()
        dropped = time.monotonic()
        await reached(library, owner, job_id, state)
        assert time.monotonic() - dropped < 2
        await until(lambda control=control: not control.exists())  # type: ignore[misc]
    (path,) = await until(lambda: [path for path in job_files(library, owner, job_id) if path.suffix == ".cancelled"])
    assert check_stream(read_events(path.read_text()))["state"] == "cancelled"


async def test_a_control_file_in_anothers_folder_does_nothing(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, **LONG)
    stranger = await library.key(tenant="who drops files")
    folder = job_folder(library, stranger)
    folder.mkdir(parents=True)
    control = folder / f"2025-11-26_14-26-00_[crawl]_[{job_id}].cancel_requested"
    control.touch()
    await until(lambda: not control.exists())
    assert (await call(library, "GET", f"jobs/get?job_id={job_id}", owner))["state"] == "running"
    await call(library, "GET", f"jobs/control?job_id={job_id}&action=cancel", owner)


async def test_other_files_in_the_folder_are_left_alone(library: House, owner: Key) -> None:
    folder = job_folder(library, owner)
    folder.mkdir(parents=True)
    odd = [
        folder / name
        for name in ("notes.txt", "[jb_1].pause_requested", "x_[crawl]_[jb_0].cancel_requested", "🦜.running", "jb_1")
    ]
    for path in odd:
        path.write_text("mine")
    job_id = await start_steps(library, owner, steps=1, seconds=0)
    await until(lambda: [path for path in job_files(library, owner, job_id) if path.suffix == ".completed"])
    assert [path.read_text() for path in odd] == ["mine"] * len(odd)


async def test_a_job_file_that_somebody_deleted_is_written_anew(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, steps=40, seconds=0.05)
    (running,) = await until(lambda: job_files(library, owner, job_id))
    running.unlink()
    (completed,) = await until(
        lambda: [path for path in job_files(library, owner, job_id) if path.suffix == ".completed"]
    )
    assert check_stream(read_events(completed.read_text()))["state"] == "completed"


async def test_a_retried_job_has_one_end(library: House, owner: Key) -> None:
    """Through another door, a cancelled job can be tried again: its file and stream go on, and end once."""
    job_id = await start_steps(library, owner, steps=40, seconds=0.05)
    await call(library, "GET", f"jobs/control?job_id={job_id}&action=cancel", owner)
    await until(lambda: [path for path in job_files(library, owner, job_id) if path.suffix == ".cancelled"])
    inner = (await library.control("GET", "/jobs", owner))["jobs"][0]["job_id"]
    await library.control("POST", f"/jobs/{inner}/retry", owner)
    events = read_events(await stream(library, owner, job_id))
    assert check_stream(events)["state"] == "completed"
    assert "Another try was requested." in [event.data for event in events]
    (path,) = await until(lambda: [path for path in job_files(library, owner, job_id) if path.suffix == ".completed"])
    await until(lambda: read_events(path.read_text()) == events)
    assert job_files(library, owner, job_id) == [path]


async def test_a_failed_job_has_the_state_failed_and_a_result_that_is_not_ok(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, steps="many")
    end = check_stream(read_events(await stream(library, owner, job_id)))
    message = "steps must be a whole number from 0 to 100000."
    assert (end["state"], end["result"]) == ("failed", {"ok": False, "error": message, "data": {}})
    assert await call(library, "GET", f"jobs/results?job_id={job_id}", owner) == end["result"]


async def test_monitor_results_list_and_delete(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, **LONG)
    await until(lambda: job_files(library, owner, job_id))
    deadline = time.monotonic() + 10
    while not (job := await call(library, "GET", f"jobs/monitor?job_id={job_id}", owner))["log"]:
        assert time.monotonic() < deadline
    assert re.fullmatch(r"\[ \d+ / 500 \] step \d+ of 500", job["log"])
    error = await call(library, "GET", f"jobs/results?job_id={job_id}", owner, status=400)
    assert error == f"Job '{job_id}' has no result yet; it is running."
    error = await call(library, "GET", f"jobs/delete?job_id={job_id}", owner, status=400)
    assert error == f"Cannot delete running job '{job_id}'; cancel it first."
    await call(library, "GET", f"jobs/control?job_id={job_id}&action=cancel", owner)
    await reached(library, owner, job_id, "cancelled")
    await until(lambda: [path for path in job_files(library, owner, job_id) if path.suffix == ".cancelled"])
    assert [job["job_id"] for job in await call(library, "GET", "jobs?format=json", owner)] == [job_id]
    await call(library, "GET", f"jobs/delete?job_id={job_id}&dry_run=true", owner)
    deleted = await call(library, "DELETE", f"jobs/delete?job_id={job_id}", owner)
    assert (deleted["job_id"], deleted["state"]) == (job_id, "cancelled")
    assert await call(library, "GET", "jobs?format=json", owner) == []
    assert job_files(library, owner, job_id) == []


async def test_the_page_of_jobs_offers_what_can_be_done(library: House, owner: Key) -> None:
    """And nothing that cannot: a job that runs is not resumed, one that has ended is not paused."""
    job_id = await start_steps(library, owner, **LONG)

    async def offered() -> set[str]:
        page = await library.ask("GET", "/v2/jobs?format=ui", owner)
        assert page.status_code == 200
        assert job_id in page.text
        return {word for word in ("Monitor", "Results", "Pause", "Resume", "Cancel") if f">{word}<" in page.text}

    assert await offered() == {"Monitor", "Pause", "Cancel"}
    await call(library, "GET", f"jobs/control?job_id={job_id}&action=pause", owner)
    await reached(library, owner, job_id, "paused")
    assert await offered() == {"Monitor", "Resume", "Cancel"}
    await call(library, "GET", f"jobs/control?job_id={job_id}&action=cancel", owner)
    await reached(library, owner, job_id, "cancelled")
    assert await offered() == {"Monitor", "Results"}


@pytest.mark.parametrize("wrong", ["jb_999999999", "jb_0", "jb_01", "jb_-1", "x", "jb_" + "9" * 30, "🦜", "../jb_1"])
async def test_a_job_that_does_not_exist_is_404(library: House, owner: Key, wrong: str) -> None:
    for path in ("get", "monitor", "results", "delete", "control"):
        more = {"action": "pause"} if path == "control" else {}
        error = await call(library, "GET", f"jobs/{path}", owner, status=404, params={"job_id": wrong, **more})
        assert error == f"Job '{wrong[:64]}' does not exist."


async def test_another_tenants_job_does_not_exist(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, **LONG)
    stranger = await library.key(tenant="a stranger to jobs")
    for path in ("get", "monitor", "results", "delete", "control"):
        more = {"action": "cancel"} if path == "control" else {}
        error = await call(library, "GET", f"jobs/{path}", stranger, status=404, params={"job_id": job_id, **more})
        assert error == f"Job '{job_id}' does not exist."
    answer = await library.ask("GET", f"/v2/jobs/monitor?job_id={job_id}&format=stream", stranger)
    assert answer.status_code == 404
    assert await call(library, "GET", "jobs?format=json", stranger) == []
    await call(library, "GET", f"jobs/control?job_id={job_id}&action=cancel", owner)


async def test_a_reader_may_monitor_but_not_control(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, steps=0)
    scoped, text = await library.jay.access.create_key(
        library.admin.__class__(owner.record.tenant_id, owner.record.id, frozenset({Scope.ADMIN})),
        name="reader",
        scopes=[Scope.READ],
        rate_limit_rpm=10_000,
    )
    reader = Key(scoped, text)
    await call(library, "GET", f"jobs/monitor?job_id={job_id}", reader)
    for path in (f"control?job_id={job_id}&action=cancel", f"delete?job_id={job_id}"):
        await call(library, "GET", f"jobs/{path}", reader, status=403)


async def test_numbers_are_unique_when_many_start_at_once(library: House, owner: Key) -> None:
    started = await asyncio.gather(*(start_steps(library, owner, steps=0) for _ in range(60)))
    assert len(set(started)) == 60
    numbers = sorted(int(job_id.removeprefix("jb_")) for job_id in started)
    listed = await call(library, "GET", "jobs?format=json&limit=60", owner)
    assert [job["job_id"] for job in listed] == [f"jb_{number}" for number in reversed(numbers)]
    assert len(await call(library, "GET", "jobs?format=json&limit=7&offset=55", owner)) == 5


async def test_a_deleted_jobs_number_is_not_given_again(library: House, owner: Key) -> None:
    first = await start_steps(library, owner, steps=0)
    await reached(library, owner, first, "completed")
    await call(library, "DELETE", f"jobs/delete?job_id={first}", owner)
    second = await start_steps(library, owner, steps=0)
    assert int(second.removeprefix("jb_")) > int(first.removeprefix("jb_"))


async def test_names_of_objects_cannot_leave_the_folder(library: House, owner: Key) -> None:
    job_id = await start_steps(library, owner, object_id="../../🦜[x]\\CON", steps=0)
    (path,) = await until(lambda: [path for path in job_files(library, owner, job_id) if path.suffix == ".completed"])
    assert path.parent == job_folder(library, owner)
    assert Path(path.name).name == path.name


async def test_what_an_admin_began_is_not_set_going_again_by_a_writer(library: House, owner: Key) -> None:
    admin = Principal(owner.record.tenant_id, owner.record.id, frozenset(owner.record.scopes))
    order = JobOrder(
        kind=ACTION_KIND,
        payload=library.jay.verbs.payload(admin, "domains.delete", {"domain_id": "LATER"}),
        endpoint="/v2/domains/delete?domain_id=LATER&format=stream",
        object_id="LATER",
    )
    job = await library.jay.action_jobs.start(admin, order)
    await reached(library, owner, job["job_id"], "failed")  # there is no such domain yet
    await call(library, "POST", "domains/create", owner, json={"domain_id": "LATER"})
    record, text = await library.jay.access.create_key(admin, name="a writer", scopes=(Scope.WRITE,))
    writer = Key(record, text)
    (found,) = (await library.ask("GET", "/jobs?kind=action", owner)).json()["jobs"]

    refused = await library.ask("POST", f"/jobs/{found['job_id']}/retry", writer)
    assert (refused.status_code, refused.json()["error"]) == (403, "This needs a key with the scope 'admin'.")
    assert len(await call(library, "GET", "domains?format=json", owner)) == 1
    assert (await library.ask("POST", f"/jobs/{found['job_id']}/retry", owner)).status_code == 200
