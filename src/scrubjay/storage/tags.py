"""Tags, and which document has which."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint, delete, func, insert, select
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Tag
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import Id, Name, UtcDateTime


class TagRow(TenantOwned, Base):
    __tablename__ = "tags"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "name", name="uq_tags_name"),
    )

    name: Mapped[Name]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class DocumentTagRow(Base):
    __tablename__ = "document_tags"
    __table_args__ = table_options(Index("ix_document_tags_tag", "tag_id"))

    document_id: Mapped[Id] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True)
    tag_id: Mapped[Id] = mapped_column(ForeignKey("tags.id", ondelete="CASCADE"), primary_key=True)


class Tags(Repository[Tag]):
    row = TagRow
    model = Tag
    noun = "tag"

    async def by_names(self, tenant_id: str, names: Collection[str]) -> Sequence[Tag]:
        """The tags of these names; those that are missing are made."""
        wanted = dict.fromkeys(names)
        found = await self.every(TagRow.tenant_id == tenant_id, TagRow.name.in_(list(wanted)))
        known = {tag.name for tag in found}
        fresh = [Tag(tenant_id=tenant_id, name=name) for name in wanted if name not in known]
        await self.add_many(fresh)
        return [*found, *fresh]

    async def of_documents(self, document_ids: Collection[str]) -> Mapping[str, Sequence[Tag]]:
        """Document id → its tags by name; documents without tags are left out."""
        rows = await self.connection.execute(
            select(DocumentTagRow.document_id, *self._columns)
            .join(TagRow, TagRow.id == DocumentTagRow.tag_id)
            .where(DocumentTagRow.document_id.in_(list(document_ids)))
            .order_by(TagRow.name)
        )
        tags: dict[str, list[Tag]] = {}
        for document_id, *values in rows:
            tag = Tag(**{column.name: value for column, value in zip(self._columns, values, strict=True)})
            tags.setdefault(document_id, []).append(tag)
        return tags

    async def attach(self, document_id: str, tag_ids: Collection[str]) -> bool:
        """Give a document tags; whether any was new to it."""
        known = await self.connection.execute(
            select(DocumentTagRow.tag_id).where(DocumentTagRow.document_id == document_id)
        )
        fresh = set(tag_ids) - set(known.scalars())
        if fresh:
            rows = [{"document_id": document_id, "tag_id": tag_id} for tag_id in sorted(fresh)]
            with self._conflicts():
                await self.connection.execute(insert(DocumentTagRow), rows)
        return bool(fresh)

    async def detach(self, document_id: str, tag_id: str) -> bool:
        return await self.changed(
            delete(DocumentTagRow).where(DocumentTagRow.document_id == document_id, DocumentTagRow.tag_id == tag_id)
        )

    async def documents_with(self, tag_id: str) -> Sequence[str]:
        return await self.column(select(DocumentTagRow.document_id).where(DocumentTagRow.tag_id == tag_id))

    async def usage(self, tenant_id: str) -> Mapping[str, int]:
        """Tag id → how many documents have it."""
        rows = await self.connection.execute(
            select(DocumentTagRow.tag_id, func.count())
            .join(TagRow, TagRow.id == DocumentTagRow.tag_id)
            .where(TagRow.tenant_id == tenant_id)
            .group_by(DocumentTagRow.tag_id)
        )
        return {tag_id: int(count) for tag_id, count in rows}
