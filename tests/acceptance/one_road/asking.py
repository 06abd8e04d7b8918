"""Requests that these tests repeat: crawl over each door, wait for the end, and read documents and reports."""

from typing import Any

from tests.acceptance.control.asking import OVER, reached
from tests.acceptance.house import House, Key
from tests.acceptance.rag.asking import finished, found, until


async def crawl(library: House, key: Key, url: str, path: str = "/crawl", **values: Any) -> dict[str, Any]:
    """A crawl of `/api/v1` once it has ended."""
    answer = await library.api("POST", path, key, json={"url": url, **values})
    job_id = str(answer["job_id"] if "job_id" in answer else answer["jobs"][0]["job_id"])
    await finished(library, key, job_id)
    ended: dict[str, Any] = await library.api("GET", f"/crawl/{job_id}", key)
    return ended


async def crawl_site(library: House, key: Key, url: str, **values: Any) -> dict[str, Any]:
    return await crawl(library, key, url, "/crawl/deep", config_id=await fast_config(library, key), **values)


async def fast_config(library: House, key: Key) -> str:
    """The id of a config without politeness delays."""
    known = (await library.api("GET", "/configs", key))["items"]
    for config in known:
        if config["name"] == "fast":
            return str(config["id"])
    made = await library.api("POST", "/configs", key, status=201, json={"name": "fast", "rate_limit_rps": 10})
    return str(made["id"])


async def job(library: House, key: Key, *states: str, **body: Any) -> dict[str, Any]:
    """A job of `/jobs` once it is in one of these states, or has ended."""
    answer = await library.control("POST", "/jobs", key, status=202, json=body)
    return await reached(library, key, str(answer["job_id"]), *(states or OVER))


async def documents(library: House, key: Key, **filters: Any) -> dict[str, dict[str, Any]]:
    """Documents of the tenant by URL. Fails if a URL has two."""
    items = (await library.api("GET", "/documents", key, params={"limit": 500, **filters}))["items"]
    by_url = {item["url"]: item for item in items}
    assert len(by_url) == len(items), sorted(item["url"] for item in items)
    return by_url


async def until_indexed(library: House, key: Key) -> None:
    async def waiting() -> int:
        return int((await library.api("GET", "/stats", key))["index"]["waiting"])

    await until(waiting, 0)


async def hits(library: House, key: Key, word: str) -> list[str]:
    """Ids of all documents that a keyword search finds."""
    await until_indexed(library, key)
    return await found(library, key, word, limit=50)
