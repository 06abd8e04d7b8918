"""The outbox: what happened, committed with the change itself."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import OutboxEvent
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import Id, Json, UtcDateTime, partial_index


class OutboxRow(Base):
    __tablename__ = "outbox"
    __table_args__ = table_options(
        partial_index("ix_outbox_unpublished", "id", where="published_at IS NULL"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    topic: Mapped[str] = mapped_column(String(64))
    payload: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    published_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class Outbox(Repository[OutboxEvent]):
    row = OutboxRow
    model = OutboxEvent
    noun = "outbox event"
