"""`/api/v1` collections, tags, configs, proxies, hosts, sources and statistics: made, listed, changed, removed."""

from typing import Any

import pytest
from sqlalchemy import select
from tests.acceptance.house import House, Key
from tests.acceptance.rag.asking import add, finished, found, search, until
from tests.site import Site

from scrubjay.storage.proxies import ProxyRow

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOBODYS = "01900000-0000-7000-8000-000000000000"

PASSWORD = "hunter2-of-the-proxy"


# --- Collections and tags


async def test_a_collection_lives_from_its_making_to_its_end(library: House, owner: Key) -> None:
    made = await library.api(
        "POST", "/collections", owner, status=201, json={"name": " Bird books ", "description": "d"}
    )
    assert (made["name"], made["description"], made["document_count"]) == ("Bird books", "d", 0)
    path = f"/collections/{made['id']}"
    assert await library.api("GET", path, owner) == made
    assert await library.api("GET", "/collections", owner) == {"collections": [made]}
    changed = await library.api("PATCH", path, owner, json={"name": "Birds", "description": None})
    assert changed == made | {"name": "Birds", "description": None}
    assert await library.api("PATCH", path, owner, json={}) == changed
    await library.api("DELETE", path, owner, status=204)
    await library.api("GET", path, owner, status=404)


async def test_the_name_of_a_collection_is_taken_once(library: House, owner: Key) -> None:
    await library.api("POST", "/collections", owner, status=201, json={"name": "one"})
    two = await library.api("POST", "/collections", owner, status=201, json={"name": "two"})
    for method, path in (("POST", "/collections"), ("PATCH", f"/collections/{two['id']}")):
        answer = await library.ask(method, f"/api/v1{path}", owner, json={"name": "one"})
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")


@pytest.mark.parametrize("name", ["", " ", "a/b", "ä", "x" * 101, "\u0000", "a\nb", None, 7])
async def test_what_is_no_name_of_a_collection_is_400(library: House, owner: Key, name: Any) -> None:
    answer = await library.ask("POST", "/api/v1/collections", owner, json={"name": name})
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert "name" in answer.json()["error"]


async def test_a_collection_with_documents_is_removed_only_by_force_and_they_stay(library: House, owner: Key) -> None:
    collection = await library.api("POST", "/collections", owner, status=201, json={"name": "full"})
    made = await add(library, owner, "A swift sleeps in the air.", collection_id=collection["id"])
    path = f"/collections/{collection['id']}"
    assert (await library.api("GET", path, owner))["document_count"] == 1
    refused = await library.ask("DELETE", f"/api/v1{path}", owner)
    assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT")
    await library.api("DELETE", f"{path}?force=true", owner, status=204)
    kept = await library.api("GET", f"/documents/{made['id']}", owner)
    assert (kept["collection_id"], kept["deleted_at"]) == (None, None)
    await until(lambda: found(library, owner, "swift sleeps"), [made["id"]])
    await library.api(
        "POST", "/search", owner, status=404, json={"query": "swift", "collection_ids": [collection["id"]]}
    )


async def test_the_same_address_in_two_collections_is_two_documents(library: House, owner: Key) -> None:
    ids = [
        (await library.api("POST", "/collections", owner, status=201, json={"name": name}))["id"] for name in ("a", "b")
    ]
    made = [
        await add(library, owner, "A dipper walks under water.", url="https://d.example/", collection_id=each)
        for each in ids
    ]
    assert made[0]["id"] != made[1]["id"]
    for collection, document in zip(ids, made, strict=True):
        assert await found(library, owner, "dipper", collection_ids=[collection]) == [document["id"]]


async def test_a_tag_lives_from_its_making_to_its_end(library: House, owner: Key) -> None:
    made = await library.api("POST", "/tags", owner, status=201, json={"name": " Rare-Birds "})
    assert (made["name"], made["document_count"]) == ("rare-birds", 0)
    document = await add(library, owner, "The bittern booms in the reeds.", tags=["rare-birds", "loud"])
    tags = (await library.api("GET", "/tags", owner))["tags"]
    assert [(tag["name"], tag["document_count"]) for tag in tags] == [("loud", 1), ("rare-birds", 1)]
    renamed = await library.api("PATCH", f"/tags/{made['id']}", owner, json={"name": "rare"})
    assert (renamed["name"], renamed["document_count"]) == ("rare", 1)
    taken = await library.ask("PATCH", f"/api/v1/tags/{made['id']}", owner, json={"name": "LOUD"})
    assert taken.status_code == 409
    assert await found(library, owner, "bittern", tag_ids=[made["id"]]) == [document["id"]]
    await library.api("DELETE", f"/tags/{made['id']}", owner, status=204)
    await library.api("GET", f"/tags/{made['id']}", owner, status=404)
    left = await library.api("GET", f"/documents/{document['id']}", owner)
    assert [tag["name"] for tag in left["tags"]] == ["loud"]
    await until(lambda: found(library, owner, "bittern"), [document["id"]])


