"""Fixtures for the doors: a data folder whose schema is up to date, and an open house around it."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.acceptance.house import House, Key, open_house
from tests.logbook import Logbook, keep_logbook

from scrubjay.settings import Settings


@pytest.fixture
def home(home: Path, migrated_databases: list[Path]) -> Path:
    for file in migrated_databases:
        shutil.copy(file, home)
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
