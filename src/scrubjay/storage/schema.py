"""The schema's version: brings an older database up to date, and refuses one from a newer Scrubjay."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from scrubjay.errors import SchemaTooNew, StartupError
from scrubjay.storage.database import Database
from scrubjay.storage.queue_schema import installed_queue_version, read_queue_version, upgrade_queue

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK_NUMBER = 0x5C12B  # any number that nothing else in the database uses
_MYSQL_LOCK = "CONCAT('scrubjay-', MD5(DATABASE()))"  # names are for the whole server, and of 64 characters at most
_LOCK_SECONDS = 120


def known_revisions() -> list[str]:
    """Every migration that this version has, oldest first; files are named after their revision."""
    return sorted(path.stem.split("_", 1)[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


async def current_revision(database: Database) -> str | None:
    async with database.reading() as connection:
        return await connection.run_sync(_read_revision)


async def require_current(database: Database, *, auto_migrate: bool) -> None:
    """Leave the database at this version's schema, or say in one sentence what to do."""
    current, known = await current_revision(database), known_revisions()
    is_queue_current = await _is_queue_current(database)
    if current == known[-1] and is_queue_current:
        return
    if current is not None and current < known[0]:
        raise StartupError(
            f"The database has schema {current}; this version upgrades from schema {known[0]} on. Upgrade it with an "
            "earlier version of Scrubjay first."
        )
    if current is not None and current not in known:
        raise SchemaTooNew(
            f"The database has schema {current}, which this version of Scrubjay ({known[-1]}) does not know; "
            "upgrade Scrubjay, or restore a backup from before its upgrade."
        )
    if not auto_migrate and current == known[-1]:
        raise StartupError("The tables of the job queue are missing or outdated; run: scrubjay migrate.")
    if not auto_migrate:
        raise StartupError(
            f"The database has schema {current or 'none'} and this version needs {known[-1]}; run: scrubjay migrate."
        )
    await upgrade(database)


async def _is_queue_current(database: Database) -> bool:
    async with database.reading() as connection:
        return await connection.run_sync(_has_current_queue)


def _has_current_queue(connection: Connection) -> bool:
    """A newer queue is no obstacle: Procrastinate keeps what its earlier versions call."""
    if connection.dialect.name != "postgresql":
        return True
    version = read_queue_version(connection)
    return version is not None and version >= installed_queue_version()


async def upgrade(database: Database, revision: str = "head") -> None:
    async with database.engine.connect() as connection:
        await connection.execution_options(scrubjay_writing=True)
        await connection.run_sync(_upgrade, revision)
        await connection.commit()


def _read_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(connection: Connection, revision: str) -> None:
    # Alembic takes a third of a second to import, so only the process that upgrades pays for it.
    from alembic import command

    _take_lock(connection)
    try:
        command.upgrade(alembic_config(connection), revision)
        if revision == "head" and not _has_current_queue(connection):
            upgrade_queue(connection)
    finally:
        _release_lock(connection)


def alembic_config(connection: Connection) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _take_lock(connection: Connection) -> None:
    """One process migrates, the others wait. SQLite needs none: its transaction is already exclusive."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_lock(:number)"), {"number": _LOCK_NUMBER})
        connection.commit()
    elif connection.dialect.name == "mysql":
        statement = text(f"SELECT GET_LOCK({_MYSQL_LOCK}, :seconds)")
        taken = connection.execute(statement, {"seconds": _LOCK_SECONDS}).scalar()
        connection.commit()
        if not taken:
            raise StartupError("The database is being upgraded by another process; start again when that is done.")


def _release_lock(connection: Connection) -> None:
    connection.rollback()
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_unlock(:number)"), {"number": _LOCK_NUMBER})
    elif connection.dialect.name == "mysql":
        connection.execute(text(f"SELECT RELEASE_LOCK({_MYSQL_LOCK})"))