# --- Configs


async def test_a_config_has_the_defaults_of_the_specification_and_keeps_what_is_set(library: House, owner: Key) -> None:
    made = await library.api("POST", "/configs", owner, status=201, json={"name": "mine"})
    assert {name: value for name, value in made.items() if name not in ("id", "created_at")} == {
        "name": "mine", "max_depth": 0, "rate_limit_rps": 1.0, "respect_robots_txt": True, "headers": {},
        "extraction_strategy": "markdown", "chunking_strategy": "sliding_window", "chunk_size": 512,
        "chunk_overlap": 50, "min_chunk_size": 50, "page_timeout_ms": 30_000, "max_page_size_mb": 50,
        "max_redirects": 10,
    }  # fmt: skip
    path = f"/configs/{made['id']}"
    changed = await library.api("PATCH", path, owner, json={"chunk_size": 100, "headers": {"X-Test": "1"}})
    assert changed == made | {"chunk_size": 100, "headers": {"X-Test": "1"}}
    listed = await library.api("GET", "/configs", owner)
    assert (listed["items"], listed["total"], listed["has_more"]) == ([changed], 1, False)
    again = await library.ask("POST", "/api/v1/configs", owner, json={"name": "mine"})
    assert (again.status_code, again.json()["code"]) == (409, "CONFLICT")
    await library.api("DELETE", path, owner, status=204)
    await library.api("GET", path, owner, status=404)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"rate_limit_rps": 0.05}, {"rate_limit_rps": 11}, {"chunk_size": 99}, {"chunk_size": 2001},
        {"chunk_overlap": 501}, {"min_chunk_size": 9}, {"page_timeout_ms": 4999}, {"max_page_size_mb": 101},
        {"max_redirects": 21}, {"max_depth": -1}, {"extraction_strategy": "magic"}, {"respect_robots_txt": "maybe"},
        {"headers": {"a\u0000": "b"}}, {"surprise": 1},
    ],
    ids=str,
)  # fmt: skip
async def test_a_config_beyond_the_limits_is_400_and_names_the_field(
    library: House, owner: Key, wrong: dict[str, Any]
) -> None:
    answer = await library.ask("POST", "/api/v1/configs", owner, json={"name": "x", **wrong})
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert answer.json()["details"]["fields"][0]["field"].partition(".")[0] == next(iter(wrong))


async def test_a_config_without_robots_and_with_headers_is_obeyed(library: House, owner: Key, site: Site) -> None:
    site.robots = "User-agent: *\nDisallow: /\n"
    site.add("/secret", "<article><h1>Secret</h1><p>A page that robots should not read at all.</p></article>")
    try:
        headers = {"X-Purpose": "testing", "Authorization": "Bearer of-secrets"}
        body = {"name": "bold", "respect_robots_txt": False, "headers": headers}
        config = await library.api("POST", "/configs", owner, status=201, json=body)
        assert config["headers"] == {"X-Purpose": "testing", "Authorization": "[hidden]"}
        for config_id, pages in ((None, 0), (config["id"], 1)):
            more = {} if config_id is None else {"config_id": config_id}
            started = await library.api("POST", "/crawl", owner, json={"url": f"{site.url_at(2)}/secret", **more})
            job_id = started["jobs"][0]["job_id"]
            await finished(library, owner, job_id)
            assert (await library.api("GET", f"/crawl/{job_id}", owner))["pages_crawled"] == pages
        sent = site.requests_for("/secret")[-1].headers
        assert (sent["x-purpose"], sent["authorization"]) == ("testing", "Bearer of-secrets")
    finally:
        site.pages.pop("/robots.txt")


# --- Proxies


