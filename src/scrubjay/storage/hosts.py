"""Host settings: what a host asked for, or an operator decided about it."""

from datetime import datetime

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.crawling import HostSettings
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import Id, LongText, Name, UtcDateTime, partial_index


class HostSettingsRow(Base):
    __tablename__ = "host_settings"
    __table_args__ = table_options(
        partial_index("ix_host_settings_blocked", "is_blocked", where="is_blocked = true"),
    )

    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    host: Mapped[Name] = mapped_column(primary_key=True)
    rate_limit_rps: Mapped[float]
    circuit_breaker_threshold: Mapped[int]
    circuit_breaker_timeout_seconds: Mapped[int]
    is_blocked: Mapped[bool]
    blocked_reason: Mapped[LongText | None]
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Hosts(Repository[HostSettings]):
    row = HostSettingsRow
    model = HostSettings
    noun = "host"
    key = ("host",)
