"""Pages outlive their server: whoever looks at one while it restarts sees it go on afterwards, without a reload."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from playwright.async_api import Browser, expect
from tests.acceptance.dashboard.conftest import QuietServer
from tests.acceptance.dashboard.tabs import tab_of
from tests.acceptance.house import House
from tests.workshop import wait_until

from scrubjay.domains.orders import DomainCrawlOrder
from scrubjay.model.tenant import Scope

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

PATIENCE = 90_000  # milliseconds: a browser waits longer after each attempt that failed


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@asynccontextmanager
async def serving(house: House, port: int) -> AsyncIterator[None]:
    """The house at a port; leaving cuts every connection off, as a restart does."""
    options = {"log_config": None, "lifespan": "off", "timeout_graceful_shutdown": 0}
    server = QuietServer(uvicorn.Config(house.app, port=port, **options))  # type: ignore[arg-type]
    running = asyncio.create_task(server.serve())

    async def is_started() -> bool:
        return server.started or running.done()

    await wait_until(is_started, "the server listens")
    assert not running.done()
    yield
    server.should_exit = True
    await running


async def test_pages_go_on_by_themselves_after_the_server_was_away(
    chromium: Browser, workshop: House, tenant: str
) -> None:
    who = await workshop.jay.access.create_tenant(workshop.admin, tenant)
    await workshop.jay.domains.create(who, {"domain_id": "BIRDS"})
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    async with tab_of(chromium, address) as tab:
        async with serving(workshop, port):
            await tab.sign_in(await workshop.key(Scope.WRITE, tenant=tenant))
            domain = await tab.page.context.new_page()
            await tab.page.goto(f"{address}/ui/jobs")
            await domain.goto(f"{address}/ui/domains/BIRDS")
            await expect(tab.page.get_by_text("No jobs here")).to_be_visible()
            await expect(domain.get_by_text("It was not crawled yet.")).to_be_visible()
            for page in (tab.page, domain):
                await page.evaluate("window.stayed = true")

        async def is_cut_off() -> bool:
            return any("ERR_" in complaint for complaint in tab.complaints)

        await workshop.jay.domain_crawls.start(
            who, "crawl", DomainCrawlOrder(domain_id="BIRDS"), endpoint="/v2/crawler/crawl?domain_id=BIRDS"
        )
        await wait_until(is_cut_off, "the page noticed that nobody answers", seconds=PATIENCE / 1000)
        async with serving(workshop, port):
            for page, place in ((tab.page, "#jobs .badge"), (domain, "#run .badge")):
                await expect(page.locator(place).first).to_have_text("completed", timeout=PATIENCE)
                assert await page.evaluate("window.stayed") is True
            tab.complaints.clear()
