"""Webhooks: who is told; their secrets are sealed."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.watching import Webhook
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import Id, Json, JsonTuple, LongText, UtcDateTime, partial_index


class WebhookRow(Base):
    __tablename__ = "webhooks"
    __table_args__ = table_options(
        Index("ix_webhooks_plan_id", "plan_id"),
        partial_index("ix_webhooks_active", "tenant_id", where="is_active = true"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    url: Mapped[LongText]
    plan_id: Mapped[Id | None] = mapped_column(ForeignKey("crawl_plans.id", ondelete="CASCADE"))
    events: Mapped[tuple[str, ...]] = mapped_column(JsonTuple)
    headers: Mapped[Json]
    sealed_secret: Mapped[LongText | None]
    sealed_previous_secret: Mapped[LongText | None]
    is_active: Mapped[bool]
    failures: Mapped[int]
    circuit_opened_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Webhooks(Repository[Webhook]):
    row = WebhookRow
    model = Webhook
    noun = "webhook"
