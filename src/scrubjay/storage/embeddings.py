"""Embeddings, under the hash of their text and the name of their model."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Embedding
from scrubjay.storage.repository import Base, Repository, batches
from scrubjay.storage.types import BYTES, Hash, Name, UtcDateTime


class EmbeddingRow(Base):
    __tablename__ = "embeddings"

    content_sha256: Mapped[Hash] = mapped_column(primary_key=True)
    model: Mapped[Name] = mapped_column(primary_key=True)
    dimensions: Mapped[int]
    vector: Mapped[bytes] = mapped_column(BYTES)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Embeddings(Repository[Embedding]):
    row = EmbeddingRow
    model = Embedding
    noun = "embedding"
    key = ("content_sha256", "model")

    async def known(self, model: str, hashes: Collection[str]) -> Mapping[str, bytes]:
        """Text hash → vector, of those that this model has embedded before."""
        found: dict[str, bytes] = {}
        for batch in batches(hashes):
            rows = await self.connection.execute(
                select(EmbeddingRow.content_sha256, EmbeddingRow.vector).where(
                    EmbeddingRow.model == model, EmbeddingRow.content_sha256.in_(batch)
                )
            )
            found |= {text: bytes(vector) for text, vector in rows}
        return found

    async def add_new(self, embeddings: Sequence[Embedding]) -> None:
        """Keep vectors; those that somebody else has kept meanwhile stay as they are."""
        by_model: dict[str, list[Embedding]] = {}
        for embedding in embeddings:
            by_model.setdefault(embedding.model, []).append(embedding)
        for model, group in by_model.items():
            known = await self.known(model, [embedding.content_sha256 for embedding in group])
            fresh = {each.content_sha256: each for each in group if each.content_sha256 not in known}
            await self.add_many([fresh[text] for text in sorted(fresh)])
