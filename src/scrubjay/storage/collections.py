"""Collections: where documents are searched together."""

from datetime import datetime

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Collection
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import Id, Json, LongText, Name, UtcDateTime


class CollectionRow(Base):
    __tablename__ = "collections"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "name", name="uq_collections_name"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[Name]
    description: Mapped[LongText | None]
    details: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_active_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Collections(Repository[Collection]):
    row = CollectionRow
    model = Collection
    noun = "collection"
