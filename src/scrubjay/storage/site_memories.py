"""Site memories: what a tenant's crawls have learned of each host's boilerplate."""

from datetime import datetime

from sqlalchemy import ForeignKey, delete
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.crawling import SiteMemory
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import BYTES, Id, Name, UtcDateTime


class SiteMemoryRow(Base):
    __tablename__ = "site_memories"
    __table_args__ = table_options()

    scope_id: Mapped[Id] = mapped_column(primary_key=True)
    host: Mapped[Name] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    memory: Mapped[bytes] = mapped_column(BYTES)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class SiteMemories(Repository[SiteMemory]):
    row = SiteMemoryRow
    model = SiteMemory
    noun = "site memory"
    key = ("scope_id", "host")

    async def recall(self, tenant_id: str, host: str) -> SiteMemory | None:
        """What is known of a host; memories of single scopes, as earlier versions kept them, are a fallback."""
        return await self.find(self._is(tenant_id, (tenant_id, host))) or await self.newest_of_host(tenant_id, host)

    async def newest_of_host(self, tenant_id: str, host: str) -> SiteMemory | None:
        """What was last learned of a host, by whichever scope."""
        newest = await self.page(
            SiteMemoryRow.tenant_id == tenant_id,
            SiteMemoryRow.host == host,
            limit=1,
            order=[SiteMemoryRow.updated_at.desc()],
        )
        return newest.items[0] if newest.items else None

    async def put(self, memory: SiteMemory) -> None:
        """Store what is known now in place of what was known."""
        await self.connection.execute(
            delete(SiteMemoryRow).where(SiteMemoryRow.scope_id == memory.scope_id, SiteMemoryRow.host == memory.host)
        )
        await self.add(memory)

    async def remove_scope(self, scope_id: str) -> None:
        await self.connection.execute(delete(SiteMemoryRow).where(SiteMemoryRow.scope_id == scope_id))
