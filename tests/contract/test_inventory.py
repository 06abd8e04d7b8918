"""What every backend of the inventory must do: ours, and an OpenAI account behind a server that speaks its protocol."""

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from tests.openai_server import KEY, OpenAiServer, running_openai_server

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.errors import FetchFailed, Forbidden, InvalidRequest, NotFound, Unavailable
from scrubjay.model.tenant import Principal, Scope
from scrubjay.openai.protocol import NewFile, StoreFile, StoreSearch, Window
from scrubjay.services.inventory import InventoryService
from scrubjay.settings import Settings

pytestmark = pytest.mark.asyncio(loop_scope="module")
PATIENCE_SECONDS = 30.0


@dataclass
class Desk:
    """One of the two inventories, and somebody who may do everything in it."""

    inventory: InventoryService
    who: Principal
    upstream: OpenAiServer | None

    async def upload(self, name: str, text: str = "The jay hides acorns.") -> str:
        async def content() -> AsyncIterator[bytes]:
            yield text.encode()

        file = await self.inventory.upload_file(self.who, NewFile(filename=name, content=content()))
        return str(file["id"])

    async def store(self, *file_ids: str, name: str = "store") -> str:
        made = await self.inventory.create_vector_store(self.who, {"name": name})
        for file_id in file_ids:
            await self.inventory.add_to_store(self.who, made["id"], StoreFile(file_id=file_id))
            await self.inventory.wait_for_store_file(self.who, made["id"], file_id, seconds=PATIENCE_SECONDS)
        return str(made["id"])

    async def files_in(self, store_id: str) -> set[str]:
        return {item["id"] for item in await self.inventory.all_store_files(self.who, store_id)}

    async def files(self) -> set[str]:
        return {item["id"] for item in await self.inventory.all_files(self.who)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ours(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> AsyncIterator[Scrubjay]:
    home = tmp_path_factory.mktemp("ours")
    for file in migrated_databases:
        shutil.copy(file, home)
    async with open_scrubjay(Settings(home=home, extract_processes=1), working=True) as jay:
        await jay.access.open_as_admin(home)
        yield jay


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theirs(
    tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]
) -> AsyncIterator[tuple[Scrubjay, OpenAiServer]]:
    home = tmp_path_factory.mktemp("theirs")
    for file in migrated_databases:
        shutil.copy(file, home)
    async with running_openai_server() as upstream:
        settings = Settings(
            home=home, openai_api_key=KEY, openai_base_url=f"{upstream.url}/v1",
            allowed_private_networks="127.0.0.0/8",
        )  # type: ignore[arg-type]  # fmt: skip
        async with open_scrubjay(settings) as jay:
            await jay.access.open_as_admin(home)
            yield jay, upstream


@pytest_asyncio.fixture(params=["local", "remote"], loop_scope="module")
async def desk(request: pytest.FixtureRequest, ours: Scrubjay, theirs: tuple[Scrubjay, OpenAiServer]) -> Desk:
    if request.param == "local":
        admin = await ours.access.open_as_admin(ours.settings.home)
        who = await ours.access.create_tenant(admin, f"tenant of {request.node.name}")
        return Desk(ours.inventory, who, None)
    jay, upstream = theirs
    for kept in ("files", "stores", "store_files", "batches", "assistants", "responses"):
        getattr(upstream, kept).clear()
    upstream.failures = 0
    return Desk(jay.inventory, await jay.access.open_as_admin(jay.settings.home), upstream)


async def test_a_file_in_two_stores_is_one_file_and_deleting_it_empties_both(desk: Desk) -> None:
    file_id = await desk.upload("a.txt")
    first, second = await desk.store(file_id), await desk.store(file_id, name="other")
    assert await desk.files() == {file_id}
    assert await desk.files_in(first) == await desk.files_in(second) == {file_id}
    await desk.inventory.delete_file(desk.who, file_id)
    assert await desk.files() == await desk.files_in(first) == await desk.files_in(second) == set()


async def test_a_store_is_deleted_without_its_files_or_with_them(desk: Desk) -> None:
    kept, gone = await desk.upload("kept.txt"), await desk.upload("gone.txt", "Whales eat krill.")
    first, second = await desk.store(kept), await desk.store(gone)
    outcome = await desk.inventory.delete_vector_store(desk.who, first)
    assert outcome.deleted == [first]
    said: list[str] = []

    async def tell(line: str) -> None:
        said.append(line)

    outcome = await desk.inventory.delete_vector_store(desk.who, second, with_files=True, dry_run=True, tell=tell)
    assert outcome.deleted == [gone, second]
    assert await desk.files() == {kept, gone}
    assert len(said) == 2
    await desk.inventory.delete_vector_store(desk.who, second, with_files=True)
    assert await desk.files() == {kept}
    for store_id in (first, second):
        with pytest.raises(NotFound):
            await desk.inventory.get_vector_store(desk.who, store_id)


async def test_a_file_is_removed_from_a_store_or_globally(desk: Desk) -> None:
    file_id = await desk.upload("a.txt")
    first, second = await desk.store(file_id), await desk.store(file_id, name="other")
    await desk.inventory.remove_from_store(desk.who, first, file_id, dry_run=True)
    assert await desk.files_in(first) == {file_id}
    await desk.inventory.remove_from_store(desk.who, first, file_id)
    assert (await desk.files_in(first), await desk.files_in(second)) == (set(), {file_id})
    outcome = await desk.inventory.remove_from_store(desk.who, second, file_id, globally=True)
    assert (outcome.removed, outcome.deleted) == ([file_id], [file_id])
    assert await desk.files() == set()


async def test_replication_adds_what_is_missing_once_and_removes_the_rest_when_asked(desk: Desk) -> None:
    a, b, c = [await desk.upload(f"{name}.txt", f"Text {name} about rivers.") for name in "abc"]
    first, second = await desk.store(a, b), await desk.store(b)
    target, other = await desk.store(c), await desk.store(a, name="other")
    plan = await desk.inventory.replicate(desk.who, [first, second], [target, other], dry_run=True)
    assert {store: sorted(outcome.added) for store, outcome in plan.items()} == {target: sorted([a, b]), other: [b]}
    assert await desk.files_in(target) == {c}
    await desk.inventory.replicate(desk.who, [first, second], [target, other])
    assert await desk.files_in(target) == {a, b, c}
    assert await desk.files_in(other) == {a, b}
    done = await desk.inventory.replicate(desk.who, [first, second], [target], remove_others=True)
    assert (done[target].added, done[target].removed) == ([], [c])
    assert await desk.files_in(target) == {a, b}
    assert c in await desk.files()
    for sources, targets in (([], [target]), ([first], []), ([first], [first])):
        with pytest.raises(InvalidRequest):
            await desk.inventory.replicate(desk.who, sources, targets)
    with pytest.raises(NotFound):
        await desk.inventory.replicate(desk.who, [first], ["vs_nobody"])


async def test_an_assistant_is_deleted_with_its_stores_and_their_files(desk: Desk) -> None:
    file_id = await desk.upload("a.txt")
    store_id = await desk.store(file_id)
    resources = {"file_search": {"vector_store_ids": [store_id]}}
    made = await desk.inventory.create_assistant(desk.who, {"model": "m", "tool_resources": resources})
    kept = await desk.inventory.create_assistant(desk.who, {"model": "m", "tool_resources": resources})
    await desk.inventory.delete_assistant(desk.who, kept["id"])
    assert await desk.files_in(store_id) == {file_id}
    outcome = await desk.inventory.delete_assistant(desk.who, made["id"], with_files=True)
    assert outcome.deleted == [file_id, store_id, made["id"]]
    assert await desk.files() == set()
    assert await desk.inventory.all_assistants(desk.who) == []
    # Somebody else deleted the store first: what is left is deleted all the same.
    orphan = await desk.inventory.create_assistant(desk.who, {"model": "m", "tool_resources": resources})
    outcome = await desk.inventory.delete_assistant(desk.who, orphan["id"], with_files=True)
    assert outcome.deleted == [orphan["id"]]


async def test_search_texts_and_attributes_are_the_same_objects(desk: Desk) -> None:
    file_id = await desk.upload("jays.txt", "The scrub jay hides acorns in autumn.")
    store_id = await desk.store(file_id)
    changed = await desk.inventory.update_store_file(desk.who, store_id, file_id, {"year": 2024})
    assert changed["attributes"] == {"year": 2024}
    wanted = StoreSearch(queries=("acorns",), filters={"type": "gte", "key": "year", "value": 2024})
    [found] = await desk.inventory.search(desk.who, store_id, wanted)
    assert {name: found[name] for name in ("file_id", "filename", "attributes")} == {
        "file_id": file_id, "filename": "jays.txt", "attributes": {"year": 2024},
    }  # fmt: skip
    assert "acorns" in found["content"][0]["text"]
    assert "acorns" in (await desk.inventory.store_file_text(desk.who, store_id, file_id))[0]
    body = await desk.inventory.file_body(desk.who, file_id)
    assert b"".join([chunk async for chunk in body.chunks]) == b"The scrub jay hides acorns in autumn."


async def test_lists_are_cut_by_cursors(desk: Desk) -> None:
    ids = [await desk.upload(f"{number}.txt", f"Text {number}.") for number in range(3)]
    listed = await desk.inventory.list_files(desk.who, Window(limit=2, newest_first=False))
    assert ([item["id"] for item in listed.items], listed.has_more) == (ids[:2], True)
    rest = await desk.inventory.list_files(desk.who, Window(limit=2, newest_first=False, after=ids[1]))
    assert ([item["id"] for item in rest.items], rest.has_more) == (ids[2:], False)
    stores = [await desk.store(name=f"store {number}") for number in range(3)]
    listed = await desk.inventory.list_vector_stores(desk.who, Window(limit=2, before=stores[0]))
    assert {item["id"] for item in listed.items} == set(stores[1:])


async def test_unknown_things_are_not_found(desk: Desk) -> None:
    store_id = await desk.store()
    for call in (
        desk.inventory.get_file(desk.who, "file-nobody"),
        desk.inventory.delete_file(desk.who, "file-nobody"),
        desk.inventory.get_vector_store(desk.who, "vs_nobody"),
        desk.inventory.delete_vector_store(desk.who, "vs_nobody"),
        desk.inventory.get_store_file(desk.who, store_id, "file-nobody"),
        desk.inventory.remove_from_store(desk.who, store_id, "file-nobody"),
        desk.inventory.get_batch(desk.who, store_id, "vsfb_nobody"),
        desk.inventory.get_assistant(desk.who, "asst_nobody"),
        desk.inventory.get_response(desk.who, "resp_nobody"),
        desk.inventory.delete_response(desk.who, "resp_nobody", with_conversation=True),
    ):
        with pytest.raises(NotFound):
            await call


async def test_a_key_that_may_only_read_changes_nothing(desk: Desk) -> None:
    store_id = await desk.store()
    reader = Principal(desk.who.tenant_id, "", frozenset({Scope.READ}))
    writer = Principal(desk.who.tenant_id, "", frozenset({Scope.WRITE}))
    for call in (
        desk.inventory.create_vector_store(reader, {}),
        desk.inventory.update_vector_store(reader, store_id, {"name": "x"}),
        desk.inventory.delete_file(reader, "file-nobody"),
        desk.inventory.replicate(reader, [store_id], [store_id]),
        desk.inventory.delete_vector_store(writer, store_id),
        desk.inventory.delete_assistant(writer, "asst_nobody", with_files=True),
    ):
        with pytest.raises(Forbidden):
            await call
    assert (await desk.inventory.get_vector_store(reader, store_id))["id"] == store_id


async def test_a_response_is_deleted_with_its_conversation(theirs: tuple[Scrubjay, OpenAiServer]) -> None:
    jay, upstream = theirs
    who = await jay.access.open_as_admin(jay.settings.home)
    made = await jay.inventory.create_response(who, {"model": "m", "input": "Hello", "conversation": "conv_1"})
    assert (await jay.inventory.get_response(who, made["id"]))["conversation"] == {"id": "conv_1"}
    await jay.inventory.delete_response(who, made["id"], with_conversation=True, dry_run=True)
    assert upstream.conversations == {"conv_1"}
    outcome = await jay.inventory.delete_response(who, made["id"], with_conversation=True)
    assert outcome.deleted == ["conv_1", made["id"]]
    assert (upstream.conversations, upstream.responses) == (set(), {})


async def test_an_account_belongs_to_the_default_tenant_only(theirs: tuple[Scrubjay, OpenAiServer]) -> None:
    jay, _ = theirs
    admin = await jay.access.open_as_admin(jay.settings.home)
    stranger = await jay.access.create_tenant(admin, "stranger")
    with pytest.raises(Forbidden, match="default tenant"):
        await jay.inventory.list_files(stranger, Window())


async def test_what_is_wrong_upstream_is_told_in_our_words(theirs: tuple[Scrubjay, OpenAiServer]) -> None:
    jay, upstream = theirs
    who = await jay.access.open_as_admin(jay.settings.home)
    upstream.failures = 1
    assert await jay.inventory.list_models(who)  # the SDK asks again
    upstream.failures = 3
    with pytest.raises(FetchFailed, match="500"):
        await jay.inventory.list_models(who)
    with pytest.raises(InvalidRequest) as refused:
        await jay.inventory.create_assistant(who, {})
    assert refused.value.details["field"] == "model"

    async def content() -> AsyncIterator[bytes]:
        yield b"text"

    with pytest.raises(InvalidRequest) as refused:
        await jay.inventory.upload_file(who, NewFile(filename="a", content=content(), purpose="gossip"))
    assert refused.value.details["field"] == "purpose"


async def test_without_a_language_model_a_response_is_unavailable_and_says_what_to_set(ours: Scrubjay) -> None:
    admin = await ours.access.open_as_admin(ours.settings.home)
    with pytest.raises(Unavailable, match="SCRUBJAY_LLM_URL"):
        await ours.inventory.create_response(admin, {"input": "Hello"})
