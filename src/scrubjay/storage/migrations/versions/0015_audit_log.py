"""Administrative acts are kept: who did what, to what, from where."""

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant_id", sa.String(length=32), nullable=False),
        sa.Column("at", types.UtcDateTime(), nullable=False),
        sa.Column("key_id", sa.String(length=32), nullable=True),
        sa.Column("key_name", types.short_text(255), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("target_id", types.short_text(255), nullable=True),
        sa.Column("details", types.JSON_VALUE, nullable=False),
        sa.Column("door", sa.String(length=32), nullable=True),
        sa.Column("remote_address", sa.String(length=64), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_audit_log_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_audit_log_tenant_at", "audit_log", ["tenant_id", "at"], unique=False)
    op.create_index("ix_audit_log_at", "audit_log", ["at"], unique=False)


def downgrade() -> None:
    op.drop_table("audit_log")
