"""A crawl that got nothing has failed at every door; a crawl with some failures counts and lists them."""

from typing import Any

import pytest
from tests.acceptance.crawlplans.asking import make_plan, run
from tests.acceptance.dashboard.browsing import sign_in
from tests.acceptance.house import House, Key
from tests.acceptance.one_road.asking import crawl, crawl_site, documents
from tests.acceptance.rag.asking import until
from tests.plans import article
from tests.receiver import Receiver
from tests.site import Reply, Site

from scrubjay.telemetry.metrics import registry

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOGIN_WALL = (
    "<html><head><title>Sign in</title></head><body><main><h1>Sign in</h1><form method='post' action='/login'>"
    "<input name='user'><input type='password' name='password'><button>Sign in</button></form></main></body></html>"
)
EMPTY_SHELL = "<html><body><div id='root'></div><script src='/app.js'></script></body></html>"
BROKEN_PDF = Reply(b"%PDF-1.7 this is none", content_type="application/pdf")


def _robots(answer: Reply, host: int = 1) -> Any:
    def prepare(site: Site) -> str:
        site.robots = answer
        site.add("/", article("A page that robots.txt hides"))
        return site.url_at(host) + "/"

    return prepare


def _answer(answer: Reply, host: int = 1) -> Any:
    def prepare(site: Site) -> str:
        site.add("/", answer)
        return site.url_at(host) + "/"

    return prepare


# Name of the case → preparation of the site, and outcome, reason and HTTP status in the report. Hosts that fail have
# addresses of their own: circuits are kept by host and would stop later tests.
NOTHING: dict[str, tuple[Any, str, str, int | None]] = {
    # robots.txt is the first request to a host, so that is what cannot be reached.
    "host down": (lambda site: site.url_at(9) + "/", "failed", "robots_unreachable", None),
    "unknown host name": (lambda _: "http://nobody.invalid/", "failed", "robots_unreachable", None),
    "robots.txt forbids": (
        _robots(Reply("User-agent: *\nDisallow: /", content_type="text/plain")),
        "denied",
        "robots_disallowed",
        None,
    ),
    "robots.txt unreachable": (_robots(Reply("busy", 503), host=3), "failed", "robots_unreachable", None),
    "401": (_answer(Reply("<h1>Who are you?</h1>", 401)), "denied", "http_401", 401),
    "403": (_answer(Reply("<h1>Forbidden</h1>", 403)), "denied", "http_403", 403),
    "404": (_answer(Reply("<h1>Not found</h1>", 404)), "failed", "http_404", 404),
    "500": (_answer(Reply("<h1>Oops</h1>", 500), host=2), "failed", "http_500", 500),
    "login wall": (_answer(Reply(LOGIN_WALL)), "denied", "login_wall", 200),
    "empty JavaScript page": (_answer(Reply(EMPTY_SHELL)), "failed", "empty_page", 200),
}


def _failed_jobs() -> float:
    return registry.get_sample_value("scrubjay_jobs_finished_total", {"kind": "crawl", "outcome": "failed"}) or 0.0


@pytest.mark.parametrize(("prepare", "outcome", "reason", "http_status"), NOTHING.values(), ids=NOTHING)
async def test_a_crawl_that_got_nothing_has_failed_at_every_door(
    library: House,
    owner: Key,
    site: Site,
    receiver: Receiver,
    prepare: Any,
    outcome: str,
    reason: str,
    http_status: int | None,
) -> None:
    url = prepare(site)
    path = f"/{owner.record.id}"
    counted = _failed_jobs()

    ended = await crawl(library, owner, url, webhook_url=receiver.url + path)

    assert (ended["status"], ended["pages_crawled"]) == ("failed", 0)
    assert url in ended["error"]
    (item,) = ended["failed_items"]
    assert (item["url"], item["outcome"], item["reason"]) == (url, outcome, reason)
    assert (item["http_status"], item["document_id"]) == (http_status, None)
    assert item["message"]
    assert item["next_step"]
    assert item["attempts"] >= (2 if reason == "http_500" else 0)
    listed = await library.api("GET", "/jobs/failed", owner)
    assert [(each["id"], each["error"]) for each in listed["items"]] == [(ended["id"], ended["error"])]
    (known,) = (await library.control("GET", "/jobs", owner))["jobs"]
    shown = await library.control("GET", f"/jobs/{known['job_id']}", owner)
    assert (shown["status"], shown["error"]) == ("failed", ended["error"])
    assert any(url in line["message"] for line in shown["log"]), shown["log"]
    assert _failed_jobs() == counted + 1

    async def told() -> list[str]:
        return [each.event for each in receiver.at(path)]

    await until(told, ["failed"])
    data = receiver.at(path)[0].data
    assert data["error"] == ended["error"]
    assert url in str(data)


