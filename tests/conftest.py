"""Fixtures for every test: a data folder, settings, and real servers (see `servers.py`)."""

import asyncio
import gc
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests import servers

from scrubjay.app import open_scrubjay
from scrubjay.cli.context import GC_THRESHOLD
from scrubjay.settings import Settings

# The developer's own Scrubjay must not change what is tested.
for _name in [name for name in os.environ if name.startswith(("SCRUBJAY_", "OTEL_", "OPENAI_", "AZURE_OPENAI_"))]:
    if not _name.startswith("SCRUBJAY_TEST_"):
        del os.environ[_name]


# What takes minutes together is left to `make test-all`: tests that are many, drive a browser, start processes, or wait
# for clocks. What stays has something of every room.
SLOW = (
    "acceptance/actions",
    "acceptance/cli/test_discover_and_robots.py",
    "acceptance/cli/test_worker_metrics.py",
    "acceptance/control/test_mcp.py",
    "acceptance/control/test_watches.py",
    "acceptance/crawlplans/test_better_than_the_original.py",
    "acceptance/dashboard",
    "acceptance/openai_door",
    "acceptance/rag/test_keys_and_jobs.py",
    "acceptance/rag/test_scopes_and_tenants.py",
    "acceptance/rag/test_settings_of_crawls.py",
    "acceptance/rag/test_webhooks.py",
    "contract/test_blobs.py",
    "contract/test_inventory.py",
    "integration/test_domain_crawl.py",
    "integration/test_live_events.py",
    "integration/test_metrics.py",
    "integration/test_plan_schedule.py",
    "integration/test_sharepoint.py",
    "integration/test_watches.py",
    "integration/test_webhooks.py",
    "security",
    "unit/sources/sharepoint",
    "unit/crawler/test_politeness.py",
)


@pytest.hookimpl(tryfirst=True)  # before what is marked is left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).as_posix().startswith(SLOW):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    # As the program does when it starts: what is loaded by now is never garbage, and looking at it takes long.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 50)


def pytest_sessionfinish() -> None:
    servers.stop_servers()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Away from the repository, where a developer may keep a scrubjay.toml.
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(scope="session")
def migrated_databases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The file of an empty database; copying it is faster than making another."""
    folder = tmp_path_factory.mktemp("migrated")

    async def migrate() -> None:
        async with open_scrubjay(Settings(home=folder), working=True):
            pass

    asyncio.run(migrate())
    files = [folder / "scrubjay.db"]
    for file in files:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return files


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=home)


@pytest.fixture
def redis_url() -> str:
    return servers.redis_url()


@pytest.fixture
def s3_settings() -> dict[str, Any]:
    """Settings for a bucket that nobody else uses."""
    server = servers.s3_server()
    return {
        "blob_url": f"s3://{server.make_bucket()}/bodies",
        "s3_endpoint": server.endpoint,
        "s3_access_key_id": server.access_key_id,
        "s3_secret_access_key": server.secret_access_key,
        "s3_allow_http": True,
    }


@pytest.fixture
def postgres_url() -> Iterator[str]:
    with servers.fresh_postgres_database() as url:
        yield url


@pytest.fixture
def mysql_url() -> Iterator[str]:
    with servers.fresh_mysql_database() as url:
        yield url
