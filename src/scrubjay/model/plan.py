"""Plans: what to crawl, when, what to keep and where to put it; and Operations, the runs of a plan."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id


class RepositoryType(StrEnum):
    WEB = "Web"
    FILE = "File"
    S3 = "AmazonS3"
    FEED = "Feed"
    SHAREPOINT = "SharePoint"


class PlanState(StrEnum):
    STOPPED = "Stopped"
    RUNNING = "Running"


class IntervalType(StrEnum):
    ONE_TIME = "OneTime"
    MINUTES = "Minutes"
    HOURS = "Hours"
    DAYS = "Days"
    WEEKS = "Weeks"


class WebAuthType(StrEnum):
    NONE = "None"
    BASIC = "Basic"
    API_KEY = "ApiKey"
    BEARER_TOKEN = "BearerToken"  # noqa: S105 - the name of a kind, not a secret


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class IngestionSettings(Frozen):
    ingestion_rule_id: str | None = None
    collection_id: str | None = None
    store_original: bool = True
    bucket_name: str | None = None


class WebSettings(Frozen):
    """How a web site is crawled. Passwords, keys and tokens are sealed before they get here."""

    start_url: str | None = None
    authentication_type: WebAuthType = WebAuthType.NONE
    username: str | None = None
    password: str | None = None
    api_key_header: str | None = None
    api_key_value: str | None = None
    bearer_token: str | None = None
    user_agent: str = "scrubjay"
    use_headless_browser: bool = False
    follow_links: bool = True
    follow_redirects: bool = True
    extract_sitemap_links: bool = True
    restrict_to_child_urls: bool = True
    restrict_to_subdomain: bool = False
    restrict_to_root_domain: bool = True
    ignore_robots_txt: bool = False
    max_depth: Annotated[int, Field(ge=1, le=100)] = 5
    max_parallel_tasks: Annotated[int, Field(ge=1, le=64)] = 8
    crawl_delay_ms: Annotated[int, Field(ge=0, le=60_000)] = 100


class ScheduleSettings(Frozen):
    interval_type: IntervalType = IntervalType.HOURS
    interval_value: Annotated[int, Field(ge=1, le=10_080)] = 24
    cron: str | None = None


class FilterSettings(Frozen):
    object_prefix: str | None = None
    object_suffix: str | None = None
    allowed_content_types: tuple[str, ...] | None = None
    minimum_size: Annotated[int, Field(ge=0)] = 0
    maximum_size: Annotated[int, Field(ge=0)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    id: str = field(default_factory=lambda: new_id("cplan"))
    tenant_id: str
    name: str = "My crawl plan"
    repository_type: RepositoryType = RepositoryType.WEB
    repository_settings: dict[str, Any] = field(default_factory=dict)  # of the repository type's own shape
    ingestion_settings: IngestionSettings = field(default_factory=IngestionSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    filter: FilterSettings = field(default_factory=FilterSettings)
    process_additions: bool = True
    process_updates: bool = True
    process_deletions: bool = False
    max_drain_tasks: int = 8
    retention_days: int = 7
    state: PlanState = PlanState.STOPPED
    is_active: bool = True
    last_crawl_start_at: datetime | None = None
    last_crawl_finish_at: datetime | None = None
    last_crawl_success: bool | None = None
    next_crawl_at: datetime | None = None
    created_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)


class OperationState(StrEnum):
    NOT_STARTED = "NotStarted"
    STARTING = "Starting"
    ENUMERATING = "Enumerating"
    RETRIEVING = "Retrieving"
    SUCCESS = "Success"
    FAILED = "Failed"
    STOPPED = "Stopped"
    CANCELED = "Canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One run of a plan, with its counts."""

    id: str = field(default_factory=lambda: new_id("cop"))
    tenant_id: str
    plan_id: str
    job_id: str | None = None
    state: OperationState = OperationState.NOT_STARTED
    status_message: str | None = None
    objects_enumerated: int = 0
    bytes_enumerated: int = 0
    objects_added: int = 0
    bytes_added: int = 0
    objects_updated: int = 0
    bytes_updated: int = 0
    objects_deleted: int = 0
    bytes_deleted: int = 0
    objects_success: int = 0
    bytes_success: int = 0
    objects_failed: int = 0
    bytes_failed: int = 0
    enumeration_file: str | None = None
    started_at: datetime | None = None
    enumeration_started_at: datetime | None = None
    enumeration_finished_at: datetime | None = None
    retrieval_started_at: datetime | None = None
    retrieval_finished_at: datetime | None = None
    finished_at: datetime | None = None
    created_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)


class Fate(StrEnum):
    """What became of a key of the ledger."""

    PRESENT = "present"  # seen in the last complete run, and its document is indexed
    FAILED = "failed"  # seen, but its last retrieval failed; tried again in the next run
    MISSING = "missing"  # not seen in the last complete run; not yet retired
    RETIRED = "retired"  # its document was removed


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """What a plan knows of one key: its last validators, hash, document and fate."""

    tenant_id: str
    plan_id: str
    key_hash: str
    key: str
    fate: Fate = Fate.PRESENT
    document_id: str | None = None
    content_type: str | None = None
    content_length: int | None = None
    etag: str | None = None
    last_modified_at: datetime | None = None
    content_sha256: str | None = None
    error: str | None = None
    seen_count: int = 0
    change_count: int = 0
    missing_runs: int = 0
    first_seen_at: datetime = field(default_factory=utc_now)
    last_seen_at: datetime = field(default_factory=utc_now)
    last_changed_at: datetime | None = None
    last_operation_id: str | None = None
