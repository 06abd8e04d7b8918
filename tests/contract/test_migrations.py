"""Every way to the current schema, on SQLite, PostgreSQL and MariaDB/MySQL."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import JSON, Connection, DateTime, MetaData, event, func, inspect, select, text
from sqlalchemy.types import TypeEngine
from tests import servers

from scrubjay.errors import SchemaTooNew, StartupError
from scrubjay.settings import Settings
from scrubjay.storage import schema, tables
from scrubjay.storage.database import Database, open_database

pytestmark = pytest.mark.slow  # minutes with their like: `make test-all` runs them

REVISIONS = schema.known_revisions()
HEAD = REVISIONS[-1]
PATIENCE_SECONDS = 60
NEVER_USED = {"domains"}  # a table that nothing ever wrote to, and that is gone
MOMENT = datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)
UPGRADE = """
import asyncio, sys
from pathlib import Path
from scrubjay.settings import Settings
from scrubjay.storage import schema
from scrubjay.storage.database import open_database

async def main(home, url):
    database = open_database(Settings(home=Path(home), database_url=url or None))
    await database.check()
    print("ready", flush=True)
    sys.stdin.readline()
    await schema.require_current(database, auto_migrate=True)
    assert await schema.current_revision(database) == schema.known_revisions()[-1]
    await database.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.postgres),
        # Making tables takes MariaDB seconds; in `make test`, the tests of jobs do it once (`on_every_database`).
        pytest.param("mysql", marks=[pytest.mark.mysql, pytest.mark.slow]),
    ]
)
def empty(request: pytest.FixtureRequest, home: Path) -> Settings:
    """Settings for a database with nothing in it."""
    url = None if request.param == "sqlite" else request.getfixturevalue(f"{request.param}_url")
    return Settings(home=home, database_url=url)


@pytest.fixture
async def database(empty: Settings) -> AsyncIterator[Database]:
    database = open_database(empty)
    yield database
    await database.close()


async def in_database(database: Database, function: Any, *arguments: Any) -> Any:
    async with database.writing(long=True) as connection:
        return await connection.run_sync(function, *arguments)


def differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, tables.metadata))


def index_definitions(connection: Connection) -> Mapping[str, str]:
    """Every index as the database describes it; what alembic compares leaves out their conditions."""
    if connection.dialect.name == "postgresql":
        query = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()"
    elif connection.dialect.name == "sqlite":
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    else:
        query = (
            "SELECT concat(table_name, '.', index_name), group_concat(concat_ws(' ', column_name, collation, "
            "non_unique) ORDER BY seq_in_index) FROM information_schema.statistics "
            "WHERE table_schema = database() GROUP BY table_name, index_name"
        )
    return {name: definition for name, definition in connection.execute(text(query)) if "alembic" not in name}


def options_of_tables(connection: Connection) -> Mapping[str, Any]:
    inspector = inspect(connection)
    return {name: inspector.get_table_options(name) for name in inspector.get_table_names() if "alembic" not in name}


def value_for(column_type: TypeEngine[Any], dialect: str) -> Any:
    """A value that any column of this type takes. Text is "1": also valid JSON, and the id of every parent."""
    if isinstance(column_type, JSON):
        return {"🦜": [1, None]}
    if isinstance(column_type, DateTime):
        return MOMENT if column_type.timezone else MOMENT.replace(tzinfo=None)
    if column_type.python_type is bytes:
        return func.unhex("00FF") if dialect == "mysql" else b"\x00\xff"  # its driver cannot send bytes
    return {bool: True, int: 1, float: 0.5, Decimal: Decimal("0.5"), str: "1"}[column_type.python_type]


def fill(connection: Connection) -> Mapping[str, Mapping[str, Any]]:
    """Put one row into every table that there is, and return what the tables then hold."""
    existing = MetaData()
    existing.reflect(connection)
    for table in existing.sorted_tables:
        if table.name != "alembic_version":
            row = {column.name: value_for(column.type, connection.dialect.name) for column in table.columns}
            connection.execute(table.insert().values(**row))
    return contents(connection)