@pytest.mark.parametrize(
    ("url_of", "reason", "next_step"),
    [
        (lambda site: site.url_at(8) + "/", "connection", "Check that the host is up"),
        (lambda _: "http://unknown.invalid/", "dns", "Check the spelling of the host name."),
    ],
    ids=["host down", "unknown host name"],
)
async def test_a_host_that_cannot_be_reached_is_named_with_the_next_step_when_robots_are_ignored(
    library: House, owner: Key, site: Site, url_of: Any, reason: str, next_step: str
) -> None:
    body = {"name": "ours", "respect_robots_txt": False}
    config = await library.api("POST", "/configs", owner, status=201, json=body)

    ended = await crawl(library, owner, url_of(site), config_id=config["id"])

    (item,) = ended["failed_items"]
    assert (ended["status"], item["outcome"], item["reason"]) == ("failed", "failed", reason)
    assert item["next_step"].startswith(next_step)
    assert item["attempts"] > 1


async def test_the_dashboard_shows_a_crawl_that_got_nothing(library: House, owner: Key, site: Site) -> None:
    browser = await sign_in(library, owner)
    assert "Nothing failed." in await browser.page("/")
    ended = await crawl(library, owner, site.add("/", Reply("<h1>Forbidden</h1>", 403)))

    pages = [await browser.page(path) for path in ("/", "/ui/alerts")]

    await browser.client.aclose()
    assert ended["status"] == "failed"
    for page in pages:
        assert "Nothing failed." not in page
        assert "Nothing was read." in page


async def test_a_host_whose_circuit_is_open_fails_the_crawl(library: House, owner: Key, site: Site) -> None:
    site.add("/", Reply("<h1>Oops</h1>", 500))
    ended: dict[str, Any] = {}
    for _ in range(4):
        ended = await crawl(library, owner, f"{site.url_at(4)}/")
        assert ended["status"] == "failed"
        if ended["failed_items"][0]["reason"] == "circuit_open":
            break

    assert ended["failed_items"][0]["reason"] == "circuit_open", ended
    assert "host settings" in ended["failed_items"][0]["next_step"]


# --- Some failed


async def test_a_broken_file_fails_the_operation_and_is_listed(library: House, owner: Key, site: Site) -> None:
    url = site.add("/", article("home", "/broken.pdf", "/there"))
    site.add("/there", article("there"))
    site.pages["/broken.pdf"] = BROKEN_PDF
    plan = await make_plan(library, owner, url)

    operation = await run(library, owner, plan)

    assert (operation["State"], operation["ObjectsFailed"], operation["ObjectsWarned"]) == ("Failed", 1, 0)
    assert operation["ObjectsAdded"] == 2
    assert "1" in operation["StatusMessage"]
    path = f"/crawlplans/{plan['Id']}/operations/{operation['Id']}"
    enumeration = await library.plans("GET", f"{path}/enumeration", owner)
    (failed,) = enumeration["Failed"]
    assert "/broken.pdf" in str(failed)
    report = await library.plans("GET", f"{path}/report", owner, params={"outcome": "failed"})
    assert [(item["Key"], item["Reason"]) for item in report["Objects"]] == [(f"{site.url}/broken.pdf", "broken_file")]
    assert len(await documents(library, owner)) == 2


async def test_dead_links_are_warnings_of_a_successful_operation(library: House, owner: Key, site: Site) -> None:
    dead = [f"/dead{number}" for number in range(12)]
    plan = await make_plan(library, owner, site.add("/", article("home", *dead)))

    operation = await run(library, owner, plan)

    assert (operation["State"], operation["ObjectsFailed"], operation["ObjectsWarned"]) == ("Success", 0, len(dead))
    assert operation["Reasons"] == {"http_404": len(dead)}
    path = f"/crawlplans/{plan['Id']}/operations/{operation['Id']}"
    enumeration = await library.plans("GET", f"{path}/enumeration", owner)
    assert enumeration["Failed"] == []
    assert len(enumeration["Warnings"]) == len(dead)
    report = await library.plans("GET", f"{path}/report", owner, params={"maxResults": 5, "outcome": "failed"})
    assert (len(report["Objects"]), report["TotalRecords"]) == (5, len(dead))
    assert {item["HttpStatus"] for item in report["Objects"]} == {404}


