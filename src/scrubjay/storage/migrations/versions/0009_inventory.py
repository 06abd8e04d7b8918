"""Inventory: files of vector stores hang on their documents, batches have a row, responses keep their servers' ids."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.add_column("inventory_files", sa.Column("content_type", types.short_text(255), nullable=True))
    op.create_table(
        "vector_store_batches",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("collection_id", sa.String(32), nullable=False),
        sa.Column("cancelled_at", types.UtcDateTime(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"],
            ["collections.id"],
            name=op.f("fk_vector_store_batches_collection_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_vector_store_batches_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_vector_store_batches")),
        **MYSQL,
    )
    _rebuild(
        "vector_store_files",
        _files_then(),
        sa.Column("document_id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("file_id", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(32), nullable=True),
        sa.Column("batch_id", sa.String(32), nullable=True),
        sa.Column("is_cancelled", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("attributes", types.JSON_VALUE, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name=op.f("fk_vector_store_files_document_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_vector_store_files_tenant_id")),
        sa.PrimaryKeyConstraint("document_id", name=op.f("pk_vector_store_files")),
        where="document_id IN (SELECT id FROM documents)",
    )
    _index_files()
    _rebuild(
        "responses",
        _responses(sa.String(32)),
        *_responses(sa.String(128)),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_responses_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_responses")),
    )
    op.create_index("ix_responses_conversation", "responses", ["tenant_id", "conversation_id"], unique=False)


def downgrade() -> None:
    op.drop_table("responses")
    op.create_table(
        "responses",
        *_responses(sa.String(32)),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_responses_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_responses")),
        **MYSQL,
    )
    op.create_index("ix_responses_conversation", "responses", ["tenant_id", "conversation_id"], unique=False)
    op.drop_table("vector_store_files")
    op.create_table(
        "vector_store_files",
        *_files_then(),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_vector_store_files_collection_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["file_id"], ["inventory_files.id"], name=op.f("fk_vector_store_files_file_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_vector_store_files_tenant_id")),
        sa.PrimaryKeyConstraint("collection_id", "file_id", name=op.f("pk_vector_store_files")),
        **MYSQL,
    )
    _index_files()
    op.drop_table("vector_store_batches")
    with op.batch_alter_table("inventory_files") as table:
        table.drop_column("content_type")


def _index_files() -> None:
    op.create_index("ix_vector_store_files_batch", "vector_store_files", ["batch_id"], unique=False)
    op.create_index("ix_vector_store_files_file", "vector_store_files", ["file_id"], unique=False)


def _files_then() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("collection_id", sa.String(32), nullable=False),
        sa.Column("file_id", sa.String(32), nullable=False),
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("document_id", sa.String(32), nullable=True),
        sa.Column("batch_id", sa.String(32), nullable=True),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("last_error", types.JSON_VALUE, nullable=True),
        sa.Column("attributes", types.JSON_VALUE, nullable=False),
        sa.Column("chunking", types.JSON_VALUE, nullable=False),
        sa.Column("usage_bytes", types.BIG, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
    )


def _responses(identifier: sa.String) -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("tenant_id", sa.String(32), nullable=False),
        sa.Column("id", identifier, nullable=False),
        sa.Column("model", types.short_text(255), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("previous_response_id", identifier, nullable=True),
        sa.Column("conversation_id", identifier, nullable=True),
        sa.Column("body", types.JSON_VALUE, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
    )


def _rebuild(name: str, then: Sequence[sa.Column[Any]], *now: Any, where: str | None = None) -> None:
    """A table with another key: its rows wait in one without any, whose names nothing else uses."""
    columns = [column.name for column in then]
    kept = [each for each in columns if each in {column.name for column in now if isinstance(column, sa.Column)}]
    op.create_table(f"old_{name}", *then, **MYSQL)
    _copy(name, f"old_{name}", columns)
    op.drop_table(name)
    op.create_table(name, *now, **MYSQL)
    _copy(f"old_{name}", name, kept, where)
    op.drop_table(f"old_{name}")


def _copy(source: str, target: str, names: Sequence[str], where: str | None = None) -> None:
    taken = sa.table(source, *(sa.column(each) for each in names))
    rows = sa.select(*taken.c) if where is None else sa.select(*taken.c).where(sa.text(where))
    op.execute(sa.insert(sa.table(target, *(sa.column(each) for each in names))).from_select(list(names), rows))
