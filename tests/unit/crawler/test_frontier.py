"""Which links become work, and how many URLs of a host are held at once."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scrubjay.crawler.frontier import REDIRECT_NOTE, CrawlFrontier
from scrubjay.crawler.scope import UrlScope
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.crawling import FrontierStatus
from scrubjay.model.extraction import Anchor
from scrubjay.model.job import Job
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Tenant
from scrubjay.settings import Settings
from scrubjay.storage.database import Database, open_database
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.schema import require_current
from scrubjay.storage.tenants import Tenants

START = "http://a.org/"


def make_frontier(job_id: str = "job", *, goes_on: bool = False, **values: Any) -> CrawlFrontier:
    spec = read_spec({"start_urls": [START], **values})
    scope = UrlScope(spec.start_urls, spec.extent, spec.include, spec.exclude)
    return CrawlFrontier(job_id, spec, scope, goes_on=goes_on)


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    opened = open_database(settings)
    await require_current(opened, auto_migrate=True)
    yield opened
    await opened.close()


@pytest.fixture
async def job(database: Database) -> Job:
    async with database.writing() as connection:
        if not await Tenants(connection).count():
            await Tenants(connection).add(Tenant(id=DEFAULT_TENANT_ID, name="default"))
        return await Jobs(connection).add(Job(tenant_id=DEFAULT_TENANT_ID, kind="crawl", payload={}))


def test_a_link_that_was_not_worth_it_gets_another_chance_in_better_words() -> None:
    frontier = make_frontier(strategy="best_first", keywords=["acorn"], score_threshold=0.5)
    page = frontier.start_item(START)

    assert frontier.follow(page, [Anchor("http://a.org/1", "more")]) == []
    assert [item.url for item in frontier.follow(page, [Anchor("http://a.org/1", "acorn")])] == ["http://a.org/1"]


def test_links_of_a_page_at_the_depth_limit_are_left_for_shallower_pages() -> None:
    frontier = make_frontier(max_depth=1)
    [deep] = frontier.follow(frontier.start_item(START), [Anchor("http://a.org/deep")])

    assert frontier.follow(deep, [Anchor("http://a.org/x")]) == []
    assert len(frontier.follow(frontier.start_item(START), [Anchor("http://a.org/x")])) == 1


def test_where_a_start_leads_is_read_although_nothing_includes_it_but_not_when_excluded() -> None:
    frontier = make_frontier(include=["/docs/"], exclude=["login"])
    start = frontier.start_item(START)

    assert frontier.redirected(start, "https://www.a.org/home") is not None
    assert frontier.redirected(start, "https://www.a.org/login") is None
    [page] = frontier.follow(start, [Anchor("http://a.org/docs/x")])
    assert frontier.redirected(page, "http://a.org/home") is None


async def test_what_one_run_holds_is_never_leased_again_by_it_and_by_the_next_run_at_once(
    database: Database, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.crawler.frontier.LEASE_SECONDS", -1)
    frontier, later = make_frontier(job.id), make_frontier(job.id)
    async with database.writing() as connection:
        await frontier.add(connection, [frontier.start_item(f"{START}{number}") for number in range(3)])
        first = await frontier.lease(connection, 2, lambda _: 100)
        second = await frontier.lease(connection, 10, lambda _: 100)
        assert (len(first), len(second)) == (2, 1)
        assert not {item.url for item in first} & {item.url for item in second}

        await later.take_back(connection)
        assert (await later.tally(connection)) == {FrontierStatus.PENDING: 3}


async def test_one_host_does_not_take_the_places_of_all(database: Database, job: Job) -> None:
    frontier = make_frontier(job.id, extent="anywhere", concurrency=16, host_concurrency=2)
    urls = [f"http://slow.org/{number}" for number in range(100)] + [f"http://fast.org/{n}" for n in range(100)]
    async with database.writing() as connection:
        await frontier.add(connection, [frontier.start_item(url) for url in urls])
        items = await frontier.lease(connection, 1000, lambda host: 100)
    frontier.hold(items)

    counts = Counter(item.host for item in items)
    assert counts["slow.org"] <= 16
    assert counts["fast.org"] >= 8


async def test_a_host_that_is_left_alone_takes_no_place_from_others(database: Database, job: Job) -> None:
    frontier = make_frontier(job.id, extent="anywhere")
    async with database.writing() as connection:
        await frontier.add(connection, [frontier.start_item(f"http://b.org/{number}") for number in range(100)])
        frontier.hold(await frontier.lease(connection, 1000, lambda _: 1000))
        held = frontier.leased

        assert frontier.free_places(lambda _: 1000) == frontier.window - held
        assert frontier.free_places(lambda _: 0) == frontier.window
        await frontier.add(connection, [frontier.start_item("http://c.org/")])
        items = await frontier.lease(connection, 1000, lambda host: 0 if host == "b.org" else 1000)
    assert [item.host for item in items] == ["c.org"]


async def test_a_run_that_goes_on_finds_circles_with_redirects_of_the_run_before(database: Database, job: Job) -> None:
    there, back = "http://a.org/there", "http://a.org/back"
    before = make_frontier(job.id)
    item = before.start_item(there)
    async with database.writing() as connection:
        await before.add(connection, [item])
        await before.settle(connection, [(item, FrontierStatus.COMPLETED, REDIRECT_NOTE + back)])

    assert not await before.leads_back(database, item, back)
    after = make_frontier(job.id, goes_on=True)
    assert await after.leads_back(database, after.start_item(back), there)
