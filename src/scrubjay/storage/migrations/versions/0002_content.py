"""Content: plans, ledger, documents, watches, webhooks, domains, inventory."""

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "embeddings",
        sa.Column("content_sha256", sa.String(64), nullable=False),
        sa.Column("model", types.short_text(255), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column("vector", types.BYTES, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("content_sha256", "model", name=op.f("pk_embeddings")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "assistants",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("name", types.LONG_TEXT, nullable=True),
        sa.Column("description", types.LONG_TEXT, nullable=True),
        sa.Column("model", types.short_text(255), nullable=False),
        sa.Column("instructions", types.LONG_TEXT, nullable=True),
        sa.Column("details", types.JSON_VALUE, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_assistants_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assistants")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_assistants_tenant", "assistants", ["tenant_id", "created_at"], unique=False)
    op.create_table(
        "collections",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("name", types.short_text(255), nullable=False),
        sa.Column("description", types.LONG_TEXT, nullable=True),
        sa.Column("details", types.JSON_VALUE, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("last_active_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_collections_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_collections")),
        sa.UniqueConstraint("tenant_id", "name", name="uq_collections_name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "crawl_configs",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("name", types.short_text(255), nullable=False),
        sa.Column("max_depth", sa.Integer(), nullable=False),
        sa.Column("rate_limit_rps", sa.Double(), nullable=False),
        sa.Column("respect_robots_txt", sa.Boolean(), nullable=False),
        sa.Column("headers", types.JSON_VALUE, nullable=False),
        sa.Column("extraction_strategy", sa.String(32), nullable=False),
        sa.Column("chunking_strategy", sa.String(32), nullable=False),
        sa.Column("chunk_size", sa.Integer(), nullable=False),
        sa.Column("chunk_overlap", sa.Integer(), nullable=False),
        sa.Column("min_chunk_size", sa.Integer(), nullable=False),
        sa.Column("page_timeout_ms", sa.Integer(), nullable=False),
        sa.Column("max_page_size_mb", sa.Integer(), nullable=False),
        sa.Column("max_redirects", sa.Integer(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_crawl_configs_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_crawl_configs")),
        sa.UniqueConstraint("tenant_id", "name", name="uq_crawl_configs_name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "crawl_plans",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("name", types.short_text(255), nullable=False),
        sa.Column("repository_type", sa.String(24), nullable=False),
        sa.Column("repository_settings", types.JSON_VALUE, nullable=False),
        sa.Column("ingestion_settings", sa.JSON(), nullable=False),
        sa.Column("schedule", sa.JSON(), nullable=False),
        sa.Column("filter", sa.JSON(), nullable=False),
        sa.Column("process_additions", sa.Boolean(), nullable=False),
        sa.Column("process_updates", sa.Boolean(), nullable=False),
        sa.Column("process_deletions", sa.Boolean(), nullable=False),
        sa.Column("max_drain_tasks", sa.Integer(), nullable=False),
        sa.Column("retention_days", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("last_crawl_start_at", types.UtcDateTime(), nullable=True),
        sa.Column("last_crawl_finish_at", types.UtcDateTime(), nullable=True),
        sa.Column("last_crawl_success", sa.Boolean(), nullable=True),
        sa.Column("next_crawl_at", types.UtcDateTime(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_crawl_plans_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_crawl_plans")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_crawl_plans_due",
        "crawl_plans",
        ["next_crawl_at"],
        unique=False,
        sqlite_where=sa.text("is_active = true"),
        postgresql_where=sa.text("is_active = true"),
        mssql_where=sa.text("is_active = 1"),
    )
    op.create_index("ix_crawl_plans_state", "crawl_plans", ["state"], unique=False)
    op.create_index("ix_crawl_plans_tenant_id", "crawl_plans", ["tenant_id"], unique=False)
    op.create_table(
        "host_settings",
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("host", types.short_text(255), nullable=False),
        sa.Column("rate_limit_rps", sa.Double(), nullable=False),
        sa.Column("circuit_breaker_threshold", sa.Integer(), nullable=False),
        sa.Column("circuit_breaker_timeout_seconds", sa.Integer(), nullable=False),
        sa.Column("is_blocked", sa.Boolean(), nullable=False),
        sa.Column("blocked_reason", types.LONG_TEXT, nullable=True),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_host_settings_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "host", name=op.f("pk_host_settings")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_host_settings_blocked",
        "host_settings",
        ["is_blocked"],
        unique=False,
        sqlite_where=sa.text("is_blocked = true"),
        postgresql_where=sa.text("is_blocked = true"),
        mssql_where=sa.text("is_blocked = 1"),
    )
    op.create_table(
        "inventory_files",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("filename", types.LONG_TEXT, nullable=False),
        sa.Column("purpose", sa.String(64), nullable=False),
        sa.Column("size_bytes", types.BIG, nullable=False),
        sa.Column("blob_sha256", sa.String(64), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_inventory_files_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inventory_files")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_inventory_files_tenant", "inventory_files", ["tenant_id", "created_at"], unique=False)
    op.create_table(
        "outbox",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("topic", sa.String(64), nullable=False),
        sa.Column("payload", types.JSON_VALUE, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("published_at", types.UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_outbox_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_outbox_unpublished",
        "outbox",
        ["id"],
        unique=False,
        sqlite_where=sa.text("published_at IS NULL"),
        postgresql_where=sa.text("published_at IS NULL"),
        mssql_where=sa.text("published_at IS NULL"),
    )
    op.create_table(
        "proxies",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("name", types.short_text(255), nullable=False),
        sa.Column("servers", sa.JSON(), nullable=False),
        sa.Column("rotation", sa.String(24), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_proxies_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proxies")),
        sa.UniqueConstraint("tenant_id", "name", name="uq_proxies_name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_proxies_active", "proxies", ["is_active"], unique=False)
    op.create_table(
        "responses",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("model", types.short_text(255), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("previous_response_id", sa.String(32), nullable=True),
        sa.Column("conversation_id", sa.String(32), nullable=True),
        sa.Column("body", types.JSON_VALUE, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_responses_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_responses")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_responses_conversation", "responses", ["tenant_id", "conversation_id"], unique=False)
    op.create_table(
        "stories",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("title", types.LONG_TEXT, nullable=False),
        sa.Column("features", types.JSON_VALUE, nullable=False),
        sa.Column("source_count", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", types.UtcDateTime(), nullable=False),
        sa.Column("last_seen_at", types.UtcDateTime(), nullable=False),
        sa.Column("breaking_at", types.UtcDateTime(), nullable=True),
        sa.Column("ended_at", types.UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_stories_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stories")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_stories_last_seen_at", "stories", ["tenant_id", "last_seen_at"], unique=False)
    op.create_table(
        "tags",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("name", types.short_text(255), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_tags_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tags")),
        sa.UniqueConstraint("tenant_id", "name", name="uq_tags_name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "crawl_operations",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("plan_id", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(32), nullable=True),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("status_message", types.LONG_TEXT, nullable=True),
        sa.Column("objects_enumerated", types.BIG, nullable=False),
        sa.Column("bytes_enumerated", types.BIG, nullable=False),
        sa.Column("objects_added", types.BIG, nullable=False),
        sa.Column("bytes_added", types.BIG, nullable=False),
        sa.Column("objects_updated", types.BIG, nullable=False),
        sa.Column("bytes_updated", types.BIG, nullable=False),
        sa.Column("objects_deleted", types.BIG, nullable=False),
        sa.Column("bytes_deleted", types.BIG, nullable=False),
        sa.Column("objects_success", types.BIG, nullable=False),
        sa.Column("bytes_success", types.BIG, nullable=False),
        sa.Column("objects_failed", types.BIG, nullable=False),
        sa.Column("bytes_failed", types.BIG, nullable=False),
        sa.Column("enumeration_file", types.LONG_TEXT, nullable=True),
        sa.Column("started_at", types.UtcDateTime(), nullable=True),
        sa.Column("enumeration_started_at", types.UtcDateTime(), nullable=True),
        sa.Column("enumeration_finished_at", types.UtcDateTime(), nullable=True),
        sa.Column("retrieval_started_at", types.UtcDateTime(), nullable=True),
        sa.Column("retrieval_finished_at", types.UtcDateTime(), nullable=True),
        sa.Column("finished_at", types.UtcDateTime(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["plan_id"], ["crawl_plans.id"], name=op.f("fk_crawl_operations_plan_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_crawl_operations_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_crawl_operations")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_crawl_operations_created_at", "crawl_operations", ["created_at"], unique=False)
    op.create_index("ix_crawl_operations_plan", "crawl_operations", ["plan_id", "created_at"], unique=False)
    op.create_index("ix_crawl_operations_tenant_id", "crawl_operations", ["tenant_id"], unique=False)
    op.create_table(
        "documents",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("natural_key", sa.String(64), nullable=False),
        sa.Column("url", types.LONG_TEXT, nullable=False),
        sa.Column("url_hash", sa.String(64), nullable=False),
        sa.Column("host", types.short_text(255), nullable=False),
        sa.Column("domain", types.short_text(255), nullable=False),
        sa.Column("source", sa.String(24), nullable=False),
        sa.Column("status", sa.String(24), nullable=False),
        sa.Column("collection_id", sa.String(32), nullable=True),
        sa.Column("plan_id", sa.String(32), nullable=True),
        sa.Column("operation_id", sa.String(32), nullable=True),
        sa.Column("rule_id", sa.String(32), nullable=True),
        sa.Column("parent_url", types.LONG_TEXT, nullable=True),
        sa.Column("title", types.LONG_TEXT, nullable=True),
        sa.Column("filename", types.LONG_TEXT, nullable=True),
        sa.Column("content_type", types.short_text(255), nullable=True),
        sa.Column("language", sa.String(16), nullable=True),
        sa.Column("details", types.JSON_VALUE, nullable=False),
        sa.Column("size_bytes", types.BIG, nullable=False),
        sa.Column("content_sha256", sa.String(64), nullable=True),
        sa.Column("original_sha256", sa.String(64), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("chunk_count", sa.Integer(), nullable=False),
        sa.Column("duplicate_of", sa.String(32), nullable=True),
        sa.Column("error", types.LONG_TEXT, nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("crawled_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.Column("deleted_at", types.UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_documents_collection_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_documents_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_documents")),
        sa.UniqueConstraint("tenant_id", "natural_key", name="uq_documents_natural_key"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_documents_active",
        "documents",
        ["tenant_id", "id"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
        mssql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index("ix_documents_collection_id", "documents", ["collection_id"], unique=False)
    op.create_index("ix_documents_content_sha256", "documents", ["tenant_id", "content_sha256"], unique=False)
    op.create_index("ix_documents_crawled_at", "documents", ["tenant_id", "crawled_at"], unique=False)
    op.create_index("ix_documents_domain", "documents", ["tenant_id", "domain"], unique=False)
    op.create_index("ix_documents_operation_id", "documents", ["operation_id"], unique=False)
    op.create_index("ix_documents_plan_id", "documents", ["plan_id"], unique=False)
    op.create_index("ix_documents_url_hash", "documents", ["tenant_id", "url_hash"], unique=False)
    op.create_table(
        "domains",
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("domain_id", types.short_text(255), nullable=False),
        sa.Column("name", types.short_text(255), nullable=False),
        sa.Column("description", types.LONG_TEXT, nullable=False),
        sa.Column("collection_id", sa.String(32), nullable=True),
        sa.Column("vector_store_name", types.short_text(255), nullable=False),
        sa.Column("sources", types.JSON_VALUE, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_domains_collection_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_domains_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "domain_id", name=op.f("pk_domains")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "frontier",
        sa.Column("id", types.BIG, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("url_hash", sa.String(64), nullable=False),
        sa.Column("url", types.LONG_TEXT, nullable=False),
        sa.Column("host", types.short_text(255), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("status", sa.String(24), nullable=False),
        sa.Column("parent_url", types.LONG_TEXT, nullable=True),
        sa.Column("lease_id", sa.String(32), nullable=True),
        sa.Column("leased_until", types.UtcDateTime(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", types.LONG_TEXT, nullable=True),
        sa.Column("discovered_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_frontier_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_frontier")),
        sa.UniqueConstraint("job_id", "url_hash", name="uq_frontier_url"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_frontier_best",
        "frontier",
        ["job_id", "status", sa.text("score DESC"), "id"],
        unique=False,
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
        mssql_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "ix_frontier_depth",
        "frontier",
        ["job_id", "status", "depth", "id"],
        unique=False,
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
        mssql_where=sa.text("status = 'pending'"),
    )
    op.create_index(
        "ix_frontier_leases",
        "frontier",
        ["job_id", "status", "leased_until"],
        unique=False,
        sqlite_where=sa.text("status = 'leased'"),
        postgresql_where=sa.text("status = 'leased'"),
        mssql_where=sa.text("status = 'leased'"),
    )
    op.create_table(
        "ingestion_rules",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("name", types.short_text(255), nullable=False),
        sa.Column("description", types.LONG_TEXT, nullable=True),
        sa.Column("bucket", types.short_text(255), nullable=True),
        sa.Column("collection_id", sa.String(32), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("tags", types.JSON_VALUE, nullable=False),
        sa.Column("summarization", types.JSON_VALUE, nullable=False),
        sa.Column("chunking", types.JSON_VALUE, nullable=False),
        sa.Column("embedding", types.JSON_VALUE, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["collections.id"],
            name=op.f("fk_ingestion_rules_collection_id"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_ingestion_rules_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ingestion_rules")),
        sa.UniqueConstraint("tenant_id", "name", name="uq_ingestion_rules_name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "ledger",
        sa.Column("plan_id", sa.String(32), nullable=False),
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("key", types.LONG_TEXT, nullable=False),
        sa.Column("fate", sa.String(24), nullable=False),
        sa.Column("document_id", sa.String(32), nullable=True),
        sa.Column("content_type", types.short_text(255), nullable=True),
        sa.Column("content_length", types.BIG, nullable=True),
        sa.Column("etag", types.LONG_TEXT, nullable=True),
        sa.Column("last_modified_at", types.UtcDateTime(), nullable=True),
        sa.Column("content_sha256", sa.String(64), nullable=True),
        sa.Column("error", types.LONG_TEXT, nullable=True),
        sa.Column("seen_count", sa.Integer(), nullable=False),
        sa.Column("change_count", sa.Integer(), nullable=False),
        sa.Column("missing_runs", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", types.UtcDateTime(), nullable=False),
        sa.Column("last_seen_at", types.UtcDateTime(), nullable=False),
        sa.Column("last_changed_at", types.UtcDateTime(), nullable=True),
        sa.Column("last_operation_id", sa.String(32), nullable=True),
        sa.ForeignKeyConstraint(["plan_id"], ["crawl_plans.id"], name=op.f("fk_ledger_plan_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_ledger_tenant_id")),
        sa.PrimaryKeyConstraint("plan_id", "key_hash", name=op.f("pk_ledger")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_ledger_document", "ledger", ["document_id"], unique=False)
    op.create_index("ix_ledger_fate", "ledger", ["plan_id", "fate"], unique=False)
    op.create_index("ix_ledger_operation", "ledger", ["plan_id", "last_operation_id"], unique=False)
    op.create_table(
        "vector_store_files",
        sa.Column("collection_id", sa.String(32), nullable=False),
        sa.Column("file_id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("document_id", sa.String(32), nullable=True),
        sa.Column("batch_id", sa.String(32), nullable=True),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("last_error", types.JSON_VALUE, nullable=True),
        sa.Column("attributes", types.JSON_VALUE, nullable=False),
        sa.Column("chunking", types.JSON_VALUE, nullable=False),
        sa.Column("usage_bytes", types.BIG, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["collections.id"],
            name=op.f("fk_vector_store_files_collection_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["file_id"], ["inventory_files.id"], name=op.f("fk_vector_store_files_file_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_vector_store_files_tenant_id")),
        sa.PrimaryKeyConstraint("collection_id", "file_id", name=op.f("pk_vector_store_files")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_vector_store_files_batch", "vector_store_files", ["batch_id"], unique=False)
    op.create_index("ix_vector_store_files_file", "vector_store_files", ["file_id"], unique=False)
    op.create_table(
        "watches",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("name", types.short_text(255), nullable=False),
        sa.Column("url", types.LONG_TEXT, nullable=False),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("plan_id", sa.String(32), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("poll_interval_seconds", sa.Integer(), nullable=False),
        sa.Column("daily_budget", sa.Integer(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("requests_today", sa.Integer(), nullable=False),
        sa.Column("budget_day", sa.String(10), nullable=True),
        sa.Column("etag", types.LONG_TEXT, nullable=True),
        sa.Column("last_modified", types.short_text(255), nullable=True),
        sa.Column("last_fingerprint", sa.String(64), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_polled_at", types.UtcDateTime(), nullable=True),
        sa.Column("next_poll_at", types.UtcDateTime(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["plan_id"], ["crawl_plans.id"], name=op.f("fk_watches_plan_id"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_watches_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_watches")),
        sa.UniqueConstraint("tenant_id", "name", name="uq_watches_name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_watches_due",
        "watches",
        ["next_poll_at"],
        unique=False,
        sqlite_where=sa.text("enabled = true"),
        postgresql_where=sa.text("enabled = true"),
        mssql_where=sa.text("enabled = 1"),
    )
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("url", types.LONG_TEXT, nullable=False),
        sa.Column("plan_id", sa.String(32), nullable=True),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("headers", types.JSON_VALUE, nullable=False),
        sa.Column("sealed_secret", types.LONG_TEXT, nullable=True),
        sa.Column("sealed_previous_secret", types.LONG_TEXT, nullable=True),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("circuit_opened_at", types.UtcDateTime(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["plan_id"], ["crawl_plans.id"], name=op.f("fk_webhooks_plan_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_webhooks_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_webhooks_active",
        "webhooks",
        ["tenant_id"],
        unique=False,
        sqlite_where=sa.text("is_active = true"),
        postgresql_where=sa.text("is_active = true"),
        mssql_where=sa.text("is_active = 1"),
    )
    op.create_index("ix_webhooks_plan_id", "webhooks", ["plan_id"], unique=False)
    op.create_table(
        "chunks",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("document_id", sa.String(32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("chunk_index", sa.Integer(), nullable=False),
        sa.Column("content", types.LONG_TEXT, nullable=False),
        sa.Column("content_sha256", sa.String(64), nullable=False),
        sa.Column("start_char", sa.Integer(), nullable=False),
        sa.Column("end_char", sa.Integer(), nullable=False),
        sa.Column("token_count", sa.Integer(), nullable=False),
        sa.Column("embedding_model", types.short_text(255), nullable=False),
        sa.Column("section_header", types.LONG_TEXT, nullable=True),
        sa.Column("content_type", sa.String(24), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name=op.f("fk_chunks_document_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_chunks_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chunks")),
        sa.UniqueConstraint("document_id", "version", "chunk_index", name="uq_chunks_index"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_chunks_content_sha256", "chunks", ["content_sha256"], unique=False)
    op.create_index("ix_chunks_embedding_model", "chunks", ["embedding_model"], unique=False)
    op.create_table(
        "document_logs",
        sa.Column("id", types.BIG, autoincrement=True, nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("document_id", sa.String(32), nullable=False),
        sa.Column("level", sa.String(16), nullable=False),
        sa.Column("message", types.LONG_TEXT, nullable=False),
        sa.Column("at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name=op.f("fk_document_logs_document_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_document_logs_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_document_logs")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_document_logs_document", "document_logs", ["document_id", "id"], unique=False)
    op.create_table(
        "document_tags",
        sa.Column("document_id", sa.String(32), nullable=False),
        sa.Column("tag_id", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name=op.f("fk_document_tags_document_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tag_id"], ["tags.id"], name=op.f("fk_document_tags_tag_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("document_id", "tag_id", name=op.f("pk_document_tags")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_document_tags_tag", "document_tags", ["tag_id"], unique=False)
    op.create_table(
        "document_versions",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("document_id", sa.String(32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("title", types.LONG_TEXT, nullable=True),
        sa.Column("content_sha256", sa.String(64), nullable=False),
        sa.Column("original_sha256", sa.String(64), nullable=True),
        sa.Column("size_bytes", types.BIG, nullable=False),
        sa.Column("details", types.JSON_VALUE, nullable=False),
        sa.Column("operation_id", sa.String(32), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name=op.f("fk_document_versions_document_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_document_versions_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_document_versions")),
        sa.UniqueConstraint("document_id", "version", name="uq_document_versions_version"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_document_versions_created_at", "document_versions", ["tenant_id", "created_at"], unique=False)
    op.create_table(
        "watch_items",
        sa.Column("watch_id", sa.String(32), nullable=False),
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("url", types.LONG_TEXT, nullable=False),
        sa.Column("title", types.LONG_TEXT, nullable=True),
        sa.Column("fingerprint", sa.String(64), nullable=True),
        sa.Column("news_score", sa.Double(), nullable=True),
        sa.Column("factors", types.JSON_VALUE, nullable=False),
        sa.Column("story_id", sa.String(32), nullable=True),
        sa.Column("job_id", sa.String(32), nullable=True),
        sa.Column("published_at", types.UtcDateTime(), nullable=True),
        sa.Column("seen_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_watch_items_tenant_id")),
        sa.ForeignKeyConstraint(["watch_id"], ["watches.id"], name=op.f("fk_watch_items_watch_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("watch_id", "key_hash", name=op.f("pk_watch_items")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_watch_items_seen_at", "watch_items", ["tenant_id", "seen_at"], unique=False)
    op.create_index("ix_watch_items_story", "watch_items", ["story_id"], unique=False)
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("webhook_id", sa.String(32), nullable=False),
        sa.Column("event", sa.String(64), nullable=False),
        sa.Column("body", types.LONG_TEXT, nullable=False),
        sa.Column("job_id", sa.String(32), nullable=True),
        sa.Column("job_type", sa.String(64), nullable=True),
        sa.Column("status", sa.String(24), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("response_status", sa.Integer(), nullable=True),
        sa.Column("response_body", types.LONG_TEXT, nullable=True),
        sa.Column("last_attempt_at", types.UtcDateTime(), nullable=True),
        sa.Column("next_attempt_at", types.UtcDateTime(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_webhook_deliveries_tenant_id")),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name=op.f("fk_webhook_deliveries_webhook_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_webhook_deliveries_due",
        "webhook_deliveries",
        ["next_attempt_at"],
        unique=False,
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
        mssql_where=sa.text("status = 'pending'"),
    )
    op.create_index("ix_webhook_deliveries_webhook", "webhook_deliveries", ["webhook_id", "created_at"], unique=False)
    # ### end Alembic commands ###
