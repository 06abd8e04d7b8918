"""`/v2/inventory` on the local backend: every mode, dry runs, streams, other tenants."""

from typing import Any

import pytest
from tests.acceptance.actions.asking import call, check_stream, job_files, read_events, until
from tests.acceptance.house import House, Key

from scrubjay.model.tenant import Principal
from scrubjay.openai.protocol import NewFile, StoreFile

pytestmark = pytest.mark.asyncio(loop_scope="module")
STORES, FILES, ASSISTANTS = "inventory/vector_stores", "inventory/files", "inventory/assistants"


def principal(key: Key) -> Principal:
    return Principal(key.record.tenant_id, key.record.id, frozenset(key.record.scopes))


async def upload(house: House, key: Key, name: str, text: str = "Something about jays and acorns.") -> str:
    async def content() -> Any:
        yield text.encode()

    made = await house.jay.inventory.upload_file(principal(key), NewFile(filename=name, content=content()))
    return str(made["id"])


async def make_store(house: House, key: Key, name: str, *file_ids: str) -> str:
    made = await call(house, "POST", f"{STORES}/create", key, json={"name": name})
    for file_id in file_ids:
        await house.jay.inventory.add_to_store(principal(key), made["id"], StoreFile(file_id=file_id))
        await house.jay.inventory.wait_for_store_file(principal(key), made["id"], file_id, seconds=30)
    return str(made["id"])


async def files_in(house: House, key: Key, store_id: str) -> set[str]:
    listed = await call(house, "GET", f"{STORES}/files?vector_store_id={store_id}", key)
    return {item["id"] for item in listed}


async def all_files(house: House, key: Key) -> set[str]:
    return {item["id"] for item in await call(house, "GET", f"{FILES}?format=json", key)}


async def test_files_are_listed_shown_and_deleted(library: House, owner: Key) -> None:
    file_id = await upload(library, owner, "jay.txt")
    store_id = await make_store(library, owner, "birds", file_id)
    assert (await call(library, "GET", f"{FILES}/get?file_id={file_id}", owner))["filename"] == "jay.txt"
    assert await all_files(library, owner) == {file_id}
    await call(library, "GET", f"{FILES}/delete?file_id={file_id}&dry_run=true", owner)
    assert await all_files(library, owner) == {file_id}
    deleted = await call(library, "DELETE", f"{FILES}/delete?file_id={file_id}", owner)
    assert (deleted["id"], deleted["deleted_ids"]) == (file_id, [file_id])
    assert await all_files(library, owner) == await files_in(library, owner, store_id) == set()


async def test_a_vector_store_is_made_changed_and_deleted(library: House, owner: Key) -> None:
    file_id = await upload(library, owner, "jay.txt")
    planned = await call(library, "POST", f"{STORES}/create?dry_run=true", owner, json={"name": "plan"})
    assert planned == {"name": "plan"}
    assert await call(library, "GET", f"{STORES}?format=json", owner) == []
    made = await call(library, "POST", f"{STORES}/create", owner, data={"name": "birds", "file_ids": file_id})
    assert await files_in(library, owner, made["id"]) == {file_id}
    path = f"{STORES}/update?vector_store_id={made['id']}"
    assert (await call(library, "PUT", path, owner, json={"name": "jays"}))["name"] == "jays"
    await call(library, "PUT", f"{path}&dry_run=true", owner, json={"name": "owls"})
    assert (await call(library, "GET", f"{STORES}/get?vector_store_id={made['id']}", owner))["name"] == "jays"
    await call(library, "GET", f"{STORES}/delete?vector_store_id={made['id']}", owner)
    assert await call(library, "GET", f"{STORES}?format=json", owner) == []
    assert await all_files(library, owner) == {file_id}


async def test_a_vector_store_goes_with_its_files_if_asked(library: House, owner: Key) -> None:
    kept, gone = await upload(library, owner, "kept.txt"), await upload(library, owner, "gone.txt")
    store_id = await make_store(library, owner, "birds", gone)
    path = f"{STORES}/delete?vector_store_id={store_id}&mode=with_files"
    planned = await call(library, "GET", f"{path}&dry_run=true", owner)
    assert planned["deleted_ids"] == [gone, store_id]
    assert await all_files(library, owner) == {kept, gone}
    answer = await library.ask("GET", f"/v2/{path}&format=stream", owner)
    end = check_stream(events := read_events(answer.text))
    assert end["result"]["data"]["deleted_ids"] == [gone, store_id]
    assert f"Deleting vector store '{store_id}'..." in [event.data for event in events]
    assert await all_files(library, owner) == {kept}
    (file,) = await until(
        lambda: [path for path in job_files(library, owner, end["job_id"]) if path.suffix == ".completed"]
    )
    assert file.parent.parts[-2:] == ("inventory", "vector_stores")
    assert f"_[delete]_[{end['job_id']}]_[{store_id}]" in file.name


