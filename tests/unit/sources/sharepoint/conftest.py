"""A SharePoint with one site, and that site opened as the tests' app."""

from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path

import pytest
import pytest_asyncio
from tests.sharepoint_app import app_settings
from tests.sharepoint_server import SharePointServer, StoredSite, running_sharepoint

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.fetcher import Network
from scrubjay.sources.sharepoint import SharePointSite, client, open_site


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_WAIT_SECONDS", (0.01, 0.02))


@pytest_asyncio.fixture
async def server() -> AsyncIterator[SharePointServer]:
    async with running_sharepoint() as running:
        yield running


@pytest.fixture
def stored(server: SharePointServer) -> StoredSite:
    return server.add_site()


@pytest_asyncio.fixture
async def network(tmp_path: Path) -> AsyncIterator[Network]:
    opened = Network(EgressGuard([ip_network("127.0.0.0/8")]))
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def site(
    server: SharePointServer, stored: StoredSite, network: Network, tmp_path: Path
) -> AsyncIterator[SharePointSite]:
    async with open_site(app_settings(server, tmp_path), network, server.url + stored.path) as opened:
        yield opened
