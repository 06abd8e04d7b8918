"""Fixtures for `/api/v1`: one working house for each file, and a tenant of its own for each test."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio
import uvicorn
from tests.acceptance.house import House, Key, open_house
from tests.model_server import ModelServer, running_model_server
from tests.site import Site, running_site

from scrubjay.settings import Settings

LOOPBACK = "127.0.0.0/8"
_numbers = count(1)


def working_settings(folder: Path, databases: list[Path], **values: object) -> Settings:
    """Settings of a house that may reach the servers of these tests."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for file in databases:
        shutil.copy(file, folder)
    return Settings(home=folder, allowed_private_networks=LOOPBACK, extract_processes=1, **values)  # type: ignore[arg-type]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model_server() -> AsyncIterator[ModelServer]:
    async with running_model_server() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(
    tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path], model_server: ModelServer
) -> AsyncIterator[House]:
    """A house that works: its jobs run, its index is its own."""
    settings = working_settings(
        tmp_path_factory.mktemp("library") / "home", migrated_databases, rerank_url=model_server.url
    )
    async with open_house(settings, working=True) as house:
        yield house


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running_site(pages=12, hosts=2) as site:
        yield site


@pytest_asyncio.fixture(loop_scope="module")
async def owner(library: House) -> Key:
    """The admin of a tenant that no other test uses."""
    return await library.key(tenant=f"tenant {next(_numbers)}")


class QuietServer(uvicorn.Server):
    """Signals are for whoever runs the tests."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(library: House) -> AsyncIterator[str]:
    """The house as a real server, for what only a real connection shows."""
    server = QuietServer(uvicorn.Config(library.app, port=0, log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await task
