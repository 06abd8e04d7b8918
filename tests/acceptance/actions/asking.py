"""What the tests of `/v2` ask again and again."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.house import House, Key

from scrubjay.model.tenant import Principal
from scrubjay.services.action_jobs import JobOrder

PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class Event:
    """One event of a stream, as a reader of Server-Sent Events gets it."""

    name: str
    data: str

    @property
    def values(self) -> Any:
        return json.loads(self.data)


def read_events(text: str) -> list[Event]:
    """Strictly: anything but `event:` and `data:` lines fails."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            assert lines[0].startswith("event: "), block
            assert all(line.startswith("data: ") for line in lines[1:]), block
            found.append(Event(lines[0].removeprefix("event: "), "\n".join(line[6:] for line in lines[1:])))
    return found


def check_stream(events: list[Event]) -> dict[str, Any]:
    """What holds for every stream that ended; returns what its end says."""
    names = [event.name for event in events]
    assert (names[0], names[-1]) == ("start_json", "end_json")
    assert set(names[1:-1]) <= {"log"}
    end: dict[str, Any] = events[-1].values
    assert end["job_id"] == events[0].values["job_id"]
    assert set(end["result"]) == {"ok", "error", "data"}
    return end


async def call(house: House, method: str, path: str, key: Key, *, status: int = 200, **options: Any) -> Any:
    """The data of an answer, after a look at its shape."""
    answer = await house.ask(method, f"/v2/{path}", key, **options)
    assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text[:1000]}"
    body = answer.json()
    assert set(body) == {"ok", "error", "data"}
    assert body["ok"] == (status == 200)
    assert (body["error"] == "") == body["ok"]
    return body["data"] if body["ok"] else body["error"]


async def start_steps(house: House, key: Key, *, object_id: str | None = "TEST01", **payload: Any) -> str:
    """A numbered job that takes steps, as if an endpoint had started it."""
    who = Principal(key.record.tenant_id, key.record.id, frozenset(key.record.scopes))
    order = JobOrder(
        kind="diagnostic.steps",
        payload=payload,
        endpoint="/v2/crawler/crawl?domain_id=TEST01&format=stream",
        object_id=object_id,
    )
    return str((await house.jay.action_jobs.start(who, order))["job_id"])


def job_folder(house: House, key: Key, folder: str = "crawler") -> Path:
    return house.jay.settings.resolved_storage_folder / key.record.tenant_id / "jobs" / folder


def job_files(house: House, key: Key, job_id: str) -> list[Path]:
    root = house.jay.settings.resolved_storage_folder / key.record.tenant_id / "jobs"
    return sorted(path for path in root.rglob("*") if f"[{job_id}]" in path.name)


async def until(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited for too long"
        await asyncio.sleep(0.02)
    return found


async def reached(house: House, key: Key, job_id: str, state: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (job := await call(house, "GET", f"jobs/get?job_id={job_id}", key))["state"] != state:
        assert time.monotonic() < deadline, job
        await asyncio.sleep(0.02)
    return dict(job)
