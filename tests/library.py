"""Documents and their index without the rest of the house: to change them, to kill the indexer, and to compare."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from sqlalchemy import update
from tests import indexes

from scrubjay.documents.cleanup import Cleanup
from scrubjay.documents.ingester import Ingester
from scrubjay.documents.texts import TextStore
from scrubjay.index.catalog import IndexCatalog
from scrubjay.index.consistency import Consistency, Differences
from scrubjay.index.embedder import Embedder
from scrubjay.index.embedding import WordLlama
from scrubjay.index.index import Index
from scrubjay.index.indexing import Indexer
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Document, DocumentSource, IncomingDocument, Ingested
from scrubjay.model.tenant import Principal, Scope, Tenant
from scrubjay.services.documents import DocumentService
from scrubjay.services.search import SearchService
from scrubjay.services.search_cache import SearchCache
from scrubjay.settings import Settings
from scrubjay.storage.blobs import BlobStore, open_blob_store
from scrubjay.storage.cache_memory import MemoryCache
from scrubjay.storage.database import Database, open_database
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.schema import require_current
from scrubjay.storage.tenants import Tenants


class KilledError(BaseException):
    """The process ended here, as far as the code under test can tell."""


class FragileIndex:
    """An index under which the process dies: before or after the call that `fuse` counts down to."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.dimensions = index.dimensions
        self.fuse: int | None = None
        self.after = False

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._index, name)
        if name not in ("upsert", "delete", "stamps"):
            return member

        async def call(*arguments: Any) -> Any:
            burnt = self.fuse == 0
            if self.fuse is not None:
                self.fuse -= 1
            if burnt and not self.after:
                raise KilledError
            answer = await member(*arguments)
            if burnt:
                raise KilledError
            return answer

        return call


@cache
def shared_embedder() -> WordLlama:
    return WordLlama()


class Library:
    def __init__(self, database: Database, blobs: BlobStore, index: FragileIndex) -> None:
        self.database = database
        self.blobs = blobs
        self.index = index
        self.texts = TextStore(database, blobs)

        async def open_index(generation: str, dimensions: int) -> Index:
            return index  # type: ignore[return-value]

        async def open_embedder(spec: Mapping[str, Any]) -> Embedder:
            return shared_embedder()

        self.catalog = IndexCatalog(database, {"kind": "wordllama"}, open_index, open_embedder)
        self.ingester = Ingester(database, self.texts, self.catalog)
        self.indexer = self.new_indexer()
        self.consistency = Consistency(database, self.catalog)
        self.documents = DocumentService(database, blobs, self.texts, None, lambda: None)  # type: ignore[arg-type]
        self.search = SearchService(database, self.catalog, SearchCache(MemoryCache()))

    def new_indexer(self) -> Indexer:
        return Indexer(self.database, self.catalog, Cleanup(self.database, self.texts, self.blobs))

    async def tenant(self, name: str) -> Principal:
        tenant = Tenant(name=name)
        async with self.database.writing() as connection:
            await Tenants(connection).add(tenant)
        return Principal(tenant_id=tenant.id, key_id="", scopes=frozenset({Scope.ADMIN}))

    async def add(self, who: Principal, url: str, markdown: str, **values: Any) -> Ingested:
        incoming = IncomingDocument(
            tenant_id=who.tenant_id, url=url, source=DocumentSource.API, markdown=markdown, **values
        )
        return await self.ingester.ingest(incoming)

    async def document(self, document_id: str) -> Document | None:
        async with self.database.reading() as connection:
            return (await Documents(connection).by_ids([document_id])).get(document_id)

    async def die_while_indexing(self, calls: int, *, after: bool) -> bool:
        """Index until a call to the index kills the process; whether it came to that."""
        self.index.fuse, self.index.after = calls, after
        try:
            await self.indexer.drain()
        except KilledError:
            died = True
        else:
            died = False
        self.index.fuse = None
        self.indexer = self.new_indexer()
        # What the dead one had leased is free when its lease is over; a test does not wait that long.
        async with self.database.writing() as connection:
            await connection.execute(
                update(DocumentRow).where(DocumentRow.index_due_at.is_not(None)).values(index_due_at=utc_now())
            )
        return died

    async def settle(self) -> Differences:
        await self.indexer.drain()
        return await self.consistency.compare()


@asynccontextmanager
async def open_library(settings: Settings, engine: str = "edge") -> AsyncIterator[Library]:
    database = open_database(settings)
    await require_current(database, auto_migrate=True)
    async with indexes.place(engine) as place:
        index = await place.open(shared_embedder().dimensions)
        library = Library(database, open_blob_store(settings), FragileIndex(index))
        await library.catalog.start()
        try:
            yield library
        finally:
            await index.close()
            await database.close()
            await asyncio.sleep(0)
