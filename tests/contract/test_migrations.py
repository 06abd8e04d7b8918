"""Every way to the current schema, on SQLite, PostgreSQL and MariaDB/MySQL."""

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import JSON, Connection, DateTime, MetaData, Table, event, func, inspect, select, text
from sqlalchemy.types import TypeEngine
from tests import servers

from scrubjay.documents.document_writer import chunk_id
from scrubjay.documents.identity import natural_key
from scrubjay.errors import SchemaTooNew, StartupError
from scrubjay.model.urls import hash_url
from scrubjay.settings import Settings
from scrubjay.storage import schema, tables
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.database import Database, open_database
from scrubjay.storage.document_logs import DocumentLogs
from scrubjay.storage.documents import Documents
from scrubjay.storage.inventory import VectorStoreFiles
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.tags import Tags
from scrubjay.storage.versions import DocumentVersions

pytestmark = pytest.mark.slow  # minutes with their like: `make test-all` runs them

REVISIONS = schema.known_revisions()
HEAD = REVISIONS[-1]
PATIENCE_SECONDS = 60
DROPPED = {
    "ingest_queue",
    "schedules",
    "frontier_mail",
    "sharded_crawls",
}  # what they held is elsewhere, or was never read
RECOMPUTED = {"natural_key"}  # by migration 0016, of what makes a document the same one
MOMENT = datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)
UPGRADE = """
import asyncio, sys
from pathlib import Path
from scrubjay.model.urls import hash_url
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
    first = int(REVISIONS[0])
    assert [f"{number:04}" for number in range(first, first + len(REVISIONS))] == REVISIONS


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
    assert before.keys() - after.keys() <= DROPPED
    for table, row in before.items():
        for name in (row.keys() & after.get(table, {}).keys()) - RECOMPUTED:
            assert after[table][name] == row[name], f"{table}.{name}"


def add(connection: Connection, table: str, **values: Any) -> None:
    """A row of a table as it is at this revision; what is not given and must be is anything."""
    existing = Table(table, MetaData(), autoload_with=connection)
    row = {}
    for column in existing.columns:
        value = values.get(column.name)
        if value is None and not column.nullable and column.server_default is None:
            value = value_for(column.type, connection.dialect.name)
        if isinstance(value, datetime) and not getattr(column.type, "timezone", False):
            value = value.replace(tzinfo=None)
        if isinstance(value, dict) and not isinstance(column.type, JSON):
            value = json.dumps(value)
        if value is not None and column.autoincrement is not True:
            row[column.name] = value
    connection.execute(existing.insert().values(**row))


def at(hour: float) -> datetime:
    return MOMENT + timedelta(hours=hour)


def add_document(connection: Connection, name: str, url: str, *texts: tuple[str, float], **values: Any) -> None:
    """A document as revision 0015 kept it, with a version of each text, made at that hour; the last one is open."""
    values = {"tenant_id": "ten_1", "collection_id": "col_1", "details": {}, "source": "crawl", **values}
    owner = values.get("plan_id") or values["collection_id"]
    ended = values.get("deleted_at")
    add(
        connection, "documents", id=name, url=url, url_hash=hash_url(url), status="Completed", is_purging=False,
        natural_key=hashlib.sha256(f"{owner}\n{url}".encode()).hexdigest(), version=len(texts), host="example.org",
        domain="example.org", content_sha256=texts[-1][0], title=texts[-1][0], indexed_version=len(texts),
        **{"created_at": at(texts[0][1]), **values},
    )  # fmt: skip
    for number, (content, hour) in enumerate(texts, 1):
        add(
            connection, "document_versions", id=f"{name}/{number}", tenant_id=values["tenant_id"], document_id=name,
            version=number, content_sha256=content, created_at=at(hour), details={},
            ended_at=at(texts[number][1]) if number < len(texts) else ended,
        )  # fmt: skip
        add(
            connection, "chunks", id=chunk_id(name, number, 0), tenant_id=values["tenant_id"], document_id=name,
            version=number, chunk_index=0, content=content, content_type="prose",
        )  # fmt: skip


PAGE = "https://example.org/page"


def add_duplicates(connection: Connection) -> None:
    """One page that came in by two plans and two crawls under three URLs, and what must not be mixed up with it."""
    for tenant in ("ten_1", "ten_2"):
        add(connection, "tenants", id=tenant, name=tenant)
        add(connection, "collections", id=f"col_{tenant[-1]}", tenant_id=tenant, name=tenant, details={})
    add(connection, "collections", id="col_3", tenant_id="ten_1", name="other", details={})
    for plan in ("plan_1", "plan_2"):
        add(connection, "crawl_plans", id=plan, tenant_id="ten_1", name=plan)
    add(connection, "crawl_operations", id="op_1", tenant_id="ten_1", plan_id="plan_1")
    add_document(connection, "adhoc", PAGE, ("first", 1), details={"job_id": "job_1"})
    add_document(connection, "plan", PAGE, ("second", 2), ("third", 3), plan_id="plan_1")
    add_document(connection, "deleted", f"{PAGE}?utm_source=x", ("fourth", 4), deleted_at=at(4.5))
    add_document(connection, "fbclid", f"{PAGE}?fbclid=1", ("last", 6), plan_id="plan_2", details={"author": "Ada"})
    alias = {"canonical_url": PAGE}
    add_document(connection, "print", f"{PAGE}/print", ("last", 5), details=alias)
    add_document(connection, "other-text", f"{PAGE}/part-2", ("part two", 5), details=alias)
    add_document(connection, "http", PAGE.replace("https", "http"), ("last", 6))
    add_document(connection, "collection", PAGE, ("last", 6), collection_id="col_3")
    add_document(connection, "tenant", PAGE, ("last", 6), tenant_id="ten_2", collection_id="col_2")
    add_document(connection, "repeats", "https://example.org/copy", ("first", 7), duplicate_of="adhoc")
    for tag, document in (("red", "adhoc"), ("blue", "plan"), ("blue", "fbclid")):
        if document != "fbclid":
            add(connection, "tags", id=tag, tenant_id="ten_1", name=tag)
        add(connection, "document_tags", document_id=document, tag_id=tag)
    add(connection, "vector_store_files", document_id="adhoc", tenant_id="ten_1", file_id="file_1", attributes={})
    add(connection, "document_logs", document_id="adhoc", tenant_id="ten_1", message="Taken in.")
    for plan, url, document in (
        ("plan_1", PAGE, "plan"),
        ("plan_1", f"{PAGE}?utm_source=x", "plan"),
        ("plan_2", f"{PAGE}?fbclid=1", "fbclid"),
        ("plan_2", f"{PAGE}?b=2&a=1", "http"),
    ):
        before = hash_url(url.replace("b=2&a=1", "a=1&b=2"))
        add(
            connection, "ledger", plan_id=plan, key_hash=before, key=url, tenant_id="ten_1", document_id=document,
            fate="present",
        )  # fmt: skip
    add(
        connection, "operation_items", operation_id="op_1", key_hash=hash_url(f"{PAGE}?fbclid=1"), tenant_id="ten_1",
        key=f"{PAGE}?fbclid=1", document_id="fbclid", change="added", state="done",
    )  # fmt: skip


async def test_documents_of_one_page_become_one_that_keeps_every_version(database: Database) -> None:
    await schema.upgrade(database, "0015")
    await in_database(database, add_duplicates)
    await schema.require_current(database, auto_migrate=True)
    async with database.reading() as connection:
        found = await Documents(connection).by_ids(
            ["adhoc", "plan", "deleted", "fbclid", "print", "other-text", "http", "collection", "tenant", "repeats"]
        )
        versions = await DocumentVersions(connection).of_document("plan")
        outlines = (await Chunks(connection).outlines(["plan"]))["plan"]
        tags = (await Tags(connection).of_documents(list(found)))["plan"]
        ledger = {
            plan: await Ledger(connection).by_hashes(plan, [hash_url(PAGE), hash_url(f"{PAGE}?a=1&b=2")])
            for plan in ("plan_1", "plan_2")
        }
        entries = (await connection.execute(text("SELECT count(*) FROM ledger"))).scalar()
        logged = await DocumentLogs(connection).of_document("plan")
        file = await VectorStoreFiles(connection).get("ten_1", "plan")
        item = (await connection.execute(text("SELECT document_id, key_hash FROM operation_items"))).one()
    kept, merged = found["plan"], [found[name] for name in ("adhoc", "deleted", "fbclid", "print")]

    assert (kept.url, kept.url_hash, kept.natural_key) == (PAGE, hash_url(PAGE), natural_key("col_1", PAGE))
    assert (kept.plan_id, kept.deleted_at, kept.is_purging) == ("plan_1", None, False)
    assert (kept.version, kept.content_sha256, kept.title, kept.details["author"]) == (6, "last", "last", "Ada")
    assert kept.index_due_at is not None
    assert [(each.version, each.content_sha256) for each in versions] == [
        (1, "first"), (2, "second"), (3, "third"), (4, "fourth"), (5, "last"), (6, "last"),
    ]  # fmt: skip
    assert [each.created_at for each in versions] == [at(hour) for hour in (1, 2, 3, 4, 5, 6)]
    assert [each.ended_at for each in versions] == [at(2), at(3), at(6), at(4.5), at(6), None]
    assert {(each.id, each.version) for each in outlines} == {
        (chunk_id("plan", number, 0), number) for number in range(1, 7)
    }
    origins = {each["document_id"]: each for each in kept.details["also_from"]}
    assert origins.keys() == {"adhoc", "deleted", "fbclid", "print"}
    assert (origins["adhoc"]["job_id"], origins["fbclid"]["plan_id"]) == ("job_1", "plan_2")
    assert origins["deleted"]["url"] == f"{PAGE}?utm_source=x"
    assert sorted(tag.id for tag in tags) == ["blue", "red"]
    assert (file.file_id, [line.message for line in logged]) == ("file_1", ["Taken in."])

    for each in merged:  # the indexer removes their points, and then them
        assert each.is_purging
        assert each.index_due_at is not None
        assert each.natural_key != kept.natural_key

    for name in ("other-text", "http", "collection", "tenant", "repeats"):
        each = found[name]
        assert (each.is_purging, each.version) == (False, 1)
        assert each.natural_key == natural_key(each.collection_id, each.url)
    assert found["repeats"].duplicate_of == "plan"

    assert ledger["plan_1"][hash_url(PAGE)].document_id == "plan"
    assert ledger["plan_2"][hash_url(PAGE)].document_id == "plan"
    assert ledger["plan_2"][hash_url(f"{PAGE}?a=1&b=2")].document_id == "http"
    assert entries == 3
    assert tuple(item) == ("plan", hash_url(PAGE))


async def test_more_documents_than_a_batch_get_their_keys(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ScriptDirectory(str(schema.MIGRATIONS)).get_revision("0016")
    monkeypatch.setattr(script.module, "BATCH", 3)
    await schema.upgrade(database, "0015")

    def fill_up(connection: Connection) -> None:
        add(connection, "tenants", id="ten_1", name="t")
        add(connection, "collections", id="col_1", tenant_id="ten_1", name="c", details={})
        for number in range(10):
            url = f"{PAGE}/{number % 5}" + ("?gclid=x" if number >= 5 else "")
            add_document(connection, f"doc_{number:02}", url, (f"text {number}", number), plan_id=f"plan_{number % 2}")

    await in_database(database, fill_up)
    await schema.require_current(database, auto_migrate=True)
    async with database.reading() as connection:
        found = await Documents(connection).by_ids([f"doc_{number:02}" for number in range(10)])
    kept = [each for each in found.values() if not each.is_purging]
    assert sorted(each.url for each in kept) == [f"{PAGE}/{number}" for number in range(5)]
    assert {each.version for each in kept} == {2}
    assert all(each.natural_key == natural_key("col_1", each.url) for each in kept)


async def test_a_step_that_was_killed_in_its_middle_is_repeated(database: Database) -> None:
    """MariaDB commits every statement, so all statements of a step may be done before its number is written."""
    await schema.upgrade(database, "0017")
    await in_database(
        database, lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '0016'"))
    )
    await schema.upgrade(database)
    assert await in_database(database, differences) == []


async def test_the_frontiers_of_a_crawl_in_shards_become_one(database: Database) -> None:
    await schema.upgrade(database, "0017")

    def fill_up(connection: Connection) -> None:
        add(connection, "tenants", id="ten_1", name="t")
        add(connection, "jobs", id="crawl", tenant_id="ten_1", kind="crawl", payload={}, state="paused", priority=1)
        for shard, status in (("one", "leased"), ("two", "completed")):
            add(connection, "jobs", id=shard, tenant_id="ten_1", kind="crawl_shard", payload={}, state="paused",
                priority=1, parent_id="crawl", unique_key=None)  # fmt: skip
            add(connection, "frontier", id=len(shard + status), job_id=shard, url_hash=hash_url(f"{PAGE}/{shard}"),
                url=f"{PAGE}/{shard}", host="a.org", status=status)  # fmt: skip
        for number, url in enumerate((f"{PAGE}/three", f"{PAGE}/two")):
            add(connection, "frontier_mail", id=f"mail{number}", job_id="two", url=url, depth=1)

    await in_database(database, fill_up)
    await schema.require_current(database, auto_migrate=True)

    def read(connection: Connection) -> tuple[Any, Any]:
        urls = connection.execute(text("SELECT job_id, url, status FROM frontier ORDER BY url")).all()
        return [tuple(row) for row in urls], connection.execute(text("SELECT id FROM jobs")).scalars().all()

    urls, jobs = await in_database(database, read)
    assert urls == [
        ("crawl", f"{PAGE}/one", "leased"),
        ("crawl", f"{PAGE}/three", "pending"),
        ("crawl", f"{PAGE}/two", "completed"),
    ]
    assert jobs == ["crawl"]


@pytest.mark.postgres
@pytest.mark.parametrize(("others", "left"), [([], None), (["theirs.run"], ["theirs.run"])], ids=["ours", "shared"])
async def test_records_of_dbos_are_dropped_and_those_of_another_application_stay(
    postgres_url: str, home: Path, others: list[str], left: list[str] | None
) -> None:
    database = open_database(Settings(home=home, database_url=postgres_url))

    def keep_records(connection: Connection) -> None:
        connection.execute(text("CREATE SCHEMA dbos"))
        connection.execute(text("CREATE TABLE dbos.workflow_status (workflow_uuid text, name text)"))
        for name in ["scrubjay.run_job", *others]:
            connection.execute(text("INSERT INTO dbos.workflow_status VALUES ('1', :name)"), {"name": name})

    def read_records(connection: Connection) -> list[str] | None:
        if not inspect(connection).has_schema("dbos"):
            return None
        return list(connection.execute(text("SELECT name FROM dbos.workflow_status")).scalars())

    await schema.upgrade(database, "0016")
    await in_database(database, keep_records)
    await schema.upgrade(database)
    assert await in_database(database, read_records) == left
    await database.close()


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


async def test_a_database_that_is_too_old_to_upgrade_is_refused_and_left_alone(database: Database) -> None:
    await schema.upgrade(database, REVISIONS[0])
    async with database.writing() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '0014'"))
    with pytest.raises(StartupError, match="earlier version of Scrubjay") as refusal:
        await schema.require_current(database, auto_migrate=True)
    assert not isinstance(refusal.value, SchemaTooNew)
    assert await schema.current_revision(database) == "0014"


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
