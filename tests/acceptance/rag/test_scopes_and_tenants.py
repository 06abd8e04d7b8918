"""Every route of `/api/v1`, walked by keys that may not and by strangers: nothing is given, nothing is changed."""

from typing import Any

import pytest
import pytest_asyncio
from tests.acceptance.house import ACTION_PATHS, PUBLIC_PATHS, House, Key, app_of_nobody, places
from tests.acceptance.rag.asking import search
from tests.acceptance.rag.belongings import HOST, MARK, give_belongings, own_spelling, sending
from tests.acceptance.rag.scopes import NEEDED, RANK

from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERYWHERE = places(app_of_nobody())
API = [place for place in EVERYWHERE if place.pattern.startswith("/api/v1") and place.pattern not in PUBLIC_PATHS]
# What takes the id of something in its body.
REFERRING = {
    "/api/v1/crawl", "/api/v1/crawl/batch", "/api/v1/crawl/deep", "/api/v1/documents", "/api/v1/documents/batch",
    "/api/v1/documents/upload", "/api/v1/search", "/api/v1/search/keyword", "/api/v1/search/vector", "/api/v1/sources",
    "/api/v1/webhooks",
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenant(library: House) -> Key:
    return await library.key(tenant="the tenant")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def belongings(library: House, tenant: Key) -> dict[str, str]:
    return await give_belongings(library, tenant)


async def look_at_everything(library: House, key: Key, ids: dict[str, str]) -> dict[str, Any]:
    """All that a tenant can read of its own, but for what changes with every request."""
    seen = {}
    for place in API:
        if place.method != "GET" or place.pattern.endswith(("/stream", "/cache", "/stats")):
            continue
        answer = await library.ask("GET", place.path({**ids, "host": HOST}), key)
        seen[str(place)] = (answer.status_code, answer.text if answer.status_code == 200 else answer.status_code)
    return seen


async def test_the_table_of_scopes_has_every_route() -> None:
    guarded = {place for place in EVERYWHERE if place.pattern not in PUBLIC_PATHS}
    others = ("/v1.0", "/openai/", "/ui", *ACTION_PATHS)  # they have tables of their own
    assert set(NEEDED) == {place for place in guarded if not place.pattern.startswith(others)}
    assert len(API) > 60


@pytest.mark.parametrize("scope", RANK[:2])
async def test_a_key_without_the_scope_is_403_on_its_own_things_and_changes_nothing(
    library: House, tenant: Key, belongings: dict[str, str], scope: Scope
) -> None:
    key = await library.key(scope, tenant="the tenant")
    before = await look_at_everything(library, tenant, belongings)
    refused = 0
    for place in API:
        if RANK.index(NEEDED[place]) <= RANK.index(scope):
            continue
        path = place.path({**belongings, "host": HOST, "request": "cancel"})
        answer = await library.ask(place.method, path, key, **sending(place, belongings))
        assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN"), (place, answer.text)
        assert NEEDED[place] in answer.json()["error"]
        refused += 1
    assert refused >= (7 if scope is Scope.WRITE else 35)
    assert await look_at_everything(library, tenant, belongings) == before


async def test_a_key_with_just_the_scope_is_never_403(library: House, belongings: dict[str, str]) -> None:
    for scope in RANK:
        owner = await library.key(Scope.ADMIN, tenant=f"scoped {scope}")
        key = await library.key(scope, tenant=f"scoped {scope}")
        ids = await give_belongings(library, owner)
        for place in sorted(API, key=lambda place: place.method == "DELETE"):
            if NEEDED[place] != scope or place.pattern.endswith("/test"):
                continue
            path = place.path({**ids, "host": HOST, "request": "pause"})
            answer = await library.ask(place.method, path, key, **sending(place, ids))
            assert answer.status_code not in (400, 401, 403, 405), (place, answer.text)
            assert answer.status_code < 500, (place, answer.text)


async def test_only_an_admin_purges(library: House, tenant: Key, belongings: dict[str, str]) -> None:
    writer = await library.key(Scope.WRITE, tenant="the tenant")
    path = f"/documents/{belongings['document_id']}"
    await library.api("DELETE", f"{path}?purge=true", writer, status=403)
    assert (await library.api("GET", path, tenant))["deleted_at"] is None


async def test_another_tenants_things_do_not_exist_on_any_route_in_either_spelling(
    library: House, tenant: Key, belongings: dict[str, str]
) -> None:
    stranger = await library.key(tenant="strangers")
    before = await look_at_everything(library, tenant, belongings)
    spelled = {name: own_spelling(name, uuid) for name, uuid in belongings.items()}
    walked = set()
    for place in API:
        if "_id}" not in place.pattern and place.pattern not in REFERRING:
            continue
        if place.method == "GET" and place.pattern in REFERRING:
            continue
        for ids in (belongings, spelled):
            path = place.path({**ids, "request": "cancel"})
            answer = await library.ask(place.method, path, stranger, **sending(place, ids))
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), (place, answer.text)
            assert MARK not in answer.text
        walked.add(place)
    assert len(walked) > 45
    # Each id in a query, and each in a body of its own: the others must not be what refuses it.
    for field in ("collection_id", "tag_id"):
        await library.api("GET", "/documents", stranger, status=404, params={field: belongings[field]})
    mine = {"webhook_id": belongings["webhook_id"]}
    await library.api("GET", "/webhooks/deliveries", stranger, status=404, params=mine)
    own = await library.api("POST", "/webhooks", stranger, status=201, json={"url": "https://s.example/"})
    moved = {"source_id": belongings["source_id"]}
    await library.api("PUT", f"/webhooks/{own['id']}", stranger, status=404, json=moved)
    for path, body in (
        ("/search", {"query": MARK, "tag_ids": [belongings["tag_id"]]}),
        ("/search", {"query": MARK, "collection_ids": [belongings["collection_id"]]}),
        ("/crawl", {"url": "https://s.example/", "proxy_id": belongings["proxy_id"]}),
        ("/crawl", {"url": "https://s.example/", "config_id": belongings["config_id"]}),
        ("/crawl", {"url": "https://s.example/", "collection_id": belongings["collection_id"]}),
        ("/sources", {"name": "s", "url_pattern": "https://s.example/", "crawl_config_id": belongings["config_id"]}),
        ("/sources", {"name": "s", "url_pattern": "https://s.example/", "collection_id": belongings["collection_id"]}),
    ):
        await library.api("POST", path, stranger, status=404, json=body)
    assert await look_at_everything(library, tenant, belongings) == before


