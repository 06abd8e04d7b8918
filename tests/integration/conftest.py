"""Fixtures for tests of the whole program on real databases: settings that make jobs move fast."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import servers
from tests.logbook import keep_logbook

from scrubjay.settings import Settings


@pytest.fixture(autouse=True)
def logged() -> Iterator[None]:
    """Log as the program does: unconfigured, structlog spends seconds on drawing one traceback."""
    with keep_logbook("info", "human") as logbook:
        yield
    print(logbook.text)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.repeat])])
def backend(request: pytest.FixtureRequest) -> str:
    """The database that holds the data. All of this on PostgreSQL too takes minutes more: `make test-repeat` does it.

    `tests/workshop.py` has the marks for tests of what depends on the database; those always run on all.
    """
    return str(request.param)


@pytest.fixture
def home(home: Path, migrated_databases: list[Path]) -> Path:
    for file in migrated_databases:
        shutil.copy(file, home)
    return home


@pytest.fixture
def postgres_url() -> Iterator[str]:
    with servers.reused_postgres_database() as url:
        yield url


@pytest.fixture
def mysql_url() -> Iterator[str]:
    with servers.reused_mysql_database() as url:
        yield url


@pytest.fixture
def settings(backend: str, home: Path, request: pytest.FixtureRequest) -> Settings:
    url = None if backend == "sqlite" else request.getfixturevalue(f"{backend}_url")
    return Settings(
        home=home,
        database_url=url,
        job_poll_seconds=0.05,
        shutdown_grace_seconds=1,
        worker_heartbeat_seconds=0.2,
        worker_silence_seconds=1,
    )
