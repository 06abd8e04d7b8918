"""Files added to vector stores by a process that is killed with -9: afterwards store, documents and index agree."""

import asyncio
import random
from pathlib import Path

import pytest
from openai import APIError, AsyncOpenAI
from sqlalchemy import select
from tests.acceptance.command_line import Server, serving
from tests.workshop import on_sqlite, wait_until

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.index.consistency import Consistency
from scrubjay.model.tenant import Principal
from scrubjay.openai.ids import collection_id_of
from scrubjay.settings import Settings
from scrubjay.storage.documents import DocumentRow

ROUNDS = 8
FILES = 12
LONGEST_SECONDS = 1.2  # before the kill: while files are uploaded, added, read or indexed, and sometimes after it


async def add_until_killed(server: Server, home: Path, number: int, seconds: float) -> None:
    """Upload, add, replace and delete as fast as it goes, while somebody else pulls the plug."""
    key = (home / "admin.key").read_text().strip()

    async def work() -> None:
        async with AsyncOpenAI(base_url=f"{server.address}/openai/v1", api_key=key, max_retries=0) as client:
            store = await client.vector_stores.create(name=f"round {number}")
            for each in range(FILES):
                text = f"Round {number}, note {each}: the jay hides acorns and remembers. ".encode() * 5
                file = await client.files.create(file=(f"{each}.txt", text), purpose="assistants")
                await client.vector_stores.files.create(store.id, file_id=file.id, attributes={"each": each})
                if each % 4 == 3:
                    await client.vector_stores.files.delete(file.id, vector_store_id=store.id)
            ids = [file.id async for file in client.files.list(limit=FILES)]
            await client.vector_stores.file_batches.create(store.id, file_ids=ids)

    task = asyncio.create_task(work())
    await asyncio.wait([task], timeout=seconds)
    server.process.kill()
    server.process.wait(10)
    try:
        await task
    except APIError:
        return  # as it should be, unless everything was done in time


@pytest.mark.slow
@pytest.mark.timeout(300)
@on_sqlite
async def test_kills_while_files_are_added_leave_stores_documents_and_index_equal(
    home: Path, settings: Settings
) -> None:
    chance = random.Random(20261117)
    for number in range(ROUNDS):
        with serving(home, SCRUBJAY_EXTRACT_PROCESSES="1", SCRUBJAY_JOB_POLL_SECONDS="0.1") as server:
            # The last one has the time that it needs, however busy the machine is.
            patience = chance.uniform(0.05, LONGEST_SECONDS) if number < ROUNDS - 1 else 60.0
            await add_until_killed(server, home, number, patience)
    async with open_scrubjay(settings.model_copy(update={"extract_processes": 1}), working=True) as jay:
        who = await jay.access.open_as_admin(home)

        async def is_settled() -> bool:
            jay.indexer.wake()
            stores = await jay.inventory.all_vector_stores(who)
            waiting = (await Consistency(jay.database, jay.catalog).compare()).waiting
            return not waiting and all(store["status"] == "completed" for store in stores)

        await wait_until(is_settled, "every file has a final status", seconds=60, pause=0.1)
        await compare(jay, who)


async def compare(jay: Scrubjay, who: Principal) -> None:
    """Each file of each store is a document, each document a file, and the index has all of them and no more."""
    stores = await jay.inventory.all_vector_stores(who)
    assert stores
    uploaded = {item["id"] for item in await jay.inventory.all_files(who)}
    added = 0
    for store in stores:
        files = await jay.inventory.all_store_files(who, store["id"])
        assert {item["status"] for item in files} <= {"completed"}
        assert {item["id"] for item in files} <= uploaded
        async with jay.database.reading() as connection:
            rows = await connection.execute(
                select(DocumentRow.id).where(
                    DocumentRow.collection_id == collection_id_of(store["id"]), DocumentRow.is_purging.is_(False)
                )
            )
            assert len(list(rows)) == len(files) == store["file_counts"]["total"]
        added += len(files)
    assert added > FILES
    found = await Consistency(jay.database, jay.catalog).compare()
    assert (found.missing, found.different, found.extra) == (0, 0, [])
