"""Embeddings, under the hash of their text and the name of their model."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Embedding
from scrubjay.storage.repository import Base, Repository
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
