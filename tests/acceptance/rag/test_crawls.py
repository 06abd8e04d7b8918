"""`/api/v1/crawl` and `/discover` against a real site: started, followed live, steered, and found afterwards."""

import asyncio
import json
from typing import Any

import httpx
import pytest
import pytest_asyncio
from tests.acceptance.house import House, Key, sockets
from tests.acceptance.rag.asking import PATIENCE_SECONDS, finished, found, search, until
from tests.site import Site
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOBODYS = "01900000-0000-7000-8000-000000000000"


@pytest_asyncio.fixture(loop_scope="module")
async def fast(library: House, owner: Key) -> str:
    """A config that does not keep tests waiting."""
    body = {"name": "fast", "rate_limit_rps": 10, "chunk_size": 100, "chunk_overlap": 0, "min_chunk_size": 10}
    made = await library.api("POST", "/configs", owner, status=201, json=body)
    return str(made["id"])


async def crawled(library: House, key: Key, job_id: str) -> dict[str, Any]:
    job = await finished(library, key, job_id)
    assert job["status"] == "completed", job
    answer: dict[str, Any] = await library.api("GET", f"/crawl/{job_id}", key)
    return answer


async def waiting(library: House, key: Key) -> int:
    """How many documents the index owes."""
    return int((await library.api("GET", "/stats", key))["index"]["waiting"])


# --- Starting


async def test_one_page_is_crawled_alone_and_found(library: House, owner: Key, site: Site) -> None:
    answer = await library.api("POST", "/crawl", owner, json={"url": f"{site.url}/page/3", "tags": ["Pages"]})
    assert (answer["total_submitted"], answer["failed_count"], len(answer["jobs"])) == (1, 0, 1)
    assert answer["jobs"][0]["status"] == "pending"
    crawl = await crawled(library, owner, answer["jobs"][0]["job_id"])
    assert (crawl["urls"], crawl["max_depth"], crawl["pages_crawled"]) == ([f"{site.url}/page/3"], 0, 1)
    assert (crawl["documents"]["added"], crawl["pages_failed"]) == (1, 0)
    assert crawl["completed_at"] >= crawl["started_at"] >= crawl["created_at"]
    (document,) = (await library.api("GET", "/documents", owner))["items"]
    assert (document["url"], document["source"]) == (f"{site.url}/page/3", "crawl")
    assert [tag["name"] for tag in document["tags"]] == ["pages"]
    content = (await library.api("GET", f"/documents/{document['id']}", owner))["content"]
    word = max(content.split(), key=len)
    await until(lambda: found(library, owner, word), [document["id"]])
    assert (await library.api("GET", f"/documents/{document['id']}", owner))["status"] == "Completed"


async def test_a_site_is_crawled_deep_into_a_collection_and_again_without_doubles(
    library: House, owner: Key, site: Site, fast: str
) -> None:
    collection = await library.api("POST", "/collections", owner, status=201, json={"name": "site"})
    body = {
        "url": site.url, "strategy": "bfs", "max_depth": 3, "max_pages": 8, "collection_id": collection["id"],
        "config_id": fast, "tags": ["deep"], "exclude": ["/mirror/"], "priority": "high",
    }  # fmt: skip
    started = await library.api("POST", "/crawl/deep", owner, json=body)
    assert set(started) == {"job_id", "status", "message"}
    crawl = await crawled(library, owner, started["job_id"])
    assert (crawl["strategy"], crawl["max_pages"], crawl["collection_id"]) == ("bfs", 8, collection["id"])
    assert (crawl["priority"], crawl["pages_crawled"]) == ("high", 8)
    assert crawl["pages_discovered"] >= 8
    documents = (await library.api("GET", f"/documents?collection_id={collection['id']}", owner))["items"]
    assert crawl["documents"]["added"] == len(documents) >= 7
    assert {tag["name"] for document in documents for tag in document["tags"]} == {"deep"}
    assert any(document["parent_url"] for document in documents)
    (counted,) = (await library.api("GET", "/collections", owner))["collections"]
    assert counted["document_count"] == len(documents)
    await until(lambda: waiting(library, owner), 0)
    answer = await search(library, owner, "page", collection_ids=[collection["id"]], limit=100)
    assert {result["document_id"] for result in answer["results"]} <= {document["id"] for document in documents}
    assert answer["results"]

    again = await crawled(library, owner, (await library.api("POST", "/crawl/deep", owner, json=body))["job_id"])
    assert (again["documents"]["added"], again["documents"]["changed"]) == (0, 0)
    after = (await library.api("GET", f"/documents?collection_id={collection['id']}", owner))["items"]
    assert sorted(each["id"] for each in after) == sorted(each["id"] for each in documents)
    assert {each["version"] for each in after} == {1}