def contents(connection: Connection) -> Mapping[str, Mapping[str, Any]]:
    """The row of every table that has one."""
    existing = MetaData()
    existing.reflect(connection)
    rows = {table.name: connection.execute(select(table)).mappings().first() for table in existing.sorted_tables}
    return {name: dict(row) for name, row in rows.items() if row is not None and name != "alembic_version"}


def test_the_migrations_form_one_chain() -> None:
    scripts = ScriptDirectory(str(schema.MIGRATIONS))
    chain = list(scripts.walk_revisions())[::-1]
    assert [script.revision for script in chain] == REVISIONS
    assert [script.down_revision for script in chain] == [None, *REVISIONS[:-1]]
    assert (scripts.get_bases(), scripts.get_heads()) == ([REVISIONS[0]], [HEAD])
    for script in chain:
        assert not script.is_branch_point
        assert not script.dependencies
        assert Path(script.path).name.startswith(f"{script.revision}_")
    assert [f"{number:04}" for number in range(1, len(REVISIONS) + 1)] == REVISIONS


async def test_an_empty_database_gets_the_schema_that_the_code_expects(database: Database) -> None:
    assert await schema.current_revision(database) is None
    await schema.require_current(database, auto_migrate=True)
    assert await schema.current_revision(database) == HEAD
    assert await in_database(database, differences) == []


async def test_a_current_database_is_left_alone(database: Database) -> None:
    await schema.require_current(database, auto_migrate=True)
    before = await in_database(database, fill)
    await schema.require_current(database, auto_migrate=True)
    await schema.require_current(database, auto_migrate=False)
    await schema.upgrade(database)
    assert len(before) == len(tables.metadata.tables)
    assert await in_database(database, contents) == before


@pytest.mark.parametrize("revision", REVISIONS[:-1])
async def test_an_older_database_is_upgraded_with_what_it_holds(database: Database, revision: str) -> None:
    await schema.upgrade(database, revision)
    assert await schema.current_revision(database) == revision
    assert await in_database(database, differences) != []
    before = await in_database(database, fill)
    assert len(before) > 0
    await schema.require_current(database, auto_migrate=True)
    assert await schema.current_revision(database) == HEAD
    assert await in_database(database, differences) == []
    after = await in_database(database, contents)
    assert before.keys() - after.keys() <= NEVER_USED
    for table, row in before.items():
        for name in row.keys() & after.get(table, {}).keys():
            assert after[table][name] == row[name], f"{table}.{name}"


async def test_indexes_and_table_options_are_those_of_the_code_to_the_letter(database: Database) -> None:
    await schema.upgrade(database)
    migrated = [await in_database(database, each) for each in (index_definitions, options_of_tables)]
    await in_database(database, tables.metadata.drop_all)
    await in_database(database, tables.metadata.create_all)
    made = [await in_database(database, each) for each in (index_definitions, options_of_tables)]
    assert migrated == made
    assert len(migrated[0]) > 40
    assert len(migrated[1]) == len(tables.metadata.tables)


async def test_two_processes_that_upgrade_at_once_both_succeed(empty: Settings, database: Database) -> None:
    command = [sys.executable, "-c", UPGRADE, str(empty.home), empty.database_url or ""]
    pipe = asyncio.subprocess.PIPE
    async with asyncio.timeout(PATIENCE_SECONDS):
        processes = [
            await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(3)
        ]
        for process in processes:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        results = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [(process.returncode, errors) for process, (_, errors) in zip(processes, results, strict=True)] == [
        (0, b"")
    ] * 3
    assert await in_database(database, differences) == []


async def test_a_database_from_the_future_is_refused_and_left_alone(database: Database) -> None:
    await schema.upgrade(database)
    before = await in_database(database, fill)
    async with database.writing() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for auto_migrate in (True, False):
        with pytest.raises(SchemaTooNew, match="9999") as refusal:
            await schema.require_current(database, auto_migrate=auto_migrate)
        assert "\n" not in refusal.value.message
    assert await schema.current_revision(database) == "9999"
    assert await in_database(database, contents) == before


