"""Shards: jobs have parts, a sharded crawl has a budget that its shards share, and links travel between them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.add_column("jobs", sa.Column("parent_id", sa.String(32), nullable=True))
    op.create_index("ix_jobs_parent", "jobs", ["parent_id"], unique=False)
    op.create_table(
        "sharded_crawls",
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("granted", types.BIG, nullable=False),
        sa.Column("is_over", sa.Boolean(), nullable=False),
        sa.Column("roots", types.JSON_VALUE, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_sharded_crawls_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_sharded_crawls")),
        **MYSQL,
    )
    op.create_table(
        "frontier_mail",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("url", types.LONG_TEXT, nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("redirects", sa.Integer(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("parent_url", types.LONG_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_frontier_mail")),
        **MYSQL,
    )
    op.create_index("ix_frontier_mail_job", "frontier_mail", ["job_id", "id"], unique=False)


def downgrade() -> None:
    op.drop_table("frontier_mail")
    op.drop_table("sharded_crawls")
    op.drop_index("ix_jobs_parent", "jobs")
    op.drop_column("jobs", "parent_id")
