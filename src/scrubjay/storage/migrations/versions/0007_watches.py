"""Watches that poll: leases, failures in words, thresholds, states of items, and the brake."""

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

EMPTY_OBJECT = sa.text("('{}')")


def upgrade() -> None:
    for column in (
        sa.Column("collection_id", sa.String(32), nullable=True),
        sa.Column("threshold", sa.Double(), nullable=True),
        sa.Column("catch_up", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("memory", types.JSON_VALUE, nullable=False, server_default=EMPTY_OBJECT),
        sa.Column("last_error", types.LONG_TEXT, nullable=True),
        sa.Column("notice", types.LONG_TEXT, nullable=True),
        sa.Column("escalated_until", types.UtcDateTime(), nullable=True),
        sa.Column("lease", sa.String(32), nullable=True),
        sa.Column("last_success_at", types.UtcDateTime(), nullable=True),
    ):
        op.add_column("watches", column)
    for column in (
        sa.Column("url_hash", sa.String(64), nullable=False, server_default=""),
        sa.Column("site", types.short_text(255), nullable=False, server_default=""),
        sa.Column("lead", types.LONG_TEXT, nullable=True),
        sa.Column("entry_hash", sa.String(64), nullable=True),
        sa.Column("state", sa.String(24), nullable=False, server_default="seen"),
        sa.Column("reason", types.LONG_TEXT, nullable=True),
        sa.Column("updates", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("news_at", types.UtcDateTime(), nullable=True),
    ):
        op.add_column("watch_items", column)
    op.create_index("ix_watch_items_url", "watch_items", ["tenant_id", "url_hash"], unique=False)
    op.create_index("ix_watch_items_fingerprint", "watch_items", ["tenant_id", "fingerprint"], unique=False)
    op.create_index("ix_watch_items_entry", "watch_items", ["watch_id", "entry_hash"], unique=False)
    waiting = sa.text("state = 'waiting'")
    op.create_index(
        "ix_watch_items_waiting",
        "watch_items",
        ["watch_id"],
        unique=False,
        sqlite_where=waiting,
        postgresql_where=waiting,
        mssql_where=waiting,
    )
    op.create_table(
        "throttles",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("level", sa.String(24), nullable=False),
        sa.Column("reason", types.LONG_TEXT, nullable=True),
        sa.Column("changed_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_throttles")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def downgrade() -> None:
    op.drop_table("throttles")
    for name in ("waiting", "entry", "fingerprint", "url"):
        op.drop_index(f"ix_watch_items_{name}", "watch_items")
    for column in ("news_at", "updates", "reason", "state", "entry_hash", "lead", "site", "url_hash"):
        op.drop_column("watch_items", column)
    for column in (
        "last_success_at",
        "lease",
        "escalated_until",
        "notice",
        "last_error",
        "memory",
        "catch_up",
        "threshold",
        "collection_id",
    ):
        op.drop_column("watches", column)
