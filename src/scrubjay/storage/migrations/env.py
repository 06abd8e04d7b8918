"""Alembic's entry: runs on the connection that `storage/schema.py` opened, one migration per transaction."""

from alembic import context

from scrubjay.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=True,
    render_as_batch=False,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
