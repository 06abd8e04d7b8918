"""The schema as of revision 0015: every table, with its columns, keys and indexes."""

from collections.abc import Mapping, Sequence
from typing import Any

from alembic import op
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable, SchemaItem
from sqlalchemy.types import TypeEngine

from scrubjay.storage.types import BIG, BYTES, JSON_VALUE, LONG_TEXT, UtcDateTime, partial_index, short_text

revision = "0015"
down_revision = None
branch_labels = None
depends_on = None

S10, S16, S24, S32, S64, S120, S128 = (String(length) for length in (10, 16, 24, 32, 64, 120, 128))
NAME = short_text(255)
INT, BOOL, TIME = Integer(), Boolean(), UtcDateTime()
DOUBLE: Double[float] = Double()

SCHEMA = MetaData(
    naming_convention={
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def upgrade() -> None:
    # Indexes in one order: where two would serve a query equally well, SQLite chooses by their order.
    for table in SCHEMA.sorted_tables:
        op.execute(CreateTable(table))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            op.execute(CreateIndex(index))


def _table(
    name: str,
    *,
    key: str,
    columns: Mapping[str, TypeEngine[Any]],
    items: Sequence[SchemaItem] = (),
    defaults: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """A table of `SCHEMA`. A column whose name ends in "?" is nullable; `key` names the primary key's columns."""
    values = defaults or {}
    made = []
    for column, kind in columns.items():
        bare = column.removesuffix("?")
        made.append(Column(bare, kind, nullable=column != bare, server_default=values.get(bare)))
    Table(
        name,
        SCHEMA,
        *made,
        PrimaryKeyConstraint(*key.split()),
        *items,
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        **options,
    )


def _reference(column: str, target: str, ondelete: str | None = None) -> ForeignKeyConstraint:
    return ForeignKeyConstraint([column], [target], ondelete=ondelete)


# fmt: off
_table(
    "discarded_bodies", key="sha256",
    columns={"sha256": S64, "discarded_at": TIME},
    items=[Index("ix_discarded_bodies_discarded_at", "discarded_at")],
)
_table(
    "embeddings", key="content_sha256 model",
    columns={"content_sha256": S64, "model": NAME, "dimensions": INT, "vector": BYTES, "created_at": TIME},
)
_table(
    "frontier_mail", key="id",
    columns={
        "id": S32, "job_id": S32, "url": LONG_TEXT, "depth": INT, "redirects": INT, "score": DOUBLE,
        "parent_url?": LONG_TEXT,
    },
    items=[Index("ix_frontier_mail_job", "job_id", "id")],
)
_table(
    "index_generations", key="id",
    columns={
        "id": S32, "embedder": LONG_TEXT, "model": NAME, "dimensions": INT, "place?": LONG_TEXT, "state": S24,
        "created_at": TIME, "live_at?": TIME,
    },
)
_table(
    "tenants", key="id",
    columns={"id": S32, "name": NAME, "created_at": TIME},
    items=[UniqueConstraint("name")],
)
_table(
    "throttles", key="name",
    columns={"name": S64, "level": S24, "reason?": LONG_TEXT, "changed_at": TIME},
)
_table(
    "turns", key="name",
    columns={"name": S64, "next_at": TIME},
)
_table(
    "workers", key="id",
    columns={"id": S32, "host": NAME, "pid": INT, "concurrency": INT, "started_at": TIME, "heartbeat_at": TIME},
)
_table(
    "agents", key="tenant_id name",
    columns={"tenant_id": S32, "name": S64, "address": LONG_TEXT, "created_at": TIME},
    items=[_reference("tenant_id", "tenants.id")],
)
_table(
    "api_keys", key="id",
    columns={
        "id": S32, "tenant_id": S32, "name": NAME, "key_hash": S64, "scopes": JSON(), "rate_limit_rpm": INT,
        "created_at": TIME, "expires_at?": TIME, "is_active": BOOL,
    },
    items=[
        _reference("tenant_id", "tenants.id"),
        UniqueConstraint("key_hash"),
        partial_index("ix_api_keys_active", "is_active", where="is_active = true"),
        Index("ix_api_keys_tenant_id", "tenant_id"),
    ],
)
_table(
    "assistants", key="id",
    columns={
        "id": S32, "tenant_id": S32, "name?": LONG_TEXT, "description?": LONG_TEXT, "model": NAME,
        "instructions?": LONG_TEXT, "details": JSON_VALUE, "created_at": TIME,
    },
    items=[_reference("tenant_id", "tenants.id"), Index("ix_assistants_tenant", "tenant_id", "created_at")],
)
_table(
    "audit_log", key="id",
    columns={
        "id": S32, "tenant_id": S32, "at": TIME, "key_id?": S32, "key_name": NAME, "action": S64, "target_id?": NAME,
        "details": JSON_VALUE, "door?": S32, "remote_address?": S64, "request_id?": S64,
    },
    items=[
        _reference("tenant_id", "tenants.id"),
        Index("ix_audit_log_at", "at"),
        Index("ix_audit_log_tenant_at", "tenant_id", "at"),
    ],
)
_table(
    "collections", key="id",
    columns={
        "id": S32, "tenant_id": S32, "name": NAME, "description?": LONG_TEXT, "details": JSON_VALUE,
        "created_at": TIME, "last_active_at": TIME,
    },
    items=[_reference("tenant_id", "tenants.id"), UniqueConstraint("tenant_id", "name", name="uq_collections_name")],
)
_table(
    "contents", key="tenant_id content_sha256",
    columns={"tenant_id": S32, "content_sha256": S64, "body?": BYTES, "created_at": TIME},
    items=[_reference("tenant_id", "tenants.id")],
)
_table(
    "crawl_configs", key="id",
    columns={
        "id": S32, "tenant_id": S32, "name": NAME, "max_depth": INT, "rate_limit_rps": DOUBLE,
        "respect_robots_txt": BOOL, "headers": JSON_VALUE, "extraction_strategy": S32, "chunking_strategy": S32,
        "chunk_size": INT, "chunk_overlap": INT, "min_chunk_size": INT, "page_timeout_ms": INT,
        "max_page_size_mb": INT, "max_redirects": INT, "created_at": TIME,
    },
    items=[_reference("tenant_id", "tenants.id"), UniqueConstraint("tenant_id", "name", name="uq_crawl_configs_name")],
)
_table(
    "crawl_plans", key="id",
    columns={
        "id": S32, "tenant_id": S32, "name": NAME, "repository_type": S24, "repository_settings": JSON_VALUE,
        "ingestion_settings": JSON(), "schedule": JSON(), "filter": JSON(), "process_additions": BOOL,
        "process_updates": BOOL, "process_deletions": BOOL, "max_drain_tasks": INT, "retention_days": INT,
        "state": S24, "is_active": BOOL, "last_crawl_start_at?": TIME, "last_crawl_finish_at?": TIME,
        "last_crawl_success?": BOOL, "next_crawl_at?": TIME, "created_at": TIME, "updated_at": TIME,
        "deletion": JSON(), "operation_id?": S32, "last_complete_at?": TIME,
    },
    items=[
        _reference("tenant_id", "tenants.id"),
        partial_index("ix_crawl_plans_due", "next_crawl_at", where="is_active = true"),
        Index("ix_crawl_plans_state", "state"),
        Index("ix_crawl_plans_tenant_id", "tenant_id"),
    ],
    defaults={"deletion": "{}"},
)
_table(
    "crawled_pages", key="scope_id url_hash",
    columns={
        "scope_id": S32, "url_hash": S64, "tenant_id": S32, "job_id": S32, "url": LONG_TEXT, "depth": INT,
        "parent_url?": LONG_TEXT, "status?": INT, "error_type?": NAME, "error?": LONG_TEXT,
        "content_type?": LONG_TEXT, "etag?": LONG_TEXT, "last_modified?": LONG_TEXT, "size_bytes": BIG,
        "body_sha256?": S64, "content_sha256?": S64, "duplicate_of?": S64, "title?": LONG_TEXT, "method?": NAME,
        "content?": BYTES, "details?": BYTES, "duration_ms": INT, "fetched_at": TIME, "changed_at": TIME,
    },
    items=[
        _reference("tenant_id", "tenants.id"),
        Index("ix_crawled_pages_content", "scope_id", "content_sha256"),
        Index("ix_crawled_pages_job", "job_id", "url_hash"),
    ],
)
_table(
    "host_settings", key="tenant_id host",
    columns={
        "tenant_id": S32, "host": NAME, "rate_limit_rps": DOUBLE, "circuit_breaker_threshold": INT,
        "circuit_breaker_timeout_seconds": INT, "is_blocked": BOOL, "blocked_reason?": LONG_TEXT, "updated_at": TIME,
    },
    items=[
        _reference("tenant_id", "tenants.id"),
        partial_index("ix_host_settings_blocked", "is_blocked", where="is_blocked = true"),
    ],
)
_table(
    "inventory_files", key="id",
    columns={
        "id": S32, "tenant_id": S32, "filename": LONG_TEXT, "purpose": S64, "size_bytes": BIG, "blob_sha256": S64,
        "status": S32, "created_at": TIME, "content_type?": NAME,
    },
    items=[_reference("tenant_id", "tenants.id"), Index("ix_inventory_files_tenant", "tenant_id", "created_at")],
)
_table(
    "jobs", key="id",
    columns={
        "id": S32, "tenant_id": S32, "kind": S64, "payload": JSON_VALUE, "state": S24, "priority": INT,
        "requested?": S24, "progress": JSON_VALUE, "checkpoint?": JSON_VALUE, "result?": JSON_VALUE,
        "error?": LONG_TEXT, "retry_count": INT, "max_retries": INT, "crashes": INT, "run": INT, "worker_id?": S32,
        "unique_key?": NAME, "submitted_by?": S32, "event_count": INT, "due_at": TIME, "created_at": TIME,
        "started_at?": TIME, "finished_at?": TIME, "parent_id?": S32,
    },
    items=[
        _reference("tenant_id", "tenants.id"),
        Index("ix_jobs_kind", "kind", "created_at"),
        Index("ix_jobs_listed", "tenant_id", "state", "created_at", "id"),
        Index("ix_jobs_parent", "parent_id"),
        partial_index("ix_jobs_queue", "state", "priority", "due_at", "id", where="state = 'pending'"),
        Index("ix_jobs_state", "state", "worker_id"),
        Index("ix_jobs_tenant", "tenant_id", "created_at"),
        partial_index("uq_jobs_unique_key", "unique_key", where="unique_key IS NOT NULL", unique=True),
    ],
)
_table(
    "outbox", key="id",
    columns={
        "id": S32, "tenant_id": S32, "topic": S64, "payload": JSON_VALUE, "created_at": TIME, "published_at?": TIME,
    },
    items=[_reference("tenant_id", "tenants.id"), Index("ix_outbox_published", "published_at", "id")],
)
_table(
    "proxies", key="id",
    columns={
        "id": S32, "tenant_id": S32, "name": NAME, "servers": JSON(), "rotation": S24, "is_active": BOOL,
        "created_at": TIME,
    },
    items=[
        _reference("tenant_id", "tenants.id"),
        UniqueConstraint("tenant_id", "name", name="uq_proxies_name"),
        Index("ix_proxies_active", "is_active"),
    ],
)
_table(
    "responses", key="tenant_id id",
    columns={
        "tenant_id": S32, "id": S128, "model": NAME, "status": S32, "previous_response_id?": S128,
        "conversation_id?": S128, "body": JSON_VALUE, "created_at": TIME,
    },
    items=[_reference("tenant_id", "tenants.id"), Index("ix_responses_conversation", "tenant_id", "conversation_id")],
)
_table(
    "schedules", key="id",
    columns={
        "id": S32, "tenant_id": S32, "name": NAME, "kind": S64, "payload": JSON_VALUE, "priority": INT, "cron?": S120,
        "interval_seconds?": INT, "jitter_seconds": INT, "enabled": BOOL, "next_run_at": TIME, "last_run_at?": TIME,
        "created_at": TIME,
    },
    items=[
        _reference("tenant_id", "tenants.id"),
        UniqueConstraint("tenant_id", "name", name="uq_schedules_name"),
        partial_index("ix_schedules_due", "next_run_at", where="enabled = true"),
    ],
)
_table(
    "search_epochs", key="tenant_id",
    columns={"tenant_id": S32, "epoch": BIG},
    items=[_reference("tenant_id", "tenants.id")],
)
_table(
    "site_memories", key="scope_id host",
    columns={"scope_id": S32, "host": NAME, "tenant_id": S32, "memory": BYTES, "updated_at": TIME},
    items=[_reference("tenant_id", "tenants.id")],
)
_table(
    "stories", key="id",
    columns={
        "id": S32, "tenant_id": S32, "title": LONG_TEXT, "features": JSON_VALUE, "source_count": INT,
        "first_seen_at": TIME, "last_seen_at": TIME, "breaking_at?": TIME, "ended_at?": TIME,
    },
    items=[_reference("tenant_id", "tenants.id"), Index("ix_stories_last_seen_at", "tenant_id", "last_seen_at")],
)
_table(
    "tags", key="id",
    columns={"id": S32, "tenant_id": S32, "name": NAME, "created_at": TIME},
    items=[_reference("tenant_id", "tenants.id"), UniqueConstraint("tenant_id", "name", name="uq_tags_name")],
)
_table(
    "vocabulary", key="tenant_id word",
    columns={"tenant_id": S32, "word": short_text(40), "created_at": TIME},
    items=[_reference("tenant_id", "tenants.id")],
)
_table(
    "crawl_operations", key="id",
    columns={
        "id": S32, "tenant_id": S32, "plan_id": S32, "job_id?": S32, "state": S24, "status_message?": LONG_TEXT,
        "objects_enumerated": BIG, "bytes_enumerated": BIG, "objects_added": BIG, "bytes_added": BIG,
        "objects_updated": BIG, "bytes_updated": BIG, "objects_deleted": BIG, "bytes_deleted": BIG,
        "objects_success": BIG, "bytes_success": BIG, "objects_failed": BIG, "bytes_failed": BIG,
        "enumeration_file?": LONG_TEXT, "started_at?": TIME, "enumeration_started_at?": TIME,
        "enumeration_finished_at?": TIME, "retrieval_started_at?": TIME, "retrieval_finished_at?": TIME,
        "finished_at?": TIME, "created_at": TIME, "updated_at": TIME, "objects_unchanged": BIG,
        "objects_withheld": BIG, "trigger": S24, "is_complete": BOOL,
    },
    items=[
        _reference("plan_id", "crawl_plans.id", "CASCADE"),
        _reference("tenant_id", "tenants.id"),
        Index("ix_crawl_operations_created_at", "created_at"),
        Index("ix_crawl_operations_listed", "tenant_id", "state", "created_at", "id"),
        Index("ix_crawl_operations_plan", "plan_id", "created_at"),
    ],
    defaults={"is_complete": false(), "objects_unchanged": "0", "objects_withheld": "0", "trigger": "manual"},
)
_table(
    "documents", key="id",
    columns={
        "id": S32, "tenant_id": S32, "natural_key": S64, "url": LONG_TEXT, "url_hash": S64, "host": NAME,
        "domain": NAME, "source": S24, "status": S24, "collection_id?": S32, "plan_id?": S32, "operation_id?": S32,
        "rule_id?": S32, "parent_url?": LONG_TEXT, "title?": LONG_TEXT, "filename?": LONG_TEXT, "content_type?": NAME,
        "language?": S16, "details": JSON_VALUE, "size_bytes": BIG, "content_sha256?": S64, "original_sha256?": S64,
        "version": INT, "chunk_count": INT, "duplicate_of?": S32, "error?": LONG_TEXT, "created_at": TIME,
        "crawled_at": TIME, "updated_at": TIME, "deleted_at?": TIME, "chunking?": JSON_VALUE, "is_purging": BOOL,
        "indexed_version": INT, "index_revision": INT, "index_due_at?": TIME, "index_lease?": S32,
        "index_attempts": INT,
    },
    items=[
        _reference("collection_id", "collections.id", "SET NULL"),
        _reference("tenant_id", "tenants.id"),
        UniqueConstraint("tenant_id", "natural_key", name="uq_documents_natural_key"),
        partial_index("ix_documents_active", "tenant_id", "id", where="deleted_at IS NULL"),
        Index("ix_documents_collection_id", "collection_id"),
        Index("ix_documents_content_sha256", "tenant_id", "content_sha256"),
        Index("ix_documents_crawled_at", "tenant_id", "crawled_at"),
        partial_index(
            "ix_documents_deleted", "tenant_id", "created_at", "id", "is_purging", "deleted_at",
            where="deleted_at IS NOT NULL",
        ),
        Index("ix_documents_domain", "tenant_id", "domain", "created_at", "id"),
        partial_index("ix_documents_ended", "plan_id", "deleted_at", "is_purging", where="deleted_at IS NOT NULL"),
        Index("ix_documents_host", "tenant_id", "host", "created_at", "id"),
        partial_index(
            "ix_documents_in_collection", "tenant_id", "collection_id", "created_at", "id", "is_purging",
            "deleted_at", "version", "indexed_version", "size_bytes", where="deleted_at IS NULL",
        ),
        partial_index("ix_documents_index_due", "index_due_at", where="index_due_at IS NOT NULL"),
        partial_index(
            "ix_documents_newest", "tenant_id", "created_at", "id", "is_purging", "deleted_at",
            where="deleted_at IS NULL",
        ),
        partial_index(
            "ix_documents_of_plan", "tenant_id", "plan_id", "created_at", "id", "is_purging", "deleted_at",
            where="deleted_at IS NULL",
        ),
        Index("ix_documents_operation_id", "operation_id", "created_at", "id"),
        Index("ix_documents_plan_id", "plan_id"),
        Index("ix_documents_source", "tenant_id", "source", "created_at", "id"),
        Index("ix_documents_status", "tenant_id", "status", "created_at", "id"),
        Index("ix_documents_url_hash", "tenant_id", "url_hash"),
        partial_index("ix_documents_waiting", "tenant_id", "index_due_at", where="index_due_at IS NOT NULL"),
    ],
    defaults={"index_attempts": "0", "index_revision": "0", "indexed_version": "0", "is_purging": false()},
)
_table(
    "frontier", key="id",
    columns={
        "id": BIG, "job_id": S32, "url_hash": S64, "url": LONG_TEXT, "host": NAME, "depth": INT, "score": DOUBLE,
        "status": S24, "parent_url?": LONG_TEXT, "lease_id?": S32, "leased_until?": TIME, "attempts": INT,
        "error?": LONG_TEXT, "discovered_at": TIME, "redirects": INT,
    },
    items=[
        _reference("job_id", "jobs.id", "CASCADE"),
        UniqueConstraint("job_id", "url_hash", name="uq_frontier_url"),
        partial_index("ix_frontier_best", "job_id", "status", text("score DESC"), "id", where="status = 'pending'"),
        partial_index("ix_frontier_depth", "job_id", "status", "depth", "id", where="status = 'pending'"),
        partial_index("ix_frontier_leases", "job_id", "status", "leased_until", where="status = 'leased'"),
    ],
    defaults={"redirects": "0"},
)
_table(
    "ingest_queue", key="id",
    columns={"id": S32, "job_id": S32, "tenant_id": S32, "scope_id": S32, "url_hash": S64, "created_at": TIME},
    items=[
        _reference("job_id", "jobs.id", "CASCADE"),
        _reference("tenant_id", "tenants.id"),
        Index("ix_ingest_queue_job", "job_id", "id"),
    ],
)
_table(
    "ingestion_rules", key="id",
    columns={
        "id": S32, "tenant_id": S32, "name": NAME, "description?": LONG_TEXT, "bucket?": NAME, "collection_id?": S32,
        "labels": JSON(), "tags": JSON_VALUE, "summarization": JSON_VALUE, "chunking": JSON_VALUE,
        "embedding": JSON_VALUE, "created_at": TIME, "updated_at": TIME,
    },
    items=[
        _reference("collection_id", "collections.id", "SET NULL"),
        _reference("tenant_id", "tenants.id"),
        UniqueConstraint("tenant_id", "name", name="uq_ingestion_rules_name"),
    ],
)
_table(
    "job_events", key="id",
    columns={"id": BIG, "job_id": S32, "sequence": INT, "type": S64, "payload": JSON_VALUE, "at": TIME},
    items=[
        _reference("job_id", "jobs.id", "CASCADE"),
        UniqueConstraint("job_id", "sequence", name="uq_job_events_sequence"),
    ],
    sqlite_autoincrement=True,
)
_table(
    "ledger", key="plan_id key_hash",
    columns={
        "plan_id": S32, "key_hash": S64, "tenant_id": S32, "key": LONG_TEXT, "fate": S24, "document_id?": S32,
        "content_type?": NAME, "content_length?": BIG, "etag?": LONG_TEXT, "last_modified_at?": TIME,
        "content_sha256?": S64, "error?": LONG_TEXT, "seen_count": INT, "change_count": INT, "missing_runs": INT,
        "first_seen_at": TIME, "last_seen_at": TIME, "last_changed_at?": TIME, "last_operation_id?": S32,
        "content_sha1?": S64, "content_md5?": S64, "text_sha256?": S64, "fingerprint?": S64,
        "unchanged_seconds": DOUBLE, "change_intervals": JSON(),
    },
    items=[
        _reference("plan_id", "crawl_plans.id", "CASCADE"),
        _reference("tenant_id", "tenants.id"),
        Index("ix_ledger_delta", "plan_id", "key_hash", "fate", "missing_runs", "fingerprint"),
        Index("ix_ledger_document", "document_id"),
        Index("ix_ledger_fate", "plan_id", "fate"),
        Index("ix_ledger_operation", "plan_id", "last_operation_id"),
    ],
    defaults={"change_intervals": "[]", "unchanged_seconds": "0"},
)
_table(
    "numbered_jobs", key="number",
    columns={
        "number": BIG, "tenant_id": S32, "job_id": S32, "endpoint": LONG_TEXT, "folder": NAME, "action": S64,
        "object_id?": NAME, "is_filed": BOOL, "created_at": TIME,
    },
    items=[
        _reference("job_id", "jobs.id", "CASCADE"),
        _reference("tenant_id", "tenants.id"),
        Index("ix_numbered_jobs_filed", "is_filed"),
        Index("ix_numbered_jobs_job", "job_id"),
        Index("ix_numbered_jobs_object", "tenant_id", "object_id"),
        Index("ix_numbered_jobs_tenant", "tenant_id", "number"),
    ],
    sqlite_autoincrement=True,
)
_table(
    "sharded_crawls", key="job_id",
    columns={"job_id": S32, "granted": BIG, "is_over": BOOL, "roots": JSON_VALUE},
    items=[_reference("job_id", "jobs.id", "CASCADE")],
)
_table(
    "sign_ins", key="token_hash",
    columns={"token_hash": S64, "key_id": S32, "kind": S16, "created_at": TIME, "expires_at": TIME},
    items=[_reference("key_id", "api_keys.id", "CASCADE")],
)
_table(
    "vector_store_batches", key="id",
    columns={"id": S32, "tenant_id": S32, "collection_id": S32, "cancelled_at?": TIME, "created_at": TIME},
    items=[_reference("collection_id", "collections.id", "CASCADE"), _reference("tenant_id", "tenants.id")],
)
_table(
    "watches", key="id",
    columns={
        "id": S32, "tenant_id": S32, "name": NAME, "url": LONG_TEXT, "kind": S24, "plan_id?": S32, "enabled": BOOL,
        "poll_interval_seconds": INT, "daily_budget": INT, "weight": DOUBLE, "requests_today": INT,
        "budget_day?": S10, "etag?": LONG_TEXT, "last_modified?": NAME, "last_fingerprint?": S64, "failures": INT,
        "last_polled_at?": TIME, "next_poll_at": TIME, "created_at": TIME, "collection_id?": S32,
        "threshold?": DOUBLE, "catch_up": BOOL, "memory": JSON_VALUE, "last_error?": LONG_TEXT, "notice?": LONG_TEXT,
        "escalated_until?": TIME, "lease?": S32, "last_success_at?": TIME,
    },
    items=[
        _reference("plan_id", "crawl_plans.id", "SET NULL"),
        _reference("tenant_id", "tenants.id"),
        UniqueConstraint("tenant_id", "name", name="uq_watches_name"),
        partial_index("ix_watches_due", "next_poll_at", where="enabled = true"),
    ],
    defaults={"catch_up": false(), "memory": "{}"},
)
_table(
    "webhooks", key="id",
    columns={
        "id": S32, "tenant_id": S32, "url": LONG_TEXT, "plan_id?": S32, "events": JSON(), "headers": JSON_VALUE,
        "sealed_secret?": LONG_TEXT, "sealed_previous_secret?": LONG_TEXT, "is_active": BOOL, "failures": INT,
        "circuit_opened_at?": TIME, "created_at": TIME, "host": NAME, "job_id?": S32, "previous_secret_until?": TIME,
        "last_position": BIG, "next_attempt_at?": TIME, "lease_id?": S32, "leased_until?": TIME,
    },
    items=[
        _reference("plan_id", "crawl_plans.id", "CASCADE"),
        _reference("tenant_id", "tenants.id"),
        partial_index("ix_webhooks_active", "tenant_id", where="is_active = true"),
        partial_index("ix_webhooks_due", "next_attempt_at", where="next_attempt_at IS NOT NULL"),
        Index("ix_webhooks_job_id", "job_id"),
        Index("ix_webhooks_plan_id", "plan_id"),
    ],
    defaults={"host": "", "last_position": "0"},
)
_table(
    "chunks", key="id",
    columns={
        "id": S32, "tenant_id": S32, "document_id": S32, "version": INT, "chunk_index": INT, "content": LONG_TEXT,
        "content_sha256": S64, "start_char": INT, "end_char": INT, "token_count": INT, "embedding_model": NAME,
        "section_header?": LONG_TEXT, "content_type": S24, "created_at": TIME, "context?": LONG_TEXT,
    },
    items=[
        _reference("document_id", "documents.id", "CASCADE"),
        _reference("tenant_id", "tenants.id"),
        UniqueConstraint("document_id", "version", "chunk_index", name="uq_chunks_index"),
        Index("ix_chunks_content_sha256", "content_sha256"),
        Index("ix_chunks_embedding_model", "embedding_model"),
        Index("ix_chunks_tenant_id", "tenant_id"),
    ],
)
_table(
    "document_logs", key="id",
    columns={"id": BIG, "tenant_id": S32, "document_id": S32, "level": S16, "message": LONG_TEXT, "at": TIME},
    items=[
        _reference("document_id", "documents.id", "CASCADE"),
        _reference("tenant_id", "tenants.id"),
        Index("ix_document_logs_document", "document_id", "id"),
    ],
)
_table(
    "document_tags", key="document_id tag_id",
    columns={"document_id": S32, "tag_id": S32},
    items=[
        _reference("document_id", "documents.id", "CASCADE"),
        _reference("tag_id", "tags.id", "CASCADE"),
        Index("ix_document_tags_tag", "tag_id"),
    ],
)
_table(
    "document_versions", key="id",
    columns={
        "id": S32, "tenant_id": S32, "document_id": S32, "version": INT, "title?": LONG_TEXT, "content_sha256": S64,
        "original_sha256?": S64, "size_bytes": BIG, "details": JSON_VALUE, "operation_id?": S32, "created_at": TIME,
        "ended_at?": TIME,
    },
    items=[
        _reference("document_id", "documents.id", "CASCADE"),
        _reference("tenant_id", "tenants.id"),
        UniqueConstraint("document_id", "version", name="uq_document_versions_version"),
        Index("ix_document_versions_created_at", "tenant_id", "created_at"),
        Index("ix_document_versions_operation", "operation_id", "version", "created_at"),
    ],
)
_table(
    "operation_items", key="operation_id key_hash",
    columns={
        "operation_id": S32, "key_hash": S64, "tenant_id": S32, "key": LONG_TEXT, "change": S24, "state": S24,
        "content_type?": NAME, "content_length?": BIG, "etag?": LONG_TEXT, "content_sha256?": S64,
        "content_sha1?": S64, "content_md5?": S64, "text_sha256?": S64, "last_modified_at?": TIME,
        "document_id?": S32, "error?": LONG_TEXT,
    },
    items=[
        _reference("operation_id", "crawl_operations.id", "CASCADE"),
        _reference("tenant_id", "tenants.id"),
        Index("ix_operation_items_work", "operation_id", "change", "state", "key_hash"),
    ],
)
_table(
    "vector_store_files", key="document_id",
    columns={
        "document_id": S32, "tenant_id": S32, "file_id": S32, "job_id?": S32, "batch_id?": S32, "is_cancelled": BOOL,
        "attributes": JSON_VALUE, "created_at": TIME,
    },
    items=[
        _reference("document_id", "documents.id", "CASCADE"),
        _reference("tenant_id", "tenants.id"),
        Index("ix_vector_store_files_batch", "batch_id"),
        Index("ix_vector_store_files_file", "file_id"),
    ],
    defaults={"is_cancelled": false()},
)
_table(
    "watch_items", key="watch_id key_hash",
    columns={
        "watch_id": S32, "key_hash": S64, "tenant_id": S32, "url": LONG_TEXT, "title?": LONG_TEXT,
        "fingerprint?": S64, "news_score?": DOUBLE, "factors": JSON_VALUE, "story_id?": S32, "job_id?": S32,
        "published_at?": TIME, "seen_at": TIME, "url_hash": S64, "site": NAME, "lead?": LONG_TEXT, "entry_hash?": S64,
        "state": S24, "reason?": LONG_TEXT, "updates": INT, "news_at?": TIME,
    },
    items=[
        _reference("tenant_id", "tenants.id"),
        _reference("watch_id", "watches.id", "CASCADE"),
        Index("ix_watch_items_entry", "watch_id", "entry_hash"),
        Index("ix_watch_items_fingerprint", "tenant_id", "fingerprint"),
        Index("ix_watch_items_seen_at", "tenant_id", "seen_at"),
        Index("ix_watch_items_story", "story_id"),
        Index("ix_watch_items_url", "tenant_id", "url_hash"),
        partial_index("ix_watch_items_waiting", "watch_id", where="state = 'waiting'"),
    ],
    defaults={"site": "", "state": "seen", "updates": "0", "url_hash": ""},
)
_table(
    "webhook_deliveries", key="id",
    columns={
        "id": S32, "tenant_id": S32, "webhook_id": S32, "event": S64, "body": LONG_TEXT, "job_id?": S32,
        "job_type?": S64, "status": S24, "attempts": INT, "max_attempts": INT, "response_status?": INT,
        "response_body?": LONG_TEXT, "last_attempt_at?": TIME, "next_attempt_at?": TIME, "created_at": TIME,
        "event_id": S32, "position": BIG, "replay": INT, "error?": LONG_TEXT,
    },
    items=[
        _reference("tenant_id", "tenants.id"),
        _reference("webhook_id", "webhooks.id", "CASCADE"),
        Index("ix_webhook_deliveries_created_at", "created_at"),
        partial_index("ix_webhook_deliveries_due", "next_attempt_at", where="status = 'pending'"),
        Index("ix_webhook_deliveries_queue", "webhook_id", "status", "position"),
        Index("ix_webhook_deliveries_tenant", "tenant_id", "created_at"),
        Index("ix_webhook_deliveries_webhook", "webhook_id", "created_at"),
        Index("uq_webhook_deliveries_event", "webhook_id", "event_id", "replay", unique=True),
    ],
    defaults={"event_id": "", "position": "0", "replay": "0"},
)
