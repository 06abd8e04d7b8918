"""What scripts called before Scrubjay: they get the keys that they got, from real crawls."""

from typing import Any

import pytest
from tests.acceptance.control.asking import look, reached, start
from tests.acceptance.house import House, Key
from tests.site import Reply, Site

from scrubjay.model.urls import hash_url, normalize_url

pytestmark = pytest.mark.asyncio(loop_scope="module")

RESULT = {
    "unified_crawl", "sites_crawled", "total_articles", "articles_ingested", "duplicates_skipped", "ingestion_errors",
    "processing_time_seconds", "articles_per_second", "strategy_breakdown", "site_breakdown", "articles",
}  # fmt: skip
ARTICLE = {
    "url", "url_hash", "domain", "canonical", "title", "content", "extraction_method", "timestamp", "status",
    "paywall_flag", "confidence", "publisher_meta", "crawl_mode", "news_score", "extraction_metadata",
}  # fmt: skip
WORDS = "The committee met on Tuesday and agreed on nothing that anybody in the town could remember afterwards. "


async def crawl(library: House, key: Key, *sites: str, **kwargs: Any) -> dict[str, Any]:
    body = {"args": [list(sites)], "kwargs": kwargs}
    answer = await library.control("POST", "/unified_production_crawl", key, status=202, json=body)
    assert answer.keys() == {"status", "job_id"}
    assert answer["status"] == "accepted"
    await reached(library, key, answer["job_id"], "completed")
    status: dict[str, Any] = await library.control("GET", f"/job_status/{answer['job_id']}", key)
    assert status.keys() == {"status", "result"}
    result: dict[str, Any] = status["result"]
    return result


async def test_a_production_crawl_gives_the_keys_that_scripts_read(library: House, owner: Key, site: Site) -> None:
    result = await crawl(library, owner, site.url_at(1), site.url_at(2), max_articles_per_site=3, concurrent_sites=2)
    assert result.keys() == RESULT
    assert (result["unified_crawl"], result["sites_crawled"]) == (True, 2)
    assert result["total_articles"] == sum(result["site_breakdown"].values()) == len(result["articles"])
    assert result["articles_ingested"] == result["total_articles"]
    assert sum(result["strategy_breakdown"].values()) == result["total_articles"]
    assert result["processing_time_seconds"] > 0
    assert result["articles_per_second"] > 0
    for article in result["articles"]:
        assert article.keys() == ARTICLE
        assert article["url_hash"] == hash_url(normalize_url(article["canonical"]))
        assert (article["status"], article["crawl_mode"]) == ("success", "concurrent")
        assert 0 < article["confidence"] <= 1
        assert article["content"].strip()
    # Everything again: nothing is new, and it says so.
    again = await crawl(library, owner, site.url_at(1), site.url_at(2), max_articles_per_site=3)
    assert (again["articles_ingested"], again["duplicates_skipped"]) == (0, result["total_articles"])


async def test_a_paywall_takes_evidence(library: House, owner: Key, site: Site) -> None:
    def page(head: str = "", end: str = "") -> Reply:
        return Reply(f"<html><head><title>T</title>{head}</head><body><article><h1>T</h1>{end}</article></body></html>")

    long = "".join(f"<p>{WORDS * 3}</p>" for _ in range(6))
    says_so = '<script type="application/ld+json">{"@type":"NewsArticle","isAccessibleForFree":"False"}</script>'
    free = '<script type="application/ld+json">{"@type":"NewsArticle","isAccessibleForFree":true}</script>'
    pages = {
        "/marked": page(says_so, long),
        "/cut": page(end=f"<p>{WORDS * 4}</p><p>Subscribe to continue reading.</p>"),
        "/subscribe": page(end=long + "<p>Subscribe to our newsletter for more of this.</p>"),
        "/free": page(free, long),
        "/plain": page(end=long),
    }
    site.pages.update(pages)
    result = await crawl(library, owner, *[site.url + path for path in pages], max_articles_per_site=100)
    flags = {article["url"].removeprefix(site.url): article["paywall_flag"] for article in result["articles"]}
    assert {path: flags[path] for path in pages} == {
        "/marked": True, "/cut": True, "/subscribe": False, "/free": False, "/plain": False,
    }  # fmt: skip


