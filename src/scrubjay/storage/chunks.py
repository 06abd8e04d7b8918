"""Chunks: spans of a document version."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint, delete, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Chunk, ChunkContentType, ChunkOutline
from scrubjay.storage.repository import Base, Repository, TenantOwned, batches, table_options
from scrubjay.storage.types import EnumText, Hash, Id, LongText, Name, UtcDateTime


class ChunkRow(TenantOwned, Base):
    __tablename__ = "chunks"
    __table_args__ = table_options(
        UniqueConstraint("document_id", "version", "chunk_index", name="uq_chunks_index"),
        Index("ix_chunks_tenant_id", "tenant_id"),
        Index("ix_chunks_embedding_model", "embedding_model"),
        Index("ix_chunks_content_sha256", "content_sha256"),
    )

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
    context: Mapped[LongText | None]
    content_type: Mapped[ChunkContentType] = mapped_column(EnumText(ChunkContentType))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Chunks(Repository[Chunk]):
    row = ChunkRow
    model = Chunk
    noun = "chunk"

    async def of_document(self, document_id: str, *, version: int | None = None) -> Sequence[Chunk]:
        """The chunks of one version, or of all, in order."""
        wanted = () if version is None else (ChunkRow.version == version,)
        order = [ChunkRow.version, ChunkRow.chunk_index]
        return await self.every(ChunkRow.document_id == document_id, *wanted, order=order)

    async def outlines(self, document_ids: Collection[str]) -> Mapping[str, Sequence[ChunkOutline]]:
        """Document id → the chunks of all its versions without their texts."""
        columns = [self.table.c[name] for name in ChunkOutline._fields]
        rows = await self.connection.execute(
            select(ChunkRow.document_id, *columns).where(ChunkRow.document_id.in_(list(document_ids)))
        )
        found: dict[str, list[ChunkOutline]] = {}
        for document_id, *values in rows:
            found.setdefault(document_id, []).append(ChunkOutline(*values))
        return found

    async def by_ids(self, tenant_id: str, chunk_ids: Collection[str]) -> Sequence[Chunk]:
        found: list[Chunk] = []
        for ids in batches(chunk_ids):
            found += await self.every(ChunkRow.tenant_id == tenant_id, ChunkRow.id.in_(ids))
        return found

    async def neighbours(self, document_id: str, version: int, indexes: Collection[int]) -> Sequence[Chunk]:
        return await self.every(
            ChunkRow.document_id == document_id,
            ChunkRow.version == version,
            ChunkRow.chunk_index.in_(list(indexes)),
            order=[ChunkRow.chunk_index],
        )

    async def relabel(self, model: str) -> None:
        """From now on, this model's vectors stand for all chunks."""
        await self.connection.execute(
            update(ChunkRow).where(ChunkRow.embedding_model != model).values(embedding_model=model)
        )

    async def remove_version(self, document_id: str, version: int) -> None:
        await self.connection.execute(
            delete(ChunkRow).where(ChunkRow.document_id == document_id, ChunkRow.version == version)
        )
