"""What only the embedded index must do: own its folder, survive kills, and optimize while others work."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_edge import Point, SparseVector, UpdateOperation
from tests import indexes
from tests.contract.test_index import EVERYTHING, TENANT, find_words, make_point

from scrubjay.errors import Conflict, HomeInUse, IndexCorrupt, Unavailable
from scrubjay.index import edge
from scrubjay.index.edge import EdgeIndex
from scrubjay.index.edge_process import EdgeProcess
from scrubjay.index.edge_schema import create_shard
from scrubjay.index.payload import DENSE, WORDS
from scrubjay.model.ids import new_uuid
from scrubjay.model.search import IndexPoint

DIMENSIONS = 64


@pytest.fixture
async def folder() -> AsyncIterator[Path]:
    with indexes.fast_folder() as folder:
        yield folder / "index"


def spread_points(number: int) -> list[IndexPoint]:
    chance = random.Random(number)
    return [make_point(f"text {at}", vector=[chance.gauss(0, 1) for _ in range(DIMENSIONS)]) for at in range(number)]


async def test_a_second_owner_is_told_who_the_first_is(folder: Path) -> None:
    first = await EdgeIndex.open(folder, 4)
    with pytest.raises(HomeInUse, match=str(os.getpid())):
        await EdgeIndex.open(folder, 4)
    await first.close()
    await (await EdgeIndex.open(folder, 4)).close()


async def test_a_folder_of_other_dimensions_is_refused(folder: Path) -> None:
    await (await EdgeIndex.open(folder, 4)).close()

    with pytest.raises(Conflict, match="dimensions, not 5"):
        await EdgeIndex.open(folder, 5)
    await (await EdgeIndex.open(folder, 4)).close()


@pytest.mark.parametrize("victim", ["segment", "pointer", "config"])
async def test_a_corrupt_folder_says_how_it_is_built_again(folder: Path, victim: str) -> None:
    index = await EdgeIndex.open(folder, 4)
    await index.upsert([make_point()])
    await index.close()
    (folder / "current.json").touch()
    if victim == "pointer":
        (folder / "current.json").write_text("{")
    else:
        (folder / "current.json").write_text('{"shard": 0, "optimized_points": 0}')
    if victim == "config":
        (folder / "shard-0" / "edge_config.json").write_text("junk")
    if victim == "segment":
        for path in (folder / "shard-0" / "segments").rglob("*.*"):
            path.write_bytes(b"junk")

    with pytest.raises(IndexCorrupt, match="reindex"):
        await EdgeIndex.open(folder, 4)


async def test_a_folder_that_an_older_version_filled_is_not_taken_for_an_empty_one(folder: Path) -> None:
    await (await EdgeIndex.open(folder, 4)).close()
    shutil.rmtree(folder / "shard-0")
    shard = create_shard(folder / "shard-0", 4)
    words = SparseVector(indices=[1], values=[1.0])
    point = Point(new_uuid(), {DENSE: [1.0, 0.0, 0.0, 0.0], WORDS: words}, {"tenant_id": TENANT})
    shard.update(UpdateOperation.upsert_points([point]))
    shard.close()

    with pytest.raises(IndexCorrupt, match=r"older Scrubjay.*reindex"):
        await EdgeIndex.open(folder, 4)


async def test_what_was_answered_survives_kill_9(folder: Path) -> None:
    script = f"""
        import asyncio, os, sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from tests.contract.test_index import make_point
        from scrubjay.index.edge import EdgeIndex

        async def main():
            index = await EdgeIndex.open(Path({str(folder)!r}), 4)
            points = [make_point(f"text {{number}}") for number in range(100)]
            await index.upsert(points)
            await index.delete([points[0].id])
            print("written", flush=True)
            os.kill(os.getpid(), 9)

        asyncio.run(main())
    """
    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert ended.stdout == "written\n"

    index = await EdgeIndex.open(folder, 4)
    found = [each.tenant_id async for each in index.scan()]
    await index.close()

    assert len(found) == 99


async def test_a_killed_engine_is_started_again_with_everything(folder: Path) -> None:
    index = await EdgeIndex.open(folder, 4)
    await index.upsert([make_point("text"), make_point("text")])
    index._process._process.kill()
    with pytest.raises(Unavailable, match="process"):
        await asyncio.gather(*(index.check() for _ in range(3)))

    assert await index.count(EVERYTHING) == 2
    await index.close()


async def test_optimizing_goes_on_beside_writes_and_searches_and_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge, "_CATCH_UP_BATCH", 40)
    index = await EdgeIndex.open(folder, DIMENSIONS)
    base = spread_points(600)
    await index.upsert(base)
    # So few points would be optimized on the spot.
    optimizing = asyncio.create_task(index._optimize_copy())
    added, removed = [], []
    while not optimizing.done():
        point = make_point("text late", vector=[1.0] * DIMENSIONS)
        await index.upsert([point])
        added.append(point.id)
        removed.append(base[len(removed)].id)
        await index.delete([removed[-1]])
        assert len(await find_words(index, "late")) == min(len(added), 100)
    await optimizing

    assert (folder / "shard-1").is_dir()
    assert not (folder / "shard-0").exists()
    assert {each.id async for each in index.scan()} == {p.id for p in base} - set(removed) | set(added)
    await index.close()
    reopened = await EdgeIndex.open(folder, DIMENSIONS)
    assert await reopened.count(EVERYTHING) == len(base) - len(removed) + len(added)
    await reopened.close()


async def test_many_writes_are_optimized_unasked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "_UNOPTIMIZED_POINTS", 50)
    optimized = asyncio.Event()
    index = await EdgeIndex.open(folder, DIMENSIONS)
    original = index.optimize

    async def optimize() -> None:
        await original()
        optimized.set()

    monkeypatch.setattr(index, "optimize", optimize)
    await index.upsert(spread_points(60))
    async with asyncio.timeout(20):
        await optimized.wait()
    await index.close()


async def test_the_event_loop_goes_on_while_the_engine_works(folder: Path) -> None:
    index = await EdgeIndex.open(folder, DIMENSIONS)
    gaps = []

    async def tick() -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.005)
            gaps.append(loop.time() - before)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    await index.upsert(spread_points(500))
    ticking.cancel()
    await index.close()

    assert sorted(gaps)[len(gaps) // 2] < 0.1


async def test_leftovers_of_an_unfinished_optimization_are_removed(folder: Path) -> None:
    index = await EdgeIndex.open(folder, 4)
    await index.upsert([make_point()])
    await index.close()
    (folder / "shard-1").mkdir()

    again = await EdgeIndex.open(folder, 4)

    assert await again.count(EVERYTHING) == 1
    assert not (folder / "shard-1").exists()
    await again.close()


async def test_an_opening_that_is_stopped_leaves_no_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: asyncio.Future[EdgeProcess] = asyncio.get_running_loop().create_future()

    def ask_in_vain(process: EdgeProcess, *_: Any) -> asyncio.Future[Any]:
        asked.set_result(process)
        return asyncio.get_running_loop().create_future()

    monkeypatch.setattr(EdgeProcess, "ask", ask_in_vain)
    opening = asyncio.create_task(EdgeIndex.open(folder, 4))
    process = await asked
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert process._process.returncode is not None
