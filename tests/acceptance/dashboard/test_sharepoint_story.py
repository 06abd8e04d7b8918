"""A SharePoint domain in a real Chromium: made with the form, crawled before one's eyes, asked, changed, deleted."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.acceptance.dashboard.tabs import tab_of, violations
from tests.acceptance.house import House, open_house
from tests.sharepoint_app import app_settings
from tests.sharepoint_server import SharePointServer, running_sharepoint

from scrubjay.model.tenant import Scope

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

LOOPBACK = "127.0.0.0/8"
PATIENCE = 60_000  # milliseconds that a crawl may take on a busy machine
NASTY = '<img src=x onerror="document.title=`owned`">'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sharepoint() -> AsyncIterator[SharePointServer]:
    async with running_sharepoint() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workshop(
    tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path], sharepoint: SharePointServer
) -> AsyncIterator[House]:
    """A house that works, whose operator has an app that may read the SharePoint."""
    home = tmp_path_factory.mktemp("workshop") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        shutil.copy(file, home)
    settings = app_settings(sharepoint, home, allowed_private_networks=LOOPBACK, extract_processes=1)
    async with open_house(settings, working=True) as house:
        yield house


def words(about: str) -> bytes:
    return f"What there is to say about {about}, in a sentence that is long enough to be kept.\n".encode() * 4


async def watch_crawl(page: Page, button: str) -> None:
    """Start a crawl and see it run to its end on the same page, without a reload."""
    await page.get_by_role("button", name=button).click()
    await page.wait_for_load_state()
    await page.evaluate("window.stayed = true")
    await expect(page.locator("#run .log")).to_contain_text("Step 'embed'", timeout=PATIENCE)
    await expect(page.locator("#run .badge").first).to_have_text("completed", timeout=PATIENCE)
    assert await page.evaluate("window.stayed") is True


async def test_the_story_of_a_sharepoint_domain(
    chromium: Browser, address: str, workshop: House, sharepoint: SharePointServer
) -> None:
    site = sharepoint.add_site("/sites/birds")
    for name in ("acorns.txt", "caches.txt", "nests.txt"):
        site.documents.put(name, words(name))
    async with tab_of(chromium, address) as tab:
        page = tab.page
        await tab.sign_in(await workshop.key(Scope.ADMIN))
        await page.get_by_role("link", name="Domains").click()
        await page.get_by_role("link", name="Create the first").click()
        await page.get_by_label("Domain id").fill("BIRDS")
        await page.get_by_label("Name", exact=True).fill(f"Birds {NASTY}")
        await page.get_by_text("SharePoint document libraries").click()
        source = page.locator("details", has_text="SharePoint document libraries")
        await source.get_by_label("Source id").fill("docs")
        await source.get_by_label("Site address").fill("birds")
        await source.get_by_label("Library or folder").fill("/Shared Documents")
        await page.get_by_role("button", name="Create").click()
        said = page.locator(".field-error")
        await expect(said).to_contain_text("file_sources.0.site_url: must be an address")
        assert await page.locator("[aria-invalid=true]").get_attribute("name") == "file_sources.0.site_url"
        assert ["400 (Bad Request)" in each for each in tab.complaints] == [True]  # the browser's own word for it
        tab.complaints.clear()
        await source.get_by_label("Site address").first.fill(f"{sharepoint.url}/sites/birds")
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"Birds {NASTY}")
        await expect(page.get_by_text("It was not crawled yet.")).to_be_visible()

        await watch_crawl(page, "Crawl all")
        files = page.locator("#files tbody tr")
        await expect(files).to_have_count(3)
        await expect(files.filter(has_text="acorns.txt").locator(".badge")).to_have_text("completed")

        await page.get_by_label("Ask this domain").fill("what about caches?")
        await page.keyboard.press("Enter")
        await expect(page.locator("#answer")).to_contain_text("What there is to say about caches.txt")
        await page.go_back()

        site.documents.put("caches.txt", words("caches that were moved"))
        site.documents.put("owls.txt", words("owls"))
        site.documents.remove("nests.txt")
        await watch_crawl(page, "Crawl changes")
        step = page.locator("#run .outcome tr", has_text="Download")
        for change in ("1 added", "1 changed", "1 removed", "1 unchanged"):
            await expect(step.get_by_text(change, exact=True)).to_be_visible()
        await expect(files.filter(has_text="owls.txt")).to_have_count(1)
        await expect(files.filter(has_text="nests.txt")).to_have_count(0)
        await page.get_by_label("Ask this domain").fill("caches that were moved")
        await page.keyboard.press("Enter")
        await expect(page.locator("#answer")).to_contain_text("caches that were moved")
        asked = page.url.removeprefix(address)

        paths = ["/ui/domains/BIRDS", "/v2/domains?format=ui", "/v2/domains?format=ui&_edit=BIRDS", asked]
        paths += [f"/v2/{each}?format=ui" for each in ("crawler", "inventory", "inventory/vector_stores", "jobs")]
        paths += ["/v2/jobs/monitor?job_id=jb_1&format=html", "/v2/domains/get?domain_id=BIRDS&format=html"]
        assert await violations(tab, address, paths) == []
        await page.emulate_media(color_scheme="dark")
        assert await violations(tab, address, paths[:4]) == []
        assert await page.title() != "owned"

        await page.goto(f"{address}/ui/domains/BIRDS")
        await page.locator("summary", has_text="Delete").click()
        await page.get_by_role("button", name="Yes, delete").click()
        await expect(page.get_by_text("Deleted.", exact=True)).to_be_visible()
        await expect(page.get_by_text("Nothing here yet")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1280])
async def test_no_page_of_domains_is_wider_than_the_screen(
    chromium: Browser, address: str, workshop: House, width: int
) -> None:
    name = "x" * 300
    await workshop.jay.domains.create(
        workshop.admin,
        {
            "domain_id": f"WIDE{width}",
            "name": name,
            "description": name,
            "web_sources": [{"source_id": "w" * 60, "start_url": f"https://example.org/{name}"}],
        },
    )
    async with tab_of(chromium, address, viewport={"width": width, "height": 800}) as tab:
        await tab.sign_in(await workshop.key(Scope.ADMIN))
        paths = [f"/ui/domains/WIDE{width}", f"/v2/domains?format=ui&_edit=WIDE{width}", "/v2/domains?format=ui&_new=1"]
        paths += [f"/v2/domains/get?domain_id=WIDE{width}&format=html"]
        paths += [f"/v2/{each}?format=ui" for each in ("domains", "crawler", "inventory/vector_stores", "jobs")]
        for path in paths:
            await tab.page.goto(address + path)
            wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await tab.page.evaluate(wider) <= 0, path
