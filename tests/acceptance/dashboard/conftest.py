"""Browsers of people with different keys, a house that works, and a site that changes."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio
import uvicorn
from playwright.async_api import Browser as Chromium
from playwright.async_api import async_playwright
from tests import servers
from tests.acceptance.dashboard.browsing import Browser, sign_in
from tests.acceptance.dashboard.tabs import Tab, tab_of
from tests.acceptance.house import House, open_house
from tests.site import Site, running_site

from scrubjay.model.tenant import Scope
from scrubjay.settings import Settings

SignIn = Callable[..., Awaitable[Browser]]
LOOPBACK = "127.0.0.0/8"
_numbers = count(1)


@asynccontextmanager
async def _signing_in(house: House) -> AsyncIterator[SignIn]:
    opened: list[Browser] = []

    async def open_browser(scope: Scope = Scope.ADMIN, tenant: str | None = None) -> Browser:
        browser = await sign_in(house, await house.key(scope, tenant=tenant))
        opened.append(browser)
        return browser

    yield open_browser
    for browser in opened:
        await browser.client.aclose()


@pytest.fixture
async def signed_in(house: House) -> AsyncIterator[SignIn]:
    """Signs somebody in who has a key with a scope, of the house's tenant or another."""
    async with _signing_in(house) as sign:
        yield sign


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workshop(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> AsyncIterator[House]:
    """A house that works: its jobs run, its index is its own. Shared, because it takes seconds to open."""
    home = tmp_path_factory.mktemp("workshop") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        shutil.copy(file, home)
    settings = Settings(home=home, allowed_private_networks=LOOPBACK, extract_processes=1)  # type: ignore[arg-type]
    async with open_house(settings, working=True) as house:
        yield house


@pytest_asyncio.fixture(loop_scope="module")
async def visiting(workshop: House) -> AsyncIterator[SignIn]:
    """As `signed_in`, for the house that works."""
    async with _signing_in(workshop) as sign:
        yield sign


@pytest.fixture
def tenant() -> str:
    """The name of a tenant that no other test uses."""
    return f"tenant {next(_numbers)}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running_site(pages=0) as site:
        yield site


class QuietServer(uvicorn.Server):
    """Signals are for whoever runs the tests."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(workshop: House) -> AsyncIterator[str]:
    """Where a real browser finds the house."""
    options = {"log_config": None, "lifespan": "off", "timeout_graceful_shutdown": 1}
    server = QuietServer(uvicorn.Config(workshop.app, port=0, **options))  # type: ignore[arg-type]
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await serving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Chromium]:
    """A real browser, opened once for all tests of a module."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=servers.chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def tab(chromium: Chromium, address: str) -> AsyncIterator[Tab]:
    async with tab_of(chromium, address) as tab:
        yield tab
