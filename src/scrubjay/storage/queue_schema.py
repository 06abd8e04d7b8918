"""Procrastinate's own tables, in the schema `procrastinate` of a PostgreSQL database. The library brings the SQL.

A comment on the schema records its version, so that `scrubjay migrate` also follows an upgrade of the library.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from scrubjay.errors import ConfigurationError, StartupError
from scrubjay.storage.deferral import QUEUE_SCHEMA, defer_pending

_COMMENT = "Created by Scrubjay: Procrastinate "


def read_queue_version(connection: Connection) -> str | None:
    """The version of Procrastinate's tables; None where there are none yet."""
    if connection.execute(text(f"SELECT to_regclass('{QUEUE_SCHEMA}.procrastinate_jobs')::text")).scalar() is None:
        return None
    comment = text(f"SELECT obj_description('{QUEUE_SCHEMA}'::regnamespace, 'pg_namespace')")
    version = str(connection.execute(comment).scalar() or "")
    if not version.startswith(_COMMENT):
        raise StartupError(
            f"The schema '{QUEUE_SCHEMA}' of this database belongs to another application; "
            "give Scrubjay a database of its own."
        )
    return version.removeprefix(_COMMENT)


def installed_queue_version() -> str:
    """The version of the tables that the installed library works with: the name of its last migration."""
    return _migrations()[-1].stem


def upgrade_queue(connection: Connection) -> None:
    """Create Procrastinate's tables and defer the jobs that are pending, or bring existing tables up to date."""
    current = read_queue_version(connection)
    if current is None:
        _create_schema(connection)
        _apply(connection, _folder() / "schema.sql", installed_queue_version())
        defer_pending(connection)
        connection.commit()
        return
    for script in _migrations():
        if script.stem > current:
            _apply(connection, script, script.stem)
            connection.commit()  # the next may use what this one adds to an enum


def _create_schema(connection: Connection) -> None:
    """Unless there is an empty one: an administrator makes it where the user may not."""
    if connection.execute(text(f"SELECT to_regnamespace('{QUEUE_SCHEMA}')::text")).scalar() is not None:
        return
    try:
        connection.execute(text(f"CREATE SCHEMA {QUEUE_SCHEMA}"))
    except ProgrammingError as error:
        raise StartupError(
            f"The database user may not create the schema '{QUEUE_SCHEMA}' for the job queue; have an administrator "
            f"run in this database: CREATE SCHEMA {QUEUE_SCHEMA} AUTHORIZATION <user>."
        ) from error


def _apply(connection: Connection, script: Path, version: str) -> None:
    connection.execute(text(f"SET LOCAL search_path TO {QUEUE_SCHEMA}"))
    _run_script(connection, script.read_text(encoding="utf-8"))
    connection.execute(text("SET LOCAL search_path TO DEFAULT"))
    # Our connections do not have the schema in their search path, and the function names its table without it.
    connection.execute(
        text(f"ALTER FUNCTION {QUEUE_SCHEMA}.procrastinate_defer_jobs_v1 SET search_path = {QUEUE_SCHEMA}, pg_temp")
    )
    connection.execute(text(f"COMMENT ON SCHEMA {QUEUE_SCHEMA} IS '{_COMMENT}{version}'"))


def _run_script(connection: Connection, script: str) -> None:
    """Many statements at once, inside the current transaction: SQLAlchemy would prepare them as one."""
    driver = connection.connection.dbapi_connection
    driver.run_async(lambda asyncpg: asyncpg.execute(script))  # type: ignore[union-attr]


def _migrations() -> Sequence[Path]:
    return sorted((_folder() / "migrations").glob("[0-9]*.sql"))


def _folder() -> Path:
    """Found without importing the library: most commands only defer jobs."""
    package = find_spec("procrastinate")
    if package is None or package.origin is None:
        raise ConfigurationError("Procrastinate is not installed; run: pip install 'scrubjay[postgres]'.")
    return Path(package.origin).parent / "sql"
