"""The dashboard in a real Chromium: the whole story of a crawler, live updates, and what a page may never do."""

import re

import pytest
from playwright.async_api import Browser, expect
from tests.acceptance.dashboard.tabs import SECONDS, Tab, tab_of
from tests.acceptance.house import House
from tests.plans import Planner, article, set_pages
from tests.site import Reply, Site
from tests.workshop import wait_until

from scrubjay.model.plan import PlanState
from scrubjay.model.tenant import Scope

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


def make_slow_site(site: Site, pages: int) -> None:
    site.pages.clear()
    site.add("/", article("slow home", *(f"/page-{number}" for number in range(pages))))
    for number in range(pages):
        site.add(f"/page-{number}", article(f"page {number}", "/"))


async def test_the_story_of_a_crawler(tab: Tab, workshop: House, site: Site, tenant: str) -> None:
    page = tab.page
    set_pages(site, ["stays", "goes", "jays"], jays="The jay hides acorns in the north garden every autumn. " * 4)
    await tab.sign_in(await workshop.key(Scope.ADMIN, tenant=tenant))

    await page.get_by_role("link", name="Add a web site").click()
    await page.get_by_label("Name", exact=True).fill("Garden")
    await page.get_by_label("Start URL").fill(site.url + "/")
    await page.get_by_text("Schedule", exact=True).click()
    await page.get_by_label("Interval type").select_option("OneTime")
    await page.get_by_text("Processing", exact=True).click()
    await page.get_by_label("Remove what is gone").check()
    await page.get_by_role("button", name="Create").click()
    await page.get_by_role("link", name="Home", exact=True).click()
    row = page.get_by_role("row", name=re.compile("Garden"))
    await expect(row.get_by_text("+4")).to_be_visible(timeout=SECONDS)  # without a reload

    site.pages.pop("/goes")
    site.add("/", article("home", "/stays", "/jays"))
    changed = "The jay hides acorns in the south garden every autumn. " * 4
    site.add("/jays", Reply(article("jays", "/", text=changed), headers={"ETag": '"2"'}))
    await row.get_by_role("link", name="Garden").click()
    await page.get_by_role("button", name="Start").click()
    await expect(page.locator("#job .badge")).to_have_text("completed", timeout=SECONDS)
    await page.get_by_role("link", name="Home", exact=True).click()
    await expect(row.get_by_text("~1")).to_be_visible()
    await expect(row.get_by_text("−1")).to_be_visible()

    who = await workshop.jay.access.create_tenant(workshop.admin, tenant)
    await Planner(workshop.jay, who).index_agrees()
    await page.get_by_role("searchbox").fill("acorns")
    await page.keyboard.press("Enter")
    await expect(page.locator("mark").first).to_have_text("acorns")
    await page.get_by_role("link", name="jays", exact=True).click()
    await expect(page.locator(".chunk:target")).to_contain_text("south garden")
    await page.get_by_role("link", name="What changed").click()
    await expect(page.locator("del").first).to_have_text("north")
    await expect(page.locator("ins").first).to_have_text("south")

    await page.get_by_role("link", name="Crawlers").click()
    await page.get_by_role("link", name="Garden").click()
    await page.get_by_text("More", exact=True).click()
    page.once("dialog", lambda dialog: dialog.accept())
    await page.get_by_role("button", name="Delete the crawler").click()
    await expect(page.get_by_text("No crawlers yet")).to_be_visible()


async def test_a_slow_crawl_is_watched_paused_resumed_and_stopped(
    tab: Tab, workshop: House, site: Site, tenant: str
) -> None:
    page = tab.page
    make_slow_site(site, 60)
    who = await workshop.jay.access.create_tenant(workshop.admin, tenant)
    planner = Planner(workshop.jay, who)
    web = {"crawl_delay_ms": 300, "max_parallel_tasks": 1}
    plan = await planner.plan(site.url + "/", name="Slow", web=web)
    await tab.sign_in(await workshop.key(Scope.WRITE, tenant=tenant))
    await expect(page.get_by_text("Nothing is running.")).to_be_visible()
    operation = await planner.start(plan)
    await expect(page.locator("#running progress")).to_be_visible()  # it was told

    await page.goto(f"{tab.origin}/ui/jobs/{operation.job_id}")
    pages = page.locator("#job dd").first
    await expect(pages).to_have_text(re.compile(r"[3-9]|\d\d"))
    seen = int(await pages.inner_text())
    await expect(pages).not_to_have_text(str(seen))  # goes on by itself
    await page.get_by_role("button", name="Pause").click()
    badge = page.locator("#job .badge")
    await expect(badge).to_have_text("paused")
    await page.get_by_role("button", name="Resume").click()
    await expect(badge).to_have_text("running")
    page.once("dialog", lambda dialog: dialog.accept())
    await page.get_by_role("button", name="Stop").click()
    await expect(badge).to_have_text("cancelled")
    await expect(page.get_by_role("button", name="Retry")).to_be_visible()
    assert (await planner.finish(plan, operation)).state == "Canceled"
    assert (await workshop.jay.plans.get(who, plan.id)).state is PlanState.STOPPED


