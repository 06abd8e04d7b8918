"""Crawls: redirects in the frontier, crawled pages, and what was learned of sites."""

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("frontier", sa.Column("redirects", sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "crawled_pages",
        sa.Column("scope_id", sa.String(32), nullable=False),
        sa.Column("url_hash", sa.String(64), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("url", types.LONG_TEXT, nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("parent_url", types.LONG_TEXT, nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error_type", types.short_text(255), nullable=True),
        sa.Column("error", types.LONG_TEXT, nullable=True),
        sa.Column("content_type", types.LONG_TEXT, nullable=True),
        sa.Column("etag", types.LONG_TEXT, nullable=True),
        sa.Column("last_modified", types.LONG_TEXT, nullable=True),
        sa.Column("size_bytes", types.BIG, nullable=False),
        sa.Column("body_sha256", sa.String(64), nullable=True),
        sa.Column("content_sha256", sa.String(64), nullable=True),
        sa.Column("duplicate_of", sa.String(64), nullable=True),
        sa.Column("title", types.LONG_TEXT, nullable=True),
        sa.Column("method", types.short_text(255), nullable=True),
        sa.Column("content", types.BYTES, nullable=True),
        sa.Column("details", types.BYTES, nullable=True),
        sa.Column("duration_ms", sa.Integer(), nullable=False),
        sa.Column("fetched_at", types.UtcDateTime(), nullable=False),
        sa.Column("changed_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_crawled_pages_tenant_id")),
        sa.PrimaryKeyConstraint("scope_id", "url_hash", name=op.f("pk_crawled_pages")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_crawled_pages_job", "crawled_pages", ["job_id", "url_hash"], unique=False)
    op.create_index("ix_crawled_pages_content", "crawled_pages", ["scope_id", "content_sha256"], unique=False)
    op.create_table(
        "site_memories",
        sa.Column("scope_id", sa.String(32), nullable=False),
        sa.Column("host", types.short_text(255), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("memory", types.BYTES, nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_site_memories_tenant_id")),
        sa.PrimaryKeyConstraint("scope_id", "host", name=op.f("pk_site_memories")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def downgrade() -> None:
    op.drop_table("site_memories")
    op.drop_table("crawled_pages")
    op.drop_column("frontier", "redirects")
