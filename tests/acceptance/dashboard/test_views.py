"""Every view in a real Chromium: what one does there works, nothing complains, and nothing is asked elsewhere."""

import re
from collections.abc import Mapping

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from tests.acceptance.dashboard.tabs import Tab, tab_of, violations
from tests.acceptance.dashboard.test_pages import make_everything, make_the_rest
from tests.acceptance.house import PAGES, House, Key, app_of_nobody, places, some_ids
from tests.plans import Planner
from tests.site import Site

from scrubjay.model.tenant import Principal, Scope

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

TENANT = "all views"
MAX_PAGE_BYTES = 200_000
# Lines of the longest time in the column "Start"; the width of the table, of its card and of the page.
MEASURE_RUNS = """() => {
  const card = document.querySelector("#runs + .scroll")
  const lines = [...card.querySelectorAll("time")].map((time) => time.getClientRects().length)
  return [Math.max(...lines), card.scrollWidth, card.clientWidth, document.documentElement.scrollWidth]
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def who(workshop: House) -> Principal:
    return await workshop.jay.access.create_tenant(workshop.admin, TENANT)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ids(workshop: House, site: Site, who: Principal) -> Mapping[str, str]:
    """One of everything, and a run that failed."""
    _, made = await make_everything(workshop, site, who)
    found = some_ids() | made | await make_the_rest(workshop, who)
    planner = Planner(workshop.jay, who)
    await planner.run(await planner.plan("http://127.0.0.1:1/", name="Broken crawler"))
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def key(workshop: House, who: Principal) -> Key:
    return await workshop.key(Scope.ADMIN, tenant=TENANT)


def pages(ids: Mapping[str, str]) -> list[str]:
    """The address of every page that the router knows."""
    found = []
    for place in places(app_of_nobody()):
        is_page = place.method == "GET" and place.pattern.startswith(PAGES)
        if is_page and not place.pattern.endswith("/live") and "/static/" not in place.pattern:
            found.append(place.path(ids))
    return ["/", *found]


async def test_no_page_complains_weighs_much_or_is_wider_than_the_screen(
    chromium: Browser, address: str, ids: Mapping[str, str], key: Key
) -> None:
    async with tab_of(chromium, address, viewport={"width": 390, "height": 800}) as tab:
        await tab.sign_in(key)
        for path in pages(ids):
            await tab.page.goto(address + path)
            extra, weight = await tab.page.evaluate(
                "[document.documentElement.scrollWidth - document.documentElement.clientWidth,"
                " performance.getEntries().reduce((sum, entry) => sum + (entry.decodedBodySize || 0), 0)]"
            )
            assert extra <= 0, path
            assert 0 < weight < MAX_PAGE_BYTES, (path, weight)
            assert tab.complaints == [], path


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious_on_any_page(
    chromium: Browser, address: str, ids: Mapping[str, str], key: Key, scheme: str
) -> None:
    async with tab_of(chromium, address, color_scheme=scheme) as tab:
        await tab.sign_in(key)
        known = [path for path in pages(ids) if path != "/ui/signin"]
        known.append(f"/ui/plans/{ids['plan_id']}/operations/{ids['operation_id']}?section=Changed")
        known.append("/ui/search?q=acorns&explain=true")
        views = ("source", "chunks", "versions", "log", "details")
        known += [f"/ui/documents/{ids['document_id']}?view={view}" for view in views]
        assert await violations(tab, address, known) == []


async def test_the_crawlers_menu_opens_closes_and_leads_on_by_keyboard(
    tab: Tab, ids: Mapping[str, str], key: Key
) -> None:
    page = tab.page
    await tab.sign_in(key)
    await page.goto(f"{tab.origin}/ui/plans")
    row = page.get_by_role("row", name=re.compile("Garden"))
    await row.get_by_label(re.compile("^More for Garden")).focus()
    await page.keyboard.press("Enter")
    await expect(row.get_by_role("link", name="View JSON")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(row.get_by_role("link", name="View JSON")).to_be_hidden()
    await page.keyboard.press("Enter")
    await row.get_by_role("link", name="View JSON").click()
    await expect(page.locator("#json pre")).to_contain_text(f'"Id": "{ids["plan_id"]}"')


async def test_a_crawler_is_verified_and_its_contents_are_listed(
    tab: Tab, site: Site, ids: Mapping[str, str], key: Key
) -> None:
    page = tab.page
    await tab.sign_in(key)
    await page.goto(f"{tab.origin}/ui/plans/{ids['plan_id']}")
    await page.get_by_role("button", name="Verify connectivity").click()
    await expect(page.locator(".notice.good")).to_be_visible()
    await page.get_by_role("button", name="Enumerate").click()
    await expect(page.get_by_role("region", name="What a run would see")).to_contain_text("/stays")


async def test_the_form_of_a_crawler_shows_what_its_choices_need(tab: Tab, ids: Mapping[str, str], key: Key) -> None:
    page = tab.page
    await tab.sign_in(key)
    await page.goto(f"{tab.origin}/ui/plans/new")
    await page.get_by_text("Repository settings", exact=True).click()
    await expect(page.get_by_label("Password")).to_be_hidden()
    await page.get_by_label("Authentication type").select_option("Basic")
    await expect(page.get_by_label("Password")).to_be_visible()
    await expect(page.get_by_label("Bearer token")).to_be_hidden()
    await page.get_by_label("Proxy").select_option(label="Garden proxy")
    await page.get_by_label("Max depth").fill("1000")
    await page.get_by_text("Repository settings", exact=True).click()
    await page.get_by_label("Name", exact=False).first.fill("Never made")
    await page.get_by_label("Start URL").fill("http://127.0.0.1/")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_label("Max depth")).to_be_visible()  # the section with the wrong field opens itself
    await expect(page).to_have_url(f"{tab.origin}/ui/plans/new")


async def test_a_run_is_read_section_by_section(tab: Tab, ids: Mapping[str, str], key: Key) -> None:
    page = tab.page
    await tab.sign_in(key)
    await page.goto(f"{tab.origin}/ui/plans/{ids['plan_id']}/operations/{ids['operation_id']}")
    sections = page.get_by_role("navigation", name="Sections")
    await sections.get_by_role("link", name=re.compile("^Changed")).click()
    await expect(page.locator("tbody tr")).to_have_count(1)
    await sections.get_by_role("link", name=re.compile("^All")).click()
    await page.get_by_label("Address or key contains").fill("stays")
    await page.keyboard.press("Enter")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.get_by_role("link", name=re.compile("stays")).click()
    await expect(page.get_by_role("heading", name="stays").first).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
async def test_the_table_of_runs_breaks_no_time_and_stays_inside_its_card(
    chromium: Browser, address: str, workshop: House, ids: Mapping[str, str], who: Principal, key: Key, width: int
) -> None:
    found = await workshop.jay.failures.runs(who, limit=1)
    async with tab_of(chromium, address, viewport={"width": width, "height": 800}) as tab:
        await tab.sign_in(key)
        for plan_id in (ids["plan_id"], found.items[0].plan_id):
            await tab.page.goto(f"{address}/ui/plans/{plan_id}")
            lines, table, card, page = await tab.page.evaluate(MEASURE_RUNS)
            assert lines == 1
            assert page <= width
            assert width == 390 or table <= card, "at 1280 px all columns are seen without scrolling"


async def test_charts_are_drawn_of_runs_and_of_the_history(tab: Tab, ids: Mapping[str, str], key: Key) -> None:
    await tab.sign_in(key)
    await tab.page.goto(f"{tab.origin}/ui/jobs/history")
    await expect(tab.page.locator(".chart canvas")).to_have_count(2)
    await expect(tab.page.get_by_role("row", name=re.compile("127.0.0.1"))).to_contain_text("%")


async def test_an_alert_is_seen_from_elsewhere_and_says_why(
    chromium: Browser, address: str, ids: Mapping[str, str], key: Key
) -> None:
    async with tab_of(chromium, address) as tab:
        await tab.sign_in(key)
        await tab.page.goto(f"{address}/ui/search")
        await tab.page.get_by_role("link", name=re.compile(r"^Alerts \d")).click()
        await expect(tab.page.get_by_text("Nothing was read.").first).to_be_visible()
        await tab.page.get_by_role("link", name="Search", exact=True).click()
        await expect(tab.page.get_by_role("link", name="Alerts", exact=True)).to_be_visible()


async def test_a_document_leads_to_the_crawler_and_run_that_brought_it(
    tab: Tab, ids: Mapping[str, str], key: Key
) -> None:
    page = tab.page
    await tab.sign_in(key)
    await page.goto(f"{tab.origin}/ui/documents?plan={ids['plan_id']}")
    row = page.get_by_role("row", name=re.compile("changes"))
    await expect(row.get_by_text("Crawled")).to_be_visible()
    await row.get_by_label(re.compile("^More for")).click()
    await row.get_by_role("link", name="View crawl operation").click()
    await expect(page.get_by_role("heading", name=re.compile("^Run of"))).to_be_visible()


@pytest.mark.parametrize(
    ("noun", "link", "fields"),
    [
        ("rules", "New rule", {"Name": "Night rule"}),
        ("configs", "New config", {"Name": "Night config", "Headers": "X-Token: hunter2"}),
        ("proxies", "New proxy", {"Name": "Night proxy", "Server 1": "http://127.0.0.1:2"}),
        ("hosts", "Set up a host", {"Host": "night.example"}),
    ],
)
async def test_something_is_set_up_changed_and_removed_by_hand(
    tab: Tab, ids: Mapping[str, str], key: Key, noun: str, link: str, fields: Mapping[str, str]
) -> None:
    page = tab.page
    await tab.sign_in(key)
    await page.goto(f"{tab.origin}/ui/settings/{noun}")
    await page.get_by_role("link", name=link).click()
    for label, value in fields.items():
        await page.get_by_label(re.compile(f"^{label}")).first.fill(value)
    await page.get_by_role("button", name="Create").click()
    row = page.get_by_role("row", name=re.compile("[Nn]ight"))
    await expect(row).to_be_visible()
    await row.get_by_role("link", name=re.compile("^Edit")).click()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Saved.", exact=True)).to_be_visible()
    assert "hunter2" not in await page.content()
    page.once("dialog", lambda dialog: dialog.accept())
    await row.get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("Deleted.", exact=True)).to_be_visible()
    await expect(row).to_have_count(0)


async def test_pages_can_be_read_and_forms_sent_without_scripts(
    chromium: Browser, address: str, ids: Mapping[str, str], key: Key
) -> None:
    async with tab_of(chromium, address, java_script_enabled=False) as tab:
        await tab.sign_in(key)
        page = tab.page
        await page.goto(f"{address}/ui/settings/hosts/new")
        await page.get_by_label(re.compile("^Host")).fill("plain.example")
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("row", name=re.compile("plain.example"))).to_be_visible()
        await page.goto(f"{address}/ui/plans")
        await page.get_by_label(re.compile("^More for Garden")).click()
        await page.get_by_role("button", name="Verify connectivity").first.click()
        await expect(page.locator(".notice.good")).to_be_visible()