async def test_what_another_tenant_has_is_in_no_list_no_search_and_no_count(
    library: House, tenant: Key, belongings: dict[str, str]
) -> None:
    stranger = await library.key(tenant="strangers who look around")
    uuids = set(belongings.values()) - {belongings["key_id"]}
    for place in API:
        if place.method != "GET" or "{" in place.pattern:
            continue
        text = (await library.ask("GET", place.pattern, stranger)).text
        assert MARK not in text, place
        assert not any(uuid in text for uuid in uuids), place
        assert MARK in (await library.ask("GET", place.pattern, tenant)).text or place.pattern.endswith(
            ("/jobs", "/failed", "/stats", "/cache", "/api-keys")
        ), f"{place} does not show its own tenant's things, so this proves nothing"
    for mode in ("", "vector", "keyword"):
        assert (await search(library, tenant, MARK, mode))["results"]
        answer = await search(library, stranger, MARK, mode, explain=True)
        assert (answer["results"], answer["corrected_query"]) == ([], None)
        # Nor is the misspelt word guessed from words that only the other tenant has.
        assert (await search(library, stranger, MARK[:-1] + "z", mode))["corrected_query"] is None
    stats = await library.api("GET", "/stats", stranger)
    assert (stats["documents"], stats["chunks"], stats["tags"], sum(stats["jobs"].values())) == (0, 0, 0, 0)
    assert (await library.api("GET", f"/domains/{HOST}", stranger))["is_blocked"] is False


async def test_the_same_address_and_words_are_each_tenants_own(library: House) -> None:
    one, other = await library.key(tenant="one of two"), await library.key(tenant="other of two")
    made = []
    for key in (one, other):
        body = {"content": "The same words at the same address.", "url": "https://same.example/", "tags": ["same"]}
        made.append(await library.api("POST", "/documents", key, status=201, json=body))
    assert made[0]["id"] != made[1]["id"]
    assert made[0]["tags"][0]["id"] != made[1]["tags"][0]["id"]
    assert [each["duplicate_of"] for each in made] == [None, None], "a duplicate would tell of the other tenant"
    assert [each["version"] for each in made] == [1, 1]
    await library.api("DELETE", f"/documents/{made[0]['id']}?purge=true", one, status=204)
    for mode in ("", "vector", "keyword"):
        found = (await search(library, other, "the same words", mode))["results"]
        assert [each["document_id"] for each in found] == [made[1]["id"]]
    assert "same words" in (await library.api("GET", f"/documents/{made[1]['id']}", other))["content"]
    original = await library.ask("GET", f"/api/v1/documents/{made[1]['id']}/original", other)
    assert original.content == b"The same words at the same address."
