"""Every route of `/openai`, walked by keys that may not and by strangers: nothing is given, nothing is changed."""

from typing import Any

import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from tests.acceptance.house import House, Key, Place, app_of_nobody, places
from tests.acceptance.openai_door.conftest import Served

from scrubjay.api.openai.routing import scope_of
from scrubjay.model.knowledge import Response
from scrubjay.model.tenant import Scope
from scrubjay.storage.inventory import Responses

pytestmark = pytest.mark.asyncio(loop_scope="module")

READ, WRITE, ADMIN = Scope.READ, Scope.WRITE, Scope.ADMIN
RANK = [READ, WRITE, ADMIN]
STORE = "vector_stores/{vector_store_id}"
# The least scope for each route. A new route must be added here before these tests pass again.
NEEDED = {
    Place(method, f"{prefix}/{path}"): scope
    for prefix in ("/openai", "/openai/v1")
    for scope, wanted in {
        READ: {
            "GET": "files files/{file_id} files/{file_id}/content vector_stores models models/{model} assistants "
            f"assistants/{{assistant_id}} responses/{{response_id}} {STORE} {STORE}/files {STORE}/files/{{file_id}} "
            f"{STORE}/files/{{file_id}}/content {STORE}/file_batches/{{batch_id}} "
            f"{STORE}/file_batches/{{batch_id}}/files",
            "POST": f"embeddings {STORE}/search",
        },
        WRITE: {
            "POST": "files vector_stores assistants assistants/{assistant_id} responses chat/completions "
            f"{STORE} {STORE}/files {STORE}/files/{{file_id}} {STORE}/file_batches "
            f"{STORE}/file_batches/{{batch_id}}/cancel",
            "DELETE": "files/{file_id} assistants/{assistant_id} responses/{response_id} "
            f"{STORE}/files/{{file_id}}",
        },
        ADMIN: {"DELETE": STORE},
    }.items()
    for method, paths in wanted.items()
    for path in paths.split()
}
EVERYWHERE = [place for place in places(app_of_nobody()) if place.pattern.startswith("/openai/")]


def sending(place: Place, ids: dict[str, str]) -> dict[str, Any]:
    """A body that the route takes."""
    path = place.pattern.removeprefix("/openai/").removeprefix("v1/")
    if place.method != "POST":
        return {}
    if path == "files":
        return {"files": {"file": ("a.txt", b"text")}, "data": {"purpose": "assistants"}}
    bodies: dict[str, Any] = {
        "vector_stores": {"name": "new"},
        "assistants": {"model": "m"},
        "assistants/{assistant_id}": {"name": "changed"},
        "responses": {"input": "Hello", "model": "m"},
        "chat/completions": {"messages": [{"role": "user", "content": "Hello"}], "model": "m"},
        "embeddings": {"input": "a", "model": "wordllama"},
        STORE: {"name": "changed"},
        f"{STORE}/files": {"file_id": ids["file_id"]},
        f"{STORE}/files/{{file_id}}": {"attributes": {"a": "b"}},
        f"{STORE}/file_batches": {"file_ids": [ids["file_id"]]},
        f"{STORE}/search": {"query": "jays"},
    }
    return {"json": bodies.get(path, {})}


async def give_belongings(house: House, client: AsyncOpenAI, key: Key) -> dict[str, str]:
    store = await client.vector_stores.create(name="mine")
    file = await client.files.create(file=("mine.txt", b"A secret about jays."), purpose="assistants")
    batch = await client.vector_stores.file_batches.create_and_poll(store.id, file_ids=[file.id], poll_interval_ms=20)
    who = await house.jay.access.recognise(key.text)
    assistant = await house.jay.inventory.create_assistant(who, {"model": "m", "name": "mine"})
    async with house.jay.database.writing() as connection:
        kept = Response(tenant_id=who.tenant_id, id="resp_mine", body={"id": "resp_mine", "object": "response"})
        await Responses(connection).add(kept)
    return {
        "vector_store_id": store.id, "file_id": file.id, "batch_id": batch.id, "assistant_id": assistant["id"],
        "response_id": "resp_mine", "model": "wordllama-l2-supercat-256",
    }  # fmt: skip


@pytest_asyncio.fixture(loop_scope="module")
async def belongings(local: Served, client: AsyncOpenAI, owner: Key) -> dict[str, str]:
    return await give_belongings(local.house, client, owner)


