"""A site on loopback, and a fetcher that may reach it."""

from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
from tests.site import Site, running_site

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.fetcher import Fetcher, Network


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        yield running


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    network = Network(EgressGuard([ip_network("127.0.0.0/8")]))
    async with network.fetcher() as opened:
        yield opened
    await network.close()
