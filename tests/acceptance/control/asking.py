"""What the tests of the control door ask again and again."""

import asyncio
import time
from typing import Any

from tests.acceptance.house import House, Key
from tests.acceptance.rag.asking import PATIENCE_SECONDS

OVER = ("completed", "failed", "cancelled")


async def start(library: House, key: Key, *domains: str, **values: Any) -> str:
    """The id of a job that crawls sites."""
    body = {"domains": list(domains), **values}
    answer = await library.control("POST", "/jobs", key, status=202, json=body)
    assert answer["status"] == "pending"
    return str(answer["job_id"])


async def look(library: House, key: Key, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = await library.control("GET", f"/jobs/{job_id}", key)
    return job


async def reached(library: House, key: Key, job_id: str, *states: str) -> dict[str, Any]:
    """The job, once it is in one of the states."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (job := await look(library, key, job_id))["status"] not in states:
        assert time.monotonic() < deadline, job
        assert job["status"] not in OVER, job
        await asyncio.sleep(0.03)
    return job


async def events(library: House, key: Key, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        after = found[-1]["sequence"] if found else 0
        answer = await library.control("GET", f"/jobs/{job_id}/events", key, params={"after": after})
        if not answer["events"]:
            return found
        found += answer["events"]
        assert answer["next_after"] == found[-1]["sequence"]
