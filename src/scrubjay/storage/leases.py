"""Leases on rows that are due: several processes share the work, and a dead process loses its rows when they expire.

One column says when a row is due, another who holds it. A lease moves the due time to when it expires.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeVar

from sqlalchemy import ColumnElement, select, true, update

from scrubjay.storage.repository import Repository

M = TypeVar("M")


class LeasedRepository(Repository[M]):
    due: ClassVar[str]  # the column with the time from which a row may be leased
    holder: ClassVar[str]  # the column with the id of the lease
    due_index: ClassVar[str]  # MariaDB and MySQL lock every row that they read: this index has the due ones only

    @classmethod
    def is_eligible(cls) -> ColumnElement[bool]:
        """Which rows can be due at all."""
        return true()

    def _is_due(self, now: datetime) -> ColumnElement[bool]:
        return self.is_eligible() & (self._column(self.due) <= now)

    async def any_due(self, now: datetime) -> bool:
        """Whether there is anything to lease. Cheap enough for polling."""
        due = select(self._column("id")).where(self._is_due(now)).limit(1)
        return (await self.connection.execute(due)).first() is not None

    async def lease_due(self, lease: str, *, limit: int, now: datetime, until: datetime) -> Sequence[M]:
        """Lease rows that are due until then, the longest waiting first."""
        due = await self.connection.execute(
            select(self._column("id"))
            .where(self._is_due(now))
            .order_by(self._column(self.due))
            .limit(limit)
            .with_for_update(skip_locked=True)
            .with_hint(self.table, "WITH (UPDLOCK, READPAST, ROWLOCK)", "mssql")
            .with_hint(self.table, f"FORCE INDEX ({self.due_index})", "mysql")
        )
        ids = list(due.scalars())
        if not ids:
            return []
        chosen = self._column("id").in_(ids)
        await self.connection.execute(update(self.row).where(chosen).values(self._leased(until, lease)))
        return await self.every(chosen)

    async def renew_lease(self, ids: Collection[str], lease: str, until: datetime) -> None:
        """Keep rows that are still leased under this id."""
        held = self._column("id").in_(list(ids)) & (self._column(self.holder) == lease)
        await self.connection.execute(update(self.row).where(held).values({self.due: until}))

    async def free_leases(self, now: datetime) -> None:
        """Make leased rows due: for a process that knows that all others are gone."""
        leased = self._column(self.holder).is_not(None)
        await self.connection.execute(update(self.row).where(leased).values(self._leased(now, None)))

    def _leased(self, until: datetime, lease: str | None) -> dict[str, Any]:
        return {self.due: until, self.holder: lease}
