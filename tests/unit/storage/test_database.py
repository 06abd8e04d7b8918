"""Addresses of databases, connections that fail with one sentence, and what SQLite is told."""

import asyncio
import itertools
import re
import socket
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.errors import ConfigurationError, DatabaseUnreachable, Unavailable
from scrubjay.settings import Settings, load_settings
from scrubjay.storage.database import (
    DRIVERS,
    Database,
    connect_or_explain,
    open_database,
    parse_database_url,
)
from scrubjay.storage.sqlite import begin_write_ahead_log

PASSWORD = "hidden-password"
PATIENCE_SECONDS = 5
SERVERS = sorted(backend for backend, (_, extra) in DRIVERS.items() if extra is not None)


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    database = open_database(settings)
    yield database
    await database.close()


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port of this machine at which nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield unused.getsockname()[1]


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "postgresql",
        "://",
        f"user:{PASSWORD}@host/database",
        f"oracle://user:{PASSWORD}@host/database",
        f"postgresql://user:{PASSWORD}@host:port/database",
        f"postgresql://user:{PASSWORD}@host:54321x/database",
        f"mysql://user:12{PASSWORD}",
        "sqlite://",
        "sqlite:///:memory:",
    ],
)
def test_a_wrong_address_is_explained_without_showing_the_password(home: Path, url: str) -> None:
    def from_the_settings() -> None:
        open_database(load_settings(home=home, database_url=url))

    for attempt in (from_the_settings, lambda: parse_database_url(url)):
        with pytest.raises(ConfigurationError, match="'database_url'") as refusal:
            attempt()
        message = refusal.value.message
        assert PASSWORD not in message
        assert "\n" not in message
        assert message.endswith(".")


@pytest.mark.parametrize("backend", SERVERS)
def test_a_driver_that_is_not_installed_is_named_with_the_command_to_install_it(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, extra = DRIVERS[backend]
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ConfigurationError, match=re.escape(f"pip install 'scrubjay[{extra}]'")) as refusal:
        parse_database_url(f"{backend}://user:{PASSWORD}@host/database")
    assert PASSWORD not in refusal.value.message


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("sqlite:////var/lib/scrubjay.db", "sqlite+aiosqlite:////var/lib/scrubjay.db"),
        ("postgres://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("postgresql+psycopg2://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("postgresql://u@h/d?sslmode=require", "postgresql+asyncpg://u@h/d?ssl=require"),
        ("mariadb://u@h/d", "mysql+aiomysql://u@h/d?charset=utf8mb4"),
        ("mysql://u@h/d?charset=latin1", "mysql+aiomysql://u@h/d?charset=latin1"),
    ],
)
def test_an_address_gets_the_driver_that_we_use(given: str, used: str) -> None:
    assert parse_database_url(given).render_as_string(hide_password=False) == used


@pytest.mark.parametrize("backend", ["postgresql", "mysql"])
async def test_a_server_that_is_not_there_is_explained_in_one_sentence(
    home: Path, deaf_port: int, backend: str
) -> None:
    url = f"{backend}://somebody:{PASSWORD}@127.0.0.1:{deaf_port}/database"
    database = open_database(Settings(home=home, database_url=url))
    with pytest.raises(DatabaseUnreachable) as failure:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await connect_or_explain(database)
    with pytest.raises(Unavailable) as later_failure:
        await database.check()
    await database.close()
    message = failure.value.message
    assert f"127.0.0.1:{deaf_port}" in message
    assert "SCRUBJAY_DATABASE_URL" in message
    for each in (message, later_failure.value.message):
        assert PASSWORD not in each
        assert "\n" not in each


async def test_a_server_that_does_not_answer_is_given_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrubjay.storage.database.CONNECT_TIMEOUT_SECONDS", 0.2)

    hung_up = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while await reader.read(1000):
                pass
        writer.close()
        hung_up.set()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"postgresql://somebody:{PASSWORD}@127.0.0.1:{port}/database?ssl=disable"
        database = open_database(Settings(home=home, database_url=url))
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(DatabaseUnreachable, match="no answer in time") as failure:
                await connect_or_explain(database)
            await hung_up.wait()
        await database.close()
    assert PASSWORD not in failure.value.message


async def test_an_option_that_the_driver_does_not_know_is_explained(home: Path, deaf_port: int) -> None:
    url = f"postgresql://somebody:{PASSWORD}@127.0.0.1:{deaf_port}/database?nonsense=1"
    database = open_database(Settings(home=home, database_url=url))
    with pytest.raises(DatabaseUnreachable, match="nonsense") as failure:
        await connect_or_explain(database)
    await database.close()
    assert PASSWORD not in failure.value.message


