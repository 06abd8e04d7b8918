"""Discovery of a site's addresses, from real sitemaps and an index that speaks as Common Crawl does."""

import time
from collections import deque
from typing import Any

import pytest
from tests.common_crawl import CommonCrawl
from tests.site import Reply, Site, redirect

from scrubjay.crawler import common_crawl
from scrubjay.crawler.discovery import discover
from scrubjay.crawler.fetcher import Fetcher
from scrubjay.crawler.robots import Robots
from scrubjay.errors import InvalidRequest
from scrubjay.model.discovery import Discovery, DiscoverySource, read_discovery_spec
from scrubjay.model.patterns import UrlPattern
from scrubjay.storage.cache_memory import MemoryCache


async def find(site: Site, fetcher: Fetcher, index: CommonCrawl | None = None, **values: Any) -> Discovery:
    spec = read_discovery_spec({"domain": site.url} | values)
    base = index.base_url if index is not None else f"{site.url}/no-index"
    return await discover(spec, fetcher, Robots(fetcher, MemoryCache()), common_crawl_url=base)


def list_of(site: Site, *paths: str) -> Reply:
    return Reply("".join(f"{site.url}{path}\n" for path in paths), content_type="text/plain")


def paths(site: Site, found: Discovery) -> list[str]:
    return [one.url.removeprefix(site.url) for one in found.urls]


async def test_the_sitemaps_that_robots_txt_names_are_read(site: Site, fetcher: Fetcher) -> None:
    site.robots = f"Sitemap: {site.url}/first.txt\nSitemap: /second.txt\n"
    site.add("/first.txt", list_of(site, "/1", "/2"))
    site.add("/second.txt", list_of(site, "/2", "/3"))
    found = await find(site, fetcher)
    assert paths(site, found) == ["/1", "/2", "/3"]
    assert {one.source for one in found.urls} == {DiscoverySource.SITEMAP}
    assert (found.seen, found.complete, found.problems) == (3, True, [])
    assert site.counts["/sitemap.xml"] == 0


@pytest.mark.parametrize("place", ["/sitemap.xml", "/sitemap_index.xml"])
async def test_without_a_word_in_robots_txt_the_usual_places_are_tried(
    site: Site, fetcher: Fetcher, place: str
) -> None:
    site.add(place, list_of(site, "/1"))
    found = await find(site, fetcher)
    assert paths(site, found) == ["/1"]
    assert found.problems == [], "that the other place is empty is no problem"


async def test_a_site_without_sitemaps_has_nothing_to_discover(site: Site, fetcher: Fetcher) -> None:
    found = await find(site, fetcher)
    assert (found.urls, found.problems, found.complete) == ([], [], True)


async def test_a_named_sitemap_that_is_missing_is_a_problem(site: Site, fetcher: Fetcher) -> None:
    site.robots = "Sitemap: /missing.xml\nSitemap: gopher://x/y\n"
    found = await find(site, fetcher)
    assert [(one.url.removeprefix(site.url), one.error_type) for one in found.problems] == [
        ("/missing.xml", "http_404"),
        ("gopher://x/y", "invalid_url"),
    ]


async def test_a_host_that_is_down_is_a_problem(site: Site, fetcher: Fetcher) -> None:
    site.robots = Reply("", 503)
    found = await find(site, fetcher)
    assert [one.error_type for one in found.problems] == ["robots_unreachable"]
    assert sum(site.counts.values()) == 1


async def test_a_domain_inside_a_private_network_is_a_problem(fetcher: Fetcher, site: Site) -> None:
    found = await find(site, fetcher, domain="10.0.0.1", sources=["sitemap"])
    assert [one.error_type for one in found.problems] == ["blocked_address"]


async def test_a_bare_domain_is_tried_over_tls_and_then_plainly(site: Site, fetcher: Fetcher) -> None:
    site.sitemap = list_of(site, "/1")
    found = await find(site, fetcher, domain=f"127.0.0.1:{site.port}")
    assert paths(site, found) == ["/1"]


async def test_addresses_of_other_sites_are_left_out(site: Site, fetcher: Fetcher) -> None:
    site.sitemap = f"{site.url}/1\nhttps://other.example/2\nhttp://10.127.0.0.1.example/3\n"
    assert paths(site, await find(site, fetcher)) == ["/1"]


