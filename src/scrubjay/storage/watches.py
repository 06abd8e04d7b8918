"""Watches, what they have seen, and the stories that it belongs to."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.watching import Story, Watch, WatchItem, WatchKind
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import EnumText, Hash, Id, Json, LongText, Name, UtcDateTime, partial_index


class WatchRow(Base):
    __tablename__ = "watches"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "name", name="uq_watches_name"),
        partial_index("ix_watches_due", "next_poll_at", where="enabled = true"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[Name]
    url: Mapped[LongText]
    kind: Mapped[WatchKind] = mapped_column(EnumText(WatchKind))
    plan_id: Mapped[Id | None] = mapped_column(ForeignKey("crawl_plans.id", ondelete="SET NULL"))
    enabled: Mapped[bool]
    poll_interval_seconds: Mapped[int]
    daily_budget: Mapped[int]
    weight: Mapped[float]
    requests_today: Mapped[int]
    budget_day: Mapped[str | None] = mapped_column(String(10))
    etag: Mapped[LongText | None]
    last_modified: Mapped[Name | None]
    last_fingerprint: Mapped[Hash | None]
    failures: Mapped[int]
    last_polled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    next_poll_at: Mapped[datetime] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Watches(Repository[Watch]):
    row = WatchRow
    model = Watch
    noun = "watch"


class WatchItemRow(Base):
    __tablename__ = "watch_items"
    __table_args__ = table_options(
        Index("ix_watch_items_seen_at", "tenant_id", "seen_at"),
        Index("ix_watch_items_story", "story_id"),
    )

    watch_id: Mapped[Id] = mapped_column(ForeignKey("watches.id", ondelete="CASCADE"), primary_key=True)
    key_hash: Mapped[Hash] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    url: Mapped[LongText]
    title: Mapped[LongText | None]
    fingerprint: Mapped[Hash | None]
    news_score: Mapped[float | None]
    factors: Mapped[Json]
    story_id: Mapped[Id | None]
    job_id: Mapped[Id | None]
    published_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime)


class WatchItems(Repository[WatchItem]):
    row = WatchItemRow
    model = WatchItem
    noun = "watch item"
    key = ("watch_id", "key_hash")


class StoryRow(Base):
    __tablename__ = "stories"
    __table_args__ = table_options(
        Index("ix_stories_last_seen_at", "tenant_id", "last_seen_at"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
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
