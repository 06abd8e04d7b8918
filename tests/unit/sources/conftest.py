"""What connectors are opened with, once for the tests of a file, and a site for each test."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.site import Site, running_site
from tests.sources import Workplace, open_workplace


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workplace]:
    home = tmp_path_factory.mktemp("connectors") / "home"
    home.mkdir(mode=0o700)
    async with open_workplace(home) as workplace:
        yield workplace


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        yield running
