"""Watches, what they have seen, the stories that it belongs to, and the brake of them all."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    String,
    UniqueConstraint,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.job import JobState
from scrubjay.model.watching import ItemState, Story, Throttle, ThrottleLevel, Watch, WatchItem, WatchKind
from scrubjay.storage.documents import DocumentRow
from scrubjay.storage.jobs import JobRow
from scrubjay.storage.leases import LeasedRepository
from scrubjay.storage.repository import Base, Repository, TenantOwned, batches, table_options
from scrubjay.storage.tenants import TenantRow
from scrubjay.storage.types import EnumText, Hash, Id, Json, LongText, Name, UtcDateTime, partial_index


class WatchRow(TenantOwned, Base):
    __tablename__ = "watches"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "name", name="uq_watches_name"),
        partial_index("ix_watches_due", "next_poll_at", where="enabled = true"),
    )

    name: Mapped[Name]
    url: Mapped[LongText]
    kind: Mapped[WatchKind] = mapped_column(EnumText(WatchKind))
    plan_id: Mapped[Id | None] = mapped_column(ForeignKey("crawl_plans.id", ondelete="SET NULL"))
    collection_id: Mapped[Id | None]
    enabled: Mapped[bool]
    poll_interval_seconds: Mapped[int]
    daily_budget: Mapped[int]
    weight: Mapped[float]
    threshold: Mapped[float | None] = mapped_column(Double)
    catch_up: Mapped[bool]
    requests_today: Mapped[int]
    budget_day: Mapped[str | None] = mapped_column(String(10))
    etag: Mapped[LongText | None]
    last_modified: Mapped[Name | None]
    last_fingerprint: Mapped[Hash | None]
    memory: Mapped[Json]
    failures: Mapped[int]
    last_error: Mapped[LongText | None]
    notice: Mapped[LongText | None]
    escalated_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    lease: Mapped[Id | None]
    last_polled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_success_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    next_poll_at: Mapped[datetime] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Watches(LeasedRepository[Watch]):
    row = WatchRow
    model = Watch
    noun = "watch"
    due = "next_poll_at"
    holder = "lease"
    due_index = "ix_watches_due"

    @classmethod
    def is_eligible(cls) -> ColumnElement[bool]:
        return WatchRow.enabled.is_(True)

    async def lease_one(self, watch: Watch, lease: str, *, now: datetime, until: datetime) -> bool:
        """Take one watch, whether it is due or not; false when somebody polls it now."""
        free = or_(WatchRow.lease.is_(None), WatchRow.next_poll_at <= now)
        return await self.changed(
            update(WatchRow).where(WatchRow.id == watch.id, free).values(next_poll_at=until, lease=lease)
        )

    async def settle(self, watch_id: str, lease: str, **changes: Any) -> bool:
        """Write what a poll brought and give the watch back; false when it was lost, and nothing may be written."""
        return await self.changed(
            update(WatchRow).where(WatchRow.id == watch_id, WatchRow.lease == lease).values(lease=None, **changes)
        )

    async def lock_news(self, tenant_id: str) -> None:
        """From here to the end of the transaction, nobody else decides what is news in this tenant."""
        await self.connection.execute(
            select(TenantRow.id)
            .where(TenantRow.id == tenant_id)
            .with_for_update(key_share=True)  # others may still add things that belong to the tenant
            .with_hint(TenantRow, "WITH (UPDLOCK, ROWLOCK)", "mssql")
        )

    async def escalate(self, watch_ids: Collection[str], until: datetime) -> None:
        await self.connection.execute(
            update(WatchRow).where(WatchRow.id.in_(list(watch_ids))).values(escalated_until=until)
        )

    async def hurry(self, watch_ids: Collection[str], latest: datetime) -> None:
        """Have watches that stand still looked at by then; who fails is not asked more often."""
        await self.connection.execute(
            update(WatchRow)
            .where(
                WatchRow.id.in_(list(watch_ids)),
                WatchRow.lease.is_(None),
                WatchRow.failures == 0,
                WatchRow.next_poll_at > latest,
            )
            .values(next_poll_at=latest)
        )

    async def pending_jobs(self) -> int:
        """How deep the queue is, of all tenants: they share the workers."""
        statement = select(func.count()).select_from(JobRow).where(JobRow.state == JobState.PENDING)
        return int((await self.connection.execute(statement)).scalar_one())


class WatchItemRow(Base):
    __tablename__ = "watch_items"
    __table_args__ = table_options(
        Index("ix_watch_items_seen_at", "tenant_id", "seen_at"),
        Index("ix_watch_items_story", "story_id"),
        Index("ix_watch_items_url", "tenant_id", "url_hash"),
        Index("ix_watch_items_fingerprint", "tenant_id", "fingerprint"),
        Index("ix_watch_items_entry", "watch_id", "entry_hash"),
        partial_index("ix_watch_items_waiting", "watch_id", where="state = 'waiting'"),
    )

    watch_id: Mapped[Id] = mapped_column(ForeignKey("watches.id", ondelete="CASCADE"), primary_key=True)
    key_hash: Mapped[Hash] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    url: Mapped[LongText]
    url_hash: Mapped[Hash]
    site: Mapped[Name]
    title: Mapped[LongText | None]
    lead: Mapped[LongText | None]
    entry_hash: Mapped[Hash | None]
    fingerprint: Mapped[Hash | None]
    state: Mapped[ItemState] = mapped_column(EnumText(ItemState))
    reason: Mapped[LongText | None]
    news_score: Mapped[float | None]
    factors: Mapped[Json]
    story_id: Mapped[Id | None]
    job_id: Mapped[Id | None]
    updates: Mapped[int]
    published_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    news_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime)


class WatchItems(Repository[WatchItem]):
    row = WatchItemRow
    model = WatchItem
    noun = "watch item"
    key = ("watch_id", "key_hash")

    async def scores(self, tenant_id: str, url_hashes: Collection[str]) -> Mapping[str, float]:
        """How newsworthy addresses were found, by hash; the highest where several watches saw one."""
        if not url_hashes:
            return {}
        rows = await self.connection.execute(
            select(WatchItemRow.url_hash, func.max(WatchItemRow.news_score).label("score"))
            .where(
                WatchItemRow.tenant_id == tenant_id,
                WatchItemRow.url_hash.in_(list(url_hashes)),
                WatchItemRow.news_score.is_not(None),
            )
            .group_by(WatchItemRow.url_hash)
        )
        return {row.url_hash: float(row.score) for row in rows}

    async def known(
        self, watch_id: str, keys: Collection[str], urls: Collection[str], entries: Collection[str] = ()
    ) -> Sequence[WatchItem]:
        """What a watch has seen of these, by any of the three hashes."""
        found: dict[str, WatchItem] = {}
        for column, hashes in (
            (WatchItemRow.key_hash, keys),
            (WatchItemRow.url_hash, urls),
            (WatchItemRow.entry_hash, entries),
        ):
            for batch in batches(hashes):
                rows = await self.every(WatchItemRow.watch_id == watch_id, column.in_(batch))
                found.update((item.key_hash, item) for item in rows)
        return list(found.values())

    async def elsewhere(
        self, tenant_id: str, watch_id: str, urls: Collection[str], fingerprints: Collection[str]
    ) -> Sequence[WatchItem]:
        """What the tenant's watches have seen at these addresses or with this text, the oldest first.

        Of the watch itself, only what has the same text: its own addresses it knows.
        """
        either = []
        if urls:
            either.append(and_(WatchItemRow.url_hash.in_(list(urls)), WatchItemRow.watch_id != watch_id))
        if fingerprints:
            either.append(WatchItemRow.fingerprint.in_(list(fingerprints)))
        if not either:
            return []
        return await self.every(
            WatchItemRow.tenant_id == tenant_id, or_(*either), order=[WatchItemRow.seen_at, WatchItemRow.watch_id]
        )

    async def indexed(self, tenant_id: str, urls: Collection[str]) -> frozenset[str]:
        """Which of these addresses have a document."""
        if not urls:
            return frozenset()
        rows = await self.connection.execute(
            select(DocumentRow.url_hash).where(
                DocumentRow.tenant_id == tenant_id,
                DocumentRow.url_hash.in_(list(urls)),
                DocumentRow.deleted_at.is_(None),
            )
        )
        return frozenset(rows.scalars())

    async def change(self, watch_id: str, key_hash: str, **changes: Any) -> None:
        await self.connection.execute(
            update(WatchItemRow)
            .where(WatchItemRow.watch_id == watch_id, WatchItemRow.key_hash == key_hash)
            .values(**changes)
        )

    async def rehash(self, watch_id: str, hashes: Sequence[tuple[str, str | None]]) -> None:
        """Remember what the listing says now of many items, as pairs of key and hash."""
        for batch in batches(hashes):
            values = [{"of": watch_id, "key": key, "said": said} for key, said in batch]
            await self.connection.execute(_REHASH, values)

    async def waiting(self, limit: int) -> Sequence[WatchItem]:
        """Whose crawl waits for room in the queue: the most newsworthy first."""
        return await self.every(
            WatchItemRow.state == ItemState.WAITING,
            order=[WatchItemRow.news_score.desc(), WatchItemRow.watch_id, WatchItemRow.key_hash],
            limit=limit,
        )

    async def enqueue(self, watch_id: str, keys: Collection[str], job_id: str) -> int:
        """Note the job of items that waited; how many of them really did."""
        return await self.write(
            update(WatchItemRow)
            .where(
                WatchItemRow.watch_id == watch_id,
                WatchItemRow.key_hash.in_(list(keys)),
                WatchItemRow.state == ItemState.WAITING,
            )
            .values(state=ItemState.QUEUED, job_id=job_id, reason=None)
        )

    async def remove_old(self, before: datetime) -> int:
        """Forget what feeds said long ago. What is that old is no news, even if a feed still has it."""
        feeds = select(WatchRow.id).where(WatchRow.kind == WatchKind.FEED)
        return await self.write(
            delete(WatchItemRow).where(
                WatchItemRow.watch_id.in_(feeds),
                WatchItemRow.published_at < before,
                WatchItemRow.seen_at < before,
                WatchItemRow.state != ItemState.WAITING,
            )
        )


_ITEMS = WatchItemRow.__table__
_REHASH = (
    update(_ITEMS)  # type: ignore[arg-type]
    .where(_ITEMS.c.watch_id == bindparam("of"), _ITEMS.c.key_hash == bindparam("key"))
    .values(entry_hash=bindparam("said"))
)


class StoryRow(TenantOwned, Base):
    __tablename__ = "stories"
    __table_args__ = table_options(
        Index("ix_stories_last_seen_at", "tenant_id", "last_seen_at"),
    )

    title: Mapped[LongText]
    features: Mapped[Json]
    source_count: Mapped[int]
    first_seen_at: Mapped[datetime] = mapped_column(UtcDateTime)
    last_seen_at: Mapped[datetime] = mapped_column(UtcDateTime)
    breaking_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class Stories(Repository[Story]):
    row = StoryRow
    model = Story
    noun = "story"

    async def recent(self, tenant_id: str, since: datetime, limit: int) -> Sequence[tuple[str, datetime]]:
        """Stories that may still grow, the newest first: their ids, and when they last grew."""
        rows = await self.connection.execute(
            select(StoryRow.id, StoryRow.last_seen_at)
            .where(StoryRow.tenant_id == tenant_id, StoryRow.last_seen_at >= since, StoryRow.ended_at.is_(None))
            .order_by(StoryRow.last_seen_at.desc(), StoryRow.id.desc())
            .limit(limit)
        )
        return [(row.id, row.last_seen_at) for row in rows]

    async def by_ids(self, tenant_id: str, story_ids: Collection[str]) -> Sequence[Story]:
        if not story_ids:
            return []
        return await self.every(StoryRow.tenant_id == tenant_id, StoryRow.id.in_(list(story_ids)))

    async def sites(self, story_id: str, since: datetime | None = None) -> Sequence[str]:
        """The independent sources that told a story, since a moment or ever."""
        conditions = [WatchItemRow.story_id == story_id]
        if since is not None:
            conditions.append(func.coalesce(WatchItemRow.published_at, WatchItemRow.news_at) >= since)
        rows = await self.connection.execute(select(WatchItemRow.site).where(*conditions).distinct())
        return sorted(rows.scalars())

    async def watches(self, story_id: str) -> Sequence[str]:
        """The ids of all watches that have an item of the story."""
        return await self.column(select(WatchItemRow.watch_id).where(WatchItemRow.story_id == story_id).distinct())

    async def end_quiet(self, *, breaking_before: datetime, other_before: datetime, now: datetime) -> int:
        """End the stories of which nothing was heard for long enough."""
        quiet = or_(
            and_(StoryRow.breaking_at.is_not(None), StoryRow.last_seen_at < breaking_before),
            StoryRow.last_seen_at < other_before,
        )
        return await self.write(update(StoryRow).where(StoryRow.ended_at.is_(None), quiet).values(ended_at=now))

    async def remove_old(self, before: datetime) -> int:
        """Forget stories that ended long ago; those that broke are kept."""
        return await self.write(delete(StoryRow).where(StoryRow.ended_at < before, StoryRow.breaking_at.is_(None)))


class ThrottleRow(Base):
    __tablename__ = "throttles"
    __table_args__ = table_options()

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    level: Mapped[ThrottleLevel] = mapped_column(EnumText(ThrottleLevel))
    reason: Mapped[LongText | None]
    changed_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Throttles(Repository[Throttle]):
    row = ThrottleRow
    model = Throttle
    noun = "throttle"
    key = ("name",)

    async def read(self) -> Throttle:
        return await self.find(ThrottleRow.name == Throttle().name) or Throttle()

    async def put(self, throttle: Throttle) -> None:
        await self.connection.execute(delete(ThrottleRow).where(ThrottleRow.name == throttle.name))
        await self.add(throttle)
