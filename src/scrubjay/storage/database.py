"""The relational database: one engine per process, transactions that services own, and schema upgrades.

The same statements run on SQLite (embedded default), PostgreSQL and MariaDB/MySQL, and compile for SQL Server.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from sqlalchemy import URL, Connection, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from scrubjay.errors import ConfigurationError, DatabaseUnreachable, Unavailable
from scrubjay.settings import Settings
from scrubjay.storage import sqlite
from scrubjay.telemetry import get_logger, redact

DRIVERS = {
    "sqlite": ("aiosqlite", None),
    "postgresql": ("asyncpg", "postgres"),
    "postgres": ("asyncpg", "postgres"),
    "mysql": ("aiomysql", "mysql"),
    "mariadb": ("aiomysql", "mysql"),
    "mssql": ("aioodbc", "mssql"),
}
CHECKPOINT_SECONDS = 1.0
CONNECT_TIMEOUT_SECONDS = 10
PING_AFTER_SECONDS = 5.0

log = get_logger(__name__)


class Database:
    """Hands out transactions. `writing()` commits on leaving, `reading()` never writes."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self.dialect = engine.dialect.name
        # SQLite takes one writer at a time: queueing here is fair, and lets all writers share one connection.
        self._writer_turn = asyncio.Lock()
        self._writer: AsyncConnection | None = None
        self._checkpointer: asyncio.Task[None] | None = None
        self._written = False

    @asynccontextmanager
    async def writing(self, *, long: bool = False) -> AsyncIterator[AsyncConnection]:
        """A transaction that writes. `long` says that a statement may take more than a few milliseconds."""
        if self.dialect != "sqlite":
            with _told_as_unavailable():
                async with self._connect() as connection, connection.begin():
                    yield connection
            return
        await asyncio.sleep(0)  # nothing below need ever wait, and a task that only writes must not keep the loop
        async with self._writer_turn:
            writer = self._writer or await self._open_writer()
            driver = await _driver(writer)
            driver.hop(long)
            try:
                with _told_as_unavailable():
                    async with writer.begin():
                        yield writer
            except BaseException:
                await self._close_writer()  # whatever broke, the next writer starts on a fresh connection
                raise
            self._written = True

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        with _told_as_unavailable():
            async with self._connect() as connection:
                yield connection
                await connection.rollback()

    @asynccontextmanager
    async def committing_each(self) -> AsyncIterator[AsyncConnection]:
        """Every statement is a transaction of its own: one round trip to a server instead of three. Not for SQLite."""
        with _told_as_unavailable():
            async with self._connect() as connection:
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                yield connection

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[AsyncConnection]:
        connection = await self._open()
        try:
            yield connection
        finally:
            await connection.close()

    async def _open(self) -> AsyncConnection:
        try:
            return await self.engine.connect()
        except (OSError, SQLAlchemyError, TimeoutError, TypeError) as error:
            # A TypeError means an option in the URL that the driver does not know.
            raise Unavailable(f"The database does not answer: {_reason(error)}.") from error

    async def _open_writer(self) -> AsyncConnection:
        writer = await self._open()
        try:
            await writer.execution_options(scrubjay_writing=True)
            await (await _driver(writer)).become_writer()
        except BaseException:
            await _throw_away(writer)
            raise
        self._writer = writer
        if self._checkpointer is None:
            self._checkpointer = asyncio.create_task(self._checkpoint_forever())
        return writer

    async def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await _throw_away(writer)

    async def _checkpoint_forever(self) -> None:
        """Move what was written from the write-ahead log into the database, away from everybody's way."""
        while True:
            await asyncio.sleep(CHECKPOINT_SECONDS)
            if self._written:
                self._written = False
                try:
                    async with self._connect() as connection:
                        await connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")
                except (Unavailable, SQLAlchemyError) as error:
                    log.warning("checkpoint failed; trying again", reason=str(error))

    async def check(self) -> None:
        async with self.reading() as connection:
            await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        if self._checkpointer is not None:
            self._checkpointer.cancel()
            await asyncio.gather(self._checkpointer, return_exceptions=True)
        async with self._writer_turn:
            await self._close_writer()
        await self.engine.dispose()


@contextmanager
def _told_as_unavailable() -> Iterator[None]:
    """A server that hangs up in the middle or has no room left is not the caller's fault: it may simply try again."""
    try:
        yield
    except DBAPIError as error:
        if _has_no_room(error):
            raise Unavailable(f"The database has no room left: {_reason(error)}.") from error
        if not error.connection_invalidated:
            raise
        raise Unavailable(f"The database hung up: {_reason(error)}.") from error


def _has_no_room(error: DBAPIError) -> bool:
    """As SQLite, PostgreSQL, and MariaDB or MySQL say it."""
    cause = error.orig
    return (
        getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        or getattr(cause, "sqlstate", None) == "53100"
        or (cause is not None and cause.args[:1] in ((1021,), (1114,)))
    )


