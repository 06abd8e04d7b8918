"""How crawls behave: configs, host settings, proxies, and the frontier of a running crawl."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

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
    score: float = 0.0
    status: FrontierStatus = FrontierStatus.PENDING
    parent_url: str | None = None
    lease_id: str | None = None
    leased_until: datetime | None = None
    attempts: int = 0
    error: str | None = None
    discovered_at: datetime = field(default_factory=utc_now)