async def test_what_robots_forbid_is_skipped_and_a_refused_page_is_a_warning(
    library: House, owner: Key, site: Site
) -> None:
    url = site.add("/", article("home", "/hidden", "/members", "/there"))
    site.robots = Reply("User-agent: *\nDisallow: /hidden", content_type="text/plain")
    site.add("/members", Reply("<h1>Forbidden</h1>", 403))
    site.add("/there", article("there"))
    plan = await make_plan(library, owner, url)

    operation = await run(library, owner, plan)

    assert (operation["State"], operation["ObjectsFailed"], operation["ObjectsWarned"]) == ("Success", 0, 1)
    path = f"/crawlplans/{plan['Id']}/operations/{operation['Id']}"
    enumeration = await library.plans("GET", f"{path}/enumeration", owner)
    named = {part: [item["Key"] for item in enumeration[part]] for part in ("Failed", "Warnings", "Skipped")}
    assert named == {"Failed": [], "Warnings": [f"{site.url}/members"], "Skipped": [f"{site.url}/hidden"]}


async def test_a_login_wall_is_a_failed_object(library: House, owner: Key, site: Site) -> None:
    url = site.add("/", article("home", "/members"))
    site.add("/members", Reply(LOGIN_WALL))
    plan = await make_plan(library, owner, url)

    operation = await run(library, owner, plan)

    assert (operation["State"], operation["ObjectsFailed"], operation["ObjectsWarned"]) == ("Failed", 1, 0)
    assert operation["Reasons"] == {"login_wall": 1}


async def test_a_crawl_with_some_failures_is_completed_and_fails_above_its_share(
    library: House, owner: Key, site: Site
) -> None:
    url = site.add("/", article("home", "/broken.pdf", "/there"))
    site.add("/there", article("there"))
    site.pages["/broken.pdf"] = BROKEN_PDF

    some = await crawl_site(library, owner, url)
    too_many = await crawl_site(library, owner, url, max_failed_share=0.1)

    assert (some["status"], some["error"], some["pages_failed"]) == ("completed", None, 1)
    assert [item["reason"] for item in some["failed_items"]] == ["broken_file"]
    assert some["failed_items"][0]["next_step"]
    assert too_many["status"] == "failed"
    assert "1 of 3 items failed" in too_many["error"]


async def test_a_crawl_of_refused_pages_fails_above_its_share_and_one_of_dead_links_does_not(
    library: House, owner: Key, site: Site
) -> None:
    names = [f"/page{number}" for number in range(5)]
    url = site.add("/", article("home", *names))

    dead = await crawl_site(library, owner, url)
    for name in names:
        site.add(name, Reply("<h1>Forbidden</h1>", 403))
    refused = await crawl_site(library, owner, url)

    assert (dead["status"], dead["pages_failed"]) == ("completed", 5)
    assert refused["status"] == "failed"
    assert "5 of 6 items failed" in refused["error"]


async def test_a_crawl_with_other_settings_is_no_run_of_the_plan_that_owns_the_page(
    library: House, owner: Key, site: Site
) -> None:
    url = site.add("/", article("home"))
    plan = await make_plan(library, owner, url)
    await run(library, owner, plan)
    site.robots = Reply("User-agent: *\nDisallow: /", content_type="text/plain")
    config = await library.api(
        "POST", "/configs", owner, status=201, json={"name": "ours", "respect_robots_txt": False}
    )

    ended = await crawl(library, owner, url, config_id=config["id"])

    assert (ended["status"], ended["failed_items"]) == ("completed", [])
    operations = await library.plans("GET", f"/crawlplans/{plan['Id']}/operations", owner)
    assert operations["TotalRecords"] == 1


async def test_an_enumeration_agrees_with_the_counters_of_its_operation(library: House, owner: Key, site: Site) -> None:
    url = site.add("/", article("home", "/there"))
    site.add("/there", article("there"))
    await crawl_site(library, owner, url)
    plan = await make_plan(library, owner, url)

    operation = await run(library, owner, plan)

    assert (operation["ObjectsSuccess"], operation["ObjectsUnchanged"]) == (0, 2)
    path = f"/crawlplans/{plan['Id']}/operations/{operation['Id']}"
    enumeration = await library.plans("GET", f"{path}/enumeration", owner)
    assert (len(enumeration["Success"]), len(enumeration["Unchanged"])) == (0, 2)
    assert enumeration["Statistics"]["SuccessCount"] == 0
