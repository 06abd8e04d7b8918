"""The embedded index: Qdrant's own engine on a folder that one Scrubjay owns.

The engine's binding stops every thread of its process while it works, for a minute when it optimizes. So it works in
a process of its own, and optimizes a copy of the shard in a second one, which then takes over.
"""

import asyncio
import shutil
from array import array
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from scrubjay.errors import ScrubjayError, Unavailable
from scrubjay.index.edge_folder import EdgeFolder
from scrubjay.index.edge_process import EdgeProcess
from scrubjay.index.payload import check_dimensions, chunk_uuids
from scrubjay.model.search import Hit, IndexPoint, KeywordQuery, PointStamp, SearchFilter
from scrubjay.storage.home import own_home
from scrubjay.telemetry import get_logger

# Small, because searches wait for the batch that is being written.
_BATCH = 32
_CATCH_UP_BATCH = 256
# Points that were written since the last time are searched one by one: this many cost a few milliseconds.
_UNOPTIMIZED_POINTS = 20_000
# In proportion to what is there, so that filling an index takes a few passes and not one per ten thousand.
_UNOPTIMIZED_SHARE = 0.5

log = get_logger(__name__)


class EdgeIndex:
    def __init__(self, path: Path, folder: EdgeFolder, dimensions: int, process: EdgeProcess, held: ExitStack) -> None:
        self.dimensions = dimensions
        self._path = path
        self._folder = folder
        self._process = process
        self._held = held
        self._write_turn = asyncio.Lock()
        self._start_turn = asyncio.Lock()
        self._optimize_turn = asyncio.Lock()
        self._touched: set[str] | None = None  # what was written since the copy was made that is being optimized
        self._unoptimized = 0
        self._background: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(cls, path: Path, dimensions: int) -> "EdgeIndex":
        with ExitStack() as stack:
            folder = await asyncio.to_thread(_take_folder, path, stack)
            process = await EdgeProcess.start(folder.current, dimensions)
            try:
                size = await process.ask("size")
            except BaseException:  # also when whoever opens it is told to stop: nobody else knows of the process
                await process.end()
                raise
            self = cls(path, folder, dimensions, process, stack.pop_all())
        self._note_writes(size - folder.optimized_points)
        return self

    async def upsert(self, points: Sequence[IndexPoint]) -> None:
        for point in points:
            check_dimensions(len(point.vector), self.dimensions)
        chunk_uuids(point.id for point in points)
        for start in range(0, len(points), _BATCH):
            batch = [replace(point, vector=array("f", point.vector)) for point in points[start : start + _BATCH]]
            await self._write([point.id for point in batch], "upsert", batch)

    async def delete(self, chunk_ids: Sequence[str]) -> None:
        chunk_uuids(chunk_ids)
        if chunk_ids:
            await self._write(chunk_ids, "delete", list(chunk_ids))

    async def _write(self, chunk_ids: Sequence[str], name: str, argument: Any) -> None:
        async with self._write_turn:
            if self._touched is not None:
                self._touched.update(chunk_ids)
            await self._ask(name, argument)
        self._note_writes(len(chunk_ids))

    async def stamps(self, tenant_id: str, document_id: str) -> Mapping[str, str]:
        return {each.id: each.stamp async for each in self._scroll((tenant_id, document_id))}

    async def scan(self) -> AsyncIterator[PointStamp]:
        async for each in self._scroll(None):
            yield each

    async def _scroll(self, of_document: tuple[str, str] | None) -> AsyncIterator[PointStamp]:
        offset = None
        while True:
            stamps, offset = await self._ask("scroll", of_document, offset)
            for each in stamps:
                yield each
            if offset is None:
                return

    async def search_vector(self, vector: Sequence[float], where: SearchFilter, limit: int) -> list[Hit]:
        check_dimensions(len(vector), self.dimensions)
        return [Hit._make(each) for each in await self._ask("search_vector", array("f", vector), where, limit)]

    async def search_keywords(
        self, query: KeywordQuery, where: SearchFilter, limit: int, near: Sequence[float] | None = None
    ) -> list[Hit]:
        vector = None if near is None else array("f", near)
        return [Hit._make(each) for each in await self._ask("search_keywords", query, where, limit, vector)]

    async def count(self, where: SearchFilter) -> int:
        number: int = await self._ask("count", where)
        return number

    async def check(self) -> None:
        await self._ask("size")

    async def optimize(self) -> None:
        async with self._optimize_turn:
            unoptimized, self._unoptimized = self._unoptimized, 0
            try:
                if await self._ask("is_small"):
                    await self._ask("optimize")
                else:
                    await self._optimize_copy()
            except BaseException:
                self._unoptimized += unoptimized
                raise

    async def _optimize_copy(self) -> None:
        target = self._folder.next
        successor = None
        try:
            async with self._write_turn:
                self._touched = set()
                await self._ask("copy_to", target)
            successor = await EdgeProcess.start(target, self.dimensions)
            await successor.ask("optimize")
            while len(self._touched) > _CATCH_UP_BATCH:
                await self._catch_up(successor)
            async with self._write_turn:
                await self._catch_up(successor)
                old_path = await asyncio.to_thread(self._folder.switch, await successor.ask("size"))
                old, self._process = self._process, successor
        except BaseException:
            if successor is not None:
                await successor.end()
            await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
            raise
        finally:
            self._touched = None
        await old.close()
        await asyncio.to_thread(shutil.rmtree, old_path, ignore_errors=True)

    async def _catch_up(self, successor: EdgeProcess) -> None:
        """Bring what was written meanwhile into the optimized copy, as it is now."""
        touched, self._touched = list(self._touched or ()), set()
        for start in range(0, len(touched), _CATCH_UP_BATCH):
            batch = touched[start : start + _CATCH_UP_BATCH]
            await successor.ask("replace", batch, await self._ask("export", batch))

    def _note_writes(self, number: int) -> None:
        self._unoptimized += max(number, 0)
        enough = max(_UNOPTIMIZED_POINTS, _UNOPTIMIZED_SHARE * self._folder.optimized_points)
        if self._unoptimized >= enough and (self._background is None or self._background.done()):
            self._background = asyncio.create_task(self._optimize_unasked())

    async def _optimize_unasked(self) -> None:
        try:
            await self.optimize()
        except (ScrubjayError, OSError) as error:
            log.warning("the index could not be optimized; searches may be slow", reason=str(error))

    async def drop(self) -> None:
        await self._stop(EdgeProcess.end)
        await asyncio.to_thread(shutil.rmtree, self._path, ignore_errors=True)

    async def close(self) -> None:
        await self._stop(EdgeProcess.close)

    async def _stop(self, how: Any) -> None:
        """End the process and give the folder free. A copy that is being optimized is thrown away."""
        if self._closed:
            return
        self._closed = True
        if self._background is not None:
            self._background.cancel()
            await asyncio.gather(self._background, return_exceptions=True)
        stopping: Coroutine[Any, Any, None] = how(self._process)
        await stopping
        self._held.close()

    async def _ask(self, name: str, *arguments: Any) -> Any:
        if self._closed:
            raise Unavailable("The search index is closed.")
        if not self._process.alive:
            async with self._start_turn:
                if not self._process.alive:
                    await self._process.end()
                    self._process = await EdgeProcess.start(self._folder.current, self.dimensions)
        return await self._process.ask(name, *arguments)


def _take_folder(path: Path, stack: ExitStack) -> EdgeFolder:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    stack.enter_context(own_home(path))
    folder = EdgeFolder(path)
    folder.open()
    return folder
