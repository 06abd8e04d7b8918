"""Control: positions in the log of jobs are never used again, and agents of the bus have addresses."""

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _rebuild_job_events(sqlite_autoincrement=True)
    op.create_table(
        "agents",
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("address", types.LONG_TEXT, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_agents_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "name", name=op.f("pk_agents")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def downgrade() -> None:
    op.drop_table("agents")
    if op.get_bind().dialect.name == "sqlite":
        _rebuild_job_events()


def _rebuild_job_events(**options: bool) -> None:
    """SQLite cannot change how a table numbers its rows: a new one takes the rows over."""
    op.create_table(
        "new_job_events",
        sa.Column("id", types.BIG, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(64), nullable=False),
        sa.Column("payload", types.JSON_VALUE, nullable=False),
        sa.Column("at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_events_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_events")),
        sa.UniqueConstraint("job_id", "sequence", name="uq_job_events_sequence"),
        **options,
    )
    op.execute("INSERT INTO new_job_events SELECT id, job_id, sequence, type, payload, at FROM job_events")
    op.drop_table("job_events")
    op.rename_table("new_job_events", "job_events")