async def test_only_what_fits_the_pattern_is_returned(site: Site, fetcher: Fetcher) -> None:
    site.sitemap = list_of(site, "/blog/1", "/shop/2", "/blog/3")
    found = await find(site, fetcher, pattern=r"/blog/\d$")
    assert paths(site, found) == ["/blog/1", "/blog/3"]
    assert found.seen == 3


async def test_no_more_than_asked_for_is_returned_and_it_is_told_that_there_is_more(
    site: Site, fetcher: Fetcher
) -> None:
    site.sitemap = list_of(site, *(f"/{number}" for number in range(100)))
    found = await find(site, fetcher, max_urls=7)
    assert (len(found.urls), found.complete) == (7, False)


async def test_the_best_come_first_wherever_they_were_listed(site: Site, fetcher: Fetcher) -> None:
    site.sitemap = list_of(
        site, *(f"/other/{number}" for number in range(50)), "/acorns", "/acorn/storage", "/acorn", "/acorn?x=1"
    )
    found = await find(site, fetcher, score_query="acorn storage", max_urls=3)
    assert paths(site, found) == ["/acorn/storage", "/acorn", "/acorn?x=1"]
    scores = [one.score or 0 for one in found.urls]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1
    assert found.complete


async def test_what_scores_below_the_threshold_is_left_out(site: Site, fetcher: Fetcher) -> None:
    site.sitemap = list_of(site, "/acorn", "/oak", "/acorns")
    found = await find(site, fetcher, score_query="acorn", score_threshold=0.8)
    assert paths(site, found) == ["/acorn"]


async def test_common_crawl_is_read_page_by_page(site: Site, fetcher: Fetcher) -> None:
    index = CommonCrawl(site, page_size=10)
    for number in range(35):
        index.add(f"{site.url}/page/{number}")
    index.add("https://elsewhere.example/x")
    found = await find(site, fetcher, index, sources=["common_crawl"])
    assert paths(site, found) == [f"/page/{number}" for number in range(35)]
    assert {one.source for one in found.urls} == {DiscoverySource.COMMON_CRAWL}
    searches = [request.query for request in site.requests if request.path.endswith("-index")]
    assert searches[0]["showNumPages"] == "true"
    assert [search["page"] for search in searches[1:]] == ["0", "1", "2", "3"]
    assert {search["url"] for search in searches} == {"*.127.0.0.1"}


async def test_common_crawl_is_not_asked_for_more_pages_than_needed(site: Site, fetcher: Fetcher) -> None:
    index = CommonCrawl(site, page_size=10)
    for number in range(500):
        index.add(f"{site.url}/page/{number}")
    found = await find(site, fetcher, index, sources=["common_crawl"], max_urls=15)
    assert (len(found.urls), found.complete) == (15, False)
    assert site.counts["/cc/CC-MAIN-2026-39-index"] == 3


async def test_captures_of_errors_and_pictures_are_left_out(site: Site, fetcher: Fetcher) -> None:
    index = CommonCrawl(site)
    index.add(f"{site.url}/good")
    index.add(f"{site.url}/gone", status=404)
    index.add(f"{site.url}/picture", mime="image/png")
    assert paths(site, await find(site, fetcher, index, sources=["common_crawl"])) == ["/good"]


async def test_a_domain_that_common_crawl_does_not_know_has_no_addresses(site: Site, fetcher: Fetcher) -> None:
    found = await find(site, fetcher, CommonCrawl(site), sources=["common_crawl"])
    assert (found.urls, found.problems) == ([], [])


async def test_common_crawl_is_asked_again_when_it_wants_patience(
    site: Site, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_crawl, "FIRST_PAUSE_SECONDS", 0.01)
    index = CommonCrawl(site)
    index.add(f"{site.url}/good")
    index.failures_before_success = 2
    assert paths(site, await find(site, fetcher, index, sources=["common_crawl"])) == ["/good"]


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        (Reply("<html>We are sorry</html>"), "bad_answer"),
        (Reply("[]"), "bad_answer"),
        (Reply('[{"id": "CC-MAIN-2026-39"}]'), "bad_answer"),
        (Reply("", 403), "http_403"),
        (Reply("", 503), "http_503"),
        (redirect("http://10.0.0.1/"), "blocked_address"),
        (Reply('[{"cdx-api": "http://169.254.169.254/x"}]'), "blocked_address"),
        (Reply('[{"cdx-api": "file:///etc/passwd"}]'), "invalid_url"),
    ],
)
async def test_an_index_that_does_not_answer_is_a_problem_and_the_sitemaps_still_count(
    site: Site, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, answer: Reply, error_type: str
) -> None:
    monkeypatch.setattr(common_crawl, "FIRST_PAUSE_SECONDS", 0.01)
    index = CommonCrawl(site)
    site.pages["/cc/collinfo.json"] = answer
    site.sitemap = list_of(site, "/1")
    found = await find(site, fetcher, index, sources=["common_crawl", "sitemap"])
    assert paths(site, found) == ["/1"]
    assert [(one.source, one.error_type) for one in found.problems] == [(DiscoverySource.COMMON_CRAWL, error_type)]


