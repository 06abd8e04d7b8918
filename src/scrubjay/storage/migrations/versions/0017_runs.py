"""Every crawl is a run of a plan: one-off plans, run reports, and the reason of every item that was not taken in.

Drops the records of DBOS, which earlier versions wrote and nothing read. MariaDB commits every statement by itself, so
each step can be repeated after a kill.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

COLUMNS: dict[str, list[sa.Column[Any]]] = {
    "crawl_plans": [
        sa.Column("max_failed_share", sa.Double(), nullable=False, server_default="0.5"),
        sa.Column("is_one_off", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("crawl_key", types.short_text(255), nullable=True),
        sa.Column("crawl", types.JSON_VALUE, nullable=True),
    ],
    "crawl_operations": [sa.Column("report", types.JSON_VALUE, nullable=True)],
    "operation_items": [
        sa.Column("reason", sa.String(length=64), nullable=True),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("part_id", sa.String(length=32), nullable=True),
    ],
    "crawled_pages": [sa.Column("attempts", sa.Integer(), nullable=False, server_default="1")],
}


WORKFLOW = "scrubjay.run_job"  # the one workflow that Scrubjay had in DBOS


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    for table, columns in COLUMNS.items():
        known = {column["name"] for column in inspector.get_columns(table)}
        for column in columns:
            if column.name not in known:
                op.add_column(table, column)
    _create_index("crawl_plans", "uq_crawl_plans_crawl_key", ["tenant_id", "crawl_key"], named="crawl_key")
    _create_index("ledger", "ix_ledger_key", ["key_hash"])
    _create_index("crawled_pages", "ix_crawled_pages_url", ["url_hash"])
    op.execute("UPDATE jobs SET kind = 'crawl' WHERE kind = 'operation'")
    if inspector.has_table("ingest_queue"):
        op.drop_table("ingest_queue")
    _drop_dbos(op.get_bind())


def _create_index(table: str, name: str, columns: list[str], *, named: str | None = None) -> None:
    """Create an index unless it is there; with `named`, a unique one of the rows that have a value there."""
    if name in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        return
    where = sa.text(f"{named} IS NOT NULL") if named else None
    only: dict[str, Any] = {f"{dialect}_where": where for dialect in ("sqlite", "postgresql", "mssql")} if named else {}
    op.create_index(name, table, columns, unique=named is not None, **only)


def _drop_dbos(connection: sa.Connection) -> None:
    if connection.dialect.name != "postgresql" or not sa.inspect(connection).has_table(
        "workflow_status", schema="dbos"
    ):
        return
    others = sa.text("SELECT 1 FROM dbos.workflow_status WHERE name IS DISTINCT FROM :name LIMIT 1")
    if connection.execute(others, {"name": WORKFLOW}).first() is None:
        op.execute("DROP SCHEMA dbos CASCADE")
    else:  # another application of this database uses DBOS, too
        connection.execute(sa.text("DELETE FROM dbos.workflow_status WHERE name = :name"), {"name": WORKFLOW})
