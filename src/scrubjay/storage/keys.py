"""API keys: only their hashes are kept."""

from datetime import datetime

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.tenant import ApiKey, Scope
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import EnumTuple, Hash, Name, UtcDateTime, partial_index


class ApiKeyRow(TenantOwned, Base):
    __tablename__ = "api_keys"
    __table_args__ = table_options(
        Index("ix_api_keys_tenant_id", "tenant_id"),
        partial_index("ix_api_keys_active", "is_active", where="is_active = true"),
    )

    name: Mapped[Name]
    key_hash: Mapped[Hash] = mapped_column(unique=True)
    scopes: Mapped[tuple[Scope, ...]] = mapped_column(EnumTuple(Scope))
    rate_limit_rpm: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    is_active: Mapped[bool]


class ApiKeys(Repository[ApiKey]):
    row = ApiKeyRow
    model = ApiKey
    noun = "API key"

    async def find_by_hash(self, key_hash: str) -> ApiKey | None:
        return await self.find(ApiKeyRow.key_hash == key_hash)

    async def find_by_id(self, key_id: str) -> ApiKey | None:
        return await self.find(ApiKeyRow.id == key_id)
