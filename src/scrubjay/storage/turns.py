"""Periodic tasks of a cluster: each is run once per interval, by whichever process takes the turn first."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import String, or_, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.errors import Conflict
from scrubjay.model.clock import utc_now
from scrubjay.storage.database import Database
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import UtcDateTime

RETRIES_PER_INTERVAL = 10  # of a turn that another process has taken


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
        """Take the turn if it is due; the next one is due after `every_seconds`.

        A due time further ahead than the interval was set by a clock that has since been set back.
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
        await self.add(Turn(name=name, next_at=following))  # Conflict when another process was first
        return True


class TurnTaker:
    """Tells one process of the cluster, once per interval, that a periodic task is due.

    It asks the database only when the interval may be over, so that idle processes do not write all the time.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._ask_at: dict[str, datetime] = {}

    async def is_due(self, name: str, every_seconds: float) -> bool:
        now = self._clock()
        interval = timedelta(seconds=every_seconds)
        ask_at = self._ask_at.get(name, now)
        if now < ask_at <= now + interval:
            return False
        try:
            async with self._database.writing() as connection:
                taken = await Turns(connection).take(name, every_seconds, now)
        except Conflict:
            taken = False
        self._ask_at[name] = now + (interval if taken else interval / RETRIES_PER_INTERVAL)
        return taken
