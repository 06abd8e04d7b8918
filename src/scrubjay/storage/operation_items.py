"""The changes that an operation found, and what has become of each."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, bindparam, delete, func, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.plan import Change, OperationItem, WorkState
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import EnumText, Hash, Id, LongText, Name, Number, UtcDateTime


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
    error: Mapped[LongText | None]


class OperationItems(Repository[OperationItem]):
    row = OperationItemRow
    model = OperationItem
    noun = "operation item"
    key = ("operation_id", "key_hash")

    async def clear(self, operation_id: str) -> None:
        await self.connection.execute(delete(OperationItemRow).where(OperationItemRow.operation_id == operation_id))

    async def pending(self, operation_id: str, change: Change, limit: int) -> Sequence[OperationItem]:
        """The next work of one phase, in the order of the keys' hashes."""
        return await self._items(
            select(*self._columns)
            .where(
                OperationItemRow.operation_id == operation_id,
                OperationItemRow.change == change,
                OperationItemRow.state == WorkState.PENDING,
            )
            .order_by(OperationItemRow.key_hash)
            .limit(limit)
        )

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
        return await self._items(
            select(*self._columns).where(*conditions).order_by(OperationItemRow.key_hash).limit(limit)
        )

    async def settle(self, operation_id: str, settled: Sequence[Mapping[str, Any]]) -> None:
        """Note what became of items: `key_hash`, `state`, `document_id` and `error` of each."""
        if settled:
            await self.connection.execute(
                _SETTLE,
                [
                    {
                        "of_operation": operation_id,
                        "of_key": each["key_hash"],
                        "now_state": each["state"],
                        "now_document": each.get("document_id"),
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

    async def tally(self, operation_id: str) -> Mapping[tuple[Change, WorkState], tuple[int, int]]:
        """How many items, and how many bytes, there are of each change and state."""
        rows = await self.connection.execute(
            select(
                OperationItemRow.change,
                OperationItemRow.state,
                func.count(),
                func.coalesce(func.sum(OperationItemRow.content_length), 0),
            )
            .where(OperationItemRow.operation_id == operation_id)
            .group_by(OperationItemRow.change, OperationItemRow.state)
        )
        return {(change, state): (int(count), int(size or 0)) for change, state, count, size in rows}


_SETTLE = (
    update(OperationItemRow)
    .where(
        OperationItemRow.operation_id == bindparam("of_operation"),
        OperationItemRow.key_hash == bindparam("of_key"),
    )
    .values(state=bindparam("now_state"), document_id=bindparam("now_document"), error=bindparam("now_error"))
    .execution_options(synchronize_session=False)
)
