"""Fixtures for `/v1.0`: one working house for each file, a tenant of its own and a site of its own for each test."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio
from tests.acceptance.house import House, Key, open_house
from tests.acceptance.rag.conftest import working_settings
from tests.plans import set_pages
from tests.site import Site, running_site

NAMES = [f"page{number}" for number in range(5)]
_numbers = count(1)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that plans of the type File may read."""
    return tmp_path_factory.mktemp("shelf")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(
    tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path], shelf: Path
) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("plans") / "home"
    async with open_house(working_settings(folder, migrated_databases, file_roots=str(shelf)), working=True) as house:
        yield house


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        set_pages(running, NAMES)
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def owner(library: House) -> Key:
    """The admin of a tenant that no other test uses."""
    return await library.key(tenant=f"planner {next(_numbers)}")
