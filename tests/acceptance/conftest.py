"""Fixtures for the doors: a data folder whose schema is up to date, and an open house around it."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.acceptance.house import House, Key, open_house
from tests.logbook import Logbook, keep_logbook

from scrubjay.bootstrap import open_scrubjay
from scrubjay.settings import Settings


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database at the current schema; copying it is faster than migrating another."""
    folder = tmp_path_factory.mktemp("migrated")

    async def migrate() -> None:
        async with open_scrubjay(Settings(home=folder)):
            pass

    asyncio.run(migrate())
    return folder / "scrubjay.db"


@pytest.fixture
def home(home: Path, migrated_database: Path) -> Path:
    shutil.copyfile(migrated_database, home / "scrubjay.db")
    return home


@pytest.fixture
async def house(settings: Settings) -> AsyncIterator[House]:
    async with open_house(settings) as house:
        yield house


@pytest.fixture
async def admin(house: House) -> Key:
    return await house.key()


@pytest.fixture
def logbook() -> Iterator[Logbook]:
    with keep_logbook() as book:
        yield book