async def test_a_page_that_both_sources_list_comes_once_and_from_the_first(site: Site, fetcher: Fetcher) -> None:
    index = CommonCrawl(site)
    site.sitemap = list_of(site, "/1", "/2")
    index.add(f"{site.url}/2/")
    index.add(f"{site.url}/3#part")
    index.add(f"https://127.0.0.1:{site.port}/1")
    found = await find(site, fetcher, index, sources=["sitemap", "common_crawl"])
    assert [(path, str(one.source)) for path, one in zip(paths(site, found), found.urls, strict=True)] == [
        ("/1", "sitemap"),
        ("/2", "sitemap"),
        ("/3", "common_crawl"),
    ]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"domain": ""}, "domain"),
        ({"domain": "not a domain"}, "domain"),
        ({"domain": "ftp://a.example"}, "domain"),
        ({"domain": "http://a.example/path"}, "domain"),
        ({"domain": "-a.example"}, "domain"),
        ({"domain": "a..example"}, "domain"),
        ({"domain": "a.example:99999"}, "domain"),
        ({"domain": ".".join(["a" * 60] * 5)}, "domain"),
        ({"domain": "ü" * 200 + ".example"}, "domain"),
        ({"domain": "a.example@b.example"}, "domain"),
        ({"sources": []}, "sources"),
        ({"sources": ["wayback"]}, "sources.0"),
        ({"max_urls": 0}, "max_urls"),
        ({"max_urls": 10_001}, "max_urls"),
        ({"score_threshold": -0.1}, "score_threshold"),
        ({"score_threshold": 1.1}, "score_threshold"),
        ({"pattern": ""}, "pattern"),
        ({"pattern": "("}, "pattern"),
        ({"pattern": "x" * 501}, "pattern"),
        ({"pattern": "(?=look)ahead"}, "pattern"),
        ({"pattern": "((a{999}){999}){999}"}, "pattern"),
        ({"score_query": ""}, "score_query"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_field_outside_its_limits_is_named(values: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_discovery_spec({"domain": "a.example"} | values)
    assert raised.value.details["field"] == field
    assert raised.value.message.startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("given", "domain", "host"),
    [
        (" Example.COM ", "example.com", "example.com"),
        ("https://example.com/", "https://example.com", "example.com"),
        ("bücher.example:8080", "xn--bcher-kva.example:8080", "xn--bcher-kva.example"),
        ("localhost", "localhost", "localhost"),
        ("www.example.com", "www.example.com", "example.com"),
        ("example.com.", "example.com", "example.com"),
    ],
)
def test_a_domain_is_brought_into_one_form(given: str, domain: str, host: str) -> None:
    spec = read_discovery_spec({"domain": given, "sources": ["sitemap", "sitemap"]})
    assert (spec.domain, spec.host) == (domain, host)
    assert spec.sources == (DiscoverySource.SITEMAP,)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(.*)*x", "(a?){50}a{50}b", r"(\w+\s?)*\d"])
def test_a_pattern_made_to_hang_python_is_matched_in_a_moment(pattern: str) -> None:
    compiled = UrlPattern(pattern)
    before = time.perf_counter()
    compiled.search("a" * 2000 + "!")
    assert time.perf_counter() - before < 0.1


def test_a_pattern_that_is_slow_in_spite_of_all_is_given_up() -> None:
    compiled = UrlPattern("((a{1,20}){1,20}){1,20}x")
    before = time.perf_counter()
    with pytest.raises(InvalidRequest, match="too long to match") as raised:
        deque((compiled.search("a" * 2000) for _ in range(100)), maxlen=0)
    assert raised.value.details["field"] == "pattern"
    assert time.perf_counter() - before < 10


def test_a_quick_pattern_may_be_asked_a_million_times() -> None:
    compiled = UrlPattern("/blog/")
    compiled._spent_seconds, compiled._searches = 100.0, 100_000_000
    assert compiled.search("https://a.example/blog/x")
