"""Generations of the index: another embedder, another place, and never two models in one answer."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.library import Library, open_library, shared_embedder

from scrubjay.errors import IndexElsewhere
from scrubjay.index.catalog import IndexCatalog
from scrubjay.index.embedder import Embedder, Vectors
from scrubjay.index.index import Index
from scrubjay.index.indexing import Indexer
from scrubjay.model.clock import utc_now
from scrubjay.model.content import GenerationState
from scrubjay.model.search import VectorTrust
from scrubjay.settings import Settings
from scrubjay.storage.documents import Documents
from scrubjay.storage.generations import Generations


class Mirrored:
    """Another model: the same vectors upside down, so that one in the wrong index is noticed."""

    name = "mirrored"
    model = "mirrored"
    dimensions = 256
    max_tokens = 512

    def token_starts(self, texts: Any) -> Any:
        return shared_embedder().token_starts(texts)

    async def embed(self, texts: Any) -> Vectors:
        return np.ascontiguousarray(-(await shared_embedder().embed(texts)))

    async def embed_query(self, text: str) -> Vectors:
        return (await self.embed([text]))[0]

    def trust(self, query: str) -> VectorTrust:
        return shared_embedder().trust(query)

    async def close(self) -> None:
        return None


def catalog_of(library: Library, indexes: dict[str, Index], wanted: str, place: str | None = None) -> IndexCatalog:
    async def open_index(generation: str, dimensions: int) -> Index:
        return indexes[generation]

    async def open_embedder(spec: Mapping[str, Any]) -> Embedder:
        return Mirrored() if spec["kind"] == "mirrored" else shared_embedder()

    return IndexCatalog(library.database, {"kind": wanted}, open_index, open_embedder, place)


async def test_another_embedder_is_noticed_and_the_old_one_serves_until_the_switch(settings: Settings) -> None:
    async with open_library(settings) as library, open_library(settings) as other:
        who = await library.tenant("tenant")
        made = await library.add(who, "https://example.org/a", "# Jay\n\nAn acorn under the oak.")
        await library.settle()
        old = (await library.catalog.live()).generation
        indexes: dict[str, Any] = {old.id: library.index}
        catalog = catalog_of(library, indexes, "mirrored")
        assert await catalog.is_outdated()
        assert not await library.catalog.is_outdated()
        new = await catalog.begin()
        assert (await catalog.begin()).id == new.id
        indexes[new.id] = other.index
        async with library.database.writing() as connection:
            await Documents(connection).change(made.document_id, index_due_at=utc_now())
        indexer = Indexer(library.database, catalog, library.indexer._cleanup)
        await indexer.drain()
        assert (await catalog.live()).generation.id == old.id
        query = await shared_embedder().embed_query("acorn under the oak")
        where = (await library.documents.chunks(who, made.document_id))[0]
        for index, sign in ((library.index, 1), (other.index, -1)):
            [hit] = await index.search_vector((sign * query).tolist(), _everything(who.tenant_id), 5)
            assert hit.chunk_id == where.id
            assert hit.score > 0.3
        library.index.drop = _never  # type: ignore[method-assign]
        await catalog.switch(new.id)
        assert (await catalog.live()).embedder.model == "mirrored"
        assert (await library.documents.chunks(who, made.document_id))[0].embedding_model == "mirrored"
        async with library.database.reading() as connection:
            states = {each.id: each.state for each in await Generations(connection).all()}
        assert states == {new.id: GenerationState.LIVE}


async def _never() -> None:
    """The library closes its index itself."""


def _everything(tenant_id: str) -> Any:
    from scrubjay.model.search import SearchFilter

    return SearchFilter(tenant_id=tenant_id)


async def test_an_index_in_another_place_is_neither_asked_nor_followed(settings: Settings) -> None:
    async with open_library(settings) as library:
        who = await library.tenant("tenant")
        made = await library.add(who, "https://example.org/a", "# Jay\n\nAn acorn.")
        elsewhere = catalog_of(library, {}, "wordllama", "another-machine:/data/index")
        with pytest.raises(IndexElsewhere, match="scrubjay reindex"):
            await elsewhere.live()
        stranger = Indexer(library.database, elsewhere, library.indexer._cleanup)
        assert await stranger.step() == 0
        document = await library.document(made.document_id)
        assert document is not None
        assert document.index_attempts == 0
        assert (await library.settle()).none


async def test_an_index_that_fails_postpones_the_document_and_says_why(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_library(settings) as library:
        who = await library.tenant("tenant")
        embedder = shared_embedder()

        async def fail(texts: Any) -> Vectors:
            raise ValueError("no such luck")

        monkeypatch.setattr(embedder, "embed", fail)
        made = await library.add(who, "https://example.org/a", "# Jay\n\nAn acorn that nobody embedded before.")
        await library.indexer.step()
        document = await library.document(made.document_id)
        assert document is not None
        assert (document.index_attempts, document.indexed_version) == (1, 0)
        assert "no such luck" in (await library.documents.log(who, made.document_id))[-1].message
        monkeypatch.undo()
        async with library.database.writing() as connection:
            await Documents(connection).change(made.document_id, index_due_at=utc_now())
        assert (await library.settle()).none
