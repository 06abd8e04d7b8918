"""Tags, and which document has which."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Tag
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import Id, Name, UtcDateTime


class TagRow(Base):
    __tablename__ = "tags"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "name", name="uq_tags_name"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[Name]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Tags(Repository[Tag]):
    row = TagRow
    model = Tag
    noun = "tag"


class DocumentTagRow(Base):
    __tablename__ = "document_tags"
    __table_args__ = table_options(Index("ix_document_tags_tag", "tag_id"))

    document_id: Mapped[Id] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True)
    tag_id: Mapped[Id] = mapped_column(ForeignKey("tags.id", ondelete="CASCADE"), primary_key=True)
