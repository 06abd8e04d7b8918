"""Webhooks: who is told, who sends to them now, and when next; their secrets are sealed."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, and_, exists, func, or_, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.webhook import LONGEST_WAIT, Webhook
from scrubjay.storage.jobs import JobRow
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import Id, Json, JsonTuple, LongText, Name, Number, UtcDateTime, partial_index


class WebhookRow(TenantOwned, Base):
    __tablename__ = "webhooks"
    __table_args__ = table_options(
        Index("ix_webhooks_plan_id", "plan_id"),
        Index("ix_webhooks_job_id", "job_id"),
        partial_index("ix_webhooks_active", "tenant_id", where="is_active = true"),
        partial_index("ix_webhooks_due", "next_attempt_at", where="next_attempt_at IS NOT NULL"),
    )

    url: Mapped[LongText]
    host: Mapped[Name]
    plan_id: Mapped[Id | None] = mapped_column(ForeignKey("crawl_plans.id", ondelete="CASCADE"))
    job_id: Mapped[Id | None]
    events: Mapped[tuple[str, ...]] = mapped_column(JsonTuple)
    headers: Mapped[Json]
    sealed_secret: Mapped[LongText | None]
    sealed_previous_secret: Mapped[LongText | None]
    previous_secret_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    is_active: Mapped[bool]
    failures: Mapped[int]
    circuit_opened_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_position: Mapped[Number]
    next_attempt_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    lease_id: Mapped[Id | None]
    leased_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Webhooks(Repository[Webhook]):
    row = WebhookRow
    model = Webhook
    noun = "webhook"

    async def listening(self, tenant_ids: Collection[str]) -> Sequence[Webhook]:
        """The active webhooks of these tenants, but for those that belong to one job."""
        return await self.every(
            WebhookRow.tenant_id.in_(tenant_ids), WebhookRow.is_active.is_(True), WebhookRow.job_id.is_(None)
        )

    async def lock(self, webhook_ids: Collection[str]) -> Sequence[Webhook]:
        """Nobody else puts anything into their queues, or takes it out, until the transaction ends."""
        return await self._items(
            select(*self._columns)
            .where(WebhookRow.id.in_(webhook_ids))
            .order_by(WebhookRow.id)
            .with_for_update()
            .with_hint(WebhookRow, "WITH (UPDLOCK, ROWLOCK)", "mssql")
        )

    async def change(self, webhook_id: str, **values: Any) -> None:
        await self.connection.execute(update(WebhookRow).where(WebhookRow.id == webhook_id).values(**values))

    async def any_due(self, now: datetime) -> bool:
        return (await self.connection.execute(select(WebhookRow.id).where(_is_due(now)).limit(1))).first() is not None

    async def due(self, now: datetime, limit: int, busy_hosts: Collection[str] = ()) -> Sequence[Webhook]:
        """Those whose queue should be looked at and that nobody sends to, the longest waiting first."""
        return await self.every(
            _is_due(now),
            WebhookRow.host.not_in(busy_hosts),
            order=[WebhookRow.next_attempt_at, WebhookRow.id],
            limit=limit,
        )

    async def lease(self, webhook_id: str, lease_id: str, now: datetime, until: datetime) -> bool:
        """Take a webhook that is due; false when somebody else was faster."""
        return await self.changed(
            update(WebhookRow)
            .where(WebhookRow.id == webhook_id, _is_due(now))
            .values(lease_id=lease_id, leased_until=until)
        )

    async def hold(self, webhook_id: str, lease_id: str, until: datetime) -> Webhook | None:
        """Keep a lease for longer, and the row locked until the transaction ends; None when it was lost."""
        result = await self.connection.execute(
            update(WebhookRow)
            .where(WebhookRow.id == webhook_id, WebhookRow.lease_id == lease_id)
            .values(leased_until=until)
        )
        return await self.find(WebhookRow.id == webhook_id) if result.rowcount else None

    async def free_leases(self) -> None:
        """For a process that is alone: whoever sent before is gone."""
        await self.connection.execute(
            update(WebhookRow).where(WebhookRow.lease_id.is_not(None)).values(lease_id=None, leased_until=None)
        )

    async def of_lost_jobs(self, before: datetime, limit: int) -> Sequence[Webhook]:
        """Webhooks of single jobs, older than that moment, whose job has gone."""
        known = exists().where(JobRow.id == WebhookRow.job_id)
        return await self.every(WebhookRow.job_id.is_not(None), ~known, WebhookRow.created_at < before, limit=limit)

    async def open_circuits(self) -> int:
        statement = select(func.count()).select_from(WebhookRow).where(WebhookRow.circuit_opened_at.is_not(None))
        return int((await self.connection.execute(statement)).scalar_one())


def _is_due(now: datetime) -> Any:
    """Times that lie further ahead than any wait were set by a clock that has been put back since."""
    latest = now + LONGEST_WAIT
    due = or_(WebhookRow.next_attempt_at <= now, WebhookRow.next_attempt_at > latest)
    free = or_(WebhookRow.leased_until.is_(None), WebhookRow.leased_until <= now, WebhookRow.leased_until > latest)
    return and_(due, free, WebhookRow.is_active.is_(True))
