"""Proxies: servers to go through; their passwords are sealed."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.crawling import Proxy, ProxyRotation
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import EnumText, JsonTuple, Name, UtcDateTime


class ProxyRow(TenantOwned, Base):
    __tablename__ = "proxies"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "name", name="uq_proxies_name"),
        Index("ix_proxies_active", "is_active"),
    )

    name: Mapped[Name]
    servers: Mapped[tuple[Any, ...]] = mapped_column(JsonTuple)
    rotation: Mapped[ProxyRotation] = mapped_column(EnumText(ProxyRotation))
    is_active: Mapped[bool]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Proxies(Repository[Proxy]):
    row = ProxyRow
    model = Proxy
    noun = "proxy"
