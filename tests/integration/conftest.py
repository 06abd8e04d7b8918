"""Fixtures for tests of the whole program on real databases: settings that make jobs move fast."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.logbook import keep_logbook

from scrubjay.settings import Settings


@pytest.fixture(autouse=True)
def logged() -> Iterator[None]:
    """Log as the program does: unconfigured, structlog spends seconds on drawing one traceback."""
    with keep_logbook("info", "human") as logbook:
        yield
    print(logbook.text)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def backend(request: pytest.FixtureRequest) -> str:
    """The database that holds the data; `tests/workshop.py` has the marks that choose others."""
    return str(request.param)


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