async def test_the_password_of_a_proxy_never_comes_back_and_is_sealed_where_it_lies(library: House, owner: Key) -> None:
    servers = [
        {"url": "http://127.0.0.1:9/", "username": "jay", "password": PASSWORD},
        {"url": f"http://jay:{PASSWORD}@127.0.0.1:10/"},
        {"url": "http://127.0.0.1:11/"},
    ]
    answers = [await library.ask("POST", "/api/v1/proxies", owner, json={"name": "p", "servers": servers})]
    made = answers[0].json()
    assert answers[0].status_code == 201, made
    assert [(each["username"], each["has_password"]) for each in made["servers"]] == [
        ("jay", True),
        ("jay", True),
        (None, False),
    ]
    path = f"/api/v1/proxies/{made['id']}"
    answers += [
        await library.ask("GET", path, owner),
        await library.ask("GET", "/api/v1/proxies", owner),
        await library.ask("PATCH", path, owner, json={"servers": servers[:1], "rotation_strategy": "random"}),
        await library.ask("POST", f"{path}/test", owner),
    ]
    assert [answer.status_code for answer in answers[1:]] == [200] * 4
    assert answers[3].json()["rotation_strategy"] == "random"
    (check,) = answers[4].json()
    assert (check["works"], bool(check["message"])) == (False, True)
    assert not any(PASSWORD in answer.text for answer in answers)
    async with library.jay.database.reading() as connection:
        stored = str((await connection.execute(select(ProxyRow.__table__))).all())
    assert "127.0.0.1:9" in stored
    assert PASSWORD not in stored
    await library.ask("DELETE", path, owner)
    await library.api("GET", path.removeprefix("/api/v1"), owner, status=404)


async def test_a_proxy_is_really_used(library: House, owner: Key, site: Site) -> None:
    # The site's other address plays the proxy: it sees the whole address of the page in the request.
    body = {"name": "through", "servers": [{"url": site.url_at(2)}]}
    proxy = await library.api("POST", "/proxies", owner, status=201, json=body)
    started = await library.api("POST", "/crawl", owner, json={"url": f"{site.url}/page/9", "proxy_id": proxy["id"]})
    await finished(library, owner, started["jobs"][0]["job_id"])
    assert f"{site.url}/page/9" in [request.target for request in site.requests]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "x", "servers": []}, 400),
        ({"name": "x", "servers": [{"username": "no url"}]}, 400),
        ({"name": "x", "servers": [{"url": "nonsense"}]}, 400),
        ({"name": "x", "servers": [{"url": "http://10.0.0.1:3128"}]}, 403),
        ({"name": "x", "servers": [{"url": "http://a.example"}], "rotation_strategy": "dice"}, 400),
        ({"servers": [{"url": "http://a.example"}]}, 400),
    ],
    ids=str,
)
async def test_a_proxy_that_cannot_be_is_refused(library: House, owner: Key, body: dict[str, Any], status: int) -> None:
    answer = await library.ask("POST", "/api/v1/proxies", owner, json=body)
    assert answer.status_code == status, answer.text
    assert (await library.api("GET", "/proxies", owner))["total"] == 0


# --- Hosts


async def test_a_host_has_defaults_until_something_is_set(library: House, owner: Key) -> None:
    before = await library.api("GET", "/domains/Slow.Example", owner)
    assert (before["domain"], before["rate_limit_rps"], before["is_blocked"]) == ("slow.example", 1.0, False)
    assert (before["circuit_breaker_threshold"], before["circuit_breaker_timeout_s"]) == (5, 300)
    values = {"rate_limit_rps": 0.5, "circuit_breaker_threshold": 2, "circuit_breaker_timeout_s": 60}
    after = await library.api("PUT", "/domains/slow.example", owner, json=values)
    assert after.items() >= values.items()
    blocked = await library.api("POST", "/domains/slow.example/block", owner, json={"reason": "why"})
    assert (blocked["is_blocked"], blocked["blocked_reason"], blocked["rate_limit_rps"]) == (True, "why", 0.5)
    free = await library.api("POST", "/domains/slow.example/unblock", owner)
    assert (free["is_blocked"], free["blocked_reason"]) == (False, None)
    assert (await library.api("POST", "/domains/slow.example/block", owner))["is_blocked"] is True


async def test_what_is_no_host_or_beyond_its_limits_is_400(library: House, owner: Key) -> None:
    for host in ("a b", "a%00b", "x" * 254, "ä.example", "%2e%2e"):
        assert (await library.ask("GET", f"/api/v1/domains/{host}", owner)).status_code in (400, 404), host
    for wrong in ({"rate_limit_rps": 0}, {"circuit_breaker_threshold": 21}, {"circuit_breaker_timeout_s": 59}):
        answer = await library.ask("PUT", "/api/v1/domains/a.example", owner, json=wrong)
        assert answer.status_code == 400


