"""Whole crawls of a real site on loopback: what is fetched, in which order, how often, and what is kept of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from datetime import timedelta
from ipaddress import ip_network
from itertools import pairwise
from typing import Any

import pytest
import pytest_asyncio
from tests.site import Reply, Site, redirect, running_site
from tests.workshop import wait_until

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.crawler.batch import Batch, BatchWriter
from scrubjay.errors import Conflict, HostBlocked, InvalidRequest, Unavailable, UrlBlocked
from scrubjay.extract.pool import ExtractionPool
from scrubjay.model.clock import utc_now
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.crawling import HostSettings
from scrubjay.model.extraction import ExtractLimits, ExtractOptions
from scrubjay.model.job import FINISHED_STATES, Job, JobRequest, JobState
from scrubjay.model.tenant import Principal
from scrubjay.services.crawls import page_record
from scrubjay.settings import Settings
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.hosts import Hosts
from scrubjay.storage.jobs import Jobs

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Crawler:
    """An open Scrubjay, and short ways to crawl with it."""

    def __init__(self, jay: Scrubjay, who: Principal) -> None:
        self.jay = jay
        self.who = who

    async def start(self, *urls: str, **spec: Any) -> Job:
        values = {"start_urls": urls, "delay_ms": 0, "max_pages": 100_000, **spec}
        return await self.jay.crawls.start(self.who, read_spec(values))

    async def finish(self, job: Job, *states: JobState) -> Job:
        async def there() -> Job | None:
            now = await self.jay.jobs.get(self.who, job.id)
            return now if now.state in (states or FINISHED_STATES) else None

        found: Job = await wait_until(there, f"the crawl is {states or 'finished'}", seconds=110)
        return found

    async def crawl(self, *urls: str, **spec: Any) -> dict[str, Any]:
        job = await self.finish(await self.start(*urls, **spec))
        assert job.state is JobState.COMPLETED, job.error
        return {"job_id": job.id, **(job.result or {})}

    async def pages(self, result: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """What was kept, by path."""
        records = [page_record(page) async for page in self.jay.crawls.pages(self.who, result["job_id"])]
        return {"/" + record["normalized_url"].split("/", 3)[3]: record for record in records}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ExtractionPool]:
    """Extraction processes know nothing of crawls, and take a second to start: one serves all tests."""
    async with ExtractionPool(processes=1) as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="module")
async def crawler(settings: Settings, pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Crawler]:
    monkeypatch.setattr("scrubjay.app.resources.open_pool", lambda _: nullcontext(pool))
    chosen = settings.model_copy(update={"allowed_private_networks": (ip_network("127.0.0.0/8"),)})
    async with open_scrubjay(chosen, working=True) as jay:
        yield Crawler(jay, await jay.access.open_as_admin(settings.home))


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        yield running


def link(*paths: str, text: str = "") -> str:
    """A page that says something of its own and links to these paths."""
    words = f"This page is about {' and '.join(paths) or 'nothing else'}, and it says so at some length. " * 4
    links = "".join(f'<li><a href="{path}">{path} {text}</a></li>' for path in paths)
    return (
        f"<html><head><title>{' '.join(paths)}</title></head><body><main><p>{words}</p><ul>{links}</ul></main></body>"
    )


def asked(site: Site) -> list[str]:
    """The pages that were asked for, in order."""
    return [request.target for request in site.requests if request.path not in ("/robots.txt", "/sitemap.xml")]


async def test_a_whole_site_is_crawled_and_every_page_is_fetched_once(crawler: Crawler) -> None:
    async with running_site(pages=120) as site:
        result = await crawler.crawl(site.url)
        assert site.generated is not None
        wanted = set(site.generated.paths)

        assert wanted <= set(site.counts)
        assert {path: count for path, count in site.counts.items() if count > 1} == {}
    pages = await crawler.pages(result)
    assert wanted <= {path for path, page in pages.items() if page["success"]}
    assert pages["/page/7"]["title"]
    assert "/page/7" in pages["/page/7"]["url"]
    assert len(pages["/page/7"]["markdown"]) > 200
    assert result["failed"] > 0
    assert result["errors"]["http_error"] == result["failed"]
    assert result["redirects"] > 0
    assert result["duplicates"] > 0
    assert result["left_in_queue"] == 0


async def test_breadth_first_goes_level_by_level(crawler: Crawler, site: Site) -> None:
    for path, links in {
        "/": ["/a", "/b"],
        "/a": ["/a1", "/a2"],
        "/b": ["/b1"],
        "/a1": [],
        "/a2": [],
        "/b1": [],
    }.items():
        site.add(path, link(*links))

    await crawler.crawl(site.url, strategy="bfs", mode="sequential")

    assert asked(site) == ["/", "/a", "/b", "/a1", "/a2", "/b1"]


async def test_depth_first_goes_to_the_bottom_of_the_first_link_first(crawler: Crawler, site: Site) -> None:
    tree = {"/": ["/a", "/b"], "/a": ["/a1", "/a2"], "/a1": ["/a1x"], "/b": ["/b1"], "/a1x": [], "/a2": [], "/b1": []}
    for path, links in tree.items():
        site.add(path, link(*links))

    await crawler.crawl(site.url, strategy="dfs", mode="sequential")

    assert asked(site) == ["/", "/a", "/a1", "/a1x", "/a2", "/b", "/b1"]


async def test_with_nothing_under_way_pages_do_not_wait_for_more_to_be_written(
    crawler: Crawler, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.crawler.loop.BATCH_SECONDS", 600)
    for number in range(5):
        site.add(f"/{number or ''}", link(f"/{number + 1}"))
    site.add("/5", link())

    result = await crawler.crawl(site.url)

    assert result["pages"] == 6


async def test_best_first_follows_what_fits_the_keywords(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/news", "/garden-acorns", "/about"))
    site.add("/garden-acorns", link("/acorns/storage", "/imprint"))
    for path in ("/news", "/about", "/acorns/storage", "/imprint"):
        site.add(path, link())

    await crawler.crawl(site.url, strategy="best_first", mode="sequential", keywords=["acorns"])
    assert asked(site)[:3] == ["/", "/garden-acorns", "/acorns/storage"]

    site.forget()
    result = await crawler.crawl(
        site.url, strategy="best_first", keywords=["acorns"], score_threshold=0.4, refresh=True
    )
    assert set(asked(site)) == {"/", "/garden-acorns", "/acorns/storage"}
    assert result["refused_links"]["irrelevant"] == 3


async def test_a_concurrent_depth_first_crawl_spends_its_budget_on_the_first_branch(
    crawler: Crawler, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.crawler.frontier.RANK_SECONDS", 600)
    site.add("/", link("/a", "/b", "/c"))
    for branch in "abc":
        site.add(f"/{branch}", link(*(f"/{branch}{number}" for number in range(4))))
        for number in range(4):
            site.add(f"/{branch}{number}", link(f"/{branch}{number}x"))
            site.add(f"/{branch}{number}x", link())

    result = await crawler.crawl(site.url, strategy="dfs", max_pages=12, concurrency=16, host_concurrency=16)

    first = {"/a", *(f"/a{number}{end}" for number in range(4) for end in ("", "x"))}
    assert set(asked(site)) == {"/", "/b", "/b0", *first}
    assert result["fetched"] == 12


async def test_a_concurrent_best_first_crawl_spends_its_budget_on_what_fits(
    crawler: Crawler, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.crawler.frontier.RANK_SECONDS", 600)
    others = [f"/other{number}" for number in range(60)]
    listed = "".join(f"<url><loc>{site.url}{path}</loc></url>" for path in (*others, "/hidden"))
    site.sitemap = f"<urlset>{listed}</urlset>"
    site.add("/", link(*others[:20], "/acorns"))
    site.add("/acorns", link(*(f"/acorns/{number}" for number in range(5))) + '<a href="/hidden">acorns</a>')
    for path in (*others, "/hidden", *(f"/acorns/{number}" for number in range(5))):
        site.add(path, link())

    await crawler.crawl(site.url, strategy="best_first", keywords=["acorns"], max_pages=8, concurrency=16)

    assert set(asked(site)) == {"/", "/acorns", "/hidden", *(f"/acorns/{number}" for number in range(5))}


async def test_a_slow_page_does_not_hold_back_a_best_first_crawl_for_long(
    crawler: Crawler, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.crawler.frontier.RANK_SECONDS", 0.01)
    released = asyncio.Event()

    async def slow(_: Any) -> Reply:
        await released.wait()
        return Reply(link())

    async def last(_: Any) -> Reply:
        released.set()
        return Reply(link())

    site.add("/", link("/acorns", "/other"))
    site.pages["/acorns"] = slow
    site.pages["/other"] = last

    result = await crawler.crawl(site.url, strategy="best_first", keywords=["acorns"])

    assert result["pages"] == 3


async def test_depth_and_pages_are_limits(crawler: Crawler, site: Site) -> None:
    for number in range(10):
        site.add(f"/{number}" if number else "/", link(f"/{number + 1}", f"/leaf{number}"))
        site.add(f"/leaf{number}", link())

    result = await crawler.crawl(site.url, max_depth=2)
    assert set(asked(site)) == {"/", "/1", "/leaf0", "/2", "/leaf1"}
    assert result["limits"] == {"max_depth": 2}
    assert (await crawler.crawl(site.url, max_depth=2))["limits"] == {"max_depth": 2}  # of unchanged pages, too

    site.forget()
    result = await crawler.crawl(site.url, max_pages=4, refresh=True)
    assert len(asked(site)) == 4
    assert result["fetched"] == 4
    assert result["left_in_queue"] > 0
    assert result["limits"] == {"max_pages": result["left_in_queue"]}

    site.forget()
    result = await crawler.crawl(site.url, max_depth=0, refresh=True)
    assert asked(site) == ["/"]
    assert result["limits"] == {}


async def test_a_crawl_that_no_limit_cut_names_none(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/a", "/b"))
    site.add("/a", link("/", "/b", "/a#part", "https://elsewhere.example/"))
    site.add("/b", link("/", "/a"))

    result = await crawler.crawl(site.url, max_depth=1, max_pages=3)

    assert (result["pages"], result["limits"]) == (3, {})


async def test_every_limit_that_cuts_a_crawl_is_in_its_result(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/1", "/2", "/3", "/x/x/x/x/x"))
    for path in ("/1", "/2", "/3"):
        site.add(path, link())

    result = await crawler.crawl(site.url, max_pages_per_host=2)
    assert result["limits"] == {"max_pages_per_host": 2, "traps": 1}


async def test_pages_and_sitemaps_beyond_a_limit_are_counted(
    crawler: Crawler, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawler.jay.crawls._crawler.pool, "limits", ExtractLimits(links=2))
    monkeypatch.setattr("scrubjay.crawler.seeds.URLS_PER_PAGE", 1)
    listed = "".join(f"<url><loc>{site.url}/{number}</loc></url>" for number in range(1, 5))
    site.sitemap = f"<urlset>{listed}</urlset>"
    site.add("/", link("/1", "/2", "/3"))
    for number in range(1, 5):
        site.add(f"/{number}", link())

    result = await crawler.crawl(site.url, max_pages=3)
    assert (result["limits"]["links_per_page"], result["limits"]["sitemap_urls"]) == (1, 1)
    result = await crawler.crawl(site.url, max_pages=3)
    assert (result["unchanged"], result["limits"]["links_per_page"]) == (3, 1)


@pytest.mark.parametrize(
    ("extent", "expected"),
    [
        ("children", {"/docs/", "/docs/a", "/docs/deep/b"}),
        ("host", {"/docs/", "/docs/a", "/docs/deep/b", "/other", "/docs-old/x"}),
    ],
)
async def test_the_extent_says_which_links_are_followed(crawler: Crawler, extent: str, expected: set[str]) -> None:
    async with running_site(hosts=2) as site:
        site.add("/docs/", link("/docs/a", "deep/b", "/other", "/docs-old/x", site.url_at(2) + "/elsewhere"))
        for path in ("/docs/a", "/docs/deep/b", "/other", "/docs-old/x", "/elsewhere"):
            site.add(path, link())

        await crawler.crawl(site.url + "/docs/", extent=extent)

        assert set(asked(site)) == expected


async def test_every_host_is_crawled_when_the_extent_is_anywhere(crawler: Crawler) -> None:
    async with running_site(hosts=2) as site:
        site.add("/", link(site.url_at(2) + "/elsewhere"))
        site.add("/elsewhere", link())

        result = await crawler.crawl(site.url, extent="anywhere")

        assert set(asked(site)) == {"/", "/elsewhere"}
        assert set(result["hosts"]) == {"127.0.0.1", "127.0.0.2"}


async def test_include_and_exclude_are_patterns_on_addresses(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/docs/a", "/docs/private/b", "/blog/c", "/style.css", "/logo.PNG"))
    for path in ("/docs/a", "/docs/private/b", "/blog/c"):
        site.add(path, link())

    result = await crawler.crawl(site.url, include=["/docs/"], exclude=["private"])

    assert set(asked(site)) == {"/", "/docs/a"}
    assert result["refused_links"] == {"excluded": 1, "not_included": 1, "not_a_page": 2}


async def test_robots_txt_is_obeyed_unless_told_otherwise(crawler: Crawler, site: Site) -> None:
    site.robots = "User-agent: *\nDisallow: /private\n"
    site.add("/", link("/private/a", "/open"))
    site.add("/private/a", link())
    site.add("/open", link())

    result = await crawler.crawl(site.url)
    assert set(asked(site)) == {"/", "/open"}
    assert (result["skipped"], result["errors"]) == (1, {"robots_disallowed": 1})

    site.forget()
    await crawler.crawl(site.url, respect_robots=False)
    assert "/private/a" in asked(site)


async def test_robots_txt_that_cannot_be_had_means_not_now(crawler: Crawler, site: Site) -> None:
    site.pages["/robots.txt"] = Reply("broken", 503)
    site.add("/", link())

    job = await crawler.finish(await crawler.start(site.url, retries=0))

    assert asked(site) == []
    assert job.state is JobState.FAILED
    assert job.result is not None
    assert job.result["errors"] == job.result["report"]["reasons"] == {"robots_unreachable": 1}


async def test_noindex_and_nofollow_are_obeyed(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/noindex", "/nofollow", "/header"))
    site.add("/noindex", link("/from-noindex").replace("<head>", '<head><meta name="robots" content="noindex">'))
    site.add("/nofollow", link("/from-nofollow").replace("<head>", '<head><meta name="robots" content="nofollow">'))
    site.pages["/header"] = Reply(link("/from-header"), headers={"X-Robots-Tag": "none"})

    result = await crawler.crawl(site.url)

    pages = await crawler.pages(result)
    assert (pages["/noindex"]["error_type"], pages["/noindex"]["markdown"]) == ("noindex", None)
    assert pages["/header"]["error_type"] == "noindex"
    assert pages["/nofollow"]["success"]
    assert not {"/from-nofollow", "/from-header"} & set(asked(site))


async def test_sitemaps_are_read_from_robots_txt_and_obey_the_scope(crawler: Crawler, site: Site) -> None:
    def sitemap(*urls: str) -> str:
        return "<urlset>" + "".join(f"<url><loc>{url}</loc></url>" for url in urls) + "</urlset>"

    site.robots = f"Sitemap: {site.url}/maps/one.xml\n"
    site.add("/maps/one.xml", sitemap(site.url + "/hidden", site.url + "/secret/x", "http://10.0.0.1/"), "text/xml")
    site.add("/", link())
    site.add("/hidden", link())

    await crawler.crawl(site.url, exclude=["/secret"])
    assert set(asked(site)) == {"/", "/hidden", "/maps/one.xml"}

    site.forget()
    await crawler.crawl(site.url, use_sitemaps=False, refresh=True)
    assert set(asked(site)) == {"/"}


async def test_addresses_that_mean_the_same_are_fetched_once_and_as_they_are_written(
    crawler: Crawler, site: Site
) -> None:
    site.add("/", link("/a/", "/a/?", "/a/#part", "/b?y=2&x=1", "/b?x=1&y=2", "/./c"))
    for path in ("/a/", "/b", "/c"):
        site.add(path, link())

    await crawler.crawl(site.url)

    assert sorted(asked(site)) == ["/", "/a/", "/b?y=2&x=1", "/c"]


async def test_a_redirect_leads_to_a_page_that_is_fetched_once(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/old", "/older", "/new"))
    site.pages["/old"] = redirect("/new", 301)
    site.pages["/older"] = redirect("/old", 302)
    site.add("/new", link())

    result = await crawler.crawl(site.url)

    assert site.counts["/new"] == 1
    assert result["redirects"] == 2
    assert set(await crawler.pages(result)) == {"/", "/new"}


async def test_a_start_that_redirects_takes_the_scope_along(crawler: Crawler) -> None:
    async with running_site(hosts=2) as site:
        target = site.url_at(2)
        site.add("/", lambda request: redirect(target + "/home") if "0.1:" in request.host else Reply(link("/home")))
        site.add("/home", link("/inside"))
        site.add("/inside", link())

        await crawler.crawl(site.url)

        assert {request.target for request in site.requests if "0.2:" in request.host} >= {"/home", "/inside"}


async def test_a_page_that_sets_a_cookie_and_comes_back_is_read(crawler: Crawler, site: Site) -> None:
    def gate(request: Any) -> Reply:
        if "seen=1" in request.headers.get("cookie", ""):
            return Reply(link("/inside"))
        return Reply(status=302, headers={"Location": "/", "Set-Cookie": "seen=1; Path=/"})

    site.add("/", gate)
    site.add("/inside", link())

    result = await crawler.crawl(site.url)

    assert set(await crawler.pages(result)) == {"/", "/inside"}


async def test_redirects_are_not_followed_when_the_crawl_says_so(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/old"))
    site.pages["/old"] = redirect("/new")
    site.add("/new", link())

    result = await crawler.crawl(site.url, follow_redirects=False)

    assert site.counts["/new"] == 0
    assert result["errors"] == {"redirect": 1}


async def test_an_endless_redirect_chain_ends(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/chain?left=50"))
    site.add("/chain", lambda request: redirect(f"/chain?left={int(request.query['left']) - 1}"))

    result = await crawler.crawl(site.url, max_redirects=5)

    assert result["errors"] == {"too_many_redirects": 1}
    assert site.counts["/chain"] == 6


async def test_a_circle_of_redirects_is_one_failure(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/a"))
    for start, end in (("/a", "/b"), ("/b", "/c"), ("/c", "/a")):
        site.pages[start] = redirect(end)

    result = await crawler.crawl(site.url)

    assert (result["errors"], result["failed"]) == ({"redirect_loop": 1}, 1)


async def test_traps_end_by_themselves(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/trap/calendar", "/trap/session", "/trap/path/a"))

    result = await crawler.crawl(site.url, max_depth=1000, max_pages=3000)

    assert result["left_in_queue"] == 0
    assert result["fetched"] < 1500
    assert any(reason.startswith("trap:") for reason in result["refused_links"])


async def test_an_unchanged_page_costs_a_304_and_keeps_its_links_and_text(crawler: Crawler) -> None:
    async with running_site(pages=40) as site:
        first = await crawler.crawl(site.url)
        before = await crawler.pages(first)
        site.forget()
        assert site.generated is not None
        site.generated.changed.add("/page/3")

        second = await crawler.crawl(site.url)
        after = await crawler.pages(second)

        assert set(site.generated.paths) <= set(site.counts)
    assert second["unchanged"] == second["pages"] - 1
    assert second["bytes"] == pytest.approx(first["bytes"], rel=0.05), "unchanged pages count with their stored size"
    assert second["hosts"]["127.0.0.1"]["bytes"] == second["bytes"]
    assert {path for path, page in after.items() if page["markdown"] != before[path]["markdown"]} == {"/page/3"}
    assert after["/page/3"]["changed_at"] > before["/page/3"]["changed_at"]
    assert after["/page/4"]["changed_at"] == before["/page/4"]["changed_at"]
    assert after["/page/4"]["crawled_at"] > before["/page/4"]["crawled_at"]


async def test_the_history_is_in_the_order_in_which_crawls_finished(crawler: Crawler) -> None:
    moment = utc_now()
    async with crawler.jay.database.writing() as connection:
        for number, seconds in enumerate((90, 10, 50)):
            await Jobs(connection).add(
                Job(
                    tenant_id=crawler.who.tenant_id,
                    kind="crawl",
                    state=JobState.COMPLETED,
                    created_at=moment + timedelta(seconds=number),
                    started_at=moment + timedelta(seconds=number),
                    finished_at=moment + timedelta(seconds=seconds),
                )
            )
    history = await crawler.jay.job_history.recent(crawler.who)
    finished = [each.finished_at for each in history.crawls]
    assert len(finished) >= 3
    assert finished == sorted(finished)


async def test_a_page_that_fails_later_keeps_what_it_said_and_one_that_is_gone_does_not(
    crawler: Crawler, site: Site
) -> None:
    site.add("/", link("/shaky", "/gone"))
    site.add("/shaky", link())
    site.add("/gone", link())
    await crawler.crawl(site.url)
    site.pages["/shaky"] = Reply("broken", 500)
    site.pages["/gone"] = Reply("gone", 410)

    pages = await crawler.pages(await crawler.crawl(site.url, retries=0))

    assert (pages["/shaky"]["error_type"], bool(pages["/shaky"]["markdown"])) == ("http_error", True)
    assert (pages["/gone"]["status_code"], pages["/gone"]["markdown"]) == (410, None)


async def test_a_crawl_paused_and_resumed_fetches_nothing_twice(crawler: Crawler) -> None:
    async with running_site(pages=300) as site:
        site.latency_seconds = 0.01
        job = await crawler.start(site.url, concurrency=8)

        async def under_way() -> bool:
            return len(site.requests) > 60

        for _ in range(3):
            await wait_until(under_way, "the crawl is under way")
            await crawler.jay.jobs.make_request(crawler.who, job.id, JobRequest.PAUSE)
            paused = await crawler.finish(job, JobState.PAUSED, JobState.COMPLETED)
            quiet = len(site.requests)
            await asyncio.sleep(0.3)
            assert len(site.requests) == quiet
            if paused.state is JobState.PAUSED:
                await crawler.jay.jobs.make_request(crawler.who, job.id, JobRequest.RESUME)
        done = await crawler.finish(job)

        assert site.generated is not None
        assert set(site.generated.paths) <= set(site.counts)
        assert [path for path, count in site.counts.items() if count > 1] == []
    assert done.state is JobState.COMPLETED
    assert (done.result or {})["fetched"] == sum(
        1 for path in site.counts if not path.startswith(("/old", "/robots", "/sitemap"))
    )


async def test_a_cancelled_crawl_stops_at_once_and_keeps_what_it_has(crawler: Crawler) -> None:
    async with running_site(pages=300) as site:
        site.latency_seconds = 0.02
        job = await crawler.start(site.url, concurrency=4)

        async def under_way() -> bool:
            return len(site.requests) > 30

        await wait_until(under_way, "the crawl is under way")
        await crawler.jay.jobs.make_request(crawler.who, job.id, JobRequest.CANCEL)
        await crawler.finish(job, JobState.CANCELLED)

        assert len(site.requests) < 150
        assert len(await crawler.pages({"job_id": job.id})) >= 20


async def test_every_fault_of_the_zoo_is_one_recorded_failure_and_the_crawl_goes_on(
    crawler: Crawler, site: Site
) -> None:
    faults = sorted(
        path for path in [*site.faults, *site.pages] if path.startswith("/fault/") and "sitemap" not in path
    )
    types = sorted(path for path in site.pages if path.startswith("/type/"))
    site.add("/", link(*faults, *types, "/fine", "http://10.0.0.1/inside", "file:///etc/passwd", "/" + "x" * 3000))
    site.add("/fine", link())
    tolerant = HostSettings(
        tenant_id=crawler.who.tenant_id, host="127.0.0.1", rate_limit_rps=1000, circuit_breaker_threshold=1000
    )
    async with crawler.jay.database.writing() as connection:
        await Hosts(connection).add(tolerant)

    result = await crawler.crawl(
        site.url, timeout_seconds=5, max_bytes=3_000_000, retries=0, extent="anywhere", max_depth=1,
        host_concurrency=32, concurrency=32, respect_robots=False, max_failed_share=1,
    )  # fmt: skip

    pages = await crawler.pages(result)
    assert pages["/fine"]["success"]
    unsettled = [path for path in faults if path not in pages and not path.startswith("/fault/redirect")]
    assert unsettled == []
    failures = {path: page["error_type"] for path, page in pages.items() if not page["success"]}
    assert failures["/inside"] == "blocked_address"
    assert failures["/fault/redirect-self"] == "redirect_loop"
    assert [failures.get(f"/fault/redirect-loop{end}") for end in ("", "-2")].count("redirect_loop") == 1
    assert failures["/fault/slow-body"] == "timeout"
    assert failures["/fault/gzip-bomb"] == "too_large"
    assert failures["/fault/broken-gzip"] == "bad_encoding"
    assert all(failures.values())
    assert "internal" not in failures.values()
    for kind in ("html", "text", "markdown", "csv", "json", "pdf", "latin1"):
        assert pages[f"/type/{kind}"]["success"], pages[f"/type/{kind}"]
    assert "Äpfel" in pages["/type/latin1"]["markdown"]


async def test_block_pages_login_walls_and_shells_are_failures_not_pages(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/blocked", "/shell"))
    site.pages["/blocked"] = Reply(
        "<html><head><title>Just a moment...</title></head><body><div id='challenge-platform'>Checking your browser "
        "before accessing</div><script src='/cdn-cgi/challenge-platform/x.js'></script></body></html>"
    )
    site.add("/shell", "<html><body><div id='root'></div><script src='/app.js'></script></body></html>")

    pages = await crawler.pages(await crawler.crawl(site.url, max_failed_share=1))

    assert pages["/blocked"]["error_type"] == "blocked_page"
    assert pages["/shell"]["error_type"] == "empty_page"


async def test_what_repeats_across_a_host_is_learned_and_dropped(crawler: Crawler, site: Site) -> None:
    banner = "<p>Our spring catalogue is out now, with acorns of every size, ask for it at any of our branches.</p>"

    def page(number: int) -> str:
        words = f"Page {number} tells how jay number {number} found acorn {number * 7} behind tree {number * 13}. "
        return f"<title>Jay {number}</title><main>{banner}<h1>Jay {number}</h1><p>{words * 5}</p></main>"

    paths = [f"/jay{number}" for number in range(30)]
    site.add("/", link(*paths))
    for number, path in enumerate(paths):
        site.add(path, page(number))

    pages = await crawler.pages(await crawler.crawl(site.url, concurrency=1, host_concurrency=1))
    having = [path for path in paths if "spring catalogue" in (pages[path]["markdown"] or "")]
    assert 4 <= len(having) < 20
    assert all("found acorn" in pages[path]["markdown"] for path in paths)

    again = await crawler.pages(await crawler.crawl(site.url, refresh=True))
    assert [path for path in paths if "spring catalogue" in (again[path]["markdown"] or "")] == having

    for number, path in enumerate(paths):
        site.add(path, page(number + 100))
    changed = await crawler.pages(await crawler.crawl(site.url))
    assert [path for path in paths if "spring catalogue" in (changed[path]["markdown"] or "")] == []


async def test_credentials_are_sealed_in_the_job_and_sent_to_the_start_only(crawler: Crawler) -> None:
    async with running_site(hosts=2) as site:
        site.add("/", link("/a", site.url_at(2) + "/b"))
        site.add("/a", link())
        site.add("/b", link())
        job = await crawler.start(
            site.url,
            extent="anywhere",
            auth={"type": "basic", "name": "jay", "secret": "acorn-secret"},
            headers={"X-Api-Key": "key-secret", "X-Color": "blue"},
        )
        stored = await crawler.jay.jobs.get(crawler.who, job.id)
        await crawler.finish(job)

        assert "secret" not in str(stored.payload).replace("'secret':", "")
        by_path = {request.path: request.headers for request in site.requests}
        assert by_path["/a"]["authorization"].startswith("Basic ")
        assert by_path["/a"]["x-api-key"] == "key-secret"
        assert not {"authorization", "x-api-key"} & set(by_path["/b"])
        assert by_path["/b"]["x-color"] == "blue"


async def test_a_crawl_with_an_unknown_field_or_an_inner_address_is_refused(crawler: Crawler) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_spec({"start_urls": ["http://127.0.0.1/"], "max_pages": 0})
    assert refused.value.details["field"] == "max_pages"
    with pytest.raises(UrlBlocked):
        await crawler.start("http://10.0.0.1/")
    with pytest.raises(InvalidRequest) as refused:
        await crawler.start("ftp://127.0.0.1/")
    assert refused.value.details["field"] == "start_urls.0"


async def test_originals_of_pages_that_did_not_change_are_kept_too(crawler: Crawler) -> None:
    async with running_site(pages=3) as site:
        await crawler.crawl(site.url)
        result = await crawler.crawl(site.url, keep_originals=True)

    pages = [page async for page in crawler.jay.crawls.pages(crawler.who, result["job_id"]) if page.error_type is None]
    assert len(pages) >= 4
    assert [page.url for page in pages if not await crawler.jay.crawls.original(page)] == []


async def test_originals_are_kept_when_asked(crawler: Crawler, site: Site) -> None:
    body = link()
    site.add("/", body)
    result = await crawler.crawl(site.url, keep_originals=True)

    pages = [page async for page in crawler.jay.crawls.pages(crawler.who, result["job_id"])]

    assert await crawler.jay.crawls.original(pages[0]) == body.encode()


async def test_the_limit_of_pages_is_exact_while_pages_end_during_a_write(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = BatchWriter.prepare

    async def take_long(self: BatchWriter, *arguments: Any, **options: Any) -> Batch:
        await asyncio.sleep(0.1)
        return await prepare(self, *arguments, **options)

    monkeypatch.setattr(BatchWriter, "prepare", take_long)
    async with running_site(pages=300) as site:
        site.latency_seconds = lambda request: 0.01 * (request.number % 7)
        result = await crawler.crawl(site.url, max_pages=60)

        assert result["fetched"] == 60


async def test_an_address_whose_lease_ran_out_while_it_waits_is_not_taken_up_twice(
    crawler: Crawler, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.crawler.frontier.LEASE_SECONDS", 0.1)
    paths = [f"/{number}" for number in range(12)]
    site.add("/", link(*paths))
    for path in paths:
        site.add(path, link())
    site.latency_seconds = 0.3

    result = await crawler.crawl(site.url, concurrency=2)

    assert [path for path, count in site.counts.items() if count > 1] == []
    assert result["fetched"] == 13


async def test_what_a_server_says_that_is_not_text_is_kept_as_far_as_it_can_be(crawler: Crawler, site: Site) -> None:
    async def garbled(_: Any, wire: Any) -> None:
        body = link("/next").encode()
        await wire.send(
            b'HTTP/1.1 200 OK\r\nContent-Type: text/html; x=\xff\xfe\r\nETag: "\xe9\xff"\r\n'
            b"Last-Modified: \xff\r\nX-Odd: \xff\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
        )

    async def nonsense(_: Any, wire: Any) -> None:
        await wire.send(b"HTTP/1.1 2\xff0\x00 \xffK\r\nA\x00\xff: b\r\n\r\n")

    site.add("/", link("/garbled", "/nonsense"))
    site.faults["/garbled"] = garbled
    site.faults["/nonsense"] = nonsense
    titled = '<script type="application/ld+json">{"@type":"Article","headline":"a\\u0000b\\ud800c"}</script>'
    site.add("/next", link("/data").replace("<title></title>", titled).replace("<title>/data</title>", titled))
    site.add("/data", '{"title": "a\\u0000b\\ud800", "text": "some words about jays"}', "application/json")

    first = await crawler.crawl(site.url, retries=0)
    again = await crawler.crawl(site.url, retries=0)

    pages = await crawler.pages(again)
    assert pages["/garbled"]["success"]
    assert pages["/nonsense"]["error_type"] == "protocol"
    assert {"/next", "/data"} <= set(pages)
    assert "internal" not in {**first["errors"], **again["errors"]}


async def test_a_canonical_address_that_the_crawl_does_not_have_makes_no_duplicate(
    crawler: Crawler, site: Site
) -> None:
    def page(canonical: str, *paths: str) -> str:
        return link(*paths).replace("<head>", f'<head><link rel="canonical" href="{canonical}">')

    site.add("/", link("/a", "/b", "/c", "/d"))
    site.add("/a", page("/copied", "/1"))
    site.add("/copied", link("/2"))
    site.add("/b", page("/missing", "/3"))
    site.add("/c", page("/d", "/4"))
    site.add("/d", page("/c", "/5"))

    result = await crawler.crawl(site.url, max_depth=2, exclude=[r"/\d$"])

    pages = await crawler.pages(result)
    assert [path for path, kept in pages.items() if kept["duplicate"]] == ["/a"]
    assert result["duplicates"] == 1


async def test_a_copy_counts_as_a_page_once_what_it_repeated_is_gone(crawler: Crawler, site: Site) -> None:
    text = link("/x", text="many words") * 2
    site.add("/", link("/one", "/two"))
    site.pages["/one"] = Reply(text, headers={"ETag": '"1"'})
    site.add("/two", lambda request: Reply(status=304) if "if-none-match" in request.headers else Reply(
        text, headers={"ETag": '"2"'}
    ))  # fmt: skip
    first = await crawler.pages(await crawler.crawl(site.url, mode="sequential"))
    assert [path for path, page in first.items() if page["duplicate"]] == ["/two"]
    site.pages["/one"] = Reply("gone", 410)

    second = await crawler.pages(await crawler.crawl(site.url, mode="sequential"))

    assert (second["/two"]["success"], second["/two"]["duplicate"]) == (True, False)


async def test_nofollow_is_obeyed_again_when_the_page_did_not_change(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/nofollow"))
    body = link("/from-nofollow").replace("<head>", '<head><meta name="robots" content="nofollow">')
    site.pages["/nofollow"] = Reply(body)

    await crawler.crawl(site.url)
    again = await crawler.crawl(site.url)

    assert again["unchanged"] == 2
    assert "/from-nofollow" not in asked(site)


async def test_a_page_that_asks_not_to_be_indexed_any_more_is_not_kept(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/shy"))
    site.add("/shy", link())
    await crawler.crawl(site.url)
    site.pages["/shy"] = Reply(link(), headers={"X-Robots-Tag": "noindex"})

    pages = await crawler.pages(await crawler.crawl(site.url))

    assert (pages["/shy"]["error_type"], pages["/shy"]["markdown"]) == ("noindex", None)


async def test_a_start_that_redirects_is_read_whatever_is_included(crawler: Crawler, site: Site) -> None:
    site.pages["/"] = redirect("/home")
    site.add("/home", link("/docs/a", "/blog"))
    site.add("/docs/a", link())

    await crawler.crawl(site.url, include=["/docs/"])

    assert set(asked(site)) == {"/", "/home", "/docs/a"}


async def test_a_304_that_nobody_asked_for_is_a_failure(crawler: Crawler, site: Site) -> None:
    site.add("/", link("/odd"))
    site.pages["/odd"] = Reply(status=304)

    result = await crawler.crawl(site.url)

    assert (result["pages"], result["errors"]) == (1, {"http_error": 1})


async def test_pausing_does_not_wait_for_sitemaps(crawler: Crawler, site: Site) -> None:
    async def slow(_: Any) -> Reply:
        await asyncio.sleep(20)
        return Reply(status=404)

    site.sitemap = slow
    site.add("/", link())
    job = await crawler.start(site.url)

    async def under_way() -> bool:
        return bool(site.requests_for("/sitemap.xml"))

    await wait_until(under_way, "the sitemap is asked for")
    await crawler.jay.jobs.make_request(crawler.who, job.id, JobRequest.PAUSE)
    started = asyncio.get_running_loop().time()
    await crawler.finish(job, JobState.PAUSED)

    assert asyncio.get_running_loop().time() - started < 8


async def test_pages_are_crawled_while_sitemaps_are_still_read(crawler: Crawler, site: Site) -> None:
    async def slow(_: Any) -> Reply:
        await asyncio.sleep(2)
        return Reply(f"<urlset><url><loc>{site.url}/listed</loc></url></urlset>", content_type="text/xml")

    site.sitemap = slow
    site.add("/", link("/linked"))
    site.add("/linked", link())
    site.add("/listed", link())

    await crawler.crawl(site.url)

    times = {request.path: request.at for request in site.requests}
    assert times["/linked"] < times["/sitemap.xml"] + 2 <= times["/listed"]


async def test_a_crawl_out_of_time_does_not_wait_for_slow_hosts(crawler: Crawler, site: Site) -> None:
    site.robots = "User-agent: *\nCrawl-delay: 30\n"
    site.add("/", link("/a", "/b", "/c"))

    async with asyncio.timeout(30):
        result = await crawler.crawl(site.url, max_seconds=2, use_sitemaps=False)

    assert result["left_in_queue"] >= 1
    assert result["limits"] == {"max_seconds": result["left_in_queue"]}
    assert result["failed"] == 0


async def test_sitemaps_are_asked_for_no_faster_than_robots_txt_allows(crawler: Crawler, site: Site) -> None:
    site.robots = f"User-agent: *\nCrawl-delay: 1\nSitemap: {site.url}/1.xml\nSitemap: {site.url}/2.xml\n"
    for path in ("/1.xml", "/2.xml"):
        site.add(path, "<urlset></urlset>", "text/xml")
    site.add("/", link())

    await crawler.crawl(site.url)

    moments = sorted(request.at for request in site.requests if request.path != "/robots.txt")
    assert len(moments) == 3
    assert min(later - earlier for earlier, later in pairwise(moments)) > 0.9


async def test_slow_hosts_do_not_keep_others_waiting(crawler: Crawler, monkeypatch: pytest.MonkeyPatch) -> None:
    # What only waits for its turn is not let finish, however long that may take.
    monkeypatch.setattr("scrubjay.crawler.loop.LETTING_FINISH_SECONDS", 600)
    async with running_site(hosts=4) as site:
        site.robots = lambda request: Reply(
            "" if "0.4:" in request.host else "User-agent: *\nCrawl-delay: 20\n", content_type="text/plain"
        )
        slow = [f"{site.url_at(host)}/{number}" for number in range(40) for host in (2, 3)]
        fast = [f"{site.url_at(4)}/{number}" for number in range(40)]
        site.fallback = lambda request: Reply(link())
        starts = [*slow, *fast]
        job = await crawler.start(*starts, use_sitemaps=False, max_seconds=20)

        async def fast_ones_done() -> bool:
            return sum("0.4:" in request.host and request.path != "/robots.txt" for request in site.requests) == 40

        await wait_until(fast_ones_done, "the fast host is crawled", seconds=15)
        await crawler.jay.jobs.make_request(crawler.who, job.id, JobRequest.CANCEL)
        await crawler.finish(job, JobState.CANCELLED)


@pytest.mark.parametrize("patience", [15, 0])
async def test_a_cache_that_does_not_answer_for_a_while_fails_no_page(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch, patience: int
) -> None:
    monkeypatch.setattr("scrubjay.crawler.pages.OUTAGE_SECONDS", 0.2)
    monkeypatch.setattr("scrubjay.crawler.pages.MAX_OUTAGES", patience)
    async with running_site(pages=60) as site:
        site.latency_seconds = 0.01
        job = await crawler.start(site.url, concurrency=4)

        async def under_way() -> bool:
            return len(site.requests) > 20

        await wait_until(under_way, "the crawl is under way")
        admit = crawler.jay.cache.admit

        async def refuse(*_: Any, **__: Any) -> float:
            raise Unavailable("Redis does not answer.")

        monkeypatch.setattr(crawler.jay.cache, "admit", refuse)
        await asyncio.sleep(1.5)
        monkeypatch.setattr(crawler.jay.cache, "admit", admit)
        done = await crawler.finish(job)
    result = done.result or {}
    assert (done.state, "internal" in result["errors"], result["left_in_queue"]) == (JobState.COMPLETED, False, 0)


async def test_a_page_is_not_fetched_again_because_it_could_not_be_kept(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.crawler.pages.OUTAGE_SECONDS", 0.05)
    put, refusals = type(crawler.jay.blobs).put, 0

    async def refuse(self: Any, data: bytes) -> Any:
        nonlocal refusals
        if b"fifth" in data and refusals < 5:
            refusals += 1
            raise Unavailable("The blob store does not answer.")
        return await put(self, data)

    monkeypatch.setattr(type(crawler.jay.blobs), "put", refuse)
    async with running_site() as site:
        site.add("/", "<p>This page has a link and not much more to say.</p><a href='/5'>on</a>")
        site.add("/5", "<p>This is the fifth page, which is hard to keep for some reason or other.</p>")
        done = await crawler.finish(await crawler.start(site.url, keep_originals=True))
        assert (done.state, refusals) == (JobState.COMPLETED, 5)
        assert site.counts["/5"] == 1


async def test_a_database_that_hangs_up_costs_no_retry_and_counts_nothing_twice(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_site(pages=120) as site:
        site.latency_seconds = 0.01
        job = await crawler.start(site.url, concurrency=4)
        known, calls = CrawledPages.known, 0

        async def hang_up(self: CrawledPages, *arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 5:
                raise Unavailable("The database hung up.")
            if calls in (8, 11):
                raise Conflict("Somebody wrote the same page at the same time.")
            return await known(self, *arguments)

        monkeypatch.setattr(CrawledPages, "known", hang_up)
        done = await crawler.finish(job)
        assert calls > 11
    assert (done.state, done.retry_count) == (JobState.COMPLETED, 0)
    pages = await crawler.pages({"job_id": job.id})
    result = done.result or {}
    assert len(pages) == result["pages"] + result["failed"] == result["fetched"]
    assert result["left_in_queue"] == 0


async def test_two_crawls_of_one_site_at_the_same_time_both_end_well(crawler: Crawler) -> None:
    async with running_site(pages=200) as site:
        jobs = [await crawler.start(site.url, refresh=True) for _ in range(3)]
        done = [await crawler.finish(job) for job in jobs]

    assert {(job.state, job.retry_count) for job in done} == {(JobState.COMPLETED, 0)}


async def test_the_progress_reaches_its_total(crawler: Crawler) -> None:
    async with running_site(pages=60) as site:
        site.robots = "User-agent: *\nDisallow: /page/1\n"
        result = await crawler.crawl(site.url)

    job = await crawler.jay.jobs.get(crawler.who, result["job_id"])
    assert job.progress["current"] == job.progress["total"] == result["fetched"]
    assert job.progress["queued"] == 0
    assert (result["skipped"] > 0, result["redirects"] > 0) == (True, True)


async def test_a_robots_txt_that_breaks_in_the_middle_is_waited_for(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.crawler.pages.ROBOTS_UNREACHABLE_SECONDS", 0.4)
    monkeypatch.setattr("scrubjay.storage.cache_keys.ROBOTS_UNREACHABLE_SECONDS", 0.2)
    async with running_site(pages=60) as site:
        site.latency_seconds = 0.02
        job = await crawler.start(site.url, concurrency=2, retries=0)

        async def under_way() -> bool:
            return len(site.requests) > 20

        await wait_until(under_way, "the crawl is under way")
        await crawler.jay.jobs.make_request(crawler.who, job.id, JobRequest.PAUSE)
        await crawler.finish(job, JobState.PAUSED)
        await crawler.jay.cache.clear("cache:robots")
        answers = [Reply("broken", 503)] * 2
        site.robots = lambda _: answers.pop() if answers else Reply("", content_type="text/plain")
        await crawler.jay.jobs.make_request(crawler.who, job.id, JobRequest.RESUME)
        done = await crawler.finish(job)

    assert answers == []
    assert "robots_unreachable" not in (done.result or {})["errors"]


async def test_a_start_that_is_written_in_several_ways_is_one_start(crawler: Crawler, site: Site) -> None:
    site.add("/", link())

    result = await crawler.crawl(site.url, site.url + "/", site.url + "/#top", site.url.replace("http:", "HTTP:"))

    assert asked(site) == ["/"]
    assert (result["discovered"], result["fetched"]) == (1, 1)


async def test_what_is_learned_of_more_hosts_than_fit_into_memory_is_kept(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.crawler.batch.MAX_MEMORIES", 1)
    async with running_site(hosts=3) as site:
        site.add("/", link(site.url_at(2) + "/b", site.url_at(3) + "/c"))
        site.add("/b", link(site.url + "/d"))
        for path in ("/c", "/d"):
            site.add(path, link())
        await crawler.crawl(site.url, extent="anywhere", mode="sequential")

    for host in (1, 2, 3):
        assert await crawler.jay.crawls.site_memory(crawler.who, f"127.0.0.{host}") is not None


async def test_a_single_page_obeys_robots_txt_and_blocks_wherever_it_redirects_to(crawler: Crawler) -> None:
    async with running_site(hosts=2) as site:
        site.robots = "User-agent: *\nDisallow: /private\n"
        site.pages["/a"] = redirect("/private/x")
        site.pages["/b"] = redirect(site.url_at(2) + "/c")
        site.pages["/ok"] = redirect("/c")
        for path in ("/private/x", "/c"):
            site.add(path, link())
        blocked = HostSettings(tenant_id=crawler.who.tenant_id, host="127.0.0.2", is_blocked=True)
        async with crawler.jay.database.writing() as connection:
            await Hosts(connection).add(blocked)

        async def fetch(path: str) -> str:
            spec = read_spec({"start_urls": [site.url + path]})
            response, _ = await crawler.jay.crawls.fetch_page(crawler.who, spec, ExtractOptions())
            return response.url

        assert await fetch("/ok") == site.url + "/c"
        for path in ("/a", "/b"):
            with pytest.raises(HostBlocked):
                await fetch(path)
        assert (site.counts["/private/x"], site.counts["/c"]) == (0, 1)
