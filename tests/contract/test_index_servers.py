"""How the index says that its server is missing, or not what it needs."""

from pathlib import Path

import pytest
from tests import servers

from scrubjay.errors import ConfigurationError, Unavailable
from scrubjay.index.opening import open_index
from scrubjay.settings import Settings
from scrubjay.storage.database import open_database


async def test_a_qdrant_that_does_not_answer_is_unavailable(tmp_path: Path) -> None:
    pytest.importorskip("qdrant_client")
    (port,) = servers._free_ports(1)

    with pytest.raises(Unavailable, match="Qdrant does not answer"):
        await open_index(url=f"http://127.0.0.1:{port}", folder=tmp_path, generation="a", dimensions=4)


@pytest.mark.parametrize("url", ["ftp://somewhere", "qdrant", "postgresql://host/db"])
async def test_an_unknown_engine_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigurationError, match="index URL"):
        await open_index(url=url, folder=tmp_path, generation="a", dimensions=4)


@pytest.mark.parametrize("generation", ["", "../up", "A", "a b", 'a"b', "x" * 41])
async def test_a_generation_that_is_no_name_is_refused(tmp_path: Path, generation: str) -> None:
    with pytest.raises(ConfigurationError, match="generation"):
        await open_index(url=None, folder=tmp_path, generation=generation, dimensions=4)


async def test_an_index_in_postgresql_needs_the_database_to_be_one(settings: Settings) -> None:
    database = open_database(settings)
    with pytest.raises(ConfigurationError, match="SCRUBJAY_DATABASE_URL"):
        await open_index(url="postgresql", folder=settings.home, generation="a", dimensions=4, database=database)
    await database.close()


@pytest.mark.postgres
async def test_a_postgresql_without_pgvector_says_what_to_do() -> None:
    server = servers.postgres_url()
    if servers._has_pgvector(server):
        pytest.skip("this PostgreSQL has pgvector")
    database = open_database(Settings(database_url=server))
    with pytest.raises(ConfigurationError, match="install pgvector"):
        await open_index(url="postgresql", folder=Path(), generation="a", dimensions=4, database=database)
    await database.close()
