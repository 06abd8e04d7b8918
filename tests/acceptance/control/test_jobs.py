"""`/jobs` against real sites: ordered, looked at, steered, dry, and cleared away."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.acceptance.control.asking import events, look, reached, start
from tests.acceptance.house import House, Key
from tests.site import Reply, Site, SiteRequest

from scrubjay.model.ids import new_id

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALL_PAGES = 10_000


@pytest.fixture(autouse=True)
def quick(site: Site) -> Iterator[None]:
    yield
    site.latency_seconds = 0.0


async def test_sites_are_crawled_up_to_a_number_of_pages_each(library: House, owner: Key, site: Site) -> None:
    sites = [site.url_at(1), site.url_at(2)]
    job_id = await start(library, owner, *sites, max_articles_per_site=4, metadata={"ticket": "A-1"}, priority="high")
    job = await reached(library, owner, job_id, "completed")
    assert (job["mode"], job["priority"], job["metadata"], job["targets"]) == (
        "concurrent", "high", {"ticket": "A-1"}, [f"{each}/" for each in sites],
    )  # fmt: skip
    assert {host["domain"]: host["pages"] + host["failed"] for host in job["hosts"]} == {"127.0.0.1": 4, "127.0.0.2": 4}
    assert job["documents"]["added"] == sum(host["pages"] for host in job["hosts"])
    told = await events(library, owner, job_id)
    assert [event["sequence"] for event in told] == list(range(1, len(told) + 1))
    kinds = Counter(event["type"] for event in told)
    assert kinds["article.processed"] == 8
    assert kinds["job.complete"] == 1
    assert kinds["domain.metrics"] >= 2
    assert kinds["job.progress"] >= 1
    assert told[-1]["type"] == "job.complete"
    assert told[-1]["payload"]["status"] == "completed"


async def test_exactly_some_pages_are_fetched_and_no_link_followed(library: House, owner: Key, site: Site) -> None:
    urls = [f"{site.url}/page/1", f"{site.url}/page/2"]
    answer = await library.control("POST", "/jobs", owner, status=202, json={"urls": urls})
    job = await reached(library, owner, answer["job_id"], "completed")
    assert job["result"]["fetched"] == 2
    documents = await library.api("GET", "/documents", owner)
    assert {each["url"] for each in documents["items"]} == set(urls)


async def test_in_sequence_one_site_is_asked_at_a_time(library: House, owner: Key, site: Site) -> None:
    site.forget()
    site.latency_seconds = 0.05
    job_id = await start(library, owner, site.url_at(1), site.url_at(2), max_articles_per_site=3, mode="sequential")
    job = await reached(library, owner, job_id, "completed")
    assert (job["mode"], site.max_in_flight) == ("sequential", 1)


async def test_only_so_many_sites_are_asked_at_the_same_time(library: House, owner: Key, site: Site) -> None:
    asked: list[set[str]] = []
    under_way: Counter[str] = Counter()

    async def answer(request: SiteRequest) -> Reply:
        under_way[request.host] += 1
        asked.append(set(+under_way))
        await asyncio.sleep(0.1)
        under_way[request.host] -= 1
        return Reply("<p>A page that says enough to be read by somebody who reads it.</p>")

    for number in range(4):
        site.pages[f"/some/{number}"] = answer
    sites = [f"{site.url_at(host)}/some/{number}" for host in (1, 2) for number in range(4)]
    await reached(library, owner, await start(library, owner, *sites, concurrent_sites=1), "completed")
    assert asked
    assert all(len(hosts) == 1 for hosts in asked)


async def test_a_dry_run_crawls_and_keeps_nothing(library: House, owner: Key, site: Site) -> None:
    job_id = await start(library, owner, site.url, max_articles_per_site=3, dry_run=True)
    job = await reached(library, owner, job_id, "completed")
    assert (job["dry_run"], job["result"]["pages"], job["documents"]) == (True, 3, None)
    told = [event["payload"] for event in await events(library, owner, job_id) if event["type"] == "article.processed"]
    assert [each["status"] for each in told] == ["extracted"] * 3
    assert (await library.api("GET", "/documents", owner))["total"] == 0
    # A crawl that counts does not take what the dry run saw for known.
    job = await reached(library, owner, await start(library, owner, site.url, max_articles_per_site=3), "completed")
    assert job["documents"]["added"] == 3


async def slow(library: House, key: Key, site: Site) -> str:
    """A job that goes on for as long as a test looks at it."""
    site.latency_seconds = 1.0
    job_id = await start(library, key, site.url, max_articles_per_site=ALL_PAGES, max_depth=50)
    await reached(library, key, job_id, "running")
    return job_id


async def test_a_job_is_paused_resumed_stopped_and_tried_again(library: House, owner: Key, site: Site) -> None:
    job_id = await slow(library, owner, site)
    await library.control("POST", f"/jobs/{job_id}/pause", owner)
    await reached(library, owner, job_id, "paused")
    again = await library.control("POST", f"/jobs/{job_id}/pause", owner)
    assert again["status"] == "paused"
    await library.control("POST", f"/jobs/{job_id}/resume", owner)
    await reached(library, owner, job_id, "running")
    for _ in range(2):  # stopping twice is stopping once
        await library.control("POST", f"/jobs/{job_id}/stop", owner)
    job = await reached(library, owner, job_id, "cancelled")
    assert job["finished_at"] is not None
    assert (await library.control("POST", f"/jobs/{job_id}/stop", owner))["status"] == "cancelled"
    for request in ("pause", "resume"):
        answer = await library.control("POST", f"/jobs/{job_id}/{request}", owner, status=409)
        assert answer["error"] == f"Cannot {request} cancelled job '{job_id}'."
    await library.control("POST", f"/jobs/{job_id}/retry", owner)
    await reached(library, owner, job_id, "running")
    assert (await library.control("DELETE", f"/jobs/{job_id}", owner, status=409))["code"] == "CONFLICT"
    await library.control("POST", f"/jobs/{job_id}/stop", owner, params={"force": True})
    await reached(library, owner, job_id, "cancelled")
    await library.control("DELETE", f"/jobs/{job_id}", owner, status=204)
    await library.control("GET", f"/jobs/{job_id}", owner, status=404)


async def test_jobs_are_listed_newest_first_and_as_a_map(library: House, owner: Key, site: Site) -> None:
    ids = [await start(library, owner, site.url, max_articles_per_site=1) for _ in range(3)]
    for job_id in ids:
        await reached(library, owner, job_id, "completed")
    listed = await library.control("GET", "/jobs", owner)
    assert ([job["job_id"] for job in listed["jobs"]], listed["total"]) == (ids[::-1], 3)
    part = await library.control("GET", "/jobs", owner, params={"limit": 1, "offset": 1, "status": "completed"})
    assert [job["job_id"] for job in part["jobs"]] == [ids[1]]
    assert (await library.control("GET", "/jobs", owner, params={"status": "failed"}))["jobs"] == []
    assert await library.control("GET", "/jobs", owner, params={"view": "map"}) == dict.fromkeys(ids, "completed")


async def test_clearing_leaves_what_runs(library: House, owner: Key, site: Site) -> None:
    running = await slow(library, owner, site)
    done = await start(library, owner, site.url_at(2), max_articles_per_site=1)
    await reached(library, owner, done, "completed")
    cleared = await library.control("POST", "/clear_jobs", owner)
    assert (cleared["cleared"], cleared["cleared_jobs"]) == (1, [done])
    assert (await look(library, owner, running))["status"] == "running"
    await library.control("POST", f"/stop_job/{running}", owner)
    await reached(library, owner, running, "cancelled")


async def test_the_details_show_errors_and_the_log(library: House, owner: Key, site: Site) -> None:
    urls = [f"{site.url}/page/1", f"{site.url}/no-such-page"]
    answer = await library.control("POST", "/jobs", owner, status=202, json={"urls": urls})
    job = await reached(library, owner, answer["job_id"], "completed")
    assert job["errors"] == {"http_error": 1}
    [failed] = [
        event["payload"]
        for event in await events(library, owner, answer["job_id"])
        if event["type"] == "article.processed" and event["payload"]["status"] == "failed"
    ]
    assert (failed["url"], failed["error_type"]) == (urls[1], "http_error")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "domains"),
        ({"domains": []}, "domains"),
        ({"domains": ["a.example"], "urls": ["https://b.example/"]}, "domains"),
        ({"domains": ["not a host"]}, "domains.0"),
        ({"domains": ["a.example", "file:///etc/passwd"]}, "domains.1"),
        ({"urls": ["gopher://a.example/"]}, "urls.0"),
        ({"domains": ["a.example"], "mode": "sideways"}, "mode"),
        ({"domains": ["a.example"], "priority": "urgent"}, "priority"),
        ({"domains": ["a.example"], "max_articles_per_site": 0}, "max_articles_per_site"),
        ({"domains": ["a.example"], "concurrent_sites": "3"}, "concurrent_sites"),
        ({"domains": ["a.example"], "dry_run": "yes"}, "dry_run"),
        ({"domains": ["a.example"], "metadata": {"nul": "\0"}}, "metadata"),
        ({"domains": ["a.example"], "colour": "blue"}, "colour"),
        ({"domains": ["a.example"] * 1001}, "domains"),
    ],
)
async def test_a_wrong_order_names_its_field(library: House, owner: Key, body: dict[str, Any], field: str) -> None:
    answer = await library.control("POST", "/jobs", owner, status=400, json=body)
    details = answer["details"]
    assert field == (details.get("field") or details["fields"][0]["field"]), answer


async def test_private_addresses_and_blocked_hosts_are_refused(library: House, owner: Key) -> None:
    for domain in ("10.0.0.1", "http://169.254.169.254/", "[::1]:8080", "0x0a000001"):
        answer = await library.control("POST", "/jobs", owner, status=403, json={"domains": [domain]})
        assert answer["code"] == "URL_BLOCKED"
    await library.api("POST", "/domains/blocked.example/block", owner, json={"reason": "they asked"})
    answer = await library.control("POST", "/jobs", owner, status=403, json={"domains": ["blocked.example"]})
    assert answer["code"] == "DOMAIN_BLOCKED"


async def test_unknown_jobs_are_404_whatever_is_asked_of_them(library: House, owner: Key) -> None:
    for unknown in (new_id("job"), "nonsense", "01900000-0000-7000-8000-000000000000"):
        for method, path in (
            ("GET", ""), ("DELETE", ""), ("GET", "/events"), ("POST", "/stop"), ("POST", "/pause"),
            ("POST", "/resume"), ("POST", "/retry"),
        ):  # fmt: skip
            await library.control(method, f"/jobs/{unknown}{path}", owner, status=404)
        await library.control("GET", f"/job_status/{unknown}", owner, status=404)
        await library.control("POST", f"/stop_job/{unknown}", owner, status=404)
