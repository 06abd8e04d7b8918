"""What is particular to an inventory on our own documents: crawled content, two stores, batches, what is left."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from sqlalchemy import delete, func, select, update
from tests.acceptance.house import House, Key
from tests.acceptance.openai_door.conftest import Served
from tests.workshop import wait_until

from scrubjay.index.consistency import Consistency
from scrubjay.model.clock import utc_now
from scrubjay.model.ids import id_from_uuid
from scrubjay.model.job import JobState
from scrubjay.openai.ids import collection_id_of, store_id_of
from scrubjay.openai.protocol import StoreFile
from scrubjay.storage.chunks import ChunkRow
from scrubjay.storage.collections import CollectionRow
from scrubjay.storage.documents import DocumentRow
from scrubjay.storage.inventory import VectorStoreFileRow
from scrubjay.storage.jobs import JobRow

pytestmark = pytest.mark.asyncio(loop_scope="module")

JAYS = b"The scrub jay hides acorns in autumn and remembers every cache."


@pytest_asyncio.fixture(loop_scope="module")
async def house(local: Served) -> House:
    return local.house


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def index_agrees(local: Served) -> AsyncIterator[None]:
    """After every test, the index holds what the documents say, and nothing else."""
    yield
    jay = local.house.jay

    async def settled() -> bool:
        jay.indexer.wake()
        return (await Consistency(jay.database, jay.catalog).compare()).waiting == 0

    await wait_until(settled, "nothing waits to be indexed", pause=0.1)
    found = await Consistency(jay.database, jay.catalog).compare()
    assert (found.missing, found.different, found.extra) == (0, 0, [])


async def add(client: AsyncOpenAI, store_id: str, name: str, content: bytes = JAYS, **options: Any) -> str:
    file = await client.files.create(file=(name, content), purpose="assistants")
    added = await client.vector_stores.files.create_and_poll(
        file.id, vector_store_id=store_id, poll_interval_ms=20, **options
    )
    assert added.status == "completed", added.last_error
    return file.id


async def found_in(client: AsyncOpenAI, store_id: str, query: str = "acorns") -> list[str]:
    return [each.file_id async for each in client.vector_stores.search(store_id, query=query)]


async def documents_of(house: House, key: Key) -> int:
    async with house.jay.database.reading() as connection:
        who = await house.jay.access.recognise(key.text)
        return int(await connection.scalar(select(func.count()).where(DocumentRow.tenant_id == who.tenant_id)) or 0)


async def crawled(house: House, key: Key, store_id: str, text: str = JAYS.decode()) -> str:
    """A document that came into the collection through another door; returns its id as a file."""
    collection = collection_id_of(store_id)
    made = await house.api(
        "POST", "/documents", key, status=201,
        json={"content": text, "url": "https://birds.example/jays", "title": "Jays", "collection_id": collection},
    )  # fmt: skip
    return f"file-d{id_from_uuid('adoc', UUID(made['id']))[-26:]}"


async def test_crawled_documents_are_files_of_their_collections_store(
    client: AsyncOpenAI, house: House, owner: Key
) -> None:
    store = await client.vector_stores.create(name="crawled")
    file_id = await crawled(house, owner, store.id)
    [listed] = [each async for each in client.vector_stores.files.list(store.id)]
    assert (listed.id, listed.status) == (file_id, "completed")
    assert (await client.files.retrieve(file_id)).filename == "https://birds.example/jays"
    assert JAYS in (await client.files.content(file_id)).content
    [result] = [each async for each in client.vector_stores.search(store.id, query="acorns")]
    assert (result.file_id, result.filename) == (file_id, "https://birds.example/jays")
    await client.vector_stores.files.update(file_id, vector_store_id=store.id, attributes={"source": "web"})
    filters: Any = {"type": "eq", "key": "source", "value": "web"}
    assert [e.file_id async for e in client.vector_stores.search(store.id, query="acorns", filters=filters)] == [
        file_id
    ]
    assert (await client.vector_stores.retrieve(store.id)).file_counts.completed == 1
    await client.vector_stores.files.delete(file_id, vector_store_id=store.id)
    assert await found_in(client, store.id) == []
    assert (await client.vector_stores.retrieve(store.id)).file_counts.total == 0


async def test_a_crawled_document_is_replicated_under_its_own_id_and_only_once(
    client: AsyncOpenAI, house: House, owner: Key
) -> None:
    source, target = [await client.vector_stores.create(name=name) for name in ("source", "target")]
    file_id = await crawled(house, owner, source.id)
    who = await house.jay.access.recognise(owner.text)
    for expected in ([file_id], []):
        outcome = await house.jay.inventory.replicate(who, [source.id], [target.id])
        assert outcome[target.id].added == expected
    copy = await client.vector_stores.files.poll(file_id, vector_store_id=target.id, poll_interval_ms=20)
    assert copy.status == "completed"
    assert await found_in(client, target.id) == await found_in(client, source.id) == [file_id]
    await client.files.delete(file_id)
    assert await found_in(client, target.id) == await found_in(client, source.id) == []


async def test_a_file_in_two_stores_is_two_documents_and_one_original(
    client: AsyncOpenAI, house: House, owner: Key
) -> None:
    first, second = [await client.vector_stores.create(name=name) for name in ("first", "second")]
    file_id = await add(client, first.id, "jays.txt")
    await client.vector_stores.files.create_and_poll(file_id, vector_store_id=second.id, poll_interval_ms=20)
    assert await found_in(client, first.id) == await found_in(client, second.id) == [file_id]
    assert await documents_of(house, owner) == 2
    await client.vector_stores.files.delete(file_id, vector_store_id=first.id)
    assert (await found_in(client, first.id), await found_in(client, second.id)) == ([], [file_id])
    assert (await client.files.content(file_id)).content == JAYS
    await client.files.delete(file_id)
    assert await found_in(client, second.id) == []

    async def is_clean() -> bool:
        return await documents_of(house, owner) == 0

    await wait_until(is_clean, "the documents are gone")


async def test_two_files_of_one_name_are_two_and_one_added_twice_is_one(
    client: AsyncOpenAI, house: House, owner: Key
) -> None:
    store = await client.vector_stores.create(name="names")
    first = await add(client, store.id, "same.txt", b"Acorns are hidden by jays.")
    second = await add(client, store.id, "same.txt", b"Acorns are eaten by squirrels.")
    assert sorted(await found_in(client, store.id)) == sorted([first, second])
    await asyncio.gather(*(client.vector_stores.files.create(store.id, file_id=first) for _ in range(5)))
    assert (await client.vector_stores.retrieve(store.id)).file_counts.total == 2
    assert await documents_of(house, owner) == 2


async def test_chunks_are_as_large_as_was_asked_for(client: AsyncOpenAI, house: House, owner: Key) -> None:
    store = await client.vector_stores.create(name="chunks")
    text = " ".join(f"Sentence {number} says something about the river." for number in range(200)).encode()
    strategy: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 20}}
    small = await add(client, store.id, "small.txt", text, chunking_strategy=strategy)
    usual = await add(client, store.id, "usual.txt", text + b" The end.")
    files = client.vector_stores.files
    assert (await files.retrieve(small, vector_store_id=store.id)).chunking_strategy.to_dict() == strategy  # type: ignore[union-attr]
    static = (await files.retrieve(usual, vector_store_id=store.id)).chunking_strategy.to_dict()  # type: ignore[union-attr]
    assert static["static"] == {"max_chunk_size_tokens": 512, "chunk_overlap_tokens": 50}
    async with house.jay.database.reading() as connection:
        rows = await connection.execute(
            select(VectorStoreFileRow.file_id, func.count(), func.max(ChunkRow.token_count))
            .join(ChunkRow, ChunkRow.document_id == VectorStoreFileRow.document_id)
            .where(VectorStoreFileRow.file_id.in_([f"file_{each.removeprefix('file-')}" for each in (small, usual)]))
            .group_by(VectorStoreFileRow.file_id)
        )
        sizes = {row[0]: (row[1], row[2]) for row in rows}
    small_count, small_largest = sizes[f"file_{small.removeprefix('file-')}"]
    usual_count, _ = sizes[f"file_{usual.removeprefix('file-')}"]
    assert small_largest <= 100
    assert small_count > usual_count * 3
    # Added again to be cut otherwise, it is cut otherwise.
    await files.create_and_poll(usual, vector_store_id=store.id, chunking_strategy=strategy, poll_interval_ms=20)

    async def is_cut_anew() -> bool:
        seen = await files.retrieve(usual, vector_store_id=store.id)
        return seen.chunking_strategy is not None and seen.chunking_strategy.to_dict() == strategy

    await wait_until(is_cut_anew, "the file is cut as was asked")


async def test_a_cancelled_batch_has_read_some_files_and_never_reads_the_rest(
    client: AsyncOpenAI, house: House
) -> None:
    store = await client.vector_stores.create(name="cancelled")
    ids = [
        (await client.files.create(file=(f"{n}.txt", f"Note {n} about acorns.".encode()), purpose="assistants")).id
        for n in range(60)
    ]
    batch = await client.vector_stores.file_batches.create(store.id, file_ids=ids)
    assert (batch.status, batch.file_counts.total) == ("in_progress", 60)
    cancelled = await client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
    assert cancelled.status == "cancelled"
    assert cancelled.file_counts.cancelled > 0

    async def is_settled() -> bool:
        seen = await client.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id)
        return seen.file_counts.in_progress == 0

    await wait_until(is_settled, "no file is in progress")
    await asyncio.sleep(0.5)
    counts = (await client.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id)).file_counts
    assert (counts.completed + counts.cancelled, counts.failed) == (60, 0)
    assert counts.cancelled > 0
    unread = [
        each.id
        async for each in client.vector_stores.file_batches.list_files(
            batch.id, vector_store_id=store.id, filter="cancelled", limit=100
        )
    ]
    found = [e.file_id async for e in client.vector_stores.search(store.id, query="acorns", max_num_results=50)]
    assert not set(found) & set(unread)
    again = await client.vector_stores.file_batches.create_and_poll(store.id, file_ids=unread[:3], poll_interval_ms=20)
    assert again.file_counts.completed == 3


async def test_a_file_that_is_deleted_while_it_is_read_does_not_come_back(
    client: AsyncOpenAI, house: House, owner: Key
) -> None:
    store = await client.vector_stores.create(name="deleted")
    ids = [
        (await client.files.create(file=(f"{n}.txt", f"Note {n} about acorns.".encode()), purpose="assistants")).id
        for n in range(10)
    ]
    batch = await client.vector_stores.file_batches.create(store.id, file_ids=ids)
    for each in ids[3:]:
        await client.files.delete(each)
    done = await client.vector_stores.file_batches.poll(batch.id, vector_store_id=store.id, poll_interval_ms=20)
    assert (done.status, done.file_counts.completed, done.file_counts.total) == ("completed", 3, 3)

    async def is_clean() -> bool:
        house.jay.indexer.wake()
        return await documents_of(house, owner) == 3

    await wait_until(is_clean, "only three documents are left")
    await asyncio.sleep(0.3)
    assert await documents_of(house, owner) == 3
    assert sorted(await found_in(client, store.id)) == sorted(ids[:3])


async def test_a_deleted_store_takes_its_vectors_and_leaves_files_and_crawled_documents(
    client: AsyncOpenAI, house: House, owner: Key
) -> None:
    store = await client.vector_stores.create(name="leaving")
    file_id = await add(client, store.id, "whales.txt", b"The whale eats krill.")
    await crawled(house, owner, store.id)
    await client.vector_stores.delete(store.id)

    async def only_the_crawled_one_is_left() -> bool:
        house.jay.indexer.wake()
        return await documents_of(house, owner) == 1

    await wait_until(only_the_crawled_one_is_left, "the file's document is gone")
    assert (await client.files.retrieve(file_id)).id == file_id
    listed = await house.api("GET", "/documents", owner)
    assert [(item["url"], item["collection_id"]) for item in listed["items"]] == [("https://birds.example/jays", None)]


async def test_names_need_not_be_unique_nor_plain(client: AsyncOpenAI, house: House, owner: Key) -> None:
    names = ["Same", "Same", "Ümlaut/鳥 🦜", "", "x" * 256]
    made = [await client.vector_stores.create(name=name) for name in names]
    assert [each.name for each in made] == names
    assert [each.name async for each in client.vector_stores.list(order="asc")] == names
    collections = (await house.api("GET", "/collections", owner))["collections"]
    assert len({item["name"] for item in collections}) == len(names)
    renamed = await client.vector_stores.update(made[0].id, name="Ümlaut/鳥 🦜")
    assert renamed.name == "Ümlaut/鳥 🦜"
    other = await house.api("POST", "/collections", owner, status=201, json={"name": "plain"})
    store_id = store_id_of(id_from_uuid("coll", UUID(other["id"])))
    assert (await client.vector_stores.retrieve(store_id)).name == "plain"


async def test_an_expired_store_says_so_and_is_not_searched(client: AsyncOpenAI, house: House) -> None:
    store = await client.vector_stores.create(name="short", expires_after={"anchor": "last_active_at", "days": 1})
    assert store.expires_at is not None
    assert store.expires_at - (store.last_active_at or 0) == 86_400
    async with house.jay.database.writing() as connection:
        await connection.execute(
            update(CollectionRow)
            .where(CollectionRow.id == collection_id_of(store.id))
            .values(last_active_at=utc_now() - timedelta(days=2))
        )
    assert (await client.vector_stores.retrieve(store.id)).status == "expired"
    with pytest.raises(openai.BadRequestError, match="expired"):
        await found_in(client, store.id)


async def test_files_whose_job_failed_fail_and_can_be_added_again(
    client: AsyncOpenAI, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await client.vector_stores.create(name="abandoned")
    file = await client.files.create(file=("jays.txt", JAYS), purpose="assistants")
    with monkeypatch.context() as patch:
        patch.setattr("scrubjay.openai.adding.INGEST_KIND", "what no worker knows")
        added = await client.vector_stores.files.create(store.id, file_id=file.id)
    assert added.status == "in_progress"
    assert (await client.vector_stores.retrieve(store.id)).status == "in_progress"
    for change in (
        update(JobRow).where(JobRow.kind == "what no worker knows").values(state=JobState.FAILED),
        delete(JobRow).where(JobRow.kind == "what no worker knows"),
    ):
        async with house.jay.database.writing() as connection:
            await connection.execute(change)
        failed = await client.vector_stores.files.retrieve(file.id, vector_store_id=store.id)
        assert (failed.status, failed.last_error and failed.last_error.code) == ("failed", "server_error")
    again = await client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=20)
    assert again.status == "completed"


async def test_a_file_that_is_too_large_to_be_read_is_kept_and_fails_in_a_store(client: AsyncOpenAI) -> None:
    store = await client.vector_stores.create(name="large")
    large = await client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("large.txt", b"acorns and jays\n" * (51 * 1024**2 // 16)), poll_interval_ms=50
    )
    assert (large.status, large.last_error and large.last_error.code) == ("failed", "invalid_file")


async def test_filters_pick_from_more_files_than_the_index_is_asked_for_by_name(
    client: AsyncOpenAI, house: House, owner: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.openai.searching.MAX_FILTERED", 3)
    monkeypatch.setattr("scrubjay.openai.searching.PAGE", 2)
    store = await client.vector_stores.create(name="many")
    who = await house.jay.access.recognise(owner.text)
    ids = []
    for number in range(12):
        content = f"Note number {number} is about acorns and little else, in words of its own: {'x' * number}.".encode()
        file = await client.files.create(file=(f"{number}.txt", content), purpose="assistants")
        ids.append(StoreFile(file_id=file.id, attributes={"even": number % 2 == 0, "number": number}))
    batch = await house.jay.inventory.create_batch(who, store.id, ids)
    await client.vector_stores.file_batches.poll(batch["id"], vector_store_id=store.id, poll_interval_ms=20)

    async def found(**filters: Any) -> set[str]:
        given: Any = filters
        return {
            each.file_id
            async for each in client.vector_stores.search(store.id, query="acorns", filters=given, max_num_results=50)
        }

    assert await found(type="eq", key="even", value=True) == {each.file_id for each in ids[::2]}
    assert await found(type="ne", key="even", value=True) == {each.file_id for each in ids[1::2]}
    assert await found(type="gte", key="number", value=10) == {each.file_id for each in ids[10:]}
