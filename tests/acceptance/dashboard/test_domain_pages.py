"""Domains and the inventory as pages: who sees and may do what, forms that say what is wrong where, and live parts."""

import html
import json
import re
from typing import Any

import httpx
import pytest
from tests.acceptance.dashboard.browsing import ACCEPT, Browser
from tests.acceptance.dashboard.conftest import SignIn
from tests.acceptance.house import House

from scrubjay.domains.definition import FileSource
from scrubjay.domains.orders import CrawlScope
from scrubjay.domains.source_plans import SourceName, draft_plan
from scrubjay.model.clock import utc_now
from scrubjay.model.plan import Operation, OperationState
from scrubjay.model.tenant import Principal, Scope
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans

LIST = "/v2/domains?format=ui"
NASTY = "<script>alert(1)</script>"
WEB = {"source_id": "docs", "start_url": "https://example.org/", "max_pages": 7, "extent": "host"}


async def owner_of(house: House, tenant: str) -> Principal:
    return await house.jay.access.create_tenant(house.admin, tenant)


async def make(house: House, tenant: str, domain_id: str = "BIRDS", **values: Any) -> dict[str, Any]:
    return await house.jay.domains.create(await owner_of(house, tenant), {"domain_id": domain_id, **values})


async def follow(address: str, browser: Browser, path: str, until: str) -> str:
    """What a page's stream says, up to some words; over a real connection, because it need not end."""
    said, cookies = "", dict(browser.client.cookies)
    async with (
        httpx.AsyncClient(base_url=address, cookies=cookies, trust_env=False, timeout=60) as client,
        client.stream("GET", path) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        async for text in stream.aiter_text():
            said += text
            if until in said:
                break
    return said


async def test_domains_are_in_the_navigation_and_look_like_the_rest(
    house: House, signed_in: SignIn, tenant: str
) -> None:
    browser = await signed_in(Scope.READ, tenant=tenant)
    assert 'href="/v2/domains?format=ui"' in await browser.page("/")
    page = await browser.page(LIST)
    assert '<a href="/v2/domains?format=ui" aria-current="page">Domains</a>' in page
    assert "/ui/static/style.css" in page
    policy = (await browser.get(LIST)).headers["content-security-policy"]
    assert "script-src 'self';" in policy
    for name in ("crawler", "inventory", "inventory/files", "inventory/vector_stores", "inventory/assistants", "jobs"):
        assert f'href="/v2/{name}?format=ui"' in page
        assert "Nothing here yet" in await browser.page(f"/v2/{name}?format=ui") or name == "inventory"


@pytest.mark.parametrize("scope", [Scope.READ, Scope.WRITE, Scope.ADMIN])
async def test_what_a_key_may_not_do_is_not_shown_and_refused(
    house: House, signed_in: SignIn, tenant: str, scope: Scope
) -> None:
    domain = await make(house, tenant)
    browser = await signed_in(scope, tenant=tenant)
    may_write, may_delete = scope is not Scope.READ, scope is Scope.ADMIN
    for path in (LIST, "/ui/domains/BIRDS"):
        page = await browser.page(path)
        assert ("Crawl changes" in page) == may_write
        assert (">Edit</a>" in page) == may_write
        assert ("Yes, delete" in page) == may_delete
    assert (">Create</a>" in await browser.page(LIST)) == may_write
    stores = await browser.page("/v2/inventory/vector_stores?format=ui")
    assert ("Yes, delete" in stores) == may_delete
    for form in ("_new=1", "_edit=BIRDS"):
        assert (await browser.get(f"{LIST}&{form}")).status_code == (200 if may_write else 403)
    sent = await browser.post("/v2/domains/create?format=html", {"domain_id": "OWLS"})
    assert sent.status_code == (303 if may_write else 403)
    sent = await browser.post("/v2/domains/delete?domain_id=BIRDS&format=html", {"_method": "DELETE"})
    assert sent.status_code == (303 if may_delete else 403)
    left = {each["domain_id"] for each in await house.jay.domains.all(await owner_of(house, tenant))}
    assert left == ({"BIRDS"} - ({"BIRDS"} if may_delete else set())) | ({"OWLS"} if may_write else set())
    assert domain["vector_store_id"] in stores


async def test_a_form_without_its_token_changes_nothing(house: House, signed_in: SignIn, tenant: str) -> None:
    await make(house, tenant)
    browser, other = await signed_in(Scope.ADMIN, tenant=tenant), await signed_in(Scope.ADMIN, tenant=tenant)
    for token in ("", "x", "ü", other.token):
        answer = await browser.post("/v2/domains/delete?domain_id=BIRDS", {"_method": "DELETE"}, token=token)
        assert answer.status_code == 403, token
    assert len(await house.jay.domains.all(await owner_of(house, tenant))) == 1


async def test_strangers_see_nothing(house: House, signed_in: SignIn, tenant: str) -> None:
    await make(house, tenant)
    stranger = await signed_in(Scope.ADMIN, tenant=f"not {tenant}")
    assert "BIRDS" not in await stranger.page(LIST)
    for path in ("/ui/domains/BIRDS", "/ui/domains/BIRDS/live", "/ui/runs/jb_1/live", "/ui/domains/..%2F..%2Fetc"):
        assert (await stranger.get(path)).status_code == 404, path
    assert (await stranger.get(f"{LIST}&_edit=BIRDS")).status_code == 404


async def test_who_is_not_signed_in_is_asked_to_and_comes_back(house: House) -> None:
    async with house.client() as client:
        for path in ("/ui/domains/BIRDS", LIST):
            answer = await client.get(path, headers=ACCEPT)
            assert answer.status_code == 401
            assert f'name="next" value="{path}"' in answer.text
        assert (await client.get(LIST)).json() == {"ok": False, "error": "A valid API key is required.", "data": {}}


# What somebody filled in, the input that is wrong, and some of the words that say so.
WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"domain_id": "../x"}, "domain_id", "domain_id"),
    ({"domain_id": "BIRDS"}, "", "already exists"),
    ({"vector_store_id": "vs_nobody"}, "", "not found"),
    ({"file_sources.0.source_id": "a", "file_sources.0.site_url": "x"}, "file_sources.0.site_url", "an address"),
    ({"web_sources.5.start_url": "https://x.org/"}, "web_sources.0.source_id", "required"),
    ({"web_sources.0.source_id": "a", "web_sources.0.more": "{"}, "web_sources.0.more", "JSON object"),
    (
        {
            "web_sources.0.source_id": "a",
            "web_sources.0.start_url": "https://x.org/",
            "web_sources.0.max_pages": "-1",
        },
        "",
        "max_pages",
    ),
]


