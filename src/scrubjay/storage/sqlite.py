"""SQLite connections for SQLAlchemy's asyncio engine, which is given them through `async_creator`.

The stock driver hops to a thread and back four times per statement, at ten times the cost of the statement. Here a
reader hops once. The writer does not hop at all: its statements are short and touch no disk but the write-ahead log,
which a checkpointer empties from a thread of its own; what it would have to wait for, the write lock, it awaits.
"""

import asyncio
import itertools
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, Self, TypeVar

T = TypeVar("T")
Call = tuple[asyncio.Future[Any], Callable[[], Any]]

FIRST_ROWS = 1000  # fetched with the statement itself; more are fetched when somebody asks for them
LOCK_SECONDS = 30.0
LOCK_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
PRAGMAS = (
    "synchronous=NORMAL",
    f"busy_timeout={LOCK_SECONDS * 1000:.0f}",
    "foreign_keys=ON",
    "temp_store=MEMORY",
    "cache_size=-4000",
    "mmap_size=33554432",
)


async def connect(path: str) -> "SqliteConnection":
    connection = SqliteConnection()
    await connection.open(path)
    return connection


class SqliteConnection:
    """Speaks the part of aiosqlite's interface that SQLAlchemy's adapter uses."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._thread = Thread(target=_work, args=(self._calls,), name="sqlite", daemon=True)
        self._begin: str | None = None  # sent together with the first statement of the transaction
        self._inline = False

    async def open(self, path: str) -> None:
        self._thread.start()
        try:
            self._connection = await self._call(lambda: _open(path))
        except BaseException:
            self.stop()
            raise

    def cursor(self) -> "SqliteCursor":
        return SqliteCursor(self)

    async def become_writer(self) -> None:
        """Run statements without a thread, never wait for a lock inside SQLite, and leave checkpoints to others."""
        for pragma in ("busy_timeout=0", "wal_autocheckpoint=0"):
            await self.run(lambda connection, pragma=pragma: connection.execute(f"PRAGMA {pragma}"))  # type: ignore[misc]
        self._inline = True

    def hop(self, hop: bool) -> None:
        """Whether the writer uses its thread after all, for a transaction that will take long."""
        self._inline = not hop

    async def run(self, statement: Callable[[sqlite3.Connection], T]) -> T:
        begin, self._begin = self._begin, None
        connection = self._connection
        if connection is None:
            raise sqlite3.OperationalError("connection closed")
        if begin is not None:
            await self._begin_now(connection, begin)
        return await self._call(lambda: statement(connection))

    async def _begin_now(self, connection: sqlite3.Connection, begin: str) -> None:
        deadline = asyncio.get_running_loop().time() + LOCK_SECONDS
        for attempt in itertools.count():
            try:
                connection.execute(begin)  # takes no time: it either gets the lock or says at once that it did not
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(LOCK_PAUSES[min(attempt, len(LOCK_PAUSES) - 1)])
            else:
                return

    def begin_later(self, statement: str) -> None:
        self._begin = statement

    async def commit(self) -> None:
        await self._end("COMMIT")

    async def rollback(self) -> None:
        await self._end("ROLLBACK")

    async def _end(self, statement: str) -> None:
        if self._begin is not None:
            self._begin = None  # nothing was ever sent
            return
        connection = self._connection
        if connection is not None and connection.in_transaction:
            await self._call(lambda: connection.execute(statement))

    async def create_function(self, *arguments: Any, **options: Any) -> None:
        await self.run(lambda connection: connection.create_function(*arguments, **options))

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._call(connection.close)
        self._calls.put(None)

    def stop(self) -> None:
        """Let the thread end by itself; for when the event loop is gone."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._calls.put(None)

    async def _call(self, function: Callable[[], T]) -> T:
        if self._inline:
            return function()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put((future, function))
        return await future


class SqliteCursor:
    """Runs a statement and holds its rows."""

    arraysize = 1

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._cursor: sqlite3.Cursor | None = None
        self._rows: deque[Any] = deque()
        self._complete = True
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Self:
        if statement.startswith("BEGIN"):
            self._connection.begin_later(statement)
            return self

        def _execute(connection: sqlite3.Connection) -> tuple[sqlite3.Cursor, list[Any]]:
            cursor = connection.execute(statement, parameters)
            return cursor, cursor.fetchmany(FIRST_ROWS) if cursor.description else []

        cursor, rows = await self._connection.run(_execute)
        self._remember(cursor, rows)
        return self

    async def executemany(self, statement: str, parameters: Sequence[Sequence[Any]]) -> Self:
        self._remember(await self._connection.run(lambda c: c.executemany(statement, parameters)), [])
        return self

    def _remember(self, cursor: sqlite3.Cursor, rows: list[Any]) -> None:
        self._cursor, self._rows, self._complete = cursor, deque(rows), len(rows) < FIRST_ROWS
        self.description, self.rowcount, self.lastrowid = cursor.description, cursor.rowcount, cursor.lastrowid

    async def fetchone(self) -> Any:
        rows = await self.fetchmany(1)
        return rows[0] if rows else None

    async def fetchmany(self, size: int | None = None) -> list[Any]:
        wanted = size or self.arraysize
        if len(self._rows) < wanted and not self._complete:
            await self._fetch_more(wanted)
        return [self._rows.popleft() for _ in range(min(wanted, len(self._rows)))]

    async def fetchall(self) -> list[Any]:
        while not self._complete:
            await self._fetch_more(10 * FIRST_ROWS)
        rows, self._rows = list(self._rows), deque()
        return rows

    async def _fetch_more(self, size: int) -> None:
        cursor, count = self._cursor, max(size, FIRST_ROWS)
        rows: list[Any] = []
        if cursor is not None:
            rows = await self._connection.run(lambda _: cursor.fetchmany(count))
        self._rows.extend(rows)
        self._complete = len(rows) < count

    async def close(self) -> None:
        self._cursor, self._complete = None, True
        self._rows.clear()


def _open(path: str) -> sqlite3.Connection:
    # Transactions are begun by hand; one thread at a time uses the connection, but not always the same one.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        begin_write_ahead_log(connection)
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def begin_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Of several that open a new database at once, SQLite turns some away here, however long they would wait."""
    deadline = time.monotonic() + LOCK_SECONDS
    for attempt in itertools.count():
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(LOCK_PAUSES[min(attempt, len(LOCK_PAUSES) - 1)])
        else:
            return


def _work(calls: SimpleQueue[Call | None]) -> None:
    while (call := calls.get()) is not None:
        future, function = call
        try:
            result, error = function(), None
        except BaseException as raised:  # noqa: BLE001 - handed to whoever waits for the result
            result, error = None, raised
        loop = future.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, future, result, error)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