async def test_in_a_batch_refused_addresses_are_named_and_the_others_crawled(
    library: House, owner: Key, site: Site
) -> None:
    await library.api("POST", "/domains/blocked.example/block", owner, json={"reason": "they asked"})
    urls = [
        f"{site.url}/page/1",
        "http://10.0.0.1/private",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "not an address",
        "https://blocked.example/x",
        f"{site.url}/page/2",
    ]
    answer = await library.api("POST", "/crawl/batch", owner, json={"urls": urls})
    assert (answer["total_submitted"], answer["failed_count"]) == (2, 5)
    states = [job["status"] for job in answer["jobs"]]
    assert states == ["pending", "failed", "failed", "failed", "failed", "failed", "pending"]
    for url, job in zip(urls[1:6], answer["jobs"][1:6], strict=True):
        assert job["job_id"] is None
        assert job["message"].startswith(f"{url}: ")
    assert "they asked" in answer["jobs"][5]["message"]
    for job in (answer["jobs"][0], answer["jobs"][6]):
        await crawled(library, owner, job["job_id"])
    documents = (await library.api("GET", "/documents", owner))["items"]
    assert {each["url"] for each in documents} == {urls[0], urls[6]}


async def test_a_batch_has_one_to_a_hundred_addresses(library: House, owner: Key) -> None:
    for urls in ([], [f"https://a.example/{n}" for n in range(101)]):
        answer = await library.ask("POST", "/api/v1/crawl/batch", owner, json={"urls": urls})
        assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (400, "urls")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"url": "http://10.1.2.3/"}, 403, "URL_BLOCKED"),
        ({"url": "ftp://a.example/"}, 400, "VALIDATION_ERROR"),
        ({"url": "https://a.example/" + "x" * 2048}, 400, "VALIDATION_ERROR"),
        ({"url": "https://a.example/", "tags": ["a/b"]}, 400, "VALIDATION_ERROR"),
        ({"url": "https://a.example/", "priority": "urgent"}, 400, "VALIDATION_ERROR"),
        ({"url": "https://a.example/", "collection_id": NOBODYS}, 404, "NOT_FOUND"),
        ({"url": "https://a.example/", "config_id": NOBODYS}, 404, "NOT_FOUND"),
        ({"url": "https://a.example/", "proxy_id": NOBODYS}, 404, "NOT_FOUND"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_a_crawl_that_cannot_be_is_refused_before_it_is_a_job(
    library: House, owner: Key, body: dict[str, Any], status: int, code: str
) -> None:
    for path in ("/crawl", "/crawl/deep"):
        answer = await library.ask("POST", f"/api/v1{path}", owner, json=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert (await library.api("GET", "/jobs", owner))["total"] == 0


async def test_a_blocked_host_is_refused_until_it_is_unblocked(library: House, owner: Key, site: Site) -> None:
    body = {"url": f"{site.url_at(2)}/page/1"}
    await library.api("POST", "/domains/127.0.0.2/block", owner, json={"reason": "too slow"})
    answer = await library.ask("POST", "/api/v1/crawl", owner, json=body)
    assert (answer.status_code, answer.json()["code"]) == (403, "DOMAIN_BLOCKED")
    assert "too slow" in answer.json()["error"]
    await library.api("POST", "/domains/127.0.0.2/unblock", owner)
    started = await library.api("POST", "/crawl", owner, json=body)
    assert (await crawled(library, owner, started["jobs"][0]["job_id"]))["pages_crawled"] == 1


async def test_a_page_that_fails_is_counted_and_the_job_says_so(library: House, owner: Key, site: Site) -> None:
    started = await library.api("POST", "/crawl", owner, json={"url": f"{site.url}/nowhere"})
    job = await finished(library, owner, started["jobs"][0]["job_id"])
    crawl = await library.api("GET", f"/crawl/{job['id']}", owner)
    assert crawl["pages_failed"] == 1
    assert (await library.api("GET", "/documents", owner))["total"] == 0


# --- Steering and following


async def slow_crawl(library: House, key: Key, site: Site) -> str:
    """A crawl that goes on for as long as a test looks at it."""
    body = {"url": site.url, "max_depth": 5, "max_pages": 1000}
    started = await library.api("POST", "/crawl/deep", key, json=body)
    await until(lambda: state(library, key, started["job_id"]), "running")
    return str(started["job_id"])


async def state(library: House, key: Key, job_id: str) -> str:
    return str((await library.api("GET", f"/crawl/{job_id}", key))["status"])


async def test_a_crawl_is_paused_resumed_and_cancelled(library: House, owner: Key, site: Site) -> None:
    job_id = await slow_crawl(library, owner, site)
    await library.api("POST", f"/crawl/{job_id}/pause", owner)
    await until(lambda: state(library, owner, job_id), "paused")
    await library.api("POST", f"/crawl/{job_id}/resume", owner)
    await until(lambda: state(library, owner, job_id), "running")
    await library.api("POST", f"/crawl/{job_id}/cancel", owner)
    await until(lambda: state(library, owner, job_id), "cancelled")
    refused = await library.ask("POST", f"/api/v1/crawl/{job_id}/resume", owner)
    assert refused.status_code == 409


async def test_only_crawls_are_crawls(library: House, owner: Key) -> None:
    made = await library.api("POST", "/documents", owner, status=201, json={"content": "This makes a job, no crawl."})
    assert made["id"]
    (job,) = (await library.api("GET", "/jobs?kind=ingest", owner))["items"]
    for method, path in (
        ("GET", f"/crawl/{job['id']}"),
        ("GET", f"/crawl/{job['id']}/stream"),
        ("POST", f"/crawl/{job['id']}/cancel"),
        ("GET", f"/discover/{job['id']}"),
    ):
        await library.api(method, path, owner, status=404)


async def read_stream(address: str, key: Key, job_id: str, **options: Any) -> list[tuple[int, str, dict[str, Any]]]:
    """The events of a stream until it ends, each with its id and type."""
    events: list[tuple[int, str, dict[str, Any]]] = []
    headers = {"Authorization": f"Bearer {key.text}", **options.pop("headers", {})}
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS) as client:
        url = f"http://{address}/api/v1/crawl/{job_id}/stream"
        async with client.stream("GET", url, headers=headers, **options) as answer:
            assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
            current: dict[str, str] = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if line:
                    current[name] = value
                elif "data" in current:
                    events.append((int(current["id"]), current["event"], json.loads(current["data"])))
                    current = {}
    return events


async def test_a_stream_tells_everything_once_and_goes_on_where_somebody_left_off(
    library: House, owner: Key, site: Site, address: str
) -> None:
    started = await library.api("POST", "/crawl", owner, json={"url": f"{site.url}/page/5"})
    job_id = started["jobs"][0]["job_id"]
    events = await read_stream(address, owner, job_id)  # live: it ends with the crawl
    assert [number for number, _, _ in events] == list(range(1, len(events) + 1))
    assert (events[0][1], events[-1][1]) == ("job.submitted", "job.completed")
    assert all(number == event["sequence"] and kind == event["type"] for number, kind, event in events)
    stored = await library.api("GET", f"/jobs/{job_id}/events", owner)
    assert [(event["sequence"], event["type"]) for event in stored] == [(number, kind) for number, kind, _ in events]

    assert await read_stream(address, owner, job_id, headers={"Last-Event-ID": "2"}) == events[2:]
    assert await read_stream(address, owner, job_id, params={"after": 2}) == events[2:]
    assert await read_stream(address, owner, job_id, headers={"Last-Event-ID": "3"}, params={"after": 1}) == events[3:]
    for refused in ({"headers": {"Last-Event-ID": "nonsense"}}, {"params": {"after": len(events) + 1}}):
        answer = await library.api("GET", f"/crawl/{job_id}/stream", owner, status=400, **refused)
        assert answer["details"]["field"] in ("Last-Event-ID", "after")


def dial(address: str, job_id: str, key: Key | None, query: str = "", **headers: str) -> connect:
    given = headers if key is None else {"Authorization": f"Bearer {key.text}", **headers}
    url = f"ws://{address}/api/v1/ws/crawl/{job_id}{query}"
    return connect(url, additional_headers=given, proxy=None)


async def received(socket: ClientConnection) -> list[dict[str, Any]]:
    return [json.loads(message) async for message in socket]


async def test_a_socket_tells_what_a_stream_tells_and_closes_with_the_crawl(
    library: House, owner: Key, site: Site, address: str
) -> None:
    started = await library.api("POST", "/crawl", owner, json={"url": f"{site.url}/page/6"})
    job_id = started["jobs"][0]["job_id"]
    async with asyncio.timeout(PATIENCE_SECONDS), dial(address, job_id, owner) as socket:
        await socket.send("hello?")  # whoever talks is not heard, and loses nothing
        events = await received(socket)
        assert socket.close_code == 1000
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["type"], events[-1]["type"]) == ("job.submitted", "job.completed")
    async with asyncio.timeout(PATIENCE_SECONDS), dial(address, job_id, owner, "?after=2") as socket:
        assert await received(socket) == events[2:]