async def test_a_page_that_was_cut_off_comes_back_by_itself(
    chromium: Browser, address: str, workshop: House, tenant: str
) -> None:
    who = await workshop.jay.access.create_tenant(workshop.admin, tenant)
    async with tab_of(chromium, address) as tab:
        await tab.sign_in(await workshop.key(Scope.READ, tenant=tenant))
        await tab.page.route("**/ui/jobs/live", lambda route: route.abort())
        await tab.page.goto(f"{address}/ui/jobs")
        await expect(tab.page.get_by_text("No jobs here")).to_be_visible()
        await workshop.jay.jobs.submit(who, "diagnostic.steps", {"steps": 1})

        async def refused() -> bool:
            return any("net::ERR_FAILED" in complaint for complaint in tab.complaints)

        await wait_until(refused, "the stream was refused")
        await tab.page.unroute_all()
        await expect(tab.page.locator("#jobs .badge")).to_have_text("completed")  # without a reload
        tab.complaints.clear()


async def test_crawled_scripts_never_run_and_nothing_is_asked_elsewhere(
    tab: Tab, workshop: House, site: Site, tenant: str
) -> None:
    site.pages.clear()
    evil = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    site.add("/", article(evil.replace("<", "&lt;"), text=f"{evil.replace('<', '&lt;')} and plain words " * 5))
    who = await workshop.jay.access.create_tenant(workshop.admin, tenant)
    planner = Planner(workshop.jay, who)
    plan = await planner.plan(site.url + "/", name=evil[:200])
    await planner.run(plan)
    await tab.sign_in(await workshop.key(Scope.ADMIN, tenant=tenant))
    for path in ("/", "/ui/plans", f"/ui/plans/{plan.id}", "/ui/jobs", "/ui/documents", "/ui/search?q=plain"):
        await tab.page.goto(tab.origin + path)
        assert "owned'" in await tab.page.content() or path == "/ui/jobs", path
        assert await tab.page.title() != "owned", path
    await tab.page.get_by_role("link", name="Documents").click()
    await tab.page.locator("td.name a").first.click()
    await expect(tab.page.locator("article")).to_contain_text("plain words")
    assert await tab.page.title() != "owned"


async def test_files_are_dropped_and_a_citation_is_copied(
    chromium: Browser, address: str, workshop: House, tenant: str
) -> None:
    async with tab_of(chromium, address, permissions=["clipboard-read", "clipboard-write"]) as tab:
        page = tab.page
        await tab.sign_in(await workshop.key(Scope.WRITE, tenant=tenant))
        await page.goto(f"{address}/ui/documents/upload")
        drop = """(zone) => { const files = new DataTransfer();
            const text = "# Hazel\\n\\nHazelnuts ripen in September.";
            files.items.add(new File([text], "hazel.md", {type: "text/markdown"}));
            zone.dispatchEvent(new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true})); }"""
        await page.locator(".drop").evaluate(drop)
        await page.get_by_role("button", name="Upload").click()
        await expect(page.get_by_text("Taken in.", exact=True)).to_be_visible()
        who = await workshop.jay.access.create_tenant(workshop.admin, tenant)
        await Planner(workshop.jay, who).index_agrees()
        await page.goto(f"{address}/ui/search?q=hazelnuts")
        await page.get_by_role("button", name="Copy as citation").click()
        await expect(page.get_by_role("button", name="Copied")).to_be_visible()
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert "Hazelnuts ripen in September." in copied
        assert "hazel.md" in copied


@pytest.mark.parametrize("width", [390, 1280])
async def test_no_page_is_wider_than_the_screen(
    chromium: Browser, address: str, workshop: House, site: Site, tenant: str, width: int
) -> None:
    who = await workshop.jay.access.create_tenant(workshop.admin, tenant)
    planner = Planner(workshop.jay, who)
    set_pages(site, ["one"])
    plan = await planner.plan(site.url + "/", name="x" * 250)
    operation = await planner.run(plan)
    async with tab_of(chromium, address, viewport={"width": width, "height": 800}) as tab:
        await tab.sign_in(await workshop.key(Scope.ADMIN, tenant=tenant))
        paths = ["/", "/ui/plans", f"/ui/plans/{plan.id}", f"/ui/plans/{plan.id}/edit", "/ui/plans/new", "/ui/jobs"]
        paths += [f"/ui/jobs/{operation.job_id}", "/ui/documents", "/ui/documents/upload", "/ui/search?q=page"]
        paths += [f"/ui/plans/{plan.id}/operations/{operation.id}", "/ui/watches", "/ui/settings", "/ui/webhooks"]
        for path in paths:
            await tab.page.goto(address + path)
            extra = await tab.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert extra <= 0, path
