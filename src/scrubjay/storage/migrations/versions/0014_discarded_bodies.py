"""Bodies are put out of the way before they are destroyed, so that nobody who stores the same one loses it."""

import sqlalchemy as sa
from alembic import op

from scrubjay.storage import types

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "discarded_bodies",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("discarded_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_discarded_bodies")),
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    op.create_index(op.f("ix_discarded_bodies_discarded_at"), "discarded_bodies", ["discarded_at"], unique=False)


def downgrade() -> None:
    op.drop_table("discarded_bodies")
