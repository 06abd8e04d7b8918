"""What the tests of `/v1.0` ask again and again."""

import asyncio
import base64
import time
from typing import Any

from tests.acceptance.house import House, Key

PATIENCE_SECONDS = 60.0
ENDED = ("Success", "Failed", "Stopped", "Canceled")


def plan_body(url: str | None = None, *, web: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    """A plan that runs when it is told to, as fast as it can."""
    settings = {"StartUrl": url, "CrawlDelayMs": 0, **(web or {})}
    return {
        "Name": "A plan",
        "RepositoryType": "Web",
        "RepositorySettings": settings,
        "Schedule": {"IntervalType": "OneTime"},
        "IsActive": False,
        **values,
    }


async def make_plan(library: House, key: Key, url: str | None = None, **values: Any) -> dict[str, Any]:
    made: dict[str, Any] = await library.plans("PUT", "/crawlplans", key, status=201, json=plan_body(url, **values))
    return made


async def make_collection(library: House, key: Key, name: str) -> str:
    """The id of a collection: plans over the same pages share documents unless they fill different ones."""
    rule = await library.plans("PUT", "/ingestion-rules", key, status=201, json={"Name": name, "CollectionName": name})
    return str(rule["CollectionId"])


async def run(library: House, key: Key, plan: dict[str, Any], **params: Any) -> dict[str, Any]:
    """Start a plan; the operation once it has ended."""
    started = await library.plans("POST", f"/crawlplans/{plan['Id']}/start", key, params=params)
    assert started["Id"] == plan["Id"]
    return await ended(library, key, plan)


async def ended(library: House, key: Key, plan: dict[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        newest = await library.plans("GET", f"/crawlplans/{plan['Id']}/operations?maxResults=1", key)
        now = await library.plans("GET", f"/crawlplans/{plan['Id']}", key)
        if now["State"] == "Stopped" and newest["Objects"] and newest["Objects"][0]["State"] in ENDED:
            return dict(newest["Objects"][0])
        assert time.monotonic() < deadline, newest
        await asyncio.sleep(0.05)


async def documents(library: House, key: Key, **filters: Any) -> list[dict[str, Any]]:
    """All documents of a list, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        page = await library.plans("GET", "/documents", key, params=filters)
        found += page["Objects"]
        if page["EndOfResults"]:
            assert "ContinuationToken" not in page
            return found
        filters["continuationToken"] = page["ContinuationToken"]


async def upload(library: House, key: Key, text: str | bytes, name: str = "note.txt", **values: Any) -> dict[str, Any]:
    data = text.encode() if isinstance(text, str) else text
    body = {"Base64Content": base64.b64encode(data).decode(), "OriginalFilename": name, **values}
    made: dict[str, Any] = await library.plans("PUT", "/documents", key, status=201, json=body)
    return made
