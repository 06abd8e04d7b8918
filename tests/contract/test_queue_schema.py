"""Procrastinate's tables in a PostgreSQL database: made once, followed by upgrades, and never somebody else's."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from procrastinate.schema import SchemaManager
from sqlalchemy import text
from tests import servers

from scrubjay.errors import StartupError
from scrubjay.model.job import Job, JobPriority, JobState
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Tenant
from scrubjay.settings import Settings
from scrubjay.storage import schema
from scrubjay.storage.database import Database, open_database
from scrubjay.storage.jobs import JobRow
from scrubjay.storage.queue_schema import installed_queue_version, read_queue_version
from scrubjay.storage.tenants import Tenants

pytestmark = pytest.mark.postgres

LAST_WITHOUT_QUEUE = "0017"
STATUSES = (
    "SELECT args ->> 'job_id', priority, status::text FROM procrastinate.procrastinate_jobs ORDER BY priority DESC"
)


@pytest.fixture
def settings(home: Path) -> Iterator[Settings]:
    with servers.fresh_postgres_database() as url:
        yield Settings(home=home, database_url=url)


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    database = open_database(settings)
    yield database
    await database.close()


async def rows(database: Database, statement: str) -> list[tuple[object, ...]]:
    async with database.writing() as connection:
        result = await connection.execute(text(statement))
        return [tuple(row) for row in result.all()] if result.returns_rows else []


async def queue_version(database: Database) -> str | None:
    async with database.reading() as connection:
        return await connection.run_sync(read_queue_version)


async def test_jobs_that_were_pending_before_the_upgrade_are_deferred_once(database: Database) -> None:
    await schema.upgrade(database, LAST_WITHOUT_QUEUE)
    jobs = {
        state: Job(tenant_id=DEFAULT_TENANT_ID, kind="crawl", state=state, priority=JobPriority.LOW)
        for state in JobState
    }
    urgent = Job(tenant_id=DEFAULT_TENANT_ID, kind="crawl", priority=JobPriority.HIGH)
    async with database.writing() as connection:
        await Tenants(connection).add(Tenant(id=DEFAULT_TENANT_ID, name="default"))
        for job in [*jobs.values(), urgent]:  # as the earlier version did it: nothing but the row
            values = {name: getattr(job, name) for name in JobRow.__table__.columns.keys()}  # noqa: SIM118
            await connection.execute(JobRow.__table__.insert(), values)
    for _ in range(2):
        await schema.require_current(database, auto_migrate=True)
        await schema.upgrade(database)
    assert await rows(database, STATUSES) == [(urgent.id, 0, "todo"), (jobs[JobState.PENDING].id, -2, "todo")]


async def test_processes_that_start_at_once_make_the_tables_once(settings: Settings) -> None:
    databases = [open_database(settings) for _ in range(4)]
    await asyncio.gather(*(schema.require_current(each, auto_migrate=True) for each in databases))
    assert {await queue_version(each) for each in databases} == {installed_queue_version()}
    for each in databases:
        await each.close()


async def test_tables_of_an_earlier_procrastinate_are_brought_up_to_date(
    settings: Settings, database: Database
) -> None:
    make_tables_of_version_3_3(settings.resolved_database_url)
    await schema.upgrade(database, LAST_WITHOUT_QUEUE)
    with pytest.raises(StartupError, match="run: scrubjay migrate"):
        await schema.require_current(database, auto_migrate=False)
    await schema.require_current(database, auto_migrate=True)
    assert await queue_version(database) == installed_queue_version()
    found = "SELECT to_regproc('procrastinate.procrastinate_retry_job_v2')::text"
    assert await rows(database, found) == [("procrastinate.procrastinate_retry_job_v2",)]


def make_tables_of_version_3_3(url: str) -> None:
    scripts = [path for path in sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql")) if path.name < "03.04"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA procrastinate")
        connection.execute("SET search_path TO procrastinate")
        for script in scripts:
            connection.execute(script.read_bytes())
        comment = f"Created by Scrubjay: Procrastinate {scripts[-1].stem}"
        connection.execute(f"COMMENT ON SCHEMA procrastinate IS '{comment}'".encode())


async def test_tables_of_a_newer_procrastinate_are_left_alone(database: Database) -> None:
    await schema.require_current(database, auto_migrate=True)
    await rows(database, "COMMENT ON SCHEMA procrastinate IS 'Created by Scrubjay: Procrastinate 99.00.00'")
    await schema.require_current(database, auto_migrate=False)
    assert await queue_version(database) == "99.00.00"


async def test_the_schema_of_another_application_is_not_touched(database: Database) -> None:
    await rows(database, "CREATE SCHEMA procrastinate")
    await rows(database, "CREATE TABLE procrastinate.procrastinate_jobs (id bigint)")
    with pytest.raises(StartupError, match="belongs to another application"):
        await schema.require_current(database, auto_migrate=True)


async def test_a_user_who_may_not_create_a_schema_is_told_what_an_administrator_has_to_do(settings: Settings) -> None:
    name = f"jay_{secrets.token_hex(4)}"
    parts = urlsplit(settings.resolved_database_url)
    with psycopg.connect(settings.resolved_database_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'".encode())
        admin.execute(f"GRANT ALL ON SCHEMA public TO {name}".encode())
        url = parts._replace(netloc=f"{name}:{name}@{parts.hostname}:{parts.port}").geturl()
        limited = open_database(settings.model_copy(update={"database_url": url}))
        try:
            with pytest.raises(
                StartupError, match=r"may not create the schema .* CREATE SCHEMA procrastinate AUTHORIZ"
            ):
                await schema.require_current(limited, auto_migrate=True)
            admin.execute(f"CREATE SCHEMA procrastinate AUTHORIZATION {name}".encode())
            await schema.require_current(limited, auto_migrate=True)
            assert await queue_version(limited) == installed_queue_version()
        finally:
            await limited.close()
            admin.execute(f"DROP OWNED BY {name} CASCADE".encode())
            admin.execute(f"DROP ROLE {name}".encode())


async def test_missing_tables_are_named_with_the_command_to_run(database: Database) -> None:
    await schema.upgrade(database)
    await rows(database, "DROP SCHEMA procrastinate CASCADE")
    with pytest.raises(StartupError, match=r"tables of the job queue are missing or outdated; run: scrubjay migrate"):
        await schema.require_current(database, auto_migrate=False)
    await schema.require_current(database, auto_migrate=True)
    assert await queue_version(database) == installed_queue_version()
