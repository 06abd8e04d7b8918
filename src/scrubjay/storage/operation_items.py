"""The changes that an operation found, and what has become of each."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    ForeignKey,
    Index,
    String,
    and_,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.plan import Change, OperationItem, WorkState
from scrubjay.storage.repository import Base, Repository, batches, table_options
from scrubjay.storage.types import EnumText, Hash, Id, LongText, Name, Number, UtcDateTime

PROBLEM_STATES = (WorkState.FAILED, WorkState.DENIED, WorkState.SKIPPED, WorkState.CUT)


class OperationItemRow(Base):
    __tablename__ = "operation_items"
    __table_args__ = table_options(
        Index("ix_operation_items_work", "operation_id", "change", "state", "key_hash"),
    )

    operation_id: Mapped[Id] = mapped_column(ForeignKey("crawl_operations.id", ondelete="CASCADE"), primary_key=True)
    key_hash: Mapped[Hash] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    key: Mapped[LongText]
    change: Mapped[Change] = mapped_column(EnumText(Change))
    state: Mapped[WorkState] = mapped_column(EnumText(WorkState))
    content_type: Mapped[Name | None]
    content_length: Mapped[Number | None]
    etag: Mapped[LongText | None]
    content_sha256: Mapped[Hash | None]
    content_sha1: Mapped[Hash | None]
    content_md5: Mapped[Hash | None]
    text_sha256: Mapped[Hash | None]
    last_modified_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    document_id: Mapped[Id | None]
    reason: Mapped[str | None] = mapped_column(String(64))
    error: Mapped[LongText | None]
    http_status: Mapped[int | None]
    attempts: Mapped[int] = mapped_column(server_default="1")
    part_id: Mapped[Id | None]


class OperationItems(Repository[OperationItem]):
    row = OperationItemRow
    model = OperationItem
    noun = "operation item"
    key = ("operation_id", "key_hash")

    async def clear_undone(self, operation_id: str, *, with_work: bool) -> None:
        """Forget deletions and problems, which are found again; with the work that waits, where that is, too."""
        row = OperationItemRow
        again: ColumnElement[bool] = row.change.in_([Change.DELETED, Change.UNREAD])
        if with_work:
            again = or_(again, row.state.in_([WorkState.PENDING, WorkState.SKIPPED]))
        await self.connection.execute(delete(row).where(row.operation_id == operation_id, again))

    async def clear_failed(self, operation_id: str) -> None:
        """Forget what failed, so that it is tried again."""
        row = OperationItemRow
        await self.connection.execute(
            delete(row).where(row.operation_id == operation_id, row.state.in_(PROBLEM_STATES))
        )

    async def count_taken(self, operation_id: str) -> int:
        """How many items were taken in, of whatever change."""
        row = OperationItemRow
        taken = row.change.in_([Change.ADDED, Change.CHANGED, Change.UNCHANGED])
        return await self.count(row.operation_id == operation_id, row.state == WorkState.DONE, taken)

    async def put(self, items: Sequence[OperationItem]) -> None:
        """Write items of one operation in place of what was written for their keys."""
        for batch in batches(items):
            await self.connection.execute(
                delete(OperationItemRow).where(
                    OperationItemRow.operation_id == batch[0].operation_id,
                    OperationItemRow.key_hash.in_([item.key_hash for item in batch]),
                )
            )
            await self.add_many(batch)

    async def states(self, operation_id: str, hashes: Collection[str]) -> Mapping[str, WorkState]:
        """What became of these keys so far; keys without an item are left out."""
        found: dict[str, WorkState] = {}
        for keys in batches(hashes):
            rows = await self.connection.execute(
                select(OperationItemRow.key_hash, OperationItemRow.state).where(
                    OperationItemRow.operation_id == operation_id,
                    OperationItemRow.key_hash.in_(keys),
                )
            )
            for key_hash, state in rows:
                found[key_hash] = state
        return found

    async def pending(
        self, operation_id: str, changes: Collection[Change], limit: int, *, part_id: str | None = None
    ) -> Sequence[OperationItem]:
        """The next work, in the order of the keys' hashes; with `part_id`, only what that job takes in."""
        conditions = [
            OperationItemRow.operation_id == operation_id,
            OperationItemRow.change.in_(list(changes)),
            OperationItemRow.state == WorkState.PENDING,
        ]
        if part_id is not None:
            conditions.append(OperationItemRow.part_id == part_id)
        return await self.every(*conditions, order=[OperationItemRow.key_hash], limit=limit)

    async def listing(
        self,
        operation_id: str,
        *,
        change: Change | None = None,
        states: Collection[WorkState] = (),
        after: str = "",
        limit: int = 1000,
    ) -> Sequence[OperationItem]:
        """Items by the hash of their key, some at a time."""
        conditions = [OperationItemRow.operation_id == operation_id, OperationItemRow.key_hash > after]
        if change is not None:
            conditions.append(OperationItemRow.change == change)
        if states:
            conditions.append(OperationItemRow.state.in_(list(states)))
        return await self.every(*conditions, order=[OperationItemRow.key_hash], limit=limit)

    async def settle(self, operation_id: str, settled: Sequence[Mapping[str, Any]]) -> None:
        """Note what became of items: `key_hash`, `change`, `state`, `document_id`, `reason` and `error` of each."""
        if settled:
            await self.connection.execute(
                _SETTLE,
                [
                    {
                        "of_operation": operation_id,
                        "of_key": each["key_hash"],
                        "now_change": each["change"],
                        "now_state": each["state"],
                        "now_document": each.get("document_id"),
                        "now_reason": each.get("reason"),
                        "now_error": each.get("error"),
                    }
                    for each in settled
                ],
            )

    async def skip(self, operation_id: str, change: Change) -> None:
        """Leave all pending work of one phase undone."""
        await self._move(operation_id, change, WorkState.PENDING, WorkState.SKIPPED)

    async def unskip(self, operation_id: str, change: Change) -> None:
        """Do what had been left undone."""
        await self._move(operation_id, change, WorkState.SKIPPED, WorkState.PENDING)

    async def _move(self, operation_id: str, change: Change, before: WorkState, after: WorkState) -> None:
        await self.connection.execute(
            update(OperationItemRow)
            .where(
                OperationItemRow.operation_id == operation_id,
                OperationItemRow.change == change,
                OperationItemRow.state == before,
            )
            .values(state=after)
        )

    async def tally(self, operation_id: str) -> Mapping[tuple[Change, WorkState, str | None], tuple[int, int]]:
        """The number of items, and of their bytes, of each change, state and reason."""
        row = OperationItemRow
        rows = await self.connection.execute(
            select(row.change, row.state, row.reason, func.count(), func.coalesce(func.sum(row.content_length), 0))
            .where(row.operation_id == operation_id)
            .group_by(row.change, row.state, row.reason)
        )
        return {(change, state, reason): (int(count), int(size or 0)) for change, state, reason, count, size in rows}

    async def with_outcomes(
        self, operation_id: str, outcomes: Collection[str], *, contains: str = "", limit: int, offset: int
    ) -> Sequence[OperationItem]:
        """Items by outcome (`added`, `failed`, …; none means all), problems first, then by the hash of their key.

        With `contains`, only items whose key contains this text, in upper or lower case.
        """
        row = OperationItemRow
        return await self._items(
            select(*self._columns)
            .where(row.operation_id == operation_id, _has_outcome(outcomes), _has_text(contains))
            .order_by(case((row.state == WorkState.DONE, 1), else_=0), row.key_hash)
            .limit(limit)
            .offset(offset)
        )

    async def count_outcomes(self, operation_id: str, outcomes: Collection[str], *, contains: str = "") -> int:
        mine = OperationItemRow.operation_id == operation_id
        return await self.count(mine, _has_outcome(outcomes), _has_text(contains))

    async def problems(
        self, operation_id: str, *, after: str = "", limit: int = 1000, states: Collection[WorkState] = PROBLEM_STATES
    ) -> Sequence[OperationItem]:
        """Items that were not taken in, by the hash of their key."""
        return await self.listing(operation_id, states=states, after=after, limit=limit)


