"""Turns: what is to be done once in so many seconds in the whole cluster, and by whom does not matter."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import String, or_, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import UtcDateTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    name: str
    next_at: datetime


class TurnRow(Base):
    __tablename__ = "turns"
    __table_args__ = table_options()

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    next_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Turns(Repository[Turn]):
    row = TurnRow
    model = Turn
    noun = "turn"
    key = ("name",)

    async def take(self, name: str, every_seconds: float, now: datetime) -> bool:
        """Whether it is time, and this process is the one; the next time is then so many seconds away.

        A time that lies further ahead than that was set by a clock that has been put back since.
        """
        following = now + timedelta(seconds=every_seconds)
        result = await self.connection.execute(
            update(TurnRow)
            .where(TurnRow.name == name, or_(TurnRow.next_at <= now, TurnRow.next_at > following))
            .values(next_at=following)
        )
        if result.rowcount:
            return True
        if await self.find(TurnRow.name == name) is not None:
            return False
        await self.add(Turn(name=name, next_at=following))  # Conflict, when somebody else was the first ever
        return True
