"""Index engines for tests: each at a place of its own that is gone afterwards."""

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests import servers

from scrubjay.index.index import Index
from scrubjay.index.opening import open_index
from scrubjay.settings import Settings
from scrubjay.storage.database import open_database

# The embedded engine waits for the disk dozens of times before it first takes a point. This folder is memory.
_FAST = Path("/dev/shm")


@dataclass(frozen=True)
class Place:
    """Where an engine keeps its generations."""

    make: Callable[[int, str], Awaitable[Index]]

    async def open(self, dimensions: int, generation: str = "contract") -> Index:
        return await self.make(dimensions, generation)


@contextmanager
def fast_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sj-test-index-", dir=_FAST if _FAST.is_dir() else None) as folder:
        yield Path(folder)


@asynccontextmanager
async def place(engine: str) -> AsyncIterator[Place]:
    async with {"edge": _edge, "postgres": _postgres, "qdrant": _qdrant}[engine]() as place:
        yield place


@asynccontextmanager
async def _edge() -> AsyncIterator[Place]:
    with fast_folder() as folder:

        async def make(dimensions: int, generation: str) -> Index:
            return await open_index(url=None, folder=folder, generation=generation, dimensions=dimensions)

        yield Place(make)


@asynccontextmanager
async def _postgres() -> AsyncIterator[Place]:
    with servers.fresh_pgvector_database() as url:
        database = open_database(Settings(database_url=url))

        async def make(dimensions: int, generation: str) -> Index:
            return await open_index(
                url="postgresql", folder=Path(), generation=generation, dimensions=dimensions, database=database
            )

        yield Place(make)
        await database.close()


@asynccontextmanager
async def _qdrant() -> AsyncIterator[Place]:
    """The server that the environment names, else the client's own imitation of one."""
    pytest.importorskip("qdrant_client")
    from qdrant_client import AsyncQdrantClient

    from scrubjay.index.qdrant import QdrantIndex

    url = os.environ.get("SCRUBJAY_TEST_QDRANT_URL")
    name = secrets.token_hex(6)
    client = AsyncQdrantClient(url=url) if url else AsyncQdrantClient(location=":memory:")

    async def make(dimensions: int, generation: str) -> Index:
        return await QdrantIndex.open(_Shared(client), f"{name}-{generation}", dimensions)  # type: ignore[arg-type]

    yield Place(make)
    for collection in (await client.get_collections()).collections:
        if collection.name.startswith(f"scrubjay_{name}-"):
            await client.delete_collection(collection.name)
    await client.close()


class _Shared:
    """A client that stays open: what the imitation holds would be gone otherwise."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def close(self) -> None:
        pass