def _has_outcome(outcomes: Collection[str]) -> ColumnElement[bool]:
    """What became of an item is its change if it was done, and else its state."""
    row = OperationItemRow
    if not outcomes:
        return row.state != WorkState.PENDING
    states = [state for state in PROBLEM_STATES if state in outcomes]
    changes = [change for change, outcome in _CHANGE_OUTCOMES.items() if outcome in outcomes]
    return or_(row.state.in_(states), and_(row.state == WorkState.DONE, row.change.in_(changes)))


def _has_text(contains: str) -> ColumnElement[bool]:
    return OperationItemRow.key.icontains(contains, autoescape=True) if contains else true()


_CHANGE_OUTCOMES = {
    Change.ADDED: "added",
    Change.CHANGED: "changed",
    Change.DELETED: "removed",
    Change.UNCHANGED: "unchanged",
}
_SETTLE = (
    update(OperationItemRow)
    .where(
        OperationItemRow.operation_id == bindparam("of_operation"),
        OperationItemRow.key_hash == bindparam("of_key"),
    )
    .values(
        change=bindparam("now_change"),
        state=bindparam("now_state"),
        document_id=bindparam("now_document"),
        reason=bindparam("now_reason"),
        error=bindparam("now_error"),
    )
    .execution_options(synchronize_session=False)
)
