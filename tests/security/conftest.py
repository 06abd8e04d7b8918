"""One open house for each file of these tests: it has its index, and nobody works in it, so nothing moves by itself."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.acceptance.house import House

from scrubjay.app import open_scrubjay
from scrubjay.settings import Settings


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def still_house(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> AsyncIterator[House]:
    home = tmp_path_factory.mktemp("still") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        shutil.copy(file, home)
    async with open_scrubjay(Settings(home=home, extract_processes=1), searching=True) as jay:
        yield House(jay, await jay.access.open_as_admin(home))
