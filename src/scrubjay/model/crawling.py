"""How crawls behave: configs, host settings, proxies, and the frontier of a running crawl."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlConfig:
    id: str = field(default_factory=lambda: new_id("ccfg"))
    tenant_id: str
    name: str
    max_depth: int = 0
    rate_limit_rps: float = 1.0
    respect_robots_txt: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    extraction_strategy: str = "markdown"
    chunking_strategy: str = "sliding_window"
    chunk_size: int = 512
    chunk_overlap: int = 50
    min_chunk_size: int = 50
    page_timeout_ms: int = 30_000
    max_page_size_mb: int = 50
    max_redirects: int = 10
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    tenant_id: str
    host: str
    rate_limit_rps: float = 1.0
    circuit_breaker_threshold: int = 5
    circuit_breaker_timeout_seconds: int = 300
    is_blocked: bool = False
    blocked_reason: str | None = None
    updated_at: datetime = field(default_factory=utc_now)


class ProxyRotation(StrEnum):
    ROUND_ROBIN = "round_robin"
    LEAST_USED = "least_used"
    RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    id: str = field(default_factory=lambda: new_id("prx"))
    tenant_id: str
    name: str
    servers: tuple[Mapping[str, Any], ...]  # url, username, sealed password
    rotation: ProxyRotation = ProxyRotation.ROUND_ROBIN
    is_active: bool = True
    created_at: datetime = field(default_factory=utc_now)


class FrontierStatus(StrEnum):
    PENDING = "pending"
    LEASED = "leased"  # a worker fetches it; free again when the lease runs out
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierItem:
    job_id: str
    url_hash: str
    url: str
    host: str
    depth: int = 0
    redirects: int = 0  # that led here
    score: float = 0.0
    status: FrontierStatus = FrontierStatus.PENDING
    parent_url: str | None = None
    lease_id: str | None = None
    leased_until: datetime | None = None
    attempts: int = 0
    error: str | None = None
    discovered_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCrawl:
    """What the slices of a crawl share."""

    job_id: str
    granted: int = 0  # pages that its jobs may request, of the crawl's `max_pages`
    is_over: bool = False
    roots: Sequence[str] = ()  # where start URLs redirected to
    yielding: Sequence[str] = ()  # job ids of slices that are to end, so that their hosts can be handed out again


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawledPage:
    """What the last crawl of a scope (a plan, or a site crawled by hand) knows of one address."""

    scope_id: str
    url_hash: str
    tenant_id: str
    job_id: str
    url: str
    depth: int = 0
    parent_url: str | None = None
    status: int | None = None  # of HTTP; nothing when no answer came
    error_type: str | None = None
    error: str | None = None
    content_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    size_bytes: int = 0
    body_sha256: str | None = None
    content_sha256: str | None = None  # of the Markdown
    duplicate_of: str | None = None  # the hash of the address that had the same content first
    title: str | None = None
    method: str | None = None  # that extracted it
    content: bytes | None = None  # the Markdown, zstd-compressed
    details: bytes | None = None  # metadata, links and response headers, as zstd-compressed JSON
    duration_ms: int = 0
    attempts: int = 1
    fetched_at: datetime = field(default_factory=utc_now)
    changed_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPage:
    """What a crawl needs of an earlier one's page to notice that it did not change."""

    url_hash: str
    etag: str | None
    last_modified: str | None
    body_sha256: str | None
    content_sha256: str | None
    details: bytes | None
    changed_at: datetime
    scope_id: str = ""
    size_bytes: int = 0


class PageListing(NamedTuple):
    """A crawled page without its text."""

    url_hash: str
    url: str
    status: int | None
    error_type: str | None
    error: str | None
    content_type: str | None
    etag: str | None
    last_modified: str | None
    size_bytes: int
    body_sha256: str | None
    content_sha256: str | None
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSeen:
    """A page that still has the content it had; an error is why it could not be looked at this time."""

    url_hash: str
    depth: int
    seen_at: datetime
    status: int | None = 200
    attempts: int = 1
    error_type: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteMemory:
    """What a tenant's crawls have learned of a host's boilerplate, as `extract/boilerplate.py` packs it."""

    scope_id: str  # the tenant's id: what was learned belongs to (tenant, host)
    host: str
    tenant_id: str
    memory: bytes
    updated_at: datetime = field(default_factory=utc_now)
