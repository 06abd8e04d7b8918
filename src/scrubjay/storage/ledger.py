"""The ledger: per plan, every key ever seen, its last validators, hash, document and fate."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import ForeignKey, Index, String, and_, delete, exists, func, or_, select, type_coerce, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.plan import Change, Fate, LedgerEntry, WorkState
from scrubjay.storage.crawled_pages import CrawledPageRow
from scrubjay.storage.documents import DocumentRow
from scrubjay.storage.frontier import FrontierRow
from scrubjay.storage.operation_items import OperationItemRow
from scrubjay.storage.plans import PlanRow
from scrubjay.storage.repository import Base, Repository, batches, table_options
from scrubjay.storage.types import EnumText, Hash, Id, JsonTuple, LongText, Name, Number, UtcDateTime

MAX_INTERVALS = 8  # changes whose intervals are kept for a key

# What a delta needs of every key: hash, fate, how often it was missing, fingerprint. Plain values, because making
# objects and enums of them would take most of a delta's time.
LedgerState = tuple[str, str, int, str | None]


class LedgerHistory(NamedTuple):
    """What tells how often a key changes, and how long nobody looked."""

    key_hash: str
    key: str
    last_seen_at: datetime
    unchanged_seconds: float
    change_intervals: tuple[float, ...]


class HeldDocument(NamedTuple):
    """Which version a document has."""

    id: str
    url: str
    version: int
    content_sha256: str


class LedgerRow(Base):
    __tablename__ = "ledger"
    __table_args__ = table_options(
        Index("ix_ledger_operation", "plan_id", "last_operation_id"),
        Index("ix_ledger_fate", "plan_id", "fate"),
        Index("ix_ledger_document", "document_id"),
        Index("ix_ledger_key", "key_hash"),
        # All that a delta reads of a key, in the order in which it reads: the table itself is not touched.
        Index("ix_ledger_delta", "plan_id", "key_hash", "fate", "missing_runs", "fingerprint"),
    )

    plan_id: Mapped[Id] = mapped_column(ForeignKey("crawl_plans.id", ondelete="CASCADE"), primary_key=True)
    key_hash: Mapped[Hash] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    key: Mapped[LongText]
    fate: Mapped[Fate] = mapped_column(EnumText(Fate))
    document_id: Mapped[Id | None]
    content_type: Mapped[Name | None]
    content_length: Mapped[Number | None]
    etag: Mapped[LongText | None]
    last_modified_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    content_sha256: Mapped[Hash | None]
    content_sha1: Mapped[Hash | None]
    content_md5: Mapped[Hash | None]
    text_sha256: Mapped[Hash | None]
    fingerprint: Mapped[Hash | None]
    error: Mapped[LongText | None]
    seen_count: Mapped[int]
    change_count: Mapped[int]
    missing_runs: Mapped[int]
    unchanged_seconds: Mapped[float]
    change_intervals: Mapped[tuple[float, ...]] = mapped_column(JsonTuple)
    first_seen_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_seen_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_changed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_operation_id: Mapped[Id | None]


class Ledger(Repository[LedgerEntry]):
    row = LedgerRow
    model = LedgerEntry
    noun = "ledger entry"
    key = ("plan_id", "key_hash")

    async def states(
        self, plan_id: str, *, after: str = "", limit: int = 20_000, asked_by: str | None = None
    ) -> Sequence[LedgerState]:
        """All keys of a plan in the order of their hashes, some at a time; or those that a crawl job asked for."""
        statement = select(*_STATE).where(LedgerRow.plan_id == plan_id, LedgerRow.key_hash > after)
        if asked_by is not None:
            statement = statement.where(_is_asked_by(asked_by))
        rows = await self.connection.execute(statement.order_by(LedgerRow.key_hash).limit(limit))
        return cast(Sequence[LedgerState], rows.all())

    async def listing(
        self, plan_id: str, *, fates: Collection[Fate] = (), after: str = "", limit: int = 1000
    ) -> Sequence[LedgerEntry]:
        """Entries in the order of their hashes, some at a time."""
        wanted = [LedgerRow.plan_id == plan_id, LedgerRow.key_hash > after]
        if fates:
            wanted.append(LedgerRow.fate.in_(list(fates)))
        return await self.every(*wanted, order=[LedgerRow.key_hash], limit=limit)

    async def by_hashes(self, plan_id: str, hashes: Collection[str]) -> Mapping[str, LedgerEntry]:
        found = await self.every(LedgerRow.plan_id == plan_id, LedgerRow.key_hash.in_(list(hashes)))
        return {entry.key_hash: entry for entry in found}

    async def owners(self, tenant_id: str, hashes: Collection[str], limit: int = 5) -> Sequence[str]:
        """Plans that have all of these keys; plans with a schedule first, then the most recently used."""
        return await self.column(
            select(LedgerRow.plan_id)
            .join(PlanRow, PlanRow.id == LedgerRow.plan_id)
            .where(
                LedgerRow.tenant_id == tenant_id,
                LedgerRow.key_hash.in_(list(hashes)),
                LedgerRow.fate != Fate.RETIRED,
            )
            .group_by(LedgerRow.plan_id, PlanRow.is_one_off, PlanRow.updated_at)
            .having(func.count() == len(hashes))
            .order_by(PlanRow.is_one_off, PlanRow.updated_at.desc())
            .limit(limit)
        )

    async def other_holders(
        self, plan_id: str, document_ids: Collection[str], *, but: Collection[str] = ()
    ) -> Mapping[str, str]:
        """Document → a plan that still has it: another one, or this one under other keys than `but`.

        Another plan that is one-off holds nothing, because no run of it would let go.
        """
        if not document_ids:
            return {}
        rows = await self.connection.execute(
            select(LedgerRow.document_id, func.min(LedgerRow.plan_id))
            .join(PlanRow, PlanRow.id == LedgerRow.plan_id)
            .where(
                LedgerRow.document_id.in_(list(document_ids)),
                LedgerRow.fate != Fate.RETIRED,
                or_(
                    and_(LedgerRow.plan_id != plan_id, PlanRow.is_one_off.is_(False)),
                    and_(LedgerRow.plan_id == plan_id, LedgerRow.key_hash.not_in(list(but))),
                ),
            )
            .group_by(LedgerRow.document_id)
        )
        return {str(document_id): str(holder) for document_id, holder in rows}

    async def documents(self, plan_id: str) -> Sequence[HeldDocument]:
        """Every document that the plan holds and that is not deleted, by id."""
        held = select(LedgerRow.document_id).where(LedgerRow.plan_id == plan_id, LedgerRow.fate != Fate.RETIRED)
        rows = await self.connection.execute(
            select(DocumentRow.id, DocumentRow.url, DocumentRow.version, DocumentRow.content_sha256)
            .where(
                DocumentRow.id.in_(held),
                DocumentRow.deleted_at.is_(None),
                DocumentRow.is_purging.is_(False),
                DocumentRow.version > 0,
            )
            .order_by(DocumentRow.id)
        )
        return [HeldDocument._make(row) for row in rows]

    async def release(self, document_ids: Collection[str]) -> None:
        """The documents have ended: no plan has them, not even a one-off plan."""
        if document_ids:
            await self.connection.execute(
                update(LedgerRow)
                .where(LedgerRow.document_id.in_(list(document_ids)))
                .values(fate=Fate.RETIRED, missing_runs=0)
            )

    async def put(self, entries: Sequence[LedgerEntry]) -> None:
        """Write entries of one plan in place of what was known of their keys."""
        for batch in batches(entries):
            hashes = [entry.key_hash for entry in batch]
            await self.connection.execute(
                delete(LedgerRow).where(LedgerRow.plan_id == batch[0].plan_id, LedgerRow.key_hash.in_(hashes))
            )
            await self.add_many(batch)

    async def forget(self, plan_id: str, hashes: Collection[str]) -> None:
        """Keys that the next comparison is to find new."""
        for keys in batches(hashes):
            await self.connection.execute(
                delete(LedgerRow).where(LedgerRow.plan_id == plan_id, LedgerRow.key_hash.in_(list(keys)))
            )

    async def set_fate(self, plan_id: str, hashes: Collection[str], fate: Fate, **changes: Any) -> None:
        if hashes:
            await self.connection.execute(
                update(LedgerRow)
                .where(LedgerRow.plan_id == plan_id, LedgerRow.key_hash.in_(list(hashes)))
                .values(fate=fate, **changes)
            )

    async def note_missing(self, plan_id: str, operation_id: str) -> None:
        """What an operation missed and does not delete was missing once more."""
        missed = select(OperationItemRow.key_hash).where(
            OperationItemRow.operation_id == operation_id,
            OperationItemRow.change == Change.DELETED,
            OperationItemRow.state == WorkState.SKIPPED,
        )
        await self.connection.execute(
            update(LedgerRow)
            .where(LedgerRow.plan_id == plan_id, LedgerRow.key_hash.in_(missed))
            .values(fate=Fate.MISSING, missing_runs=LedgerRow.missing_runs + 1)
        )

    async def note_unchanged(self, plan_id: str, hashes: Collection[str], now: datetime) -> None:
        """These were looked at by themselves, and are as they were."""
        if hashes:
            entries = await self.by_hashes(plan_id, hashes)
            await self.put(
                [
                    replace(
                        entry,
                        unchanged_seconds=entry.unchanged_seconds
                        + max(0.0, (now - entry.last_seen_at).total_seconds()),
                        seen_count=entry.seen_count + 1,
                        last_seen_at=now,
                    )
                    for entry in entries.values()
                ]
            )

    async def tally(self, plan_id: str) -> Mapping[Fate, int]:
        rows = await self.connection.execute(
            select(LedgerRow.fate, func.count()).where(LedgerRow.plan_id == plan_id).group_by(LedgerRow.fate)
        )
        return {fate: int(count) for fate, count in rows}

    async def unvisited(
        self, plan_id: str, job_id: str, *, after: str = "", limit: int = 500
    ) -> Sequence[tuple[str, str, int | None]]:
        """Keys with documents that a crawl job has not come across: hash, address, and depth when last crawled."""
        rows = await self.connection.execute(
            select(LedgerRow.key_hash, LedgerRow.key, CrawledPageRow.depth)
            .outerjoin_from(
                LedgerRow,
                CrawledPageRow,
                and_(CrawledPageRow.scope_id == LedgerRow.plan_id, CrawledPageRow.url_hash == LedgerRow.key_hash),
            )
            .where(
                LedgerRow.plan_id == plan_id,
                LedgerRow.key_hash > after,
                LedgerRow.fate != Fate.RETIRED,
                ~_is_asked_by(job_id),
            )
            .order_by(LedgerRow.key_hash)
            .limit(limit)
        )
        return [(key_hash, key, depth) for key_hash, key, depth in rows]

    async def history(self, plan_id: str, *, after: str = "", limit: int = 5000) -> Sequence[LedgerHistory]:
        """How the keys that have documents behaved, in the order of their hashes, some at a time."""
        rows = await self.connection.execute(
            select(*_HISTORY)
            .where(LedgerRow.plan_id == plan_id, LedgerRow.key_hash > after, LedgerRow.fate != Fate.RETIRED)
            .order_by(LedgerRow.key_hash)
            .limit(limit)
        )
        return [LedgerHistory._make(row) for row in rows]


def _is_asked_by(job_id: str) -> Any:
    return exists().where(FrontierRow.job_id == job_id, FrontierRow.url_hash == LedgerRow.key_hash)


_STATE = (LedgerRow.key_hash, type_coerce(LedgerRow.fate, String), LedgerRow.missing_runs, LedgerRow.fingerprint)
_HISTORY = [LedgerRow.__table__.c[name] for name in LedgerHistory._fields]
