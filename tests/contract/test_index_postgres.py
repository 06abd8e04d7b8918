"""What only the index in PostgreSQL does: its graph."""

from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text
from tests import servers
from tests.contract.test_index import TENANT, make_point

from scrubjay.model.search import SearchFilter
from scrubjay.search import postgres
from scrubjay.search.opening import open_index
from scrubjay.settings import Settings
from scrubjay.storage.database import open_database

pytestmark = pytest.mark.postgres
DIMENSIONS = 16


async def test_the_graph_has_half_numbers_and_takes_the_place_of_one_with_whole_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres, "_GRAPH_POINTS", 100)
    monkeypatch.setattr(postgres, "_FEW_POINTS", 100)
    random = np.random.default_rng(5)
    vectors = random.normal(size=(600, DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    points = [
        make_point(vector=vector.tolist(), language="en" if number % 3 else "de")
        for number, vector in enumerate(vectors)
    ]
    query = vectors[7]
    with servers.fresh_pgvector_database() as url:
        database = open_database(Settings(database_url=url))
        index = await open_index(
            url="postgresql", folder=Path(), generation="graph", dimensions=DIMENSIONS, database=database
        )
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
        await database.close()
