"""Webhooks: queues with an order, leases for those who send, secrets that overlap, webhooks of single jobs."""

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("webhooks", sa.Column("host", types.short_text(255), nullable=False, server_default=""))
    op.add_column("webhooks", sa.Column("job_id", sa.String(32), nullable=True))
    op.add_column("webhooks", sa.Column("previous_secret_until", types.UtcDateTime(), nullable=True))
    op.add_column("webhooks", sa.Column("last_position", types.BIG, nullable=False, server_default="0"))
    op.add_column("webhooks", sa.Column("next_attempt_at", types.UtcDateTime(), nullable=True))
    op.add_column("webhooks", sa.Column("lease_id", sa.String(32), nullable=True))
    op.add_column("webhooks", sa.Column("leased_until", types.UtcDateTime(), nullable=True))
    op.create_index("ix_webhooks_job_id", "webhooks", ["job_id"], unique=False)
    op.create_index(
        "ix_webhooks_due",
        "webhooks",
        ["next_attempt_at"],
        unique=False,
        sqlite_where=sa.text("next_attempt_at IS NOT NULL"),
        postgresql_where=sa.text("next_attempt_at IS NOT NULL"),
        mssql_where=sa.text("next_attempt_at IS NOT NULL"),
    )
    op.add_column("webhook_deliveries", sa.Column("event_id", sa.String(32), nullable=False, server_default=""))
    op.add_column("webhook_deliveries", sa.Column("position", types.BIG, nullable=False, server_default="0"))
    op.add_column("webhook_deliveries", sa.Column("replay", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("webhook_deliveries", sa.Column("error", types.LONG_TEXT, nullable=True))
    op.execute("UPDATE webhook_deliveries SET event_id = id")
    op.create_index(
        "ix_webhook_deliveries_queue", "webhook_deliveries", ["webhook_id", "status", "position"], unique=False
    )
    op.create_index("ix_webhook_deliveries_tenant", "webhook_deliveries", ["tenant_id", "created_at"], unique=False)
    op.create_index("ix_webhook_deliveries_created_at", "webhook_deliveries", ["created_at"], unique=False)
    op.create_index(
        "uq_webhook_deliveries_event", "webhook_deliveries", ["webhook_id", "event_id", "replay"], unique=True
    )
    op.create_index("ix_outbox_published", "outbox", ["published_at", "id"], unique=False)
    op.drop_index("ix_outbox_unpublished", "outbox")


def downgrade() -> None:
    op.create_index(
        "ix_outbox_unpublished",
        "outbox",
        ["id"],
        unique=False,
        sqlite_where=sa.text("published_at IS NULL"),
        postgresql_where=sa.text("published_at IS NULL"),
        mssql_where=sa.text("published_at IS NULL"),
    )
    op.drop_index("ix_outbox_published", "outbox")
    # MariaDB and MySQL need an index for each foreign key; those that stay serve them.
    for name in ("uq_webhook_deliveries_event", "ix_webhook_deliveries_queue"):
        op.drop_index(name, "webhook_deliveries")
    for name in ("ix_webhook_deliveries_created_at", "ix_webhook_deliveries_tenant"):
        op.drop_index(name, "webhook_deliveries")
    for column in ("error", "replay", "position", "event_id"):
        op.drop_column("webhook_deliveries", column)
    op.drop_index("ix_webhooks_due", "webhooks")
    op.drop_index("ix_webhooks_job_id", "webhooks")
    for column in (
        "leased_until",
        "lease_id",
        "next_attempt_at",
        "last_position",
        "previous_secret_until",
        "job_id",
        "host",
    ):
        op.drop_column("webhooks", column)
