"""Vectors of texts, each made once: looked up under model and hash first, and kept when they are new."""

from collections.abc import Mapping, Sequence

from scrubjay.errors import Conflict
from scrubjay.index.embedder import Embedder, Vectors
from scrubjay.model.content import Embedding
from scrubjay.storage.database import Database
from scrubjay.storage.embeddings import Embeddings
from scrubjay.telemetry import get_logger, span
from scrubjay.telemetry.metrics import embedded_texts_total

BATCH = 256
_FORMAT = "<f4"

log = get_logger(__name__)


async def embed_texts(database: Database, embedder: Embedder, texts: Mapping[str, str]) -> dict[str, Vectors]:
    """Hash → vector, for texts by their hash."""
    import numpy as np  # here, because a crawl may index nothing

    async with database.reading() as connection:
        known = await Embeddings(connection).known(embedder.model, texts.keys())
    vectors = {digest: np.frombuffer(vector, dtype=_FORMAT) for digest, vector in known.items()}
    missing = [digest for digest in texts if digest not in vectors]
    embedded_texts_total.labels("known").inc(len(vectors))
    embedded_texts_total.labels("made").inc(len(missing))
    for start in range(0, len(missing), BATCH):
        batch = missing[start : start + BATCH]
        with span("embed", embed__model=embedder.model, embed__texts=len(batch)):
            made = await embedder.embed([texts[digest] for digest in batch])
        await _keep(database, embedder, batch, made)
        vectors |= dict(zip(batch, made, strict=True))
    return vectors


async def _keep(database: Database, embedder: Embedder, hashes: Sequence[str], vectors: Vectors) -> None:
    kept = [
        Embedding(
            content_sha256=digest,
            model=embedder.model,
            dimensions=embedder.dimensions,
            vector=vector.astype(_FORMAT).tobytes(),
        )
        for digest, vector in zip(hashes, vectors, strict=True)
    ]
    try:
        async with database.writing() as connection:
            await Embeddings(connection).add_new(kept)
    except Conflict:
        # Another worker kept the same vectors in the same moment; which one's are kept makes no difference.
        log.debug("vectors were kept by another worker", count=len(kept))