async def look_at_everything(house: House, key: Key, ids: dict[str, str]) -> dict[str, str]:
    places = [place for place in EVERYWHERE if place.method == "GET"]
    return {str(place): (await house.ask("GET", place.path(ids), key)).text for place in places}


async def test_the_table_of_scopes_has_every_route_and_passing_on_takes_the_same() -> None:
    assert set(NEEDED) == set(EVERYWHERE)
    for place, scope in NEEDED.items():
        path = place.pattern.removeprefix("/openai/").removeprefix("v1/")
        assert scope_of(place.method, path) == scope, place


@pytest.mark.parametrize("scope", RANK[:2])
async def test_a_key_without_the_scope_is_403_and_changes_nothing(
    local: Served, owner: Key, belongings: dict[str, str], scope: Scope
) -> None:
    house = local.house
    who = await house.jay.access.recognise(owner.text)
    _, text = await house.jay.access.create_key(who, name="less", scopes=[scope], rate_limit_rpm=10_000)
    before = await look_at_everything(house, owner, belongings)
    for place in EVERYWHERE:
        if RANK.index(NEEDED[place]) > RANK.index(scope):
            headers = {"Authorization": f"Bearer {text}"}
            answer = await house.ask(
                place.method, place.path(belongings), headers=headers, **sending(place, belongings)
            )
            assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error"), place
    assert await look_at_everything(house, owner, belongings) == before


async def test_a_key_with_just_the_scope_is_served(local: Served) -> None:
    for scope in RANK:
        owner = await local.house.key(tenant=f"scoped {scope}")
        who = await local.house.jay.access.recognise(owner.text)
        _, text = await local.house.jay.access.create_key(who, name="just", scopes=[scope], rate_limit_rpm=10_000)
        async with local.client(owner) as client:
            ids = await give_belongings(local.house, client, owner)
        for place in sorted(EVERYWHERE, key=lambda place: place.method == "DELETE"):
            if NEEDED[place] is scope and place.pattern.startswith("/openai/v1/"):
                headers = {"Authorization": f"Bearer {text}"}
                answer = await local.house.ask(place.method, place.path(ids), headers=headers, **sending(place, ids))
                is_language = place.pattern.endswith(("/responses", "/completions")) and place.method == "POST"
                expected = {503} if is_language else {200, 404} if place.method == "DELETE" else {200}
                assert answer.status_code in expected, (place, answer.text)


async def test_another_tenants_things_do_not_exist_on_any_route(
    local: Served, owner: Key, belongings: dict[str, str]
) -> None:
    house = local.house
    stranger = await house.key(tenant="strangers")
    before = await look_at_everything(house, owner, belongings)
    walked = 0
    for place in EVERYWHERE:
        if "_id}" not in place.pattern:
            continue
        answer = await house.ask(place.method, place.path(belongings), stranger, **sending(place, belongings))
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found"), (place, answer.text)
        assert "secret" not in answer.text
        walked += 1
    assert walked > 40
    async with local.client(stranger) as client:
        mine = await client.vector_stores.create(name="mine")
        theirs = [belongings["file_id"], f"file-d{belongings['file_id'][-26:]}"]
        for body in ({"file_id": theirs[0]}, {"file_id": theirs[1]}):
            path = f"/openai/v1/vector_stores/{mine.id}/files"
            assert (await house.ask("POST", path, stranger, json=body)).status_code == 404
        path = f"/openai/v1/vector_stores/{mine.id}/file_batches"
        assert (await house.ask("POST", path, stranger, json={"file_ids": theirs[:1]})).status_code == 404
        assert (await house.ask("POST", "/openai/v1/vector_stores", stranger, json={"file_ids": theirs[:1]})).status_code == 404  # noqa: E501 # fmt: skip
        for path in ("files", f"vector_stores/{mine.id}/files", "vector_stores", "assistants"):
            for name, identifier in (("after", belongings["file_id"]), ("after", belongings["vector_store_id"])):
                answer = await house.ask("GET", f"/openai/v1/{path}", stranger, params={name: identifier})
                assert answer.status_code == 400, (path, answer.text)
        assert [each.id async for each in client.files.list()] == []
        assert [each.id async for each in client.vector_stores.list()] == [mine.id]
    assert await look_at_everything(house, owner, belongings) == before