async def test_the_status_of_what_runs_and_what_was_stopped(library: House, owner: Key, site: Site) -> None:
    site.latency_seconds = 1.0
    try:
        job_id = await start(library, owner, site.url, max_articles_per_site=1000)
        await reached(library, owner, job_id, "running")
        assert await library.control("GET", f"/job_status/{job_id}", owner) == {"status": "running"}
        stopped = await library.control("POST", f"/stop_job/{job_id}", owner)
        assert stopped["message"] == "It stops at its next checkpoint."
        await reached(library, owner, job_id, "cancelled")
        stopped = await library.control("POST", f"/stop_job/{job_id}", owner)
        assert (stopped["status"], stopped["message"]) == ("cancelled", "It has stopped.")
    finally:
        site.latency_seconds = 0.0


async def test_a_command_names_sites_in_three_ways(library: House, owner: Key, site: Site) -> None:
    async def command(domains: str, **values: Any) -> list[str]:
        body = {"domains": domains, "max_articles_per_site": 1, **values}
        answer = await library.control("POST", "/api/crawl/start", owner, status=202, json=body)
        job = await reached(library, owner, answer["job_id"], "completed")
        assert job["targets"] == [each if each.endswith("/") else f"{each}/" for each in answer["domains"]]
        sites: list[str] = answer["domains"]
        return sites

    answer = await library.control("POST", "/api/crawl/start", owner, status=400, json={"domains": "all"})
    assert answer["details"]["field"] == "domains"
    one, two = site.url_at(1), site.url_at(2)
    assert await command(f"{one}, {two}") == [one, two]
    assert await command(f"{one}, {two}", max_sites=1) == [one]
    for url in (two, one):
        body = {"name": url, "url_pattern": url, "is_active": True, "schedule_cron": "0 0 1 1 *"}
        await library.api("POST", "/sources", owner, status=201, json=body)
    assert await command("all") == [f"{two}/", f"{one}/"]
    assert await command("sources 1") == [f"{two}/"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/unified_production_crawl", {}, "domains"),
        ("/unified_production_crawl", {"args": ["a.example"]}, "domains"),
        ("/unified_production_crawl", {"args": [[1]]}, "domains.0"),
        ("/unified_production_crawl", {"args": [["a b"]]}, "domains.0"),
        ("/unified_production_crawl", {"args": [["a.example"]], "kwargs": {"concurrent_sites": 0}}, "concurrent_sites"),
        ("/unified_production_crawl", {"args": [["a.example"]], "kwargs": {"colour": 1}}, "colour"),
        ("/api/crawl/start", {}, "domains"),
        ("/api/crawl/start", {"domains": " , "}, "domains"),
        ("/api/crawl/start", {"domains": "a.example", "strategy": "magic"}, "strategy"),
        ("/api/crawl/start", {"domains": "a.example", "timeout": 0}, "timeout"),
        ("/api/crawl/start", {"domains": "a.example", "max_sites": 0}, "max_sites"),
    ],
)
async def test_a_wrong_call_names_its_field(
    library: House, owner: Key, path: str, body: dict[str, Any], field: str
) -> None:
    answer = await library.control("POST", path, owner, status=400, json=body)
    details = answer["details"]
    assert field == (details.get("field") or details["fields"][0]["field"]), answer


async def test_what_is_no_crawl_has_no_such_status(library: House, owner: Key) -> None:
    who, _ = await library.jay.access.authenticate(owner.text)
    job = await library.jay.jobs.submit(who, "diagnostic.steps", {"steps": 1})
    await library.control("GET", f"/job_status/{job.id}", owner, status=404)
    assert (await look(library, owner, job.id))["kind"] == "diagnostic.steps"
