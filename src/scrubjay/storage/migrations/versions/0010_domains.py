"""Domains: their files are the truth (ADR 0014), so the table goes; jobs of the `/v2` door get numbers."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.drop_table("domains")
    op.create_table(
        "numbered_jobs",
        sa.Column("number", types.BIG, autoincrement=True, nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("endpoint", types.LONG_TEXT, nullable=False),
        sa.Column("folder", types.short_text(255), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("object_id", types.short_text(255), nullable=True),
        sa.Column("is_filed", sa.Boolean(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_numbered_jobs_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_numbered_jobs_tenant_id")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_numbered_jobs")),
        sqlite_autoincrement=True,
        **MYSQL,
    )
    op.create_index("ix_numbered_jobs_tenant", "numbered_jobs", ["tenant_id", "number"], unique=False)
    op.create_index("ix_numbered_jobs_filed", "numbered_jobs", ["is_filed"], unique=False)
    op.create_index("ix_numbered_jobs_object", "numbered_jobs", ["tenant_id", "object_id"], unique=False)
    op.create_index("ix_numbered_jobs_job", "numbered_jobs", ["job_id"], unique=False)


def downgrade() -> None:
    op.drop_table("numbered_jobs")
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
        **MYSQL,
    )
