"""Fixtures for `/openai`: a working house behind a real server, on its own documents or on an OpenAI account."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
from openai import AsyncOpenAI
from tests.acceptance.house import House, Key, open_house
from tests.openai_server import KEY, OpenAiServer, running_openai_server

from scrubjay.settings import Settings

LOOPBACK = "127.0.0.0/8"
_numbers = count(1)


class QuietServer(uvicorn.Server):
    """Signals are for whoever runs the tests."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True)
class Served:
    """A house that answers on a port."""

    house: House
    address: str
    upstream: OpenAiServer | None = None

    def client(self, key: Key, **options: Any) -> AsyncOpenAI:
        return AsyncOpenAI(
            base_url=f"http://{self.address}/openai/v1", api_key=key.text, **{"max_retries": 0, **options}
        )


def working_settings(folder: Path, databases: list[Path], **values: Any) -> Settings:
    folder.mkdir(mode=0o700, exist_ok=True)
    for file in databases:
        shutil.copy(file, folder)
    return Settings(home=folder, allowed_private_networks=LOOPBACK, extract_processes=1, **values)  # type: ignore[arg-type]


@asynccontextmanager
async def serve(
    settings: Settings, upstream: OpenAiServer | None = None, *, working: bool = False
) -> AsyncIterator[Served]:
    async with open_house(settings, working=working) as house:
        server = QuietServer(uvicorn.Config(house.app, port=0, log_config=None, lifespan="off"))
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(house, f"127.0.0.1:{port}", upstream)
        server.should_exit = True
        await task


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> AsyncIterator[Served]:
    settings = working_settings(tmp_path_factory.mktemp("local") / "home", migrated_databases)
    async with serve(settings, working=True) as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> AsyncIterator[Served]:
    async with running_openai_server() as upstream:
        settings = working_settings(
            tmp_path_factory.mktemp("remote") / "home",
            migrated_databases,
            openai_api_key=KEY,
            openai_base_url=f"{upstream.url}/v1",
        )
        async with serve(settings, upstream) as served:
            yield served


@pytest_asyncio.fixture(loop_scope="module")
async def owner(local: Served) -> Key:
    """The admin of a tenant that no other test uses."""
    return await local.house.key(tenant=f"tenant {next(_numbers)}")


@pytest_asyncio.fixture(loop_scope="module")
async def client(local: Served, owner: Key) -> AsyncIterator[AsyncOpenAI]:
    async with local.client(owner) as client:
        yield client
