"""What is set up by name, by forms: rules, crawl configs, proxies and hosts; and what failed, on every page."""

import re

import pytest
from tests.acceptance.dashboard.browsing import Browser
from tests.acceptance.dashboard.conftest import SignIn
from tests.acceptance.house import House
from tests.plans import Planner, article, set_pages
from tests.site import Reply, Site

from scrubjay.model.plan import IngestionSettings
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.rules import RuleValues

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG = {
    "name": "Patient", "max_depth": "2", "rate_limit_rps": "0.5", "max_redirects": "3", "page_timeout_ms": "9000",
    "max_page_size_mb": "5", "headers": "Accept-Language: en\nAuthorization: Bearer hunter2",
    "extraction_strategy": "markdown", "chunking_strategy": "fixed", "chunk_size": "200", "chunk_overlap": "20",
    "min_chunk_size": "10",
}  # fmt: skip
HOST = {"rate_limit_rps": "2", "circuit_breaker_threshold": "3", "circuit_breaker_timeout_seconds": "60"}


async def owner_of(house: House, tenant: str) -> Principal:
    return await house.jay.access.create_tenant(house.admin, tenant)


def errors_of(page: str) -> dict[str, str]:
    """What a form says is wrong, by the field that it stands at."""
    found = {}
    for name, where in re.findall(r' name="([^"]+)"[^>]* aria-invalid="true" aria-describedby="([^"]+)"', page):
        said = re.search(rf'id="{where}">([^<]+)<', page)
        found[name] = said.group(1) if said else ""
    return found


async def refused(browser: Browser, path: str, values: dict[str, str]) -> dict[str, str]:
    answer = await browser.post(path, values)
    assert (answer.status_code, 'role="alert"' in answer.text) == (400, True), answer.text[:2000]
    return errors_of(answer.text)


