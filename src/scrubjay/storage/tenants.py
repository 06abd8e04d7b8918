"""Tenants: whose things these are."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.tenant import Tenant
from scrubjay.storage.repository import Base, Repository
from scrubjay.storage.types import Id, Name, UtcDateTime


class TenantRow(Base):
    __tablename__ = "tenants"

    id: Mapped[Id] = mapped_column(primary_key=True)
    name: Mapped[Name] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Tenants(Repository[Tenant]):
    row = TenantRow
    model = Tenant
    noun = "tenant"

    async def find_by_id(self, tenant_id: str) -> Tenant | None:
        return await self.find(TenantRow.id == tenant_id)

    async def find_by_name(self, name: str) -> Tenant | None:
        return await self.find(TenantRow.name == name)
