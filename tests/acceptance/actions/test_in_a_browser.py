"""The pages of `/v2` in a real browser: forms that work, a job that is watched, and other sites kept out."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import async_playwright
from tests import servers
from tests.acceptance.actions.asking import call, reached
from tests.acceptance.house import House, Key
from tests.site import running_site

from scrubjay.model.tenant import Principal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Any]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(servers.chromium()), args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(chromium: Any, library: House, address: str, owner: Key) -> AsyncIterator[Any]:
    """A page of a browser that is signed in; what our policy forbids it fails the test."""
    context = await chromium.new_context()
    page = await context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    who = Principal(owner.record.tenant_id, owner.record.id, frozenset(owner.record.scopes))
    token = await library.jay.access.create_sign_in_link(who)
    await page.goto(f"http://{address}/signin?token={token}")
    yield page
    await context.close()
    assert not [each for each in complaints if "Content Security Policy" in each]


async def test_a_domain_is_made_changed_and_deleted_with_forms(
    library: House, owner: Key, address: str, page: Any
) -> None:
    start = f"http://{address}/v2/domains?format=ui"
    await page.goto(start)
    await page.click("a:text-is('Create')")
    await page.fill("input[name=domain_id]", "../BIRDS")
    await page.fill("textarea[name=description]", "<i>jays</i> & owls")
    await page.click("button:text-is('Create')")
    assert "domain_id" in await page.inner_text(".field:has(input[name=domain_id]) .field-error")
    await page.fill("input[name=domain_id]", "BIRDS")  # what else was filled in is still there
    await page.click("button:text-is('Create')")
    await page.wait_for_url("**/ui/domains/BIRDS**")
    assert "BIRDS" in await page.inner_text("h1")
    made = await call(library, "GET", "domains/get?domain_id=BIRDS", owner)
    assert made["description"] == "<i>jays</i> & owls"

    await page.goto(start)
    await page.click("td a:text-is('Edit')")
    await page.fill("input[name=name]", "Birds of the garden")
    await page.click("button:text-is('Save')")
    assert "Birds of the garden" in await page.inner_text("main")
    assert (await call(library, "GET", "domains/get?domain_id=BIRDS", owner)) == {**made, "name": "Birds of the garden"}

    await page.goto(start)
    await page.focus("td summary:text-is('Delete')")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**_done=deleted")
    assert await call(library, "GET", "domains?format=json", owner) == []


async def test_a_typed_address_acts_and_a_link_from_another_site_does_not(
    library: House, owner: Key, address: str, page: Any
) -> None:
    await call(library, "POST", "domains/create", owner, json={"domain_id": "BIRDS"})
    doomed = f"http://{address}/v2/domains/delete?domain_id=BIRDS"
    async with running_site() as site:
        site.pages.clear()
        site.add("/trap", f'<html><body><a href="{doomed}">A prize</a></body></html>')
        # Another site: the name is another one, though it is the same machine.
        await page.goto(f"{site.url}/trap".replace("127.0.0.1", "localhost"))
        await page.click("a")
        assert "This changes something" in await page.inner_text("body")
    assert len(await call(library, "GET", "domains?format=json", owner)) == 1
    await page.goto(doomed)
    assert await call(library, "GET", "domains?format=json", owner) == []


async def test_a_strangers_link_on_our_own_page_does_nothing(
    library: House, owner: Key, address: str, page: Any
) -> None:
    """Pages show addresses that came from feeds and crawled sites. The browser calls such a click our own."""
    await call(library, "POST", "domains/create", owner, json={"domain_id": "BIRDS"})
    await page.goto(f"http://{address}/v2/domains?format=ui")
    doomed = f"http://{address}/v2/domains/delete?domain_id=BIRDS"
    await page.evaluate(
        "address => document.querySelector('main').append("
        "Object.assign(document.createElement('a'), {href: address, textContent: 'More about jays'}))",
        doomed,
    )
    await page.click("a:text-is('More about jays')")
    assert "This changes something" in await page.inner_text("body")
    assert len(await call(library, "GET", "domains?format=json", owner)) == 1


async def test_a_button_starts_a_crawl(library: House, owner: Key, address: str, page: Any) -> None:
    await call(library, "POST", "domains/create", owner, json={"domain_id": "EMPTY"})
    await page.goto(f"http://{address}/v2/crawler?format=ui")
    await page.click("button:text-is('Crawl changes')")
    await page.wait_for_url("**/v2/jobs/monitor**")
    await page.wait_for_selector("#run .badge:text-is('completed')")  # without a reload
    assert await page.inner_text("#run caption") == "What came of it"
    await page.click("a:text-is('Its stream')")
    assert "event: start_json" in await page.inner_text("body")
    (job,) = await call(library, "GET", "jobs?format=json", owner)
    assert job["endpoint"] == "/v2/crawler/crawl?domain_id=EMPTY&mode=incremental&format=html"
    await reached(library, owner, job["job_id"], "completed")