async def test_a_socket_asks_for_a_key_of_the_tenant_before_it_opens(
    library: House, owner: Key, site: Site, address: str
) -> None:
    started = await library.api("POST", "/crawl", owner, json={"url": f"{site.url}/page/7"})
    job_id = started["jobs"][0]["job_id"]
    stranger = await library.key(tenant="strangers at the socket")
    reader = await library.key(Scope.READ, tenant="strangers at the socket")
    for key, identifier, status, code in (
        (None, job_id, 401, "UNAUTHORIZED"),
        (stranger, job_id, 404, "NOT_FOUND"),
        (reader, job_id, 404, "NOT_FOUND"),
        (owner, NOBODYS, 404, "NOT_FOUND"),
        (owner, "nonsense", 404, "NOT_FOUND"),
    ):
        with pytest.raises(InvalidStatus) as refusal:
            async with asyncio.timeout(PATIENCE_SECONDS), dial(address, identifier, key):
                pass
        body = json.loads(refusal.value.response.body)
        assert (refusal.value.response.status_code, body["code"]) == (status, code)
    # The others are walked in control/test_streams.py; a new socket needs such a test.
    assert sockets(library.app) == ["/api/v1/ws/crawl/{job_id}", "/ws/jobs", "/ws/jobs/{job_id}"]


