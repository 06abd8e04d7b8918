"""What the tests of `/api/v1` ask again and again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.acceptance.house import House, Key

PATIENCE_SECONDS = 30.0
T = TypeVar("T")


async def add(library: House, key: Key, content: str, **values: Any) -> dict[str, Any]:
    """A document as the door answers it."""
    made: dict[str, Any] = await library.api("POST", "/documents", key, status=201, json={"content": content, **values})
    return made


async def search(library: House, key: Key, query: str, mode: str = "", **values: Any) -> dict[str, Any]:
    """`mode` is nothing for hybrid, `vector` or `keyword`."""
    path = f"/search/{mode}" if mode else "/search"
    answer: dict[str, Any] = await library.api("POST", path, key, json={"query": query, **values})
    return answer


async def found(library: House, key: Key, query: str, **values: Any) -> list[str]:
    """The ids of the documents that have the words, the best first."""
    results = (await search(library, key, query, "keyword", **values))["results"]
    return list(dict.fromkeys(result["document_id"] for result in results))


async def until(look: Callable[[], Awaitable[T]], wanted: T) -> None:
    """Wait for what is true soon."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (seen := await look()) != wanted:
        assert time.monotonic() < deadline, f"still {seen!r}, not {wanted!r}"
        await asyncio.sleep(0.03)


async def finished(library: House, key: Key, job_id: str) -> dict[str, Any]:
    """A job once it has ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        job: dict[str, Any] = await library.api("GET", f"/jobs/{job_id}", key)
        if job["status"] in ("completed", "failed", "cancelled"):
            return job
        assert time.monotonic() < deadline, job
        await asyncio.sleep(0.05)
