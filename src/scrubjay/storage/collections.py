"""Collections: where documents are searched together."""

from datetime import datetime

from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Collection
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import Json, LongText, Name, UtcDateTime


class CollectionRow(TenantOwned, Base):
    __tablename__ = "collections"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "name", name="uq_collections_name"),
    )

    name: Mapped[Name]
    description: Mapped[LongText | None]
    details: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_active_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Collections(Repository[Collection]):
    row = CollectionRow
    model = Collection
    noun = "collection"
