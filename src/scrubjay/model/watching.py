"""Watches (feeds, sitemaps and pages looked at cheaply and often), stories, webhooks and their deliveries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id


class WatchKind(StrEnum):
    FEED = "feed"
    SITEMAP = "sitemap"
    PAGE = "page"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    id: str = field(default_factory=lambda: new_id("watch"))
    tenant_id: str
    name: str
    url: str
    kind: WatchKind
    plan_id: str | None = None
    enabled: bool = True
    poll_interval_seconds: int = 900
    daily_budget: int = 200
    weight: float = 1.0
    requests_today: int = 0
    budget_day: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    last_fingerprint: str | None = None
    failures: int = 0
    last_polled_at: datetime | None = None
    next_poll_at: datetime = field(default_factory=utc_now)
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchItem:
    """Something a watch has seen, so that it is news only once."""

    tenant_id: str
    watch_id: str
    key_hash: str
    url: str
    title: str | None = None
    fingerprint: str | None = None
    news_score: float | None = None
    factors: Mapping[str, Any] = field(default_factory=dict)
    story_id: str | None = None
    job_id: str | None = None
    published_at: datetime | None = None
    seen_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The same news from several sources."""

    id: str = field(default_factory=lambda: new_id("story"))
    tenant_id: str
    title: str
    features: Mapping[str, Any] = field(default_factory=dict)
    source_count: int = 1
    first_seen_at: datetime = field(default_factory=utc_now)
    last_seen_at: datetime = field(default_factory=utc_now)
    breaking_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    id: str = field(default_factory=lambda: new_id("whk"))
    tenant_id: str
    url: str
    plan_id: str | None = None
    events: tuple[str, ...] = ("completed", "failed")
    headers: Mapping[str, str] = field(default_factory=dict)
    sealed_secret: str | None = None
    sealed_previous_secret: str | None = None
    is_active: bool = True
    failures: int = 0
    circuit_opened_at: datetime | None = None
    created_at: datetime = field(default_factory=utc_now)


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    id: str = field(default_factory=lambda: new_id("whd"))
    tenant_id: str
    webhook_id: str
    event: str
    body: str  # the exact text that is signed and sent
    job_id: str | None = None
    job_type: str | None = None
    status: DeliveryStatus = DeliveryStatus.PENDING
    attempts: int = 0
    max_attempts: int = 5
    response_status: int | None = None
    response_body: str | None = None
    last_attempt_at: datetime | None = None
    next_attempt_at: datetime | None = None
    created_at: datetime = field(default_factory=utc_now)
