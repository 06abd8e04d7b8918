"""Alembic's entry: runs on the connection that `storage/schema.py` opened, one migration per transaction.

On SQLite all are in one transaction, because it is what keeps other processes out.
"""

from alembic import context

from scrubjay.storage.tables import metadata

connection = context.config.attributes["connection"]
is_sqlite = connection.dialect.name == "sqlite"
context.configure(
    connection=connection,
    target_metadata=metadata,
    transaction_per_migration=not is_sqlite,
    transactional_ddl=True if is_sqlite else None,
    render_as_batch=False,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