async def test_a_browsers_session_opens_a_socket_only_from_our_own_pages(
    library: House, owner: Key, site: Site, address: str
) -> None:
    started = await library.api("POST", "/crawl", owner, json={"url": f"{site.url}/page/8"})
    job_id = started["jobs"][0]["job_id"]
    who, _ = await library.jay.access.authenticate(owner.text)
    session = await library.jay.access.sign_in(await library.jay.access.create_sign_in_link(who))
    cookie = {"Cookie": f"scrubjay_session={session}"}
    with pytest.raises(InvalidStatus) as refusal:
        async with dial(address, job_id, None, Origin="https://evil.example", **cookie):
            pass
    assert refusal.value.response.status_code == 401
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        dial(address, job_id, None, Origin=f"http://{address}", **cookie) as socket,
    ):
        assert (await received(socket))[-1]["type"] == "job.completed"


async def test_who_leaves_a_socket_of_a_resting_crawl_is_forgotten(
    library: House, owner: Key, site: Site, address: str
) -> None:
    job_id = await slow_crawl(library, owner, site)
    await library.api("POST", f"/crawl/{job_id}/pause", owner)
    await until(lambda: state(library, owner, job_id), "paused")

    def followers() -> int:
        return sum("coro=<_send()" in repr(task) for task in asyncio.all_tasks())

    before = followers()
    async with asyncio.timeout(PATIENCE_SECONDS), dial(address, job_id, owner) as socket:
        assert json.loads(await socket.recv())["type"] == "job.submitted"
        assert followers() == before + 1

    async def forgotten() -> bool:
        return followers() == before

    await until(forgotten, True)
    await library.api("POST", f"/crawl/{job_id}/cancel", owner)


# --- Discovering


async def test_a_sites_addresses_are_discovered_and_scored(library: House, owner: Key, site: Site) -> None:
    assert site.generated is not None
    site.sitemap = site.generated.sitemap(site.url)
    body = {"domain": site.url, "sources": ["sitemap"], "max_urls": 5}
    started = await library.api("POST", "/discover", owner, json=body)
    await until(lambda: job_state(library, owner, started["job_id"]), "completed")
    answer = await library.api("GET", f"/discover/{started['job_id']}", owner)
    assert answer["domain"] == site.url
    assert answer["urls_found"] == len(answer["urls"]) == 5
    assert all(each["url"].startswith(site.url) for each in answer["urls"])
    assert answer["completed_at"] >= answer["created_at"]


async def job_state(library: House, key: Key, job_id: str) -> str:
    return str((await library.api("GET", f"/discover/{job_id}", key))["status"])


async def test_what_cannot_be_discovered_is_refused(library: House, owner: Key) -> None:
    for body, status in (
        ({"domain": "10.0.0.1"}, 403),
        ({"domain": "not a domain"}, 400),
        ({"domain": "a.example", "sources": ["gossip"]}, 400),
        ({"domain": "a.example", "sources": []}, 400),
        ({"domain": "a.example", "pattern": "("}, 400),
        ({"domain": "a.example", "max_urls": 10_001}, 400),
    ):
        answer = await library.ask("POST", "/api/v1/discover", owner, json=body)
        assert answer.status_code == status, (body, answer.text)


async def test_addresses_are_scored_by_what_they_say(library: House, owner: Key) -> None:
    urls = ["https://a.example/recipes/apple-pie", "https://a.example/imprint", "https://a.example/apple"]
    answer = await library.api("POST", "/discover/score", owner, json={"urls": urls, "query": "apple pie"})
    assert answer["urls"][0]["url"] == urls[0]
    scores = [each["score"] for each in answer["urls"]]
    assert scores == sorted(scores, reverse=True)
    body = {"urls": urls, "query": "apple pie", "threshold": scores[0]}
    assert (await library.api("POST", "/discover/score", owner, json=body))["urls"] == answer["urls"][:1]
