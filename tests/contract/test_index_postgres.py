"""What only the index in PostgreSQL does: its graph, its rounds of words, and tables of former releases."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text
from tests import servers
from tests.contract.test_index import TENANT, make_point
from tests.workshop import wait_until

from scrubjay.index import postgres, postgres_graphs, postgres_schema
from scrubjay.index.index import Index
from scrubjay.index.opening import open_index
from scrubjay.model.search import KeywordQuery, SearchFilter
from scrubjay.settings import Settings
from scrubjay.storage.database import Database, open_database

pytestmark = pytest.mark.postgres
DIMENSIONS = 16


@asynccontextmanager
async def opened_database() -> AsyncIterator[Database]:
    with servers.fresh_pgvector_database() as url:
        database = open_database(Settings(database_url=url))
        yield database
        await database.close()


async def open_in(database: Database) -> Index:
    return await open_index(
        url="postgresql", folder=Path(), generation="graph", dimensions=DIMENSIONS, database=database
    )


async def test_the_graph_has_half_numbers_and_takes_the_place_of_one_with_whole_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_graphs, "GRAPH_POINTS", 100)
    monkeypatch.setattr(postgres, "_FEW_POINTS", 100)
    random = np.random.default_rng(5)
    vectors = random.normal(size=(600, DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    points = [
        make_point(vector=vector.tolist(), language="en" if number % 3 else "de")
        for number, vector in enumerate(vectors)
    ]
    query = vectors[7]
    async with opened_database() as database:
        index = await open_in(database)
        async with database.writing() as connection:
            await connection.execute(
                text("CREATE INDEX index_graph_graph ON index_graph USING hnsw (vector vector_cosine_ops)")
            )
        await index.upsert(points)
        await index.optimize()

        async with database.reading() as connection:
            found = await connection.execute(
                text("SELECT indexname, indexdef FROM pg_indexes WHERE indexdef LIKE '%hnsw%'")
            )
            graphs = {row.indexname: row.indexdef for row in found}
        assert list(graphs) == ["index_graph_near"]
        assert f"halfvec({DIMENSIONS})" in graphs["index_graph_near"]
        for languages in ((), ("en",)):
            hits = await index.search_vector(query.tolist(), SearchFilter(tenant_id=TENANT, languages=languages), 20)
            allowed = [n for n, point in enumerate(points) if not languages or point.language in languages]
            nearest = sorted(allowed, key=lambda number: -float(vectors[number] @ query))[:20]
            assert len({points[number].id for number in nearest} & {hit.chunk_id for hit in hits}) >= 19
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            # Told by the whole numbers: half ones would be off by a thousandth.
            assert hits[3].score == pytest.approx(float(vectors[nearest[3]] @ query), abs=1e-5)
        await index.close()


async def test_a_table_of_a_former_release_learns_how_many_words_chunks_have() -> None:
    old, new = (make_point("an otter", vector=[1.0] * DIMENSIONS) for _ in range(2))
    async with opened_database() as database:
        index = await open_in(database)
        await index.upsert([old])
        async with database.writing() as connection:
            await connection.execute(text("ALTER TABLE index_graph DROP COLUMN terms"))
        await index.close()

        index = await open_in(database)
        await index.upsert([new])
        hits = await index.search_vector([1.0] * DIMENSIONS, SearchFilter(tenant_id=TENANT), 5)
        await index.close()

    told = {hit.chunk_id: hit.terms for hit in hits}
    assert told[old.id] is None
    assert told[new.id]


async def test_words_are_looked_for_once_where_a_filter_leaves_few_of_the_rare_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collections = ["coll_a", "coll_b", "coll_c", "coll_d"]
    points = [
        make_point(
            "the river" + " and an otter" * (number % 8 == 0) + " and a heron" * (number % 5),
            vector=[1.0] * DIMENSIONS,
            collection_id=collections[number // 8 % 4],
            language="en",
        )
        for number in range(400)
    ]
    ours = [point for point in points if point.collection_id == collections[1]]
    otters = {point.id for point in ours if "otter" in point.text}
    where = SearchFilter(tenant_id=TENANT, collection_ids=(collections[1],), languages=("en", "de"))
    query = KeywordQuery(text="otter river")
    looks: list[str] = []
    fetch = postgres.PostgresIndex._fetch

    async def fetch_and_count(index: postgres.PostgresIndex, statement: str, *more: Any, **others: Any) -> Any:
        looks.extend([statement] if "words @@" in statement else [])
        return await fetch(index, statement, *more, **others)

    monkeypatch.setattr(postgres.PostgresIndex, "_fetch", fetch_and_count)
    monkeypatch.setattr(postgres, "_ENOUGH_CANDIDATES", 0)
    async with opened_database() as database:
        index = await open_in(database)
        await index.upsert(points)
        hits = await index.search_keywords(query, where, 40)
        everything = await index.search_keywords(query, where, 400)
        await index.close()

    assert len(otters) == 13
    assert {hit.chunk_id for hit in hits[:13]} == otters
    assert {hit.chunk_id for hit in everything} == {point.id for point in ours}
    assert [hit.chunk_id for hit in hits] == [hit.chunk_id for hit in everything[:40]]
    assert len(looks) == 2


async def find_graphs(database: Database) -> dict[str, str]:
    query = "SELECT indexname, indexdef FROM pg_indexes WHERE indexdef LIKE '%hnsw%'"
    async with database.reading() as connection:
        return {row.indexname: row.indexdef for row in await connection.execute(text(query))}


async def plan_of(index: Any, where: SearchFilter) -> str:
    """The plan of the search that was asked for last, as the index itself asks for it."""
    conditions, values = postgres_schema.describe_filter(where)
    values |= {"vector": postgres_schema.vector_text([1.0] * DIMENSIONS), "limit": 5}
    query = "EXPLAIN " + index._nearest(postgres_schema.graph_distance(DIMENSIONS), conditions)
    return "\n".join(line for (line,) in await index._fetch(query, values, graph_width=40))


async def test_what_searches_are_often_limited_to_gets_a_graph_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_graphs, "GRAPH_POINTS", 100)
    monkeypatch.setattr(postgres, "_FEW_POINTS", 100)
    random = np.random.default_rng(5)
    vectors = random.normal(size=(1_200, DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    odd = "it's \\ odd"  # as a label may be
    points = [
        make_point(vector=vector.tolist(), collection_id=odd if number % 4 == 0 else "other", language="en")
        for number, vector in enumerate(vectors)
    ]
    query = vectors[7]
    nearest = sorted(range(0, 1_200, 4), key=lambda number: -float(vectors[number] @ query))[:20]
    where = SearchFilter(tenant_id=TENANT, collection_ids=(odd,), languages=("en",))
    async with opened_database() as database:
        index = await open_in(database)
        await index.upsert(points)
        await index.optimize()
        for _ in range(postgres_graphs._OFTEN):
            assert len(await find_graphs(database)) == 1
            await index.search_vector(query.tolist(), where, 20)
        assert isinstance(index, postgres.PostgresIndex)
        assert index._background is not None
        await index._background

        (own,) = (await find_graphs(database)).keys() - {"index_graph_near"}
        assert own in await plan_of(index, where)
        assert own not in await plan_of(index, SearchFilter(tenant_id=TENANT, collection_ids=("other",)))
        hits = await index.search_vector(query.tolist(), where, 20)
        assert [hit.chunk_id for hit in hits] == [points[number].id for number in nearest]

        # It follows what changes, and goes when it was not used for a long time.
        late = make_point(vector=query.tolist(), collection_id=odd, language="en")
        await index.upsert([late])
        await index.delete([points[nearest[0]].id])
        hits = await index.search_vector(query.tolist(), where, 3)
        assert [hit.chunk_id for hit in hits] == [late.id, points[nearest[1]].id, points[nearest[2]].id]
        await index.optimize()
        assert own in await find_graphs(database)
        monkeypatch.setattr(postgres_graphs, "_UNUSED_DAYS", -1)

        async def is_dropped() -> bool:
            await index.check()  # a session tells of what it used with one of its next queries
            await index.optimize()
            return list(await find_graphs(database)) == ["index_graph_near"]

        await wait_until(is_dropped, "a graph that is not used is dropped", pause=0.2)
        await index.close()


async def test_there_are_only_so_many_graphs_and_one_that_was_cut_off_is_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_graphs, "_MOST_GRAPHS", 2)
    points = [make_point(vector=[1.0, *[0.0] * (DIMENSIONS - 1)], collection_id=f"c{n % 3}") for n in range(60)]
    async with opened_database() as database:
        index: Any = await open_in(database)
        await index.upsert(points)
        for label in ("collection:c0", "collection:c1", "collection:c2", "collection:c0"):
            await index._make_graph_for(label)
        graphs = await find_graphs(database)
        assert sorted("c0" in made or "c1" in made for made in graphs.values()) == [True, True]
        async with database.writing() as connection:
            graphs_of_labels = "SELECT oid FROM pg_class WHERE starts_with(relname, 'index_graph_near_')"
            cut_off = f"UPDATE pg_index SET indisvalid = false WHERE indexrelid IN ({graphs_of_labels})"
            await connection.execute(text(cut_off))
        await index._make_graph_for("collection:c0")
        await index.optimize()
        (left,) = (await find_graphs(database)).values()
        assert "c0" in left
        await index.close()