# --- Sources


async def test_a_source_is_made_changed_triggered_and_removed(library: House, owner: Key, site: Site) -> None:
    collection = await library.api("POST", "/collections", owner, status=201, json={"name": "watched"})
    config = await library.api("POST", "/configs", owner, status=201, json={"name": "quick", "rate_limit_rps": 10})
    body = {
        "name": "the site", "url_pattern": f"{site.url}/page/4", "crawl_config_id": config["id"],
        "collection_id": collection["id"], "schedule_cron": "0 */6 * * *",
    }  # fmt: skip
    made = await library.api("POST", "/sources", owner, status=201, json=body)
    assert made.items() >= body.items()
    assert (made["is_active"], made["last_crawled_at"]) == (True, None)
    path = f"/sources/{made['id']}"
    assert await library.api("GET", path, owner) == made
    assert (await library.api("GET", "/sources", owner))["items"] == [made]
    changed = await library.api("PATCH", path, owner, json={"schedule_cron": None, "is_active": False, "name": "it"})
    assert (changed["schedule_cron"], changed["is_active"], changed["name"]) == (None, False, "it")
    assert changed["collection_id"] == collection["id"]

    await library.api("PATCH", f"/configs/{config['id']}", owner, json={"max_depth": 1})
    started = await library.api("POST", f"{path}/trigger", owner)
    assert set(started) == {"job_id", "status", "message"}
    assert (await finished(library, owner, started["job_id"]))["status"] == "completed"
    crawl = await library.api("GET", f"/crawl/{started['job_id']}", owner)
    assert (crawl["urls"], crawl["collection_id"]) == ([f"{site.url}/page/4"], collection["id"])
    assert (await library.api("GET", f"/collections/{collection['id']}", owner))["document_count"] > 1
    assert (await library.api("GET", path, owner))["last_crawled_at"] is not None

    await library.api("DELETE", path, owner, status=204)
    await library.api("GET", path, owner, status=404)


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"schedule_cron": "every day"}, 400),
        ({"schedule_cron": "* * * * * *"}, 400),
        ({"schedule_cron": "99 * * * *"}, 400),
        ({"url_pattern": "ftp://a.example"}, 400),
        ({"url_pattern": ""}, 400),
        ({"name": ""}, 400),
        ({"crawl_config_id": NOBODYS}, 404),
        ({"collection_id": NOBODYS}, 404),
        ({"is_active": "yes"}, 400),
    ],
    ids=str,
)
async def test_a_source_that_cannot_be_is_refused(
    library: House, owner: Key, wrong: dict[str, Any], status: int
) -> None:
    body = {"name": "s", "url_pattern": "https://a.example/", **wrong}
    answer = await library.ask("POST", "/api/v1/sources", owner, json=body)
    assert answer.status_code == status, answer.text
    made = await library.api(
        "POST", "/sources", owner, status=201, json={"name": "s", "url_pattern": "https://a.example"}
    )
    answer = await library.ask("PATCH", f"/api/v1/sources/{made['id']}", owner, json=wrong)
    assert answer.status_code == status, answer.text


# --- Statistics and readiness


async def test_statistics_count_what_the_tenant_has(library: House, owner: Key) -> None:
    nothing = await library.api("GET", "/stats", owner)
    assert (nothing["documents"], nothing["chunks"], nothing["collections"], nothing["tags"]) == (0, 0, 0, 0)
    made = await add(library, owner, "Count me in.", tags=["one", "two"])
    await library.api("DELETE", f"/documents/{(await add(library, owner, 'Count me out.'))['id']}", owner, status=204)
    await library.api("POST", "/collections", owner, status=201, json={"name": "empty"})
    stats = await library.api("GET", "/stats", owner)
    assert (stats["documents"], stats["deleted_documents"], stats["tags"], stats["collections"]) == (1, 1, 2, 1)
    assert stats["chunks"] >= made["chunk_count"]
    assert stats["jobs"]["completed"] == 2
    assert stats["index"]["dimensions"] == 256
    assert (await search(library, owner, "count me"))["results"]


async def test_a_house_that_works_is_ready_with_its_index(library: House) -> None:
    answer = await library.ask("GET", "/api/v1/health/ready")
    assert answer.json() == {
        "status": "ready",
        "checks": {"database": True, "blobs": True, "cache": True, "index": True},
    }
