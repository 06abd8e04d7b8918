"""Fixtures for the one road: one working house for each file, and a tenant and a site of its own for each test."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio
from tests.acceptance.house import House, Key, open_house
from tests.acceptance.rag.conftest import working_settings
from tests.receiver import Receiver, running_receiver
from tests.site import Site, running_site

MAX_LINKS_PER_PAGE = 40
_numbers = count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> AsyncIterator[House]:
    """All doors of one working house. Its limit of links is low, so that a small page reaches it."""
    folder = tmp_path_factory.mktemp("one_road") / "home"
    settings = working_settings(folder, migrated_databases, max_links_per_page=MAX_LINKS_PER_PAGE)
    async with open_house(settings, working=True) as house:
        yield house


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def receiver() -> AsyncIterator[Receiver]:
    async with running_receiver() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running_site(hosts=4) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def owner(library: House) -> Key:
    """The admin of a tenant that no other test uses."""
    return await library.key(tenant=f"traveller {next(_numbers)}")
