"""Generations of the index, and how often each tenant's part of it has changed."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import ForeignKey, delete, insert, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import GenerationState, IndexGeneration
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import BIG, EnumText, Id, LongText, Name, UtcDateTime


class GenerationRow(Base):
    __tablename__ = "index_generations"
    __table_args__ = table_options()

    id: Mapped[Id] = mapped_column(primary_key=True)
    embedder: Mapped[LongText]
    model: Mapped[Name]
    dimensions: Mapped[int]
    place: Mapped[LongText | None]
    state: Mapped[GenerationState] = mapped_column(EnumText(GenerationState))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    live_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class EpochRow(Base):
    """Counts the changes of what a tenant can find; cached results of an older epoch are not used."""

    __tablename__ = "search_epochs"
    __table_args__ = table_options()

    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    epoch: Mapped[int] = mapped_column(BIG)


class Generations(Repository[IndexGeneration]):
    row = GenerationRow
    model = IndexGeneration
    noun = "index generation"

    async def all(self) -> Sequence[IndexGeneration]:
        """Every generation, oldest first."""
        return await self.every(order=[GenerationRow.id])

    async def set_state(self, generation_id: str, state: GenerationState, *, live_at: datetime | None = None) -> None:
        values = {"state": state} if live_at is None else {"state": state, "live_at": live_at}
        await self.connection.execute(update(GenerationRow).where(GenerationRow.id == generation_id).values(**values))

    async def remove(self, generation_id: str) -> None:
        await self.connection.execute(delete(GenerationRow).where(GenerationRow.id == generation_id))

    async def epoch(self, tenant_id: str) -> int:
        found = await self.connection.scalar(select(EpochRow.epoch).where(EpochRow.tenant_id == tenant_id))
        return int(found or 0)

    async def advance(self, tenant_ids: Collection[str]) -> None:
        """What these tenants can find has changed."""
        for tenant_id in sorted(tenant_ids):
            changed = await self.connection.execute(
                update(EpochRow).where(EpochRow.tenant_id == tenant_id).values(epoch=EpochRow.epoch + 1)
            )
            if not changed.rowcount:
                with self._conflicts():
                    await self.connection.execute(insert(EpochRow).values(tenant_id=tenant_id, epoch=1))