async def test_a_rule_is_made_changed_and_kept_while_a_crawler_needs_it(
    workshop: House, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    admin, writer = await visiting(Scope.ADMIN, tenant), await visiting(Scope.WRITE, tenant)
    assert "No ingestion rules yet" in await writer.page("/ui/settings/rules")
    wrong = {"name": "", "strategy": "FixedTokenCount", "fixed_token_count": "3", "facts": "no value"}
    said = await refused(writer, "/ui/settings/rules", wrong)
    assert said.keys() == {"name", "fixed_token_count", "facts"}
    assert said["fixed_token_count"] == "At least 16."
    values = {"name": "By <i>sentence</i>", "strategy": "SentenceBased", "fixed_token_count": "128"}
    assert await refused(writer, "/ui/settings/rules", values | {"overlap_count": "128"}) == {
        "overlap_count": "This must be less than the tokens of a chunk."
    }
    pattern = values | {"strategy": "RegexBased", "regex_pattern": "("}
    assert (await refused(writer, "/ui/settings/rules", pattern)).keys() == {"regex_pattern"}
    assert (await refused(writer, "/ui/settings/rules", values | {"labels": "?!"})).keys() == {"labels"}
    values |= {"labels": "birds\nbirds", "facts": "station=jay house"}
    assert (await writer.post("/ui/settings/rules", values)).status_code == 303
    (rule,) = (await workshop.jay.rules.page(who)).items
    assert (rule.name, rule.labels, rule.tags) == ("By <i>sentence</i>", ("birds",), {"station": "jay house"})
    assert rule.chunking == {"Strategy": "SentenceBased", "FixedTokenCount": 128}
    assert "By &lt;i&gt;sentence&lt;/i&gt;" in await writer.page("/ui/settings/rules")
    path = f"/ui/settings/rules/{rule.id}"
    assert (await writer.post(f"{path}/edit", values | {"name": "Ours"})).status_code == 303
    assert (await workshop.jay.rules.get(who, rule.id)).name == "Ours"
    needs = IngestionSettings(ingestion_rule_id=rule.id)
    plan = await Planner(workshop.jay, who).plan("http://127.0.0.1/", name="Needs it", ingestion_settings=needs)
    held = await admin.post(f"{path}/delete")
    assert (held.status_code, "is used by the plan" in held.text) == (409, True)
    assert (await writer.post(f"{path}/delete")).status_code == 403
    await workshop.jay.plans.delete(who, plan.id)
    assert (await admin.post(f"{path}/delete")).status_code == 303
    assert (await workshop.jay.rules.page(who)).total == 0


async def test_a_rule_that_the_api_made_keeps_what_the_form_does_not_show(
    workshop: House, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    values = RuleValues(
        name="Theirs",
        bucket="shelf",
        summarization={"Prompt": "short"},
        chunking={"Strategy": "FixedTokenCount", "FixedTokenCount": 64, "OverlapPercentage": 0.25},
    )
    rule = await workshop.jay.rules.create(who, values)
    writer = await visiting(Scope.WRITE, tenant)
    form = {"name": "Theirs", "strategy": "FixedTokenCount", "fixed_token_count": "64"}
    assert (await writer.post(f"/ui/settings/rules/{rule.id}/edit", form)).status_code == 303
    after = await workshop.jay.rules.get(who, rule.id)
    assert (after.bucket, after.summarization, after.chunking) == (rule.bucket, rule.summarization, rule.chunking)


async def test_a_config_keeps_its_secret_headers_and_never_shows_them(
    workshop: House, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    writer = await visiting(Scope.WRITE, tenant)
    wrong = {"max_depth": "many", "page_timeout_ms": "1", "headers": "no colon here", "chunk_overlap": "200"}
    said = await refused(writer, "/ui/settings/configs", CONFIG | wrong)
    assert said["max_depth"] == "This must be a whole number."
    assert said["page_timeout_ms"] == "At least 5000."
    assert "no colon here" in said["headers"]
    for headers in ("Host: evil.example", "Authorization: [hidden]"):
        assert (await refused(writer, "/ui/settings/configs", CONFIG | {"headers": headers})).keys() == {"headers"}
    assert (await writer.post("/ui/settings/configs", CONFIG | {"respect_robots_txt": "true"})).status_code == 303
    twice = await writer.post("/ui/settings/configs", CONFIG)
    assert (twice.status_code, errors_of(twice.text).keys()) == (409, {"name"})
    (config,) = (await workshop.jay.crawl_settings.configs(who, limit=9, offset=0)).items
    sealed = config.headers["Authorization"]
    assert (config.rate_limit_rps, config.respect_robots_txt, "hunter2" in sealed) == (0.5, True, False)
    path = f"/ui/settings/configs/{config.id}/edit"
    page = await writer.page(path)
    assert "Authorization: [hidden]" in page
    assert sealed not in page
    kept = CONFIG | {"headers": "Accept-Language: de\nAuthorization: [hidden]"}
    assert (await writer.post(path, kept)).status_code == 303
    after = await workshop.jay.crawl_settings.config(who, config.id)
    assert after.headers == {"Accept-Language": "de", "Authorization": sealed}
    assert workshop.jay.crawl_settings.spec_of(after)["headers"]["Authorization"] == "Bearer hunter2"
    assert (await writer.post(path.replace("/edit", "/delete"))).status_code == 303
    assert (await writer.get(path)).status_code == 404


async def test_a_proxys_password_stays_for_the_same_server_and_goes_nowhere_else(
    workshop: House, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    writer = await visiting(Scope.WRITE, tenant)
    here, new = "/ui/settings/proxies", {"name": "Office", "rotation": "random", "is_active": "true"}
    assert (await refused(writer, here, new)).keys() == {"server.0.url"}
    assert (await refused(writer, here, new | {"server.0.url": "nonsense"})).keys() == {"server.0.url"}
    assert (await refused(writer, here, new | {"server.0.url": "http://10.0.0.1:3128"})).keys() == {"server.0.url"}
    server = {"server.0.url": "http://127.0.0.1:1", "server.0.username": "jay"}
    assert (await writer.post(here, new | server | {"server.0.password": "hunter2"})).status_code == 303
    (proxy,) = (await workshop.jay.crawl_settings.proxies(who, limit=9, offset=0)).items
    sealed = proxy.servers[0]["password"]
    path = f"{here}/{proxy.id}"
    for page in (await writer.page(here), await writer.page(f"{path}/edit")):
        assert "hunter2" not in page
        assert sealed not in page
    assert (await writer.post(f"{path}/edit", new | server | {"name": "Attic"})).status_code == 303
    after = await workshop.jay.crawl_settings.proxy(who, proxy.id)
    assert (after.name, after.servers[0]["password"]) == ("Attic", sealed)
    for other in ({"server.0.url": "http://127.0.0.2:1"}, {"server.0.username": "mallory"}):
        assert "given anew" in str(await refused(writer, f"{path}/edit", new | server | other))
    assert "does not work" in (await writer.post(f"{path}/test")).text
    assert (await writer.post(f"{path}/delete")).status_code == 303


async def test_a_host_is_slowed_blocked_and_treated_like_any_other_again(
    workshop: House, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    writer = await visiting(Scope.WRITE, tenant)
    here = "/ui/settings/hosts"
    assert "Every host is treated alike" in await writer.page(here)
    assert (await refused(writer, here, HOST | {"host": "not a host"})).keys() == {"host"}
    assert (await refused(writer, here, HOST)).keys() == {"host"}
    assert (await refused(writer, here, HOST | {"host": "a.example", "rate_limit_rps": "99"})) == {
        "rate_limit_rps": "At most 10."
    }
    assert (await writer.post(here, HOST | {"host": "Busy.Example"})).status_code == 303
    blocked = HOST | {"is_blocked": "true", "blocked_reason": "<b>asked</b>"}
    assert (await writer.post(f"{here}/busy.example/edit", blocked)).status_code == 303
    host = await workshop.jay.crawl_settings.known_host(who, "busy.example")
    assert (host.is_blocked, host.blocked_reason, host.rate_limit_rps) == (True, "<b>asked</b>", 2.0)
    assert "&lt;b&gt;asked&lt;/b&gt;" in await writer.page(here)
    assert (await writer.post(f"{here}/busy.example/delete")).status_code == 303
    assert (await writer.get(f"{here}/busy.example/edit")).status_code == 404


async def test_what_failed_is_counted_on_every_page_until_somebody_looked(
    workshop: House, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    planner = Planner(workshop.jay, who)
    browser = await visiting(Scope.READ, tenant)
    assert "All is well" in await browser.page("/ui/alerts")
    assert 'class="count"' not in await browser.page("/ui/documents")
    fresh = await visiting(Scope.READ, tenant)
    await planner.run(await planner.plan("http://127.0.0.1:1/", name="<i>Broken</i>"))
    for path in ("/", "/ui/documents", "/ui/settings/hosts"):
        assert re.search(r'class="count"[^>]*>1<', await fresh.page(path)), path
    page = await fresh.page("/ui/alerts")
    assert "&lt;i&gt;Broken&lt;/i&gt;" in page
    assert "Nothing was read." in page
    assert '<span class="badge bad">new</span>' in page
    again = await fresh.page("/ui/alerts")
    assert '<span class="badge bad">new</span>' not in again
    assert "Nothing was read." in again
    assert 'class="count"' not in await fresh.page("/ui/documents")
    stranger = await visiting(Scope.READ, f"{tenant} next door")
    assert 'class="count"' not in await stranger.page("/ui/documents")


async def test_a_run_shows_section_by_section_what_it_saw(
    workshop: House, site: Site, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    planner = Planner(workshop.jay, who)
    set_pages(site, ["stays", "goes"])
    plan = await planner.plan(site.url + "/", name="Garden")
    await planner.run(plan)
    site.pages.pop("/goes")
    site.add("/", article("home", "/stays", "/comes", "/broken"))
    site.add("/comes", article("comes", "/"))
    operation = await planner.run(plan)
    browser = await visiting(Scope.ADMIN, tenant)
    path = f"/ui/plans/{plan.id}/operations/{operation.id}"

    async def keys(**query: str) -> set[str]:
        page = await browser.page(path, params=query)
        rows = page.split("<tbody>")[1].split("</tbody>")[0] if "<tbody>" in page else ""
        return {found.rsplit("/", 1)[1] for found in re.findall(r"(127\.0\.0\.1:\d+/\w*)", rows)}

    assert await keys(section="AllFiles") == {"", "stays", "comes"}
    assert await keys(section="Added") == {"comes"}
    assert await keys(section="Deleted") == {"goes"}
    assert await keys(section="Unchanged") == {"", "stays"}, "other links alone are no change"
    assert await keys(section="AllFiles", q="STAYS") == {"stays"}
    assert "Nothing here contains" in await browser.page(path, params={"section": "Added", "q": "zebra"})
    job = await browser.page(f"/ui/jobs/{operation.job_id}")
    assert "<strong>Garden</strong>" in job
    assert "The server answered with an error, such as 404." in job, "what went wrong is known after the run"
    history = await browser.page("/ui/jobs/history")
    row = history.split('<th scope="row" class="break">127.0.0.1</th>')[1].split("</tr>")[0]
    pages, failed = (int(number) for number in re.findall(r'class="num[^"]*">(\d+)<', row))
    assert (pages >= 6, failed >= 1) == (True, True)
    assert f"{100 * pages / (pages + failed):.1f} %" in row
    assert (await browser.post(f"{path}/delete")).status_code == 303
    assert (await browser.get(path)).status_code == 404


def counts_of(page: str) -> dict[str, int]:
    """The numbers on the tiles of a run's page."""
    tiles = page.split('<nav class="sections"')[1].split("</nav>")[0]
    return {
        name: int(number)
        for name, number in re.findall(r'class="label">([^<]+)</span><span class="big">(\d+)</span>', tiles)
    }


async def test_a_run_lists_what_it_did_not_take_in_with_the_reason_and_the_next_step(
    workshop: House, site: Site, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    planner = Planner(workshop.jay, who)
    set_pages(site, ["stays"])
    site.add("/", article("home", "/stays", "/dead", "/gone-too", "/secret", "/broken.pdf", "/quiet"))
    site.add("/secret", Reply("<h1>Forbidden</h1>", 403))
    site.add("/broken.pdf", Reply(b"%PDF-1.7 this is none", content_type="application/pdf"))
    site.add("/quiet", article("quiet").replace("<head>", '<head><meta name="robots" content="noindex">'))
    plan = await planner.plan(site.url + "/", name="Garden")
    operation = await planner.run(plan)
    browser = await visiting(Scope.ADMIN, tenant)
    path = f"/ui/plans/{plan.id}/operations/{operation.id}"

    page = await browser.page(path)

    counts = counts_of(page)
    assert [counts[name] for name in ("Failed", "Denied", "Skipped", "Cut")] == [3, 1, 1, 0]
    banner = "3 failed, 1 denied, 1 skipped (1 failed object, 3 warnings about links that answered with an error)"
    assert banner in page
    assert 'section=Failed#enumeration" aria-current="page"' in page, "what failed is shown first"
    items = page.split('class="plain rows card problems"')[1].split("</ul>")[0].split("<li>")[1:]
    (dead,) = (item for item in items if "/dead" in item)
    for said in ("failed", "HTTP 404", "status 404", "http_404", "Next step: Fix or remove the link to it."):
        assert said in dead
    (broken,) = (item for item in items if "/broken.pdf" in item)
    for said in ("The file is broken and cannot be read.", "broken_file", "Next step: Check the file at its source"):
        assert said in broken
    assert "Retry these" in page
    filtered = await browser.page(path, params={"section": "Failed", "q": "GONE-"})
    assert ("/gone-too" in filtered, "/dead" in filtered) == (True, False)
    skipped = await browser.page(path, params={"section": "Skipped"})
    assert "The page asks not to be indexed." in skipped


async def test_a_run_with_only_denied_items_opens_them(
    workshop: House, site: Site, visiting: SignIn, tenant: str
) -> None:
    who = await owner_of(workshop, tenant)
    planner = Planner(workshop.jay, who)
    set_pages(site, [])
    site.add("/", Reply("<h1>Forbidden</h1>", 403))
    plan = await planner.plan(site.url + "/", name="Garden")
    operation = await planner.run(plan)
    browser = await visiting(Scope.READ, tenant)

    page = await browser.page(f"/ui/plans/{plan.id}/operations/{operation.id}")

    assert counts_of(page)["Denied"] == 1
    assert "HTTP 403" in page
    assert "Next step: Check the credentials, or ask the site&#39;s owner for access." in page
    assert "Retry these" not in page, "a key that only reads starts nothing"


async def test_a_crawlers_form_says_all_that_is_wrong_at_once(visiting: SignIn, tenant: str) -> None:
    writer = await visiting(Scope.WRITE, tenant)
    values = {"kind": "Web", "name": "", "source.start_url": "http://127.0.0.1/", "source.max_depth": "0"}
    values |= {
        "schedule.interval_value": "x",
        "filter.minimum_size": "-1",
        "retention_days": "15",
        "max_drain_tasks": "8",
    }
    said = await refused(writer, "/ui/plans", values)
    wrong = {"name", "source.max_depth", "schedule.interval_value", "filter.minimum_size", "retention_days"}
    assert said.keys() == wrong
    assert said["source.max_depth"] == "At least 1."
