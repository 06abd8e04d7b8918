"""Plans: what to crawl, when, what to keep and where to put it; and Operations, the runs of a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id


class RepositoryType(StrEnum):
    """The kinds of sources that come along; connectors of others bring their own names."""

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


class ExportFormat(StrEnum):
    """What a plan's documents are exported as after each run."""

    NONE = "none"
    MARKDOWN = "markdown"  # one file per document
    JSONL = "jsonl"
    WARC = "warc"  # the originals


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class IngestionSettings(Frozen):
    ingestion_rule_id: str | None = None
    collection_id: str | None = None
    store_original: bool = True
    bucket_name: str | None = None
    # Beyond the specification.
    tags: tuple[str, ...] = ()
    chunking: dict[str, Any] | None = None
    keeps_documents: bool = True  # false: pages are crawled and kept, and become no documents
    export: ExportFormat = ExportFormat.NONE
    keeps_files: bool = False  # the plan of a domain's source: items become files in a folder

    @property
    def keeps_items(self) -> bool:
        """Whether items become something, and so are in the ledger."""
        return self.keeps_documents or self.keeps_files


class WebSettings(Frozen):
    """How a web site is crawled. Passwords, keys and tokens are sealed before they get here."""

    start_url: str | None = None
    authentication_type: WebAuthType = WebAuthType.NONE
    username: Annotated[str, Field(max_length=200)] | None = None
    password: str | None = None
    api_key_header: Annotated[str, Field(max_length=200, pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")] | None = None
    api_key_value: str | None = None
    bearer_token: str | None = None
    user_agent: Annotated[str, Field(min_length=1, max_length=500)] = "scrubjay"
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
    # Beyond the specification.
    max_pages: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    include_patterns: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    exclude_patterns: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    proxy_id: str | None = None
    crawl_config_id: str | None = None
    recheck_missing: bool = True  # request known pages that no link leads to before they count as gone


class ScheduleSettings(Frozen):
    """When a plan runs: at intervals, by a cron expression, or page by page within a number of requests a day."""

    interval_type: IntervalType = IntervalType.HOURS
    interval_value: Annotated[int, Field(ge=1, le=10_080)] = 24
    cron: Annotated[str, Field(max_length=200)] | None = None
    jitter_seconds: Annotated[int, Field(ge=0, le=86_400)] = 0
    requests_per_day: Annotated[int, Field(ge=24, le=100_000_000)] | None = None


class DeletionSettings(Frozen):
    """When what is missing from a complete listing counts as deleted."""

    max_missing_share: Annotated[float, Field(ge=0, le=1)] = 0.3  # more at once looks like an outage
    min_missing_items: Annotated[int, Field(ge=1, le=1_000_000)] = 20  # fewer never do
    grace_runs: Annotated[int, Field(ge=0, le=100)] = 0  # complete runs that an item may be missing from


class FilterSettings(Frozen):
    object_prefix: str | None = None
    object_suffix: str | None = None
    allowed_content_types: tuple[str, ...] | None = None
    minimum_size: Annotated[int, Field(ge=0)] = 0
    maximum_size: Annotated[int, Field(ge=0)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanValues:
    """What users set of a plan. On the way into a service, secrets are in the clear; a stored plan has them sealed."""

    name: str = "My crawl plan"
    repository_type: str = RepositoryType.WEB
    repository_settings: dict[str, Any] = field(default_factory=dict)  # of the repository type's own shape
    ingestion_settings: IngestionSettings = field(default_factory=IngestionSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    filter: FilterSettings = field(default_factory=FilterSettings)
    deletion: DeletionSettings = field(default_factory=DeletionSettings)
    process_additions: bool = True
    process_updates: bool = True
    process_deletions: bool = False
    max_drain_tasks: int = 8
    retention_days: int = 7
    max_failed_share: float = 0.5  # of a run's items; a run in which more fail has failed
    is_active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(PlanValues):
    id: str = field(default_factory=lambda: new_id("cplan"))
    tenant_id: str
    is_one_off: bool = False  # made by a crawl without a schedule; lists leave it out
    crawl_key: str | None = None  # what makes the next one-off crawl find the same plan
    crawl: Mapping[str, Any] | None = None  # the CrawlSpec of a one-off crawl, sealed; wins over repository_settings
    state: PlanState = PlanState.STOPPED
    operation_id: str | None = None  # the run under way
    last_crawl_start_at: datetime | None = None
    last_crawl_finish_at: datetime | None = None
    last_crawl_success: bool | None = None
    last_complete_at: datetime | None = None  # when a run last saw all that the source has
    next_crawl_at: datetime | None = None  # nothing: not by itself
    created_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)


class OperationState(StrEnum):
    NOT_STARTED = "NotStarted"  # waits for a worker
    STARTING = "Starting"
    ENUMERATING = "Enumerating"  # lists what the source has
    RETRIEVING = "Retrieving"  # takes in what is new or changed, and ends what is gone
    SUCCESS = "Success"
    FAILED = "Failed"  # as a whole, or some of its objects
    STOPPED = "Stopped"  # its plan was deleted meanwhile
    CANCELED = "Canceled"  # somebody stopped it


ENDED_STATES = frozenset(
    {OperationState.SUCCESS, OperationState.FAILED, OperationState.STOPPED, OperationState.CANCELED}
)


class Trigger(StrEnum):
    """Why a run was started."""

    MANUAL = "manual"
    SCHEDULE = "schedule"
    ADAPTIVE = "adaptive"  # requests the keys that are most likely to have changed, and no others
    TARGETED = "targeted"  # requests a given list of addresses, and no others


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
    objects_unchanged: int = 0
    objects_withheld: int = 0  # missing, but not yet taken for deleted
    trigger: Trigger = Trigger.MANUAL
    is_complete: bool = False  # whether it saw all that the source has
    report: Mapping[str, Any] | None = None  # counts of outcomes, reasons and limits, once it has ended
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

    PRESENT = "present"  # the source has it, and so have we
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
    content_sha256: str | None = None  # of the bytes, like the next two
    content_sha1: str | None = None
    content_md5: str | None = None
    text_sha256: str | None = None  # of what it says, where the listing knows that
    fingerprint: str | None = None  # of all of these, as `SourceItem.fingerprint` makes it
    error: str | None = None
    seen_count: int = 0
    change_count: int = 0
    missing_runs: int = 0
    # For the estimate of how often it changes: how long it was seen not to, and in how long looks apart it did.
    unchanged_seconds: float = 0.0
    change_intervals: tuple[float, ...] = ()
    first_seen_at: datetime = field(default_factory=utc_now)
    # Looked at by itself; a plan's last complete run has looked at everything that is present.
    last_seen_at: datetime = field(default_factory=utc_now)
    last_changed_at: datetime | None = None
    last_operation_id: str | None = None


class Change(StrEnum):
    """What a listing says of a key, beside the ledger."""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"
    UNCHANGED = "unchanged"
    UNREAD = "unread"  # it could not be read, so whether it changed is not known


class WorkState(StrEnum):
    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"  # left out on purpose, or its deletion is withheld
    DENIED = "denied"  # the host, its robots.txt or a setting does not allow it
    CUT = "cut"  # a limit of the run left it out


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationItem:
    """One item of a run and what became of it. An item that did not change has no such row."""

    operation_id: str
    key_hash: str
    tenant_id: str
    key: str
    change: Change
    state: WorkState = WorkState.PENDING
    content_type: str | None = None
    content_length: int | None = None
    etag: str | None = None
    content_sha256: str | None = None
    content_sha1: str | None = None
    content_md5: str | None = None
    text_sha256: str | None = None
    last_modified_at: datetime | None = None
    document_id: str | None = None
    reason: str | None = None  # a code of `plans/report.py`
    error: str | None = None  # the same in one sentence
    http_status: int | None = None
    attempts: int = 1
    part_id: str | None = None  # the job that takes it in, where a crawl has several jobs
