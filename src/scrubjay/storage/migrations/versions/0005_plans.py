"""Plans that run: what an operation found, safe deletion, change rates, and turns."""

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

EMPTY_OBJECT = sa.text("('{}')")
EMPTY_LIST = sa.text("('[]')")


def upgrade() -> None:
    op.add_column("crawl_plans", sa.Column("deletion", sa.JSON(), nullable=False, server_default=EMPTY_OBJECT))
    op.add_column("crawl_plans", sa.Column("operation_id", sa.String(32), nullable=True))
    op.add_column("crawl_plans", sa.Column("last_complete_at", types.UtcDateTime(), nullable=True))
    op.add_column("crawl_operations", sa.Column("objects_unchanged", types.BIG, nullable=False, server_default="0"))
    op.add_column("crawl_operations", sa.Column("objects_withheld", types.BIG, nullable=False, server_default="0"))
    op.add_column("crawl_operations", sa.Column("trigger", sa.String(24), nullable=False, server_default="manual"))
    op.add_column("crawl_operations", sa.Column("is_complete", sa.Boolean(), nullable=False, server_default=sa.false()))
    for column in ("content_sha1", "content_md5", "text_sha256", "fingerprint"):
        op.add_column("ledger", sa.Column(column, sa.String(64), nullable=True))
    op.add_column("ledger", sa.Column("unchanged_seconds", sa.Double(), nullable=False, server_default="0"))
    op.add_column("ledger", sa.Column("change_intervals", sa.JSON(), nullable=False, server_default=EMPTY_LIST))
    op.create_index(
        "ix_ledger_delta", "ledger", ["plan_id", "key_hash", "fate", "missing_runs", "fingerprint"], unique=False
    )
    op.create_table(
        "operation_items",
        sa.Column("operation_id", sa.String(32), nullable=False),
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("key", types.LONG_TEXT, nullable=False),
        sa.Column("change", sa.String(24), nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("content_type", types.short_text(255), nullable=True),
        sa.Column("content_length", types.BIG, nullable=True),
        sa.Column("etag", types.LONG_TEXT, nullable=True),
        sa.Column("content_sha256", sa.String(64), nullable=True),
        sa.Column("content_sha1", sa.String(64), nullable=True),
        sa.Column("content_md5", sa.String(64), nullable=True),
        sa.Column("text_sha256", sa.String(64), nullable=True),
        sa.Column("last_modified_at", types.UtcDateTime(), nullable=True),
        sa.Column("document_id", sa.String(32), nullable=True),
        sa.Column("error", types.LONG_TEXT, nullable=True),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["crawl_operations.id"],
            name=op.f("fk_operation_items_operation_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_operation_items_tenant_id")),
        sa.PrimaryKeyConstraint("operation_id", "key_hash", name=op.f("pk_operation_items")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(
        "ix_operation_items_work", "operation_items", ["operation_id", "change", "state", "key_hash"], unique=False
    )
    op.create_table(
        "turns",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("next_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_turns")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def downgrade() -> None:
    op.drop_table("turns")
    op.drop_table("operation_items")
    op.drop_index("ix_ledger_delta", "ledger")
    for column in (
        "change_intervals",
        "unchanged_seconds",
        "fingerprint",
        "text_sha256",
        "content_md5",
        "content_sha1",
    ):
        op.drop_column("ledger", column)
    for column in ("is_complete", "trigger", "objects_withheld", "objects_unchanged"):
        op.drop_column("crawl_operations", column)
    for column in ("last_complete_at", "operation_id", "deletion"):
        op.drop_column("crawl_plans", column)
