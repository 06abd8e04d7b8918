"""Host slices instead of shards: one frontier per crawl, and what its slices share.

Crawls in shards that are under way continue: the frontiers of their shards become one. MariaDB commits every statement
by itself, so each step can be repeated after a kill.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from scrubjay.model.clock import utc_now
from scrubjay.model.urls import hash_url, host_of, normal_form
from scrubjay.storage import types

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

FRONTIER = sa.table(
    "frontier",
    *(sa.column(name) for name in ("job_id", "url_hash", "url", "host", "depth", "redirects", "score", "status")),
    *(sa.column(name) for name in ("parent_url", "attempts")),
    sa.column("discovered_at", types.UtcDateTime()),
)


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table("shared_crawls"):
        op.create_table(
            "shared_crawls",
            sa.Column("job_id", sa.String(length=32), nullable=False),
            sa.Column("granted", types.BIG, nullable=False),
            sa.Column("is_over", sa.Boolean(), nullable=False),
            sa.Column("roots", types.JSON_VALUE, nullable=False),
            sa.Column("yielding", types.JSON_VALUE, nullable=False),
            sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_shared_crawls_job_id", ondelete="CASCADE"),
            sa.PrimaryKeyConstraint("job_id", name="pk_shared_crawls"),
            mysql_charset="utf8mb4",
            mysql_collate="utf8mb4_bin",
        )
    if "ix_frontier_host" not in {index["name"] for index in inspector.get_indexes("frontier")}:
        where = sa.text("status = 'pending'")
        only: dict[str, Any] = {f"{dialect}_where": where for dialect in ("sqlite", "postgresql", "mssql")}
        op.create_index("ix_frontier_host", "frontier", ["job_id", "host", "status"], **only)
    if inspector.has_table("frontier_mail"):
        _merge_shards(op.get_bind())
        op.drop_table("frontier_mail")
    if inspector.has_table("sharded_crawls"):
        op.drop_table("sharded_crawls")


def _merge_shards(connection: sa.Connection) -> None:
    """Give the frontiers of shards, and links that were on their way between them, to the jobs of their crawls."""
    shards = connection.execute(sa.text("SELECT id, parent_id FROM jobs WHERE kind = 'crawl_shard'"))
    parents = {row.id: row.parent_id for row in shards}
    for shard, parent in parents.items():
        # A host had one shard, so no URL is in two of these frontiers.
        connection.execute(
            sa.text("UPDATE frontier SET job_id = :parent WHERE job_id = :shard"), {"parent": parent, "shard": shard}
        )
    mail = sa.text("SELECT job_id, url, depth, redirects, score, parent_url FROM frontier_mail")
    for row in connection.execute(mail).all():
        parent = parents.get(row.job_id)
        if parent is None:
            continue
        hashed = hash_url(normal_form(row.url))
        known = sa.select(FRONTIER.c.url).where(FRONTIER.c.job_id == parent, FRONTIER.c.url_hash == hashed)
        if connection.execute(known).first() is None:
            connection.execute(
                sa.insert(FRONTIER).values(
                    job_id=parent, url_hash=hashed, url=row.url, host=host_of(row.url), depth=row.depth,
                    redirects=row.redirects, score=row.score, status="pending", parent_url=row.parent_url, attempts=0,
                    discovered_at=utc_now(),
                )
            )  # fmt: skip
    op.execute("DELETE FROM jobs WHERE kind = 'crawl_shard'")
