"""Search: texts, generations of the index, what waits to be indexed, and known words."""

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("documents", sa.Column("chunking", types.JSON_VALUE, nullable=True))
    op.add_column("documents", sa.Column("is_purging", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("documents", sa.Column("indexed_version", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("documents", sa.Column("index_revision", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("documents", sa.Column("index_due_at", types.UtcDateTime(), nullable=True))
    op.add_column("documents", sa.Column("index_lease", sa.String(32), nullable=True))
    op.add_column("documents", sa.Column("index_attempts", sa.Integer(), nullable=False, server_default="0"))
    op.create_index(
        "ix_documents_index_due",
        "documents",
        ["index_due_at"],
        unique=False,
        sqlite_where=sa.text("index_due_at IS NOT NULL"),
        postgresql_where=sa.text("index_due_at IS NOT NULL"),
        mssql_where=sa.text("index_due_at IS NOT NULL"),
    )
    op.add_column("document_versions", sa.Column("ended_at", types.UtcDateTime(), nullable=True))
    op.add_column("chunks", sa.Column("context", types.LONG_TEXT, nullable=True))
    op.create_table(
        "contents",
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("content_sha256", sa.String(64), nullable=False),
        sa.Column("body", types.BYTES, nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_contents_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "content_sha256", name=op.f("pk_contents")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "index_generations",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("embedder", types.LONG_TEXT, nullable=False),
        sa.Column("model", types.short_text(255), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column("place", types.LONG_TEXT, nullable=True),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("live_at", types.UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_index_generations")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "search_epochs",
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("epoch", types.BIG, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_search_epochs_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_search_epochs")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_table(
        "ingest_queue",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("scope_id", sa.String(32), nullable=False),
        sa.Column("url_hash", sa.String(64), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_ingest_queue_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_ingest_queue_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ingest_queue")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index("ix_ingest_queue_job", "ingest_queue", ["job_id", "id"], unique=False)
    op.create_table(
        "vocabulary",
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("word", types.short_text(40), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_vocabulary_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "word", name=op.f("pk_vocabulary")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def downgrade() -> None:
    for table in ("vocabulary", "ingest_queue", "search_epochs", "index_generations", "contents"):
        op.drop_table(table)
    op.drop_column("chunks", "context")
    op.drop_column("document_versions", "ended_at")
    op.drop_index("ix_documents_index_due", "documents")
    for column in (
        "index_attempts", "index_lease", "index_due_at", "index_revision", "indexed_version", "is_purging", "chunking",
    ):  # fmt: skip
        op.drop_column("documents", column)
