"""An indexer that stops, or was killed: it ends, and nobody waits for what it had leased."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.library import open_library

from scrubjay.errors import Unavailable
from scrubjay.model.content import Document
from scrubjay.settings import Settings


async def test_a_stopped_indexer_hands_back_what_it_had_leased(settings: Settings) -> None:
    async with open_library(settings) as library:
        who = await library.tenant("birds")
        added = await library.add(who, "https://jay.example/a", "Jays hide acorns.")
        reached = asyncio.Event()

        async def wait_for_ever(*_: object) -> None:
            reached.set()
            await asyncio.Event().wait()

        stopped = library.new_indexer()
        stopped._bring_up = wait_for_ever  # type: ignore[method-assign]
        stopped.start()
        await reached.wait()
        await stopped.stop()

        await library.indexer.drain()
        document = await library.document(added.document_id)
        assert document is not None
        assert document.is_found


async def test_what_could_not_be_settled_is_handed_back_at_once(settings: Settings) -> None:
    async with open_library(settings) as library:
        who = await library.tenant("birds")
        added = await library.add(who, "https://jay.example/a", "Jays hide acorns.")
        indexer = library.new_indexer()
        settle = indexer._settle

        async def fail_once(documents: Sequence[Document]) -> None:
            indexer._settle = settle  # type: ignore[method-assign]
            raise Unavailable("The database hung up.")

        indexer._settle = fail_once  # type: ignore[method-assign]
        with pytest.raises(Unavailable, match="hung up"):
            await indexer.step()

        assert await indexer.step() == 1
        document = await library.document(added.document_id)
        assert document is not None
        assert document.is_found


async def test_an_owner_takes_over_what_a_killed_indexer_had_leased(settings: Settings) -> None:
    async with open_library(settings) as library:
        who = await library.tenant("birds")
        added = await library.add(who, "https://jay.example/a", "Jays hide acorns.")
        killed = library.new_indexer()

        async def be_killed(*_: object) -> None:
            raise KeyboardInterrupt

        killed._follow = be_killed  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            await killed.step()

        await library.indexer.drain()
        leased = await library.document(added.document_id)
        await library.indexer.take_over()
        await library.indexer.drain()
        free = await library.document(added.document_id)
        assert leased is not None
        assert free is not None
        assert (leased.is_found, free.is_found) == (False, True)


async def test_stop_ends_an_indexer_that_a_cancellation_did_not_reach(settings: Settings) -> None:
    async with open_library(settings) as library:
        indexer = library.new_indexer()
        reached = asyncio.Event()

        async def swallow() -> int:
            reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return 0
            return 1

        indexer.step = swallow  # type: ignore[method-assign]
        indexer.start()
        await reached.wait()

        async with asyncio.timeout(10):
            await indexer.stop()
        assert indexer.is_stopped