async def test_a_sqlite_file_that_cannot_be_made_is_explained(home: Path) -> None:
    database = open_database(Settings(home=home, database_url=f"sqlite:///{home}/no/such/folder/x.db"))
    with pytest.raises(DatabaseUnreachable, match="no/such/folder") as failure:
        await connect_or_explain(database)
    await database.close()
    assert "\n" not in failure.value.message


async def test_a_file_that_is_no_database_is_explained(home: Path) -> None:
    (home / "scrubjay.db").write_bytes(b"This is not a database.\n" * 100)
    database = open_database(Settings(home=home))
    with pytest.raises(DatabaseUnreachable, match="not a database"):
        await connect_or_explain(database)
    await database.close()


async def pragmas(connection: AsyncConnection) -> dict[str, object]:
    names = ("journal_mode", "synchronous", "foreign_keys")
    return {name: (await connection.execute(text(f"PRAGMA {name}"))).scalar() for name in names}


async def test_sqlite_is_told_to_be_safe_and_fast_on_every_connection(database: Database) -> None:
    normal = 1
    expected = {"journal_mode": "wal", "synchronous": normal, "foreign_keys": 1}
    async with database.writing() as writer, database.reading() as one, database.reading() as two:
        for connection in (writer, one, two):
            assert await pragmas(connection) == expected


async def test_what_is_committed_can_be_read_by_any_sqlite(database: Database, home: Path) -> None:
    async with database.writing() as connection:
        await connection.execute(text("CREATE TABLE t (x)"))
        await connection.execute(text("INSERT INTO t VALUES ('🦜')"))
    with sqlite3.connect(home / "scrubjay.db") as other:
        assert other.execute("SELECT x FROM t").fetchall() == [("🦜",)]
    other.close()


async def test_more_rows_than_are_fetched_at_once_come_complete_and_in_order(database: Database) -> None:
    count = 25_000
    statement = text(
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n"
    )
    async with database.reading() as connection:
        assert (await connection.execute(statement)).scalars().all() == list(range(1, count + 1))
        result = await connection.execute(statement)
        assert result.fetchone() == (1,)
        assert [row[0] for row in result.fetchmany(2_000)] == list(range(2, 2_002))


def holds_the_write_lock(home: Path) -> bool:
    """Whether somebody keeps other processes from writing."""
    other = sqlite3.connect(home / "scrubjay.db", timeout=0, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    finally:
        other.close()
    return False


async def test_a_writer_keeps_other_processes_out_from_its_first_statement(database: Database, home: Path) -> None:
    async with database.writing() as connection:
        await connection.execute(text("SELECT 1"))
        assert holds_the_write_lock(home)
    assert not holds_the_write_lock(home)


@pytest.mark.parametrize("turns", range(4))
async def test_a_writer_cancelled_while_its_connection_is_made_ready_leaves_none_that_is_not(
    database: Database, home: Path, turns: int
) -> None:
    async def write() -> None:
        async with database.writing() as connection:
            await connection.execute(text("SELECT 1"))

    task = asyncio.create_task(write())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while database._writer is None and not task.done():
            await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with database.writing() as connection:
        await connection.execute(text("SELECT 1"))
        assert holds_the_write_lock(home)
        assert (await connection.execute(text("PRAGMA busy_timeout"))).scalar() == 0
        assert (await connection.execute(text("PRAGMA wal_autocheckpoint"))).scalar() == 0
    async with database.reading() as connection:
        assert (await connection.execute(text("PRAGMA busy_timeout"))).scalar() != 0


async def test_a_writer_waits_for_another_process_without_stopping_everybody(database: Database, home: Path) -> None:
    async with database.writing() as connection:
        await connection.execute(text("CREATE TABLE t (x)"))
    other = sqlite3.connect(home / "scrubjay.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def write() -> None:
        async with database.writing() as connection:
            await connection.execute(text("INSERT INTO t VALUES (1)"))

    task = asyncio.create_task(write())
    turns = itertools.count()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while next(turns) < 50:
            await asyncio.sleep(0.001)
        assert not task.done()
        other.execute("COMMIT")
        await task
    assert other.execute("SELECT count(*) FROM t").fetchone() == (1,)
    other.close()


def test_whoever_opens_a_new_database_beside_others_waits_for_them(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")  # as somebody who is about to begin the write-ahead log
    # SQLite does not wait where waiting could be in vain, whatever its timeout: here it never does.
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    letting_go = threading.Timer(0.2, other.close)
    letting_go.start()
    try:
        begin_write_ahead_log(connection)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        letting_go.join()
        connection.close()
