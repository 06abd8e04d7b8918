"""Lists: documents come newest first by every filter, and are counted, without reading those that are not shown."""

from alembic import op
from sqlalchemy import text

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

NEWEST = ["created_at", "id"]
SHOWN = ["is_purging", "deleted_at"]
SIZED = ["version", "indexed_version", "size_bytes"]
# Name → columns before and after.
CHANGED = {
    "ix_documents_domain": (["tenant_id", "domain"], ["tenant_id", "domain", *NEWEST]),
    "ix_documents_operation_id": (["operation_id"], ["operation_id", *NEWEST]),
    "ix_documents_status": (["tenant_id", "status"], ["tenant_id", "status", *NEWEST]),
}
NEW = {
    "ix_documents_host": ["tenant_id", "host", *NEWEST],
    "ix_documents_source": ["tenant_id", "source", *NEWEST],
}
PARTIAL = {
    "ix_documents_newest": (["tenant_id", *NEWEST, *SHOWN], "deleted_at IS NULL"),
    "ix_documents_deleted": (["tenant_id", *NEWEST, *SHOWN], "deleted_at IS NOT NULL"),
    "ix_documents_in_collection": (["tenant_id", "collection_id", *NEWEST, *SHOWN, *SIZED], "deleted_at IS NULL"),
    "ix_documents_of_plan": (["tenant_id", "plan_id", *NEWEST, *SHOWN], "deleted_at IS NULL"),
    "ix_documents_ended": (["plan_id", "deleted_at", "is_purging"], "deleted_at IS NOT NULL"),
    "ix_documents_waiting": (["tenant_id", "index_due_at"], "index_due_at IS NOT NULL"),
}


def upgrade() -> None:
    for name, (columns, where) in PARTIAL.items():
        kept = text(where)
        op.create_index(name, "documents", columns, sqlite_where=kept, postgresql_where=kept, mssql_where=kept)
    for name, columns in NEW.items():
        op.create_index(name, "documents", columns)
    for name, (_, columns) in CHANGED.items():
        op.drop_index(name, "documents")
        op.create_index(name, "documents", columns)
    op.drop_index("ix_documents_created_at", "documents")
    for table in ("jobs", "crawl_operations"):
        op.create_index(f"ix_{table}_listed", table, ["tenant_id", "state", *NEWEST])
    op.drop_index("ix_crawl_operations_tenant_id", "crawl_operations")
    op.create_index("ix_chunks_tenant_id", "chunks", ["tenant_id"])
    op.create_index("ix_document_versions_operation", "document_versions", ["operation_id", "version", "created_at"])


def downgrade() -> None:
    op.create_index("ix_crawl_operations_tenant_id", "crawl_operations", ["tenant_id"])
    for table in ("jobs", "crawl_operations"):
        op.drop_index(f"ix_{table}_listed", table)
    # An index on the key that MariaDB/MySQL need for the foreign key on tenants must not be the last one to go.
    op.create_index("ix_documents_created_at", "documents", ["tenant_id", "created_at", "id"])
    for name, (columns, _) in CHANGED.items():
        op.drop_index(name, "documents")
        op.create_index(name, "documents", columns)
    for name in (*NEW, *PARTIAL):
        op.drop_index(name, "documents")
    op.drop_index("ix_chunks_tenant_id", "chunks")
    op.drop_index("ix_document_versions_operation", "document_versions")
