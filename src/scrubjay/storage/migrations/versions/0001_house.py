"""The house: tenants, keys, sign-ins, jobs, workers, schedules."""

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tenants",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", types.short_text(255), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenants")),
        sa.UniqueConstraint("name", name=op.f("uq_tenants_name")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("host", types.short_text(255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("started_at", types.UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("name", types.short_text(255), nullable=False),
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("rate_limit_rpm", sa.Integer(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("expires_at", types.UtcDateTime(), nullable=True),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_api_keys_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("key_hash", name=op.f("uq_api_keys_key_hash")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_api_keys_active",
        "api_keys",
        ["is_active"],
        unique=False,
        sqlite_where=sa.text("is_active = true"),
        postgresql_where=sa.text("is_active = true"),
        mssql_where=sa.text("is_active = 1"),
    )
    op.create_index("ix_api_keys_tenant_id", "api_keys", ["tenant_id"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("payload", types.JSON_VALUE, nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("requested", sa.String(24), nullable=True),
        sa.Column("progress", types.JSON_VALUE, nullable=False),
        sa.Column("checkpoint", types.JSON_VALUE, nullable=True),
        sa.Column("result", types.JSON_VALUE, nullable=True),
        sa.Column("error", types.LONG_TEXT, nullable=True),
        sa.Column("retry_count", sa.Integer(), nullable=False),
        sa.Column("max_retries", sa.Integer(), nullable=False),
        sa.Column("crashes", sa.Integer(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.String(32), nullable=True),
        sa.Column("unique_key", types.short_text(255), nullable=True),
        sa.Column("submitted_by", sa.String(32), nullable=True),
        sa.Column("event_count", sa.Integer(), nullable=False),
        sa.Column("due_at", types.UtcDateTime(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("started_at", types.UtcDateTime(), nullable=True),
        sa.Column("finished_at", types.UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_jobs_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_jobs_kind", "jobs", ["kind", "created_at"], unique=False)
    op.create_index(
        "ix_jobs_queue",
        "jobs",
        ["state", "priority", "due_at", "id"],
        unique=False,
        sqlite_where=sa.text("state = 'pending'"),
        postgresql_where=sa.text("state = 'pending'"),
        mssql_where=sa.text("state = 'pending'"),
    )
    op.create_index("ix_jobs_state", "jobs", ["state", "worker_id"], unique=False)
    op.create_index("ix_jobs_tenant", "jobs", ["tenant_id", "created_at"], unique=False)
    op.create_index(
        "uq_jobs_unique_key",
        "jobs",
        ["unique_key"],
        unique=True,
        sqlite_where=sa.text("unique_key IS NOT NULL"),
        postgresql_where=sa.text("unique_key IS NOT NULL"),
        mssql_where=sa.text("unique_key IS NOT NULL"),
    )
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("name", types.short_text(255), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("payload", types.JSON_VALUE, nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("cron", sa.String(120), nullable=True),
        sa.Column("interval_seconds", sa.Integer(), nullable=True),
        sa.Column("jitter_seconds", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("next_run_at", types.UtcDateTime(), nullable=False),
        sa.Column("last_run_at", types.UtcDateTime(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_schedules_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.UniqueConstraint("tenant_id", "name", name="uq_schedules_name"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_schedules_due",
        "schedules",
        ["next_run_at"],
        unique=False,
        sqlite_where=sa.text("enabled = true"),
        postgresql_where=sa.text("enabled = true"),
        mssql_where=sa.text("enabled = 1"),
    )
    op.create_table(
        "job_events",
        sa.Column("id", types.BIG, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(64), nullable=False),
        sa.Column("payload", types.JSON_VALUE, nullable=False),
        sa.Column("at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_events_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_events")),
        sa.UniqueConstraint("job_id", "sequence", name="uq_job_events_sequence"),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "sign_ins",
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("expires_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name=op.f("fk_sign_ins_key_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_sign_ins")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    # ### end Alembic commands ###
