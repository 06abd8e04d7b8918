"""Workers tell which version of Scrubjay they run."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if "version" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("workers")}:
        op.add_column("workers", sa.Column("version", sa.String(length=64), nullable=False, server_default=""))
