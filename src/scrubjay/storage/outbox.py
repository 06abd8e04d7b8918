"""The outbox: what happened, committed with the change itself, until those who want to know have it in their queues."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Index, String, delete, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import OutboxEvent
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import Json, UtcDateTime


class OutboxRow(TenantOwned, Base):
    __tablename__ = "outbox"
    # Not a partial index: MariaDB and MySQL have none, and would look at all that was published before.
    __table_args__ = table_options(Index("ix_outbox_published", "published_at", "id"))

    topic: Mapped[str] = mapped_column(String(64))
    payload: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    published_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class Outbox(Repository[OutboxEvent]):
    row = OutboxRow
    model = OutboxEvent
    noun = "outbox event"

    async def any_unpublished(self) -> bool:
        statement = select(OutboxRow.id).where(OutboxRow.published_at.is_(None)).limit(1)
        return (await self.connection.execute(statement)).first() is not None

    async def unpublished(self, limit: int) -> Sequence[OutboxEvent]:
        """The oldest events, locked: of several processes that publish, one waits for the other, so order is kept."""
        return await self._items(
            select(*self._columns)
            .where(OutboxRow.published_at.is_(None))
            .order_by(OutboxRow.id)
            .limit(limit)
            .with_for_update()
            .with_hint(OutboxRow, "WITH (UPDLOCK, ROWLOCK)", "mssql")
        )

    async def mark_published(self, event_ids: Sequence[str], now: datetime) -> None:
        await self.connection.execute(update(OutboxRow).where(OutboxRow.id.in_(event_ids)).values(published_at=now))

    async def remove_before(self, before: datetime, limit: int) -> int:
        """Forget what was published before that moment, in batches; how many there were in this one."""
        statement = select(OutboxRow.id).where(OutboxRow.published_at < before).limit(limit)
        old = (await self.connection.execute(statement)).scalars().all()
        if old:
            await self.connection.execute(delete(OutboxRow).where(OutboxRow.id.in_(old)))
        return len(old)