@pytest.mark.parametrize("revision", [None, *REVISIONS[:-1]])
async def test_without_auto_migration_the_command_to_run_is_named(database: Database, revision: str | None) -> None:
    if revision is not None:
        await schema.upgrade(database, revision)
    before = await in_database(database, lambda connection: inspect(connection).get_table_names())
    with pytest.raises(StartupError, match="scrubjay migrate") as refusal:
        await schema.require_current(database, auto_migrate=False)
    assert not isinstance(refusal.value, SchemaTooNew)
    assert HEAD in refusal.value.message
    assert await in_database(database, lambda connection: inspect(connection).get_table_names()) == before


async def test_no_process_can_upgrade_in_the_middle_of_anothers_upgrade(home: Path, settings: Settings) -> None:
    """SQLite has no lock for this but that of a transaction, so there must be no gap between two of them."""
    database = open_database(settings)
    begun = 0

    @event.listens_for(database.engine.sync_engine, "begin")
    def let_another_process_upgrade(connection: Connection) -> None:
        nonlocal begun
        begun += connection.get_execution_options().get("scrubjay_writing", False)
        if begun == 2:
            command = [sys.executable, "-c", UPGRADE, str(home), ""]
            subprocess.run(command, input=b"go\n", check=True, timeout=PATIENCE_SECONDS)

    await schema.require_current(database, auto_migrate=True)
    assert begun >= 1
    assert await schema.current_revision(database) == HEAD
    await database.close()


BROKEN = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "9998", "{head}", None, None

def upgrade() -> None:
    op.create_table("half_done", sa.Column("id", sa.Integer(), primary_key=True))
    raise ZeroDivisionError
"""


async def test_a_failed_migration_does_not_stand_in_the_way_of_the_next_try(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrations = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, migrations, ignore=shutil.ignore_patterns("__pycache__"))
    broken = migrations / "versions" / "9998_broken.py"
    broken.write_text(BROKEN.format(head=HEAD))
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    await schema.upgrade(database, REVISIONS[0])
    with pytest.raises(ZeroDivisionError):
        await schema.require_current(database, auto_migrate=True)
    tables_then = await in_database(database, lambda connection: inspect(connection).get_table_names())
    if database.dialect != "mysql":  # whose DDL is not transactional
        assert "half_done" not in tables_then
    broken.unlink()
    async with asyncio.timeout(PATIENCE_SECONDS):  # the lock that the failed try took is free again
        await schema.require_current(database, auto_migrate=True)
    assert await schema.current_revision(database) == HEAD


@pytest.mark.mysql
async def test_a_lock_that_is_not_had_in_time_stops_the_upgrade(
    home: Path, mysql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_LOCK_SECONDS", 0)
    database = open_database(Settings(home=home, database_url=mysql_url))
    async with database.reading() as holder:
        await holder.run_sync(schema._take_lock)
        with pytest.raises(StartupError, match="another process"):
            await schema.upgrade(database)
        assert await schema.current_revision(database) is None
        await holder.run_sync(schema._release_lock)
    await schema.upgrade(database)
    assert await schema.current_revision(database) == HEAD
    await database.close()


@pytest.mark.mysql
@pytest.mark.slow
async def test_databases_on_one_server_do_not_wait_for_each_others_upgrades(
    home: Path, mysql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_LOCK_SECONDS", 0)
    database = open_database(Settings(home=home, database_url=mysql_url))
    with servers.fresh_mysql_database() as other_url:
        other = open_database(Settings(home=home, database_url=other_url))
        async with other.reading() as holder:
            await holder.run_sync(schema._take_lock)
            await schema.upgrade(database)
            await holder.run_sync(schema._release_lock)
        await other.close()
    assert await schema.current_revision(database) == HEAD
    await database.close()
