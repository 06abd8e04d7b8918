"""Chunks: spans of a document version."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Chunk, ChunkContentType
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import EnumText, Hash, Id, LongText, Name, UtcDateTime


class ChunkRow(Base):
    __tablename__ = "chunks"
    __table_args__ = table_options(
        UniqueConstraint("document_id", "version", "chunk_index", name="uq_chunks_index"),
        Index("ix_chunks_embedding_model", "embedding_model"),
        Index("ix_chunks_content_sha256", "content_sha256"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    document_id: Mapped[Id] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"))
    version: Mapped[int]
    chunk_index: Mapped[int]
    content: Mapped[LongText]
    content_sha256: Mapped[Hash]
    start_char: Mapped[int]
    end_char: Mapped[int]
    token_count: Mapped[int]
    embedding_model: Mapped[Name]
    section_header: Mapped[LongText | None]
    content_type: Mapped[ChunkContentType] = mapped_column(EnumText(ChunkContentType))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Chunks(Repository[Chunk]):
    row = ChunkRow
    model = Chunk
    noun = "chunk"
