"""Every route of the control door, for keys without the scope and for strangers."""

from typing import Any

import pytest
from tests.acceptance.control.asking import reached, start
from tests.acceptance.house import House, Key
from tests.acceptance.rag.scopes import NEEDED, RANK
from tests.site import Site

from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

PARTS = ("/jobs", "/job_status", "/stop_job", "/clear_jobs", "/unified", "/api/crawl", "/call", "/register", "/agents")
PLACES = sorted(place for place in NEEDED if place.pattern.startswith((*PARTS, "/tools")))
BODIES: dict[str, dict[str, Any]] = {
    "/jobs": {"domains": ["a.example"]},
    "/unified_production_crawl": {"args": [["a.example"]]},
    "/api/crawl/start": {"domains": "a.example"},
    "/call": {"agent": "scrubjay", "tool": "persist_article", "kwargs": {"url": "https://a.example", "content": "x"}},
    "/register": {"agent": "somebody", "address": "https://a.example"},
}


def request(pattern: str, method: str) -> dict[str, Any]:
    return {"json": BODIES.get(pattern, {})} if method == "POST" else {}


async def test_a_key_without_the_scope_is_403(library: House, owner: Key, site: Site) -> None:
    job_id = await start(library, owner, site.url, max_articles_per_site=1)
    await reached(library, owner, job_id, "completed")
    who, _ = await library.jay.access.authenticate(owner.text)
    refused = 0
    for scope in RANK[:2]:
        record, text = await library.jay.access.create_key(who, name=scope, scopes=(scope,), rate_limit_rpm=10_000)
        for place in PLACES:
            needed = Scope.WRITE if place.pattern == "/call" else NEEDED[place]  # what is called needs it
            if RANK.index(needed) > RANK.index(scope):
                path = place.path({"job_id": job_id, "agent_name": "somebody"})
                answer = await library.ask(
                    place.method, path, Key(record, text), **request(place.pattern, place.method)
                )
                assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN"), (place, answer.text)
                refused += 1
    assert refused >= 14
    assert (await library.control("GET", f"/jobs/{job_id}", owner))["status"] == "completed"


async def test_a_strangers_jobs_do_not_exist(library: House, owner: Key, site: Site) -> None:
    job_id = await start(library, owner, site.url, max_articles_per_site=1, metadata={"mark": "xylophagous"})
    await reached(library, owner, job_id, "completed")
    stranger = await library.key(tenant="strangers at the control door")
    for place in PLACES:
        if "{job_id}" in place.pattern:
            answer = await library.ask(place.method, place.path({"job_id": job_id}), stranger)
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), (place, answer.text)
        elif place.method == "GET":
            answer = await library.ask("GET", place.pattern, stranger)
            assert answer.status_code == 200
            assert job_id not in answer.text
            assert "xylophagous" not in answer.text
    assert (await library.control("POST", "/clear_jobs", stranger))["cleared"] == 0
    assert (await library.control("GET", f"/jobs/{job_id}", owner))["metadata"] == {"mark": "xylophagous"}