async def test_a_file_is_removed_from_one_store_or_everywhere(library: House, owner: Key) -> None:
    file_id = await upload(library, owner, "jay.txt")
    first, second = await make_store(library, owner, "a", file_id), await make_store(library, owner, "b", file_id)
    path = f"{STORES}/files/delete?vector_store_id={first}&file_id={file_id}"
    await call(library, "GET", f"{path}&dry_run=true", owner)
    assert await files_in(library, owner, first) == {file_id}
    removed = await call(library, "DELETE", path, owner)
    assert (removed["removed_ids"], removed["deleted_ids"]) == ([file_id], [])
    assert (await files_in(library, owner, first), await files_in(library, owner, second)) == (set(), {file_id})
    shown = await call(library, "GET", f"{STORES}/files/get?vector_store_id={second}&file_id={file_id}", owner)
    assert shown["status"] == "completed"
    path = f"{STORES}/files/delete?vector_store_id={second}&file_id={file_id}&mode=delete_globally"
    await call(library, "GET", path, owner)
    assert await all_files(library, owner) == set()
    assert await call(library, "GET", path, owner, status=404)


async def test_replicate_adds_what_is_missing_and_removes_others_if_asked(library: House, owner: Key) -> None:
    one, two, other = [await upload(library, owner, f"{name}.txt", f"{name} text.") for name in ("one", "two", "other")]
    first, second = await make_store(library, owner, "a", one), await make_store(library, owner, "b", one, two)
    target = await make_store(library, owner, "t", other)
    query = f"source_vector_store_ids={first},{second}&target_vector_store_ids={target}"
    planned = await call(library, "GET", f"{STORES}/replicate?{query}&dry_run=true", owner)
    assert (planned[0]["vector_store_id"], set(planned[0]["added"])) == (target, {one, two})
    assert await files_in(library, owner, target) == {other}
    answer = await library.ask("GET", f"/v2/{STORES}/replicate?{query}&format=stream", owner)
    assert check_stream(read_events(answer.text))["result"]["ok"]
    assert await files_in(library, owner, target) == {one, two, other}
    await call(library, "GET", f"{STORES}/replicate?{query}&remove_target_files_not_in_sources=true", owner)
    assert await files_in(library, owner, target) == {one, two}
    error = await call(
        library,
        "GET",
        f"{STORES}/replicate?source_vector_store_ids={first}&target_vector_store_ids={first}",
        owner,
        status=400,
    )
    assert error == f"'{first}' is a source and a target."


async def test_assistants_with_their_vector_stores(library: House, owner: Key) -> None:
    file_id = await upload(library, owner, "jay.txt")
    store_id = await make_store(library, owner, "birds", file_id)
    body = {
        "name": "Helper",
        "model": "some-model",
        "tools": [{"type": "file_search"}],
        "tool_resources": {"file_search": {"vector_store_ids": [store_id]}},
    }
    made = await call(library, "POST", f"{ASSISTANTS}/create", owner, json=body)
    path = f"{ASSISTANTS}/update?assistant_id={made['id']}"
    assert (await call(library, "PUT", path, owner, json={"name": "Other"}))["name"] == "Other"
    assert [item["id"] for item in await call(library, "GET", f"{ASSISTANTS}?format=json", owner)] == [made["id"]]
    deleted = await call(library, "GET", f"{ASSISTANTS}/delete?assistant_id={made['id']}&mode=with_files", owner)
    assert deleted["deleted_ids"] == [file_id, store_id, made["id"]]
    assert await call(library, "GET", f"{STORES}?format=json", owner) == []
    error = await call(library, "POST", f"{ASSISTANTS}/create", owner, status=400, json={"name": "no model"})
    assert "model" in error


async def test_without_a_language_model_responses_say_which_setting_is_missing(library: House, owner: Key) -> None:
    error = await call(library, "POST", "inventory/responses/create", owner, status=503, json={"input": "hello"})
    assert "SCRUBJAY_LLM_URL" in error
    assert (
        await call(library, "GET", "inventory/responses?format=json", owner, status=400)
        == "Format 'json' not supported."
    )


async def test_another_tenants_things_do_not_exist(library: House, owner: Key) -> None:
    file_id = await upload(library, owner, "jay.txt")
    store_id = await make_store(library, owner, "birds", file_id)
    stranger = await library.key(tenant="a stranger to the inventory")
    assert await all_files(library, stranger) == set()
    assert await call(library, "GET", f"{STORES}?format=json", stranger) == []
    for path in (
        f"{FILES}/get?file_id={file_id}",
        f"{FILES}/delete?file_id={file_id}",
        f"{STORES}/get?vector_store_id={store_id}",
        f"{STORES}/delete?vector_store_id={store_id}&mode=with_files",
        f"{STORES}/files?vector_store_id={store_id}",
        f"{STORES}/files/delete?vector_store_id={store_id}&file_id={file_id}&mode=delete_globally",
        f"{STORES}/replicate?source_vector_store_ids={store_id}&target_vector_store_ids=vs_x",
    ):
        await call(library, "GET", path, stranger, status=404)
    assert await files_in(library, owner, store_id) == {file_id}


async def test_the_pages_work(library: House, owner: Key) -> None:
    store_id = await make_store(library, owner, "<b>birds</b>")
    for path in ("inventory", FILES, STORES, ASSISTANTS):
        page = await library.ask("GET", f"/v2/{path}?format=ui", owner)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "<b>birds" not in page.text
    page = await library.ask("GET", f"/v2/{STORES}?format=ui", owner)
    assert store_id in page.text