async def test_what_is_wrong_is_said_beside_its_input_and_nothing_is_lost(
    house: House, signed_in: SignIn, tenant: str
) -> None:
    await make(house, tenant)
    browser = await signed_in(Scope.WRITE, tenant=tenant)
    for filled, field, said in WRONG:
        values = {"domain_id": "OWLS", "name": NASTY, "web_sources.rows": "1", **filled}
        answer = await browser.post("/v2/domains/create?format=html", values)
        assert answer.status_code in (400, 404), (filled, answer.text)
        page = answer.text
        assert NASTY not in page
        assert html.escape(NASTY) in page
        assert said in html.unescape(page)
        invalid = re.findall(r'<(?:input|textarea) name="([^"]+)"[^>]* aria-invalid="true"', page)
        assert invalid == ([field] if field else []), filled
    assert len(await house.jay.domains.all(await owner_of(house, tenant))) == 1


async def test_sources_are_changed_one_by_one_and_keep_what_the_form_does_not_know(
    house: House, signed_in: SignIn, tenant: str
) -> None:
    second = {"source_id": "blog", "start_url": "https://example.org/blog/"}
    await make(house, tenant, web_sources=[WEB, second])
    browser = await signed_in(Scope.WRITE, tenant=tenant)
    page = html.unescape(await browser.page(f"{LIST}&_edit=BIRDS"))
    more = re.search(r'name="web_sources.0.more"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert more is not None
    assert json.loads(more[1]) == {"extent": "host"}
    form = {
        "_method": "PUT",
        "domain_id": "BIRDS",
        "name": "Birds",
        "web_sources.rows": "3",
        "web_sources.0.source_id": "docs",
        "web_sources.0.start_url": "https://example.org/new/",
        "web_sources.0.max_pages": "9",
        "web_sources.0.more": more[1],
        "web_sources.1.source_id": "blog",
        "web_sources.1.start_url": "https://example.org/blog/",
        "web_sources.1.remove": "true",
        "web_sources.2.source_id": "",
    }
    sent = await browser.post("/v2/domains/update?domain_id=BIRDS&format=html", form)
    assert sent.status_code == 303, sent.text
    assert sent.headers["location"] == "/ui/domains/BIRDS?_done=saved"
    known = await house.jay.domains.get(await owner_of(house, tenant), "BIRDS")
    assert known["web_sources"] == [{**WEB, "start_url": "https://example.org/new/", "max_pages": 9}]
    assert "Saved." in await browser.page(sent.headers["location"])


async def test_long_lists_come_a_page_at_a_time(house: House, signed_in: SignIn, tenant: str) -> None:
    who = await owner_of(house, tenant)
    for number in range(55):
        await house.jay.inventory.create_vector_store(who, {"name": f"Store {number:02}"})
    store_id = (await make(house, tenant, "DOMAIN-00"))["vector_store_id"]
    for number in range(1, 52):
        await make(house, tenant, f"DOMAIN-{number:02}", vector_store_id=store_id)
    browser = await signed_in(Scope.READ, tenant=tenant)
    stores = "/v2/inventory/vector_stores?format=ui"
    for path, first, last in ((LIST, "DOMAIN-00", "DOMAIN-51"), (stores, "DOMAIN-00", "Store 00")):
        page = await browser.page(path)
        assert first in page
        assert last not in page
        older = re.search(r'rel="next" href="([^"]+)"', page)
        assert older is not None
        page = await browser.page(html.unescape(older[1]))
        assert last in page
        newer = re.search(r'rel="prev" href="([^"]+)"', page)
        assert newer is not None
        assert last not in await browser.page(html.unescape(newer[1]))


async def test_names_from_outside_are_escaped(house: House, signed_in: SignIn, tenant: str) -> None:
    await make(house, tenant, name=NASTY, description=NASTY, web_sources=[{**WEB, "note": NASTY}])
    browser = await signed_in(Scope.ADMIN, tenant=tenant)
    paths = [LIST, f"{LIST}&_edit=BIRDS", "/ui/domains/BIRDS", "/v2/domains/get?domain_id=BIRDS&format=html"]
    for path in (*paths, "/v2/crawler?format=ui", "/v2/inventory/vector_stores?format=ui", "/describe2"):
        page = await browser.page(path)
        assert NASTY not in page, path
        assert "alert(1)" in page, path


@pytest.mark.asyncio(loop_scope="module")
async def test_a_job_is_followed_to_its_end_and_shown_without_scripts(
    workshop: House, visiting: SignIn, address: str, tenant: str
) -> None:
    await make(workshop, tenant)
    browser = await visiting(Scope.WRITE, tenant=tenant)
    press = "/v2/crawler/crawl?domain_id=BIRDS&format=html"
    sent = await browser.post(press, {"_method": "GET", "mode": "full", "scope": "all"})
    assert sent.status_code == 303, sent.text
    monitor = sent.headers["location"]
    number = monitor.partition("job_id=")[2].partition("&")[0]
    said = await follow(address, browser, f"/ui/runs/{number}/live", "event: end")
    assert "event: run" in said
    assert "completed" in said
    assert "What came of it" in await browser.page(monitor)
    page = await browser.page("/ui/domains/BIRDS")
    assert number in page
    assert "Step &#39;embed&#39; of domain &#39;BIRDS&#39;" in page
    live = await follow(address, browser, "/ui/domains/BIRDS/live", "event: files")
    assert number in live
    again = await browser.post(press, {"_method": "GET", "_then": "/ui/domains/BIRDS"})
    assert again.headers["location"] == "/ui/domains/BIRDS"
    away = await browser.post(press, {"_method": "GET", "_then": "//evil.example/"})
    assert away.status_code in (303, 400)
    assert "evil" not in away.headers.get("location", "")


async def test_a_failed_run_of_a_source_has_a_page_and_its_plan_leads_to_the_domains(
    house: House, signed_in: SignIn, tenant: str
) -> None:
    owner = await owner_of(house, tenant)
    source = FileSource(source_id="docs", site_url="https://acme.sharepoint.com/sites/demo")
    name = SourceName(owner.tenant_id, "BIRDS", CrawlScope.FILES, "docs")
    plan = draft_plan(name, source, house.jay._ground.crawler.secrets)
    failed = Operation(tenant_id=owner.tenant_id, plan_id=plan.id, state=OperationState.FAILED, finished_at=utc_now())
    async with house.jay.database.writing() as connection:
        await Plans(connection).add(plan)
        await Operations(connection).add(failed)
    browser = await signed_in(Scope.WRITE, tenant=tenant)
    assert "Domain source BIRDS/01_files/docs" in await browser.page(f"/ui/plans/{plan.id}/operations/{failed.id}")
    answer = await browser.get(f"/ui/plans/{plan.id}")
    assert (answer.status_code, answer.headers["location"]) == (303, LIST)
    assert plan.name not in await browser.page("/ui/plans")


async def test_alerts_show_the_domain_of_a_source_that_failed(house: House, signed_in: SignIn, tenant: str) -> None:
    await make(house, tenant, name="All about birds")
    owner = await owner_of(house, tenant)
    source = FileSource(source_id="docs", site_url="https://acme.sharepoint.com/sites/demo")
    async with house.jay.database.writing() as connection:
        for domain_id in ("BIRDS", "DEAD"):
            name = SourceName(owner.tenant_id, domain_id, CrawlScope.FILES, "docs")
            plan = draft_plan(name, source, house.jay._ground.crawler.secrets)
            failed = Operation(
                tenant_id=owner.tenant_id, plan_id=plan.id, state=OperationState.FAILED, finished_at=utc_now()
            )
            await Plans(connection).add(plan)
            await Operations(connection).add(failed)
    browser = await signed_in(Scope.READ, tenant=tenant)

    page = await browser.page("/ui/alerts")

    assert '<a href="/ui/domains/BIRDS"><strong>All about birds</strong></a>' in page
    assert "<strong>DEAD</strong>" in page, "a domain that was deleted has a name, but no page"
    assert "/ui/domains/DEAD" not in page
    assert "Domain source" not in page
