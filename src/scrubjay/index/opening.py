"""Which engine holds the index: the embedded one unless a URL names a server."""

import re
from pathlib import Path

from scrubjay.errors import ConfigurationError
from scrubjay.index.edge import EdgeIndex
from scrubjay.index.index import Index
from scrubjay.storage.database import Database

_GENERATION = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


async def open_index(
    *,
    url: str | None,
    folder: Path,
    generation: str,
    dimensions: int,
    api_key: str | None = None,
    database: Database | None = None,
) -> Index:
    """One generation of the index, made if it is not there yet.

    Without a URL it lives in the folder; `postgresql` means the deployment's own database, and an `http` address a
    Qdrant server.
    """
    if not _GENERATION.fullmatch(generation):
        raise ConfigurationError(f"'{generation[:64]}' cannot name a generation of the index.")
    if not url:
        return await EdgeIndex.open(folder / generation, dimensions)
    if url.startswith(("http://", "https://")):
        return await _open_qdrant(url, api_key, generation, dimensions)
    if url in ("postgresql", "postgres"):
        return await _open_postgres(database, generation, dimensions)
    raise ConfigurationError("The index URL must be an http or https address, 'postgresql', or nothing.")


async def _open_qdrant(url: str, api_key: str | None, generation: str, dimensions: int) -> Index:
    try:
        from scrubjay.index.qdrant import QdrantIndex, connect
    except ImportError as error:
        raise ConfigurationError("Qdrant's client is not installed; run: pip install 'scrubjay[qdrant]'.") from error
    client = connect(url, api_key)
    try:
        return await QdrantIndex.open(client, generation, dimensions)
    except BaseException:
        await client.close()
        raise


async def _open_postgres(database: Database | None, generation: str, dimensions: int) -> Index:
    from scrubjay.index.postgres import PostgresIndex

    if database is None or database.dialect != "postgresql":
        raise ConfigurationError(
            "An index in PostgreSQL needs the database to be PostgreSQL; set SCRUBJAY_DATABASE_URL."
        )
    return await PostgresIndex.open(database, generation, dimensions)
