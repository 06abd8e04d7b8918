"""Webhook deliveries: each webhook's queue, what was sent, what came back, and when the next attempt is."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, delete, func, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.webhook import Delivery, DeliveryStatus
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import EnumText, Id, LongText, Number, UtcDateTime, partial_index


class DeliveryRow(TenantOwned, Base):
    __tablename__ = "webhook_deliveries"
    __table_args__ = table_options(
        Index("ix_webhook_deliveries_webhook", "webhook_id", "created_at"),
        Index("ix_webhook_deliveries_queue", "webhook_id", "status", "position"),
        Index("ix_webhook_deliveries_tenant", "tenant_id", "created_at"),
        Index("ix_webhook_deliveries_created_at", "created_at"),
        # The same event twice for one webhook is a mistake, unless somebody asked for it.
        Index("uq_webhook_deliveries_event", "webhook_id", "event_id", "replay", unique=True),
        partial_index("ix_webhook_deliveries_due", "next_attempt_at", where="status = 'pending'"),
    )

    webhook_id: Mapped[Id] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    event: Mapped[str] = mapped_column(String(64))
    event_id: Mapped[Id]
    position: Mapped[Number]
    replay: Mapped[int]
    body: Mapped[LongText]
    job_id: Mapped[Id | None]
    job_type: Mapped[str | None] = mapped_column(String(64))
    status: Mapped[DeliveryStatus] = mapped_column(EnumText(DeliveryStatus))
    attempts: Mapped[int]
    max_attempts: Mapped[int]
    response_status: Mapped[int | None]
    response_body: Mapped[LongText | None]
    error: Mapped[LongText | None]
    last_attempt_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    next_attempt_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Deliveries(Repository[Delivery]):
    row = DeliveryRow
    model = Delivery
    noun = "delivery"

    async def head(self, webhook_id: str) -> Delivery | None:
        """What is to be sent before anything else goes to this webhook."""
        found = await self.every(
            DeliveryRow.webhook_id == webhook_id,
            DeliveryRow.status == DeliveryStatus.PENDING,
            order=[DeliveryRow.position],
            limit=1,
        )
        return found[0] if found else None

    async def change(self, delivery_id: str, **values: Any) -> None:
        await self.connection.execute(update(DeliveryRow).where(DeliveryRow.id == delivery_id).values(**values))

    async def end_pending(self, webhook_id: str, reason: str) -> None:
        """Nothing that waits for this webhook is sent any more."""
        await self.connection.execute(
            update(DeliveryRow)
            .where(DeliveryRow.webhook_id == webhook_id, DeliveryRow.status == DeliveryStatus.PENDING)
            .values(status=DeliveryStatus.FAILED, error=reason, next_attempt_at=None)
        )

    async def replays(self, webhook_id: str, event_id: str) -> int:
        """The number that the next replay of this event gets."""
        statement = select(func.max(DeliveryRow.replay)).where(
            DeliveryRow.webhook_id == webhook_id, DeliveryRow.event_id == event_id
        )
        return int((await self.connection.execute(statement)).scalar_one() or 0) + 1

    async def pending_count(self) -> int:
        """How many wait in all queues."""
        statement = select(func.count()).select_from(DeliveryRow)
        # Both conditions: MariaDB and MySQL have no partial index, and find those that wait by their time.
        waiting = (DeliveryRow.status == DeliveryStatus.PENDING, DeliveryRow.next_attempt_at.is_not(None))
        return int((await self.connection.execute(statement.where(*waiting))).scalar_one())

    async def remove_before(self, before: datetime, limit: int) -> int:
        """Remove what was made before that moment, waiting or not, in batches; how many there were in this one."""
        statement = select(DeliveryRow.id).where(DeliveryRow.created_at < before).limit(limit)
        old = (await self.connection.execute(statement)).scalars().all()
        if old:
            await self.connection.execute(delete(DeliveryRow).where(DeliveryRow.id.in_(old)))
        return len(old)