async def _throw_away(connection: AsyncConnection) -> None:
    await connection.invalidate()
    await connection.close()


async def _driver(connection: AsyncConnection) -> sqlite.SqliteConnection:
    driver = (await connection.get_raw_connection()).driver_connection
    if not isinstance(driver, sqlite.SqliteConnection):
        raise TypeError("the engine was not made by open_database")
    return driver


def open_database(settings: Settings) -> Database:
    url = parse_database_url(settings.resolved_database_url)
    if url.get_backend_name() == "sqlite":
        return Database(_sqlite_engine(url))
    options: dict[str, Any] = {
        "pool_size": settings.database_pool_size,
        "max_overflow": settings.database_pool_size,
    }
    if url.get_backend_name() == "mysql":
        options["isolation_level"] = "READ COMMITTED"
    elif url.get_backend_name() == "postgresql":
        # A frozen process keeps its row locks, and no other worker could take its jobs over. PostgreSQL ends its
        # open transaction after the same time in which other workers declare it dead.
        idle_milliseconds = str(int(1000 * settings.worker_silence_seconds))
        options["connect_args"] = {"server_settings": {"idle_in_transaction_session_timeout": idle_milliseconds}}
    engine = create_async_engine(url, **options)
    _ping_after_idling(engine)
    return Database(engine)


def _sqlite_engine(url: URL) -> AsyncEngine:
    path = url.database or ""
    engine = create_async_engine(
        url,
        async_creator=lambda: sqlite.connect(path),
        pool_size=6,  # a handful of readers beside the one writer
        max_overflow=10,
        pool_reset_on_return=None,  # every transaction here is ended by hand
    )
    _begin_by_hand(engine)
    return engine


def parse_database_url(text_url: str) -> URL:
    """The SQLAlchemy URL with our driver for it; a ConfigurationError names what is wrong."""
    try:
        url = make_url(text_url)
    except (ArgumentError, ValueError):
        # What is wrong may be the password, so the error itself is not shown.
        raise ConfigurationError(
            "The setting 'database_url' is not a database URL; it should look like "
            "postgresql://user:password@host/database."
        ) from None
    backend = url.drivername.partition("+")[0]
    if backend not in DRIVERS:
        raise ConfigurationError(
            f"The setting 'database_url' names the unknown database '{backend}'; "
            "use sqlite, postgresql, mysql or mssql."
        )
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise ConfigurationError("The setting 'database_url' names no file; use sqlite:////path/to/scrubjay.db.")
    driver, extra = DRIVERS[backend]
    try:
        __import__(driver)
    except ImportError as error:
        raise ConfigurationError(
            f"The driver for {backend} is not installed; run: pip install 'scrubjay[{extra}]'."
        ) from error
    dialect = {"postgres": "postgresql", "mariadb": "mysql"}.get(backend, backend)
    url = url.set(drivername=f"{dialect}+{driver}")
    if dialect == "mysql" and "charset" not in url.query:
        url = url.update_query_dict({"charset": "utf8mb4"})
    if dialect == "postgresql" and "sslmode" in url.query:  # as everybody writes it, but asyncpg
        url = url.difference_update_query(["sslmode"]).update_query_dict({"ssl": str(url.query["sslmode"])})
    return url


async def connect_or_explain(database: Database) -> None:
    """Fail at start, in one sentence, when the database cannot be used."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            await database.check()
    except (Unavailable, DBAPIError, OSError, TimeoutError) as error:
        where = database.engine.url.render_as_string(hide_password=True)
        raise DatabaseUnreachable(
            f"The database {where} cannot be used ({_reason(error)}); "
            "check SCRUBJAY_DATABASE_URL and that the server is running."
        ) from error


def _reason(error: BaseException) -> str:
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    lines = str(cause).strip().splitlines()
    return redact(lines[0].rstrip(".")) if lines else type(cause).__name__


def _ping_after_idling(engine: AsyncEngine) -> None:
    """Ask a pooled connection whether it still lives, but only when it had time to die.

    SQLAlchemy's own `pool_pre_ping` asks before every transaction, which costs each of them a round trip.
    """

    @event.listens_for(engine.sync_engine, "checkin")
    def _on_checkin(_: Any, record: ConnectionPoolEntry) -> None:
        record.info["idle_since"] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def _on_checkout(connection: Any, record: ConnectionPoolEntry, _: Any) -> None:
        is_closed = getattr(getattr(connection, "driver_connection", None), "is_closed", None)
        if is_closed is not None and is_closed():  # asyncpg knows by itself that the server hung up
            raise DisconnectionError
        if time.monotonic() - record.info.get("idle_since", time.monotonic()) < PING_AFTER_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except DBAPIError as error:
            raise DisconnectionError from error
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error


def _begin_by_hand(engine: AsyncEngine) -> None:
    """SQLite transactions that will write take the write lock at once, so that none fails half way."""

    @event.listens_for(engine.sync_engine, "begin")
    def _on_begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get("scrubjay_writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
