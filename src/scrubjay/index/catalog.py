"""Generations of the index: which one serves, which one is being built, and the embedder of each.

A generation holds the vectors of one model only. Another model means another generation, filled in the background
and then switched to; so whatever is asked for, query and vectors are always of the same model.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scrubjay.errors import IndexElsewhere, Unavailable
from scrubjay.index.embedder import Embedder
from scrubjay.index.index import Index
from scrubjay.model.clock import utc_now
from scrubjay.model.content import GenerationState, IndexGeneration
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.database import Database
from scrubjay.storage.generations import Generations
from scrubjay.telemetry import get_logger

LOOK_SECONDS = 1.0  # how old the knowledge of which generation serves may be

OpenIndex = Callable[[str, int], Awaitable[Index]]  # generation, dimensions
OpenEmbedder = Callable[[Mapping[str, Any]], Awaitable[Embedder]]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Served:
    """A generation that is open here."""

    generation: IndexGeneration
    index: Index
    embedder: Embedder


class IndexCatalog:
    """Opens generations and their embedders once, and notices when another process switches."""

    def __init__(
        self,
        database: Database,
        wanted: Mapping[str, Any],
        open_index: OpenIndex,
        open_embedder: OpenEmbedder,
        place: str | None = None,
    ) -> None:
        self._database = database
        self._place = place
        self._wanted = json.dumps(wanted, sort_keys=True)
        self._open_index = open_index
        self._open_embedder = open_embedder
        self._indexes: dict[str, Index] = {}
        self._embedders: dict[str, Embedder] = {}
        self._known: list[IndexGeneration] = []
        self._looked_at = 0.0
        self._opening = asyncio.Lock()

    async def start(self) -> None:
        """See that there is a generation that serves."""
        if self._live(await self._look(fresh=True)) is not None:
            return
        embedder = await self.wanted_embedder()
        async with self._database.writing() as connection:
            generations = Generations(connection)
            if self._live(await generations.all()) is None:
                await generations.add(
                    IndexGeneration(
                        embedder=self._wanted,
                        model=embedder.model,
                        dimensions=embedder.dimensions,
                        place=self._place,
                        state=GenerationState.LIVE,
                        live_at=utc_now(),
                    )
                )
        await self._look(fresh=True)

    @staticmethod
    def _live(generations: list[IndexGeneration] | Any) -> IndexGeneration | None:
        live = [each for each in generations if each.state is GenerationState.LIVE]
        return live[-1] if live else None

    async def _look(self, *, fresh: bool = False) -> list[IndexGeneration]:
        if fresh or time.monotonic() - self._looked_at > LOOK_SECONDS:
            async with self._database.reading() as connection:
                self._known = list(await Generations(connection).all())
            self._looked_at = time.monotonic()
            await self._let_go()
        return self._known

    async def _let_go(self) -> None:
        """Close what is not served any more."""
        alive = {each.id for each in self._known if each.state is not GenerationState.RETIRED}
        for name in [name for name in self._indexes if name not in alive]:
            await self._indexes.pop(name).close()

    async def wanted_embedder(self) -> Embedder:
        """The embedder that the settings ask for; chunks are measured by it."""
        return await self._embedder(self._wanted)

    async def live(self) -> Served:
        live = self._live(await self._look())
        if live is None:
            raise Unavailable("There is no index yet; start a Scrubjay that works on this data.")
        return await self._open(live)

    async def open_all(self) -> list[Served]:
        """Every generation that must follow what changes: the one that serves, and one that is being built."""
        known = [each for each in await self._look(fresh=True) if each.state is not GenerationState.RETIRED]
        building = [each for each in known if each.state is GenerationState.BUILDING]
        if any(each.place != self._place for each in building):
            raise IndexElsewhere("The search index is being built in another place; that one follows.")
        live = self._live(known)
        # One that serves from elsewhere is given up for the one that is being built here.
        serving = [] if live is None or (building and live.place != self._place) else [live]
        return [await self._open(each) for each in (*serving, *building)]

    async def is_outdated(self) -> bool:
        """Whether the settings ask for another embedder than the one that serves."""
        live = self._live(await self._look(fresh=True))
        return live is not None and live.embedder != self._wanted

    async def succession(self) -> str:
        """Names the change from the generation that serves to the embedder that is wanted."""
        live = self._live(await self._look())
        wanted = hashlib.sha256(self._wanted.encode()).hexdigest()[:16]
        return f"reindex:{live.id if live else ''}:{wanted}"

    async def begin(self) -> IndexGeneration:
        """A new generation by the embedder that is wanted, to be filled; one that was begun before is gone on with."""
        for each in await self._look(fresh=True):
            if each.state is GenerationState.BUILDING and each.embedder == self._wanted:
                return each
        embedder = await self.wanted_embedder()
        generation = IndexGeneration(
            embedder=self._wanted, model=embedder.model, dimensions=embedder.dimensions, place=self._place
        )
        async with self._database.writing() as connection:
            for each in self._known:
                if each.state is GenerationState.BUILDING:
                    await Generations(connection).set_state(each.id, GenerationState.RETIRED)
            await Generations(connection).add(generation)
        await self._look(fresh=True)
        return generation

    async def switch(self, generation_id: str) -> None:
        """From now on this one serves; the others are removed."""
        async with self._database.writing() as connection:
            generations = Generations(connection)
            for each in await generations.all():
                if each.id == generation_id:
                    await generations.set_state(each.id, GenerationState.LIVE, live_at=utc_now())
                    await Chunks(connection).relabel(each.model)
                elif each.state is not GenerationState.RETIRED:
                    await generations.set_state(each.id, GenerationState.RETIRED)
        await self.remove_retired()

    async def remove_retired(self) -> None:
        for each in [each for each in await self._look(fresh=True) if each.state is GenerationState.RETIRED]:
            try:
                if each.place == self._place:
                    index = await self._open_index(each.id, each.dimensions)
                    await index.drop()
            except Unavailable as error:
                log.warning("an old index is not removed yet", generation=each.id, reason=error.message)
                continue
            async with self._database.writing() as connection:
                await Generations(connection).remove(each.id)
        await self._look(fresh=True)

    async def _open(self, generation: IndexGeneration) -> Served:
        if generation.place != self._place:
            raise IndexElsewhere(
                f"The search index is in {generation.place or 'a place that all share'}, and not here; set "
                "SCRUBJAY_INDEX_URL to one that every process can reach, or build it here: scrubjay reindex."
            )
        async with self._opening:
            index = self._indexes.get(generation.id)
            if index is None:
                index = await self._open_index(generation.id, generation.dimensions)
                self._indexes[generation.id] = index
        return Served(generation, index, await self._embedder(generation.embedder))

    async def _embedder(self, spec: str) -> Embedder:
        async with self._opening:
            embedder = self._embedders.get(spec)
            if embedder is None:
                embedder = self._embedders[spec] = await self._open_embedder(json.loads(spec))
        return embedder

    async def close(self) -> None:
        for index in self._indexes.values():
            await index.close()
        for embedder in self._embedders.values():
            await embedder.close()
        self._indexes.clear()
        self._embedders.clear()
