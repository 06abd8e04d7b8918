"""The official SDK, pointed at `/openai/v1`: the same tests here and on an OpenAI account behind the door."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from tests.acceptance.openai_door.conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

JAYS = b"The scrub jay hides acorns in autumn. It remembers every cache and returns to what spoils first."
WHALES = b"The blue whale eats krill. It is the largest animal that ever lived, longer than three buses."
RAVENS = b"Ravens fly over the valley. They play in the wind and steal from wolves."
_numbers = count(1)


@pytest_asyncio.fixture(params=["local", "remote"], loop_scope="module")
async def sdk(request: pytest.FixtureRequest, local: Served, remote: Served) -> AsyncIterator[AsyncOpenAI]:
    """A client with a tenant of its own, or the account of a server that is emptied first."""
    served = local if request.param == "local" else remote
    if served.upstream is not None:
        for kept in ("files", "stores", "store_files", "batches", "assistants", "responses"):
            getattr(served.upstream, kept).clear()
        key = await served.house.key()
    else:
        key = await served.house.key(tenant=f"sdk {next(_numbers)}")
    async with served.client(key) as client:
        yield client


async def upload(client: AsyncOpenAI, name: str, content: bytes = JAYS) -> str:
    return (await client.files.create(file=(name, content), purpose="assistants")).id


async def test_a_file_is_uploaded_described_listed_had_back_and_deleted(sdk: AsyncOpenAI) -> None:
    made = await sdk.files.create(file=("jays.txt", JAYS), purpose="assistants")
    assert (made.filename, made.bytes, made.purpose, made.object) == ("jays.txt", len(JAYS), "assistants", "file")
    assert await sdk.files.retrieve(made.id) == made
    assert [each.id async for each in sdk.files.list()] == [made.id]
    assert [each.id async for each in sdk.files.list(purpose="batch")] == []
    assert (await sdk.files.content(made.id)).content == JAYS
    gone = await sdk.files.delete(made.id)
    assert (gone.id, gone.deleted) == (made.id, True)
    with pytest.raises(openai.NotFoundError):
        await sdk.files.retrieve(made.id)


async def test_a_vector_store_is_made_described_changed_listed_and_deleted(sdk: AsyncOpenAI) -> None:
    made = await sdk.vector_stores.create(name="Birds & Co – 鳥", metadata={"team": "ornithology"})
    assert (made.name, made.metadata, made.status, made.object) == (
        "Birds & Co – 鳥", {"team": "ornithology"}, "completed", "vector_store",
    )  # fmt: skip
    assert made.file_counts.total == 0
    assert (await sdk.vector_stores.retrieve(made.id)).id == made.id
    changed = await sdk.vector_stores.update(made.id, name="Birds", metadata={})
    assert (changed.name, changed.metadata) == ("Birds", {})
    assert [each.id async for each in sdk.vector_stores.list()] == [made.id]
    assert (await sdk.vector_stores.delete(made.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await sdk.vector_stores.retrieve(made.id)


async def test_files_are_added_polled_and_searched_with_filters(sdk: AsyncOpenAI) -> None:
    store = await sdk.vector_stores.create(name="animals")
    jays = await sdk.vector_stores.files.create_and_poll(
        file_id=await upload(sdk, "jays.txt"),
        vector_store_id=store.id,
        attributes={"kind": "bird", "grams": 85, "tame": False},
        poll_interval_ms=20,
    )
    whales = await sdk.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("whales.txt", WHALES), poll_interval_ms=20
    )
    assert [(each.status, each.last_error) for each in (jays, whales)] == [("completed", None)] * 2
    assert jays.attributes == {"kind": "bird", "grams": 85, "tame": False}
    assert (await sdk.vector_stores.retrieve(store.id)).file_counts.completed == 2
    await sdk.vector_stores.files.update(
        whales.id, vector_store_id=store.id, attributes={"kind": "mammal", "grams": 150_000_000.5}
    )

    async def found(query: str, **options: Any) -> list[str]:
        return [each.file_id async for each in sdk.vector_stores.search(store.id, query=query, **options)]

    results = [each async for each in sdk.vector_stores.search(store.id, query="the largest animal")]
    assert (results[0].file_id, results[0].filename) == (whales.id, "whales.txt")
    assert "largest animal" in results[0].content[0].text
    assert 0 < results[0].score <= 1
    assert (results[0].attributes or {})["kind"] == "mammal"
    assert (await found("acorns in autumn"))[0] == jays.id
    the = "the jay whale it"
    for filters, expected in (
        ({"type": "eq", "key": "kind", "value": "bird"}, {jays.id}),
        ({"type": "ne", "key": "kind", "value": "bird"}, {whales.id}),
        ({"type": "gt", "key": "grams", "value": 85}, {whales.id}),
        ({"type": "gte", "key": "grams", "value": 85}, {jays.id, whales.id}),
        ({"type": "lt", "key": "grams", "value": 100.5}, {jays.id}),
        ({"type": "lte", "key": "grams", "value": 84}, set()),
        ({"type": "eq", "key": "tame", "value": False}, {jays.id}),
        ({"type": "in", "key": "kind", "value": ["bird", "fish"]}, {jays.id}),
        ({"type": "nin", "key": "kind", "value": ["bird", "fish"]}, {whales.id}),
        ({"type": "eq", "key": "nothing", "value": "x"}, set()),
        (
            {"type": "and", "filters": [
                {"type": "gte", "key": "grams", "value": 1},
                {"type": "or", "filters": [
                    {"type": "eq", "key": "kind", "value": "mammal"}, {"type": "eq", "key": "kind", "value": "fish"},
                ]},
            ]},
            {whales.id},
        ),
    ):  # fmt: skip
        assert set(await found(the, filters=filters)) == expected, filters
    assert len(await found(the, max_num_results=1)) == 1


async def test_a_batch_is_added_polled_and_listed(sdk: AsyncOpenAI) -> None:
    store = await sdk.vector_stores.create(name="batch")
    ids = [await upload(sdk, f"{number}.txt", JAYS + str(number).encode()) for number in range(5)]
    batch = await sdk.vector_stores.file_batches.create_and_poll(
        store.id, file_ids=ids, attributes={"shared": "yes"}, poll_interval_ms=20
    )
    assert (batch.status, batch.file_counts.completed, batch.file_counts.total) == ("completed", 5, 5)
    again = await sdk.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id)
    assert (again.id, again.status) == (batch.id, "completed")
    listed = [
        each async for each in sdk.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, limit=2)
    ]
    assert {each.id for each in listed} == set(ids)
    assert all(each.attributes == {"shared": "yes"} for each in listed)
    uploaded = await sdk.vector_stores.file_batches.upload_and_poll(
        store.id, files=[("a.txt", WHALES), ("b.txt", RAVENS)], poll_interval_ms=20
    )
    assert uploaded.file_counts.completed == 2
    assert (await sdk.vector_stores.retrieve(store.id)).file_counts.completed == 7


async def test_lists_are_read_page_by_page_in_both_orders(sdk: AsyncOpenAI) -> None:
    store = await sdk.vector_stores.create(name="pages")
    ids = [await upload(sdk, f"{number}.txt", f"File number {number} of many.".encode()) for number in range(5)]
    for each in ids:
        await sdk.vector_stores.files.create(store.id, file_id=each)
    assert [each.id async for each in sdk.files.list(limit=2)] == ids[::-1]
    assert [each.id async for each in sdk.files.list(limit=2, order="asc")] == ids
    files = sdk.vector_stores.files
    assert [each.id async for each in files.list(store.id, limit=2)] == ids[::-1]
    assert [each.id async for each in files.list(store.id, limit=3, order="asc")] == ids
    page = await files.list(store.id, order="asc", limit=2, after=ids[1])
    assert ([each.id for each in page.data], page.has_more) == (ids[2:4], True)
    last = await files.list(store.id, order="asc", limit=2, after=ids[3])
    assert ([each.id for each in last.data], last.has_more) == (ids[4:], False)
    both = await files.list(store.id, order="asc", after=ids[0], before=ids[3])
    assert [each.id for each in both.data] == ids[1:3]


async def test_a_file_leaves_a_store_and_is_not_found_there_any_more(sdk: AsyncOpenAI) -> None:
    store = await sdk.vector_stores.create(name="leaving")
    file_id = await upload(sdk, "jays.txt")
    await sdk.vector_stores.files.create_and_poll(file_id=file_id, vector_store_id=store.id, poll_interval_ms=20)
    content = [each async for each in sdk.vector_stores.files.content(file_id, vector_store_id=store.id)]
    assert "acorns" in (content[0].text or "")
    assert (await sdk.vector_stores.files.delete(file_id, vector_store_id=store.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await sdk.vector_stores.files.retrieve(file_id, vector_store_id=store.id)
    assert [each async for each in sdk.vector_stores.search(store.id, query="acorns")] == []
    assert (await sdk.files.retrieve(file_id)).id == file_id
    back = await sdk.vector_stores.files.create_and_poll(file_id=file_id, vector_store_id=store.id, poll_interval_ms=20)
    assert back.status == "completed"
    assert (await sdk.vector_stores.retrieve(store.id)).file_counts.total == 1


async def test_what_cannot_be_read_fails_with_a_reason(sdk: AsyncOpenAI) -> None:
    store = await sdk.vector_stores.create(name="unreadable")
    noise = bytes(range(32)) * 50
    bad = await sdk.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("noise.txt", noise), poll_interval_ms=20
    )
    assert bad.status == "failed"
    assert bad.last_error is not None
    assert bad.last_error.message
    failed = [each.id async for each in sdk.vector_stores.files.list(store.id, filter="failed")]
    assert failed == [bad.id]
    assert (await sdk.vector_stores.retrieve(store.id)).file_counts.failed == 1


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
async def test_assistants_are_kept(sdk: AsyncOpenAI) -> None:
    store = await sdk.vector_stores.create(name="for an assistant")
    made = await sdk.beta.assistants.create(
        model="gpt-upstream",
        name="Helper",
        instructions="Be kind.",
        tools=[{"type": "file_search"}],
        tool_resources={"file_search": {"vector_store_ids": [store.id]}},
    )
    assert (made.name, made.model, made.instructions) == ("Helper", "gpt-upstream", "Be kind.")
    assert made.tool_resources is not None
    assert made.tool_resources.file_search is not None
    assert made.tool_resources.file_search.vector_store_ids == [store.id]
    assert [tool.type for tool in made.tools] == ["file_search"]
    changed = await sdk.beta.assistants.update(made.id, name="Helper 2", metadata={"a": "b"})
    assert (changed.name, changed.metadata, changed.instructions) == ("Helper 2", {"a": "b"}, "Be kind.")
    assert [each.id async for each in sdk.beta.assistants.list()] == [made.id]
    assert (await sdk.beta.assistants.retrieve(made.id)).name == "Helper 2"
    assert (await sdk.beta.assistants.delete(made.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await sdk.beta.assistants.retrieve(made.id)


async def test_models_are_listed_and_embed(sdk: AsyncOpenAI) -> None:
    [model, *_] = [each async for each in sdk.models.list()]
    assert (await sdk.models.retrieve(model.id)).id == model.id
    made = await sdk.embeddings.create(model=model.id, input=["a jay", "a whale"])
    floats = await sdk.embeddings.create(model=model.id, input=["a jay", "a whale"], encoding_format="float")
    assert [each.index for each in made.data] == [0, 1]
    assert [each.embedding for each in made.data] == [pytest.approx(each.embedding) for each in floats.data]
    with pytest.raises(openai.NotFoundError):
        await sdk.models.retrieve("nobody")


async def test_unknown_ids_are_404_and_bad_values_400(sdk: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        await sdk.vector_stores.retrieve("vs_nobody")
    with pytest.raises(openai.NotFoundError):
        await sdk.vector_stores.files.create("vs_nobody", file_id="file-nobody")
    store = await sdk.vector_stores.create(name="empty")
    with pytest.raises(openai.NotFoundError):
        await sdk.vector_stores.files.create(store.id, file_id="file-nobody")
    with pytest.raises(openai.BadRequestError) as refused:
        await sdk.files.create(file=("a.txt", JAYS), purpose="gossip")  # type: ignore[arg-type]
    assert refused.value.param == "purpose"


async def test_many_clients_at_once_lose_nothing(sdk: AsyncOpenAI) -> None:
    store = await sdk.vector_stores.create(name="at once")

    async def add(number: int) -> str:
        file = await sdk.vector_stores.files.upload_and_poll(
            vector_store_id=store.id, file=(f"{number}.txt", f"Note {number} is about rivers.".encode()),
            poll_interval_ms=50,
        )  # fmt: skip
        return file.status

    assert await asyncio.gather(*(add(number) for number in range(12))) == ["completed"] * 12
    assert (await sdk.vector_stores.retrieve(store.id)).file_counts.completed == 12
