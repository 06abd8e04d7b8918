"""Dashboard: documents are listed newest first and counted by status, however many there are."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_documents_created_at", "documents", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index("ix_documents_status", "documents", ["tenant_id", "status"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_documents_status", "documents")
    op.drop_index("ix_documents_created_at", "documents")
