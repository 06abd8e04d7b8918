"""Watches over HTTP: made, looked at, polled, changed and removed; by whom; and what bad input gets."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from tests.acceptance.house import House, Key, open_house, some_ids
from tests.acceptance.rag.scopes import NEEDED, RANK
from tests.newsroom import Article, publish, reaching_loopback
from tests.site import Site, running_site

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id
from scrubjay.model.tenant import Scope
from scrubjay.settings import Settings

FEED = "https://news.example.org/feed.xml"
PLACES = sorted(place for place in NEEDED if place.pattern.startswith(("/watches", "/stories")))
BODIES: dict[str, dict[str, Any]] = {
    "POST /watches": {"url": FEED, "name": "another"},
    "PATCH /watches/{watch_id}": {"weight": 2},
    "PUT /watches/throttle": {"level": "off"},
}


@pytest_asyncio.fixture
async def house(settings: Settings) -> AsyncIterator[House]:
    async with open_house(reaching_loopback(settings, extract_processes=1)) as opened:
        yield opened


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site(hosts=4) as running:
        yield running


async def ask(house: House, method: str, path: str, key: Key, *, status: int = 200, **options: Any) -> Any:
    answer = await house.ask(method, path, key, **options)
    assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
    return answer.json() if answer.content else None


async def make(house: House, key: Key, **values: Any) -> dict[str, Any]:
    made: dict[str, Any] = await ask(house, "POST", "/watches", key, status=201, json={"url": FEED, **values})
    return made


async def test_a_watch_from_its_making_to_its_end(house: House, admin: Key, site: Site) -> None:
    feed = publish(site, "/feed", [Article("/old", "An old thing")])
    watch = await make(house, admin, url=feed, name="The feed", poll_interval_seconds=120, daily_budget=50, weight=2)
    assert (watch["kind"], watch["poll_interval_seconds"], watch["weight"], watch["enabled"]) == (
        "feed",
        120,
        2.0,
        True,
    )
    first = await ask(house, "POST", f"/watches/{watch['id']}/poll", admin)
    assert (first["status"], first["remembered"], first["requests"]) == ("changed", 1, 1)

    news = Article("/news", "Ferry runs aground at Ashford", published_at=utc_now())
    publish(site, "/feed", [news])
    second = await ask(house, "POST", f"/watches/{watch['id']}/poll", admin)
    assert (second["new"], second["triggered"], second["error"]) == (1, 1, None)

    listed = await ask(house, "GET", f"/watches/{watch['id']}/items?state=queued", admin)
    assert {name: listed[name] for name in ("total", "limit", "offset", "has_more")} == {
        "total": 1, "limit": 100, "offset": 0, "has_more": False,
    }  # fmt: skip
    [item] = listed["items"]
    assert (item["url"], item["state"]) == (f"{site.url}/news", "queued")
    assert set(item["factors"]) >= {"terms", "recency", "source", "novelty"}
    job = await house.jay.jobs.get(house.admin, item["job_id"])
    assert job.payload["spec"]["start_urls"] == [f"{site.url}/news"]
    assert (await ask(house, "GET", f"/watches/{watch['id']}/items?limit=1", admin))["has_more"] is True

    [story] = (await ask(house, "GET", "/stories", admin))["items"]
    details = await ask(house, "GET", f"/stories/{story['id']}", admin)
    assert (details["sources"], details["is_breaking"]) == (["127.0.0.1"], False)
    assert [each["url"] for each in details["items"]] == [f"{site.url}/news"]

    changed = await ask(house, "PATCH", f"/watches/{watch['id']}", admin, json={"enabled": False, "threshold": 0.9})
    assert (changed["enabled"], changed["threshold"]) == (False, 0.9)
    cleared = await ask(house, "PATCH", f"/watches/{watch['id']}", admin, json={"threshold": None})
    assert cleared["threshold"] is None
    await ask(house, "DELETE", f"/watches/{watch['id']}", admin, status=204)
    await ask(house, "GET", f"/watches/{watch['id']}", admin, status=404)


async def test_a_failed_poll_is_an_answer_that_says_why(house: House, admin: Key, site: Site) -> None:
    watch = await make(house, admin, url=site.url + "/nothing.rss")
    outcome = await ask(house, "POST", f"/watches/{watch['id']}/poll", admin)
    assert (outcome["status"], outcome["error"]) == (
        "failed",
        f"{site.url}/nothing.rss answered with HTTP status 404.",
    )
    shown = await ask(house, "GET", f"/watches/{watch['id']}", admin)
    assert (shown["failures"], shown["last_error"]) == (1, outcome["error"])


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://example.org/feed", "feed"),
        ("https://example.org/index.rss", "feed"),
        ("https://example.org/?feed=rss2", "feed"),
        ("https://example.org/sitemap_index.xml", "sitemap"),
        ("https://example.org/news-sitemap.xml.gz", "sitemap"),
        ("https://example.org/status", "page"),
    ],
)
async def test_the_kind_is_told_by_the_address(house: House, admin: Key, url: str, kind: str) -> None:
    assert (await make(house, admin, url=url))["kind"] == kind


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": "not an address"}, "url"),
        ({"url": "ftp://example.org/feed"}, "url"),
        ({"url": "https://user:hunter2@example.org/feed"}, "url"),
        ({"url": FEED, "kind": "telepathy"}, "kind"),
        ({"url": FEED, "poll_interval_seconds": 1}, "poll_interval_seconds"),
        ({"url": FEED, "poll_interval_seconds": "60"}, "poll_interval_seconds"),
        ({"url": FEED, "daily_budget": 0}, "daily_budget"),
        ({"url": FEED, "weight": -1}, "weight"),
        ({"url": FEED, "threshold": 1.5}, "threshold"),
        ({"url": FEED, "name": "x" * 201}, "name"),
        ({"url": FEED, "name": "a\u0000b"}, "name"),
        ({"url": FEED, "enabled": "yes"}, "enabled"),
        ({"url": FEED, "requests_today": 0}, "requests_today"),
    ],
)
async def test_bad_input_is_400_and_names_the_field(house: House, admin: Key, body: dict[str, Any], field: str) -> None:
    answer = await ask(house, "POST", "/watches", admin, status=400, json=body)
    assert answer["code"] == "VALIDATION_ERROR"
    assert field in str(answer["details"])
    assert "hunter2" not in str(answer)


async def test_private_addresses_are_refused_and_names_are_given_once(house: House, admin: Key) -> None:
    answer = await ask(house, "POST", "/watches", admin, status=403, json={"url": "http://10.0.0.1/feed"})
    assert answer["code"] == "URL_BLOCKED"
    await make(house, admin, name="one")
    assert (await ask(house, "POST", "/watches", admin, status=409, json={"url": FEED, "name": "one"}))["error"]


async def test_what_is_named_must_be_there(house: House, admin: Key) -> None:
    for field, prefix in (("plan_id", "cplan"), ("collection_id", "coll")):
        await ask(house, "POST", "/watches", admin, status=404, json={"url": FEED, field: new_id(prefix)})
    watch = await make(house, admin)
    for field in ("name", "url", "kind", "enabled", "weight"):
        answer = await ask(house, "PATCH", f"/watches/{watch['id']}", admin, status=400, json={field: None})
        assert answer["details"]["field"] == field


async def test_every_route_asks_for_its_scope(house: House) -> None:
    for scope in RANK:
        owner, key = await house.key(Scope.ADMIN), await house.key(scope)
        watch = await make(house, owner, name=f"for {scope}", url=FEED)
        for place in sorted(PLACES, key=lambda each: each.method == "DELETE"):
            ids = some_ids() | {"watch_id": watch["id"]}
            path, body = place.path(ids), BODIES.get(str(place))
            if place.method == "POST" and "poll" in place.pattern:
                path = place.path(some_ids())  # nobody's: nothing is to be fetched
            answer = await house.ask(place.method, path, key, **({"json": body} if body else {}))
            allowed = RANK.index(NEEDED[place]) <= RANK.index(scope)
            assert (answer.status_code != 403) == allowed, (scope, place, answer.text)
            assert answer.status_code < 500
        await house.ask("DELETE", f"/watches/{watch['id']}", owner)
        for each in (await ask(house, "GET", "/watches", owner))["items"]:
            await house.ask("DELETE", f"/watches/{each['id']}", owner)


async def test_another_tenants_watches_and_stories_are_not_found(house: House, admin: Key, site: Site) -> None:
    feed = publish(site, "/feed", [Article("/a", "Ferry runs aground", published_at=utc_now() + timedelta(minutes=5))])
    watch = await make(house, admin, url=feed, catch_up=True)
    await ask(house, "POST", f"/watches/{watch['id']}/poll", admin)
    [story] = (await ask(house, "GET", "/stories", admin))["items"]
    stranger = await house.key(Scope.ADMIN, tenant="strangers")
    ids = some_ids() | {"watch_id": watch["id"], "story_id": story["id"]}
    for place in PLACES:
        if "{" in place.pattern:
            body = BODIES.get(str(place))
            answer = await house.ask(place.method, place.path(ids), stranger, **({"json": body} if body else {}))
            assert answer.status_code == 404, (place, answer.text)
    for path in ("/watches", "/stories"):
        assert (await ask(house, "GET", path, stranger))["total"] == 0
    plan = await ask(house, "POST", "/watches", stranger, status=404, json={"url": FEED, "plan_id": new_id("cplan")})
    assert plan["code"] == "NOT_FOUND"
    assert (await ask(house, "GET", f"/watches/{watch['id']}", admin))["name"] == watch["name"]


async def test_the_brake_is_the_operators(house: House, admin: Key) -> None:
    assert (await ask(house, "GET", "/watches/throttle", admin))["level"] == "off"
    held = await ask(house, "PUT", "/watches/throttle", admin, json={"level": "stop", "reason": "Too loud."})
    assert (held["level"], held["reason"]) == ("stop", "Too loud.")
    watch = await make(house, admin)
    refused = await ask(house, "POST", f"/watches/{watch['id']}/poll", admin, status=409)
    assert "Too loud." in refused["error"]
    stranger = await house.key(Scope.ADMIN, tenant="strangers")
    await ask(house, "PUT", "/watches/throttle", stranger, status=403, json={"level": "off"})
    await ask(house, "PUT", "/watches/throttle", admin, status=400, json={"level": "sideways"})
    assert (await ask(house, "GET", "/watches/throttle", stranger))["level"] == "stop"


async def test_the_setting_brakes_whatever_the_switch_says(settings: Settings) -> None:
    async with open_house(settings.model_copy(update={"watch_throttle": "slow"})) as house:
        admin = await house.key()
        held = await ask(house, "PUT", "/watches/throttle", admin, json={"level": "off"})
        assert (held["level"], held["reason"]) == ("slow", "The setting 'watch_throttle' says so.")


def test_the_walk_has_every_route() -> None:
    assert len(PLACES) == 11
