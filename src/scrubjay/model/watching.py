"""Watches: feeds, sitemaps and pages looked at cheaply and often; what they have seen, and the stories in it."""

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


class ThrottleLevel(StrEnum):
    """The emergency brake of all watches."""

    OFF = "off"
    SLOW = "slow"  # sources are looked at less often, and nothing is escalated
    STOP = "stop"  # nothing is polled and nothing is triggered


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    id: str = field(default_factory=lambda: new_id("watch"))
    tenant_id: str
    name: str
    url: str
    kind: WatchKind
    plan_id: str | None = None  # news goes where this plan's documents go
    collection_id: str | None = None  # or into this collection
    enabled: bool = True
    poll_interval_seconds: int = 900
    daily_budget: int = 200
    weight: float = 1.0
    threshold: float | None = None  # the least score that triggers a crawl; nothing means the setting's
    catch_up: bool = False  # what the source has at the first poll is news too
    requests_today: int = 0
    budget_day: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    last_fingerprint: str | None = None
    memory: Mapping[str, Any] = field(default_factory=dict)  # what one kind must remember: a sitemap index's files …
    failures: int = 0  # in a row
    last_error: str | None = None  # why the last poll failed
    notice: str | None = None  # what was odd about the last poll that did not fail
    escalated_until: datetime | None = None  # looked at more often until then: a story of its is breaking
    lease: str | None = None  # who polls it now; `next_poll_at` is then when the lease ends
    last_polled_at: datetime | None = None
    last_success_at: datetime | None = None
    next_poll_at: datetime = field(default_factory=utc_now)
    created_at: datetime = field(default_factory=utc_now)


class ItemState(StrEnum):
    SEEN = "seen"  # known, and no news: it was there before the watch, or is too old
    BELOW = "below"  # news, but its score is below the threshold
    WAITING = "waiting"  # to be crawled when the queue of jobs has room
    QUEUED = "queued"  # its crawl is a job
    SUPPRESSED = "suppressed"  # another source had it first


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchItem:
    """Something a watch has seen, so that it is news only once."""

    tenant_id: str
    watch_id: str
    key_hash: str  # of the entry's id, else of its address
    url: str
    url_hash: str = ""  # of the normal form of the address
    site: str = ""  # the registrable domain: what makes two sources independent
    title: str | None = None
    lead: str | None = None
    entry_hash: str | None = None  # of what the listing said, without what changes by itself
    fingerprint: str | None = None  # of the article's text
    state: ItemState = ItemState.SEEN
    reason: str | None = None  # why it is in this state, in words
    news_score: float | None = None
    factors: Mapping[str, Any] = field(default_factory=dict)
    story_id: str | None = None
    job_id: str | None = None
    updates: int = 0
    published_at: datetime | None = None
    news_at: datetime | None = None  # when it was last news
    seen_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The same news from several sources."""

    id: str = field(default_factory=lambda: new_id("story"))
    tenant_id: str
    title: str
    features: Mapping[str, Any] = field(default_factory=dict)
    source_count: int = 1  # different registrable domains
    first_seen_at: datetime = field(default_factory=utc_now)
    last_seen_at: datetime = field(default_factory=utc_now)
    breaking_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def is_breaking(self) -> bool:
        return self.breaking_at is not None and self.ended_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """The brake as somebody set it. It is one for the whole deployment."""

    name: str = "watches"
    level: ThrottleLevel = ThrottleLevel.OFF
    reason: str | None = None
    changed_at: datetime = field(default_factory=utc_now)
