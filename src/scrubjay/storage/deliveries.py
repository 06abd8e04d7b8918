"""Webhook deliveries: what was sent, what came back, and when the next try is."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.watching import Delivery, DeliveryStatus
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import EnumText, Id, LongText, UtcDateTime, partial_index


class DeliveryRow(Base):
    __tablename__ = "webhook_deliveries"
    __table_args__ = table_options(
        Index("ix_webhook_deliveries_webhook", "webhook_id", "created_at"),
        partial_index("ix_webhook_deliveries_due", "next_attempt_at", where="status = 'pending'"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    webhook_id: Mapped[Id] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    event: Mapped[str] = mapped_column(String(64))
    body: Mapped[LongText]
    job_id: Mapped[Id | None]
    job_type: Mapped[str | None] = mapped_column(String(64))
    status: Mapped[DeliveryStatus] = mapped_column(EnumText(DeliveryStatus))
    attempts: Mapped[int]
    max_attempts: Mapped[int]
    response_status: Mapped[int | None]
    response_body: Mapped[LongText | None]
    last_attempt_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    next_attempt_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Deliveries(Repository[Delivery]):
    row = DeliveryRow
    model = Delivery
    noun = "delivery"
