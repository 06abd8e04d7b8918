"""Bodies that nobody had any more: out of the way, and destroyed when that still holds a while later."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import Hash, UtcDateTime


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardedBody:
    sha256: str
    discarded_at: datetime


class DiscardedBodyRow(Base):
    __tablename__ = "discarded_bodies"
    __table_args__ = table_options()

    sha256: Mapped[Hash] = mapped_column(primary_key=True)
    discarded_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class DiscardedBodies(Repository[DiscardedBody]):
    row = DiscardedBodyRow
    model = DiscardedBody
    noun = "discarded body"
    key = ("sha256",)

    async def note(self, digests: Collection[str], now: datetime) -> None:
        """From now on; for one that was noted before, its time begins anew."""
        for digest in sorted(set(digests)):
            result = await self.connection.execute(
                update(DiscardedBodyRow).where(DiscardedBodyRow.sha256 == digest).values(discarded_at=now)
            )
            if not result.rowcount:
                await self.add(DiscardedBody(sha256=digest, discarded_at=now))

    async def due(self, before: datetime, limit: int) -> Sequence[str]:
        found = await self.connection.scalars(
            select(DiscardedBodyRow.sha256)
            .where(DiscardedBodyRow.discarded_at < before)
            .order_by(DiscardedBodyRow.discarded_at)
            .limit(limit)
        )
        return found.all()

    async def forget(self, digest: str, before: datetime) -> None:
        """Unless it was discarded once more in the meantime."""
        await self.connection.execute(
            delete(DiscardedBodyRow).where(DiscardedBodyRow.sha256 == digest, DiscardedBodyRow.discarded_at < before)
        )
