"""robots.txt, asked of a real site."""

import asyncio
import time
from dataclasses import replace

import pytest
from tests.site import Reply, Site, SiteRequest, redirect, running_site

from scrubjay.crawler.fetcher import Fetcher
from scrubjay.crawler.robots import Robots, RobotsFile, RobotsReason, RobotsRules, RobotsState, origin_of, product_token
from scrubjay.errors import UrlBlocked, UrlInvalid
from scrubjay.model.urls import parse_url
from scrubjay.storage import cache_keys
from scrubjay.storage.cache_memory import MemoryCache


def rules(text: str | bytes) -> RobotsRules:
    body = text.encode() if isinstance(text, str) else text
    return RobotsRules("https://a.example", RobotsFile(state=RobotsState.PRESENT, fetched_at=time.time(), body=body))


@pytest.fixture
def cache() -> MemoryCache:
    return MemoryCache()


@pytest.fixture
def robots(fetcher: Fetcher, cache: MemoryCache) -> Robots:
    return Robots(fetcher, cache)


async def test_a_disallowed_path_is_refused_and_the_rest_is_allowed(site: Site, robots: Robots) -> None:
    site.robots = "User-agent: *\nDisallow: /private/\nAllow: /private/open\n"
    assert (await robots.allowed(f"{site.url}/page")).reason is RobotsReason.ALLOWED
    assert (await robots.allowed(f"{site.url}/private/open")).allowed
    refused = await robots.allowed(f"{site.url}/private/x")
    assert (refused.allowed, refused.reason, refused.temporary) == (False, RobotsReason.DISALLOWED, False)


async def test_rules_see_the_address_as_it_is_requested(site: Site, robots: Robots) -> None:
    site.robots = "User-agent: *\nDisallow: /private/\nDisallow: /*?print=\n"
    assert not (await robots.allowed(f"{site.url}/private/")).allowed
    assert (await robots.allowed(f"{site.url}/private")).allowed
    assert not (await robots.allowed(f"{site.url}/page?print=1")).allowed


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
async def test_a_host_without_a_robots_txt_allows_everything(site: Site, robots: Robots, status: int) -> None:
    site.robots = Reply("Disallow: /", status)
    verdict = await robots.allowed(f"{site.url}/page")
    assert (verdict.allowed, verdict.reason) == (True, RobotsReason.NO_ROBOTS)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_host_that_cannot_say_is_left_alone_for_now(site: Site, robots: Robots, status: int) -> None:
    site.robots = Reply("User-agent: *\nAllow: /", status)
    verdict = await robots.allowed(f"{site.url}/page")
    assert (verdict.allowed, verdict.reason, verdict.temporary) == (False, RobotsReason.UNREACHABLE, True)
    assert str(status) in (verdict.message or "")


@pytest.mark.parametrize("fault", ["reset-at-once", "no-answer", "garbage", "broken-gzip", "length-too-long"])
async def test_a_broken_answer_means_not_now(site: Site, robots: Robots, fault: str) -> None:
    site.faults["/robots.txt"] = site.faults[f"/fault/{fault}"]
    assert (await robots.allowed(f"{site.url}/page")).reason is RobotsReason.UNREACHABLE


async def test_an_unreachable_robots_txt_is_asked_for_again_after_a_while(
    site: Site, robots: Robots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_keys, "ROBOTS_UNREACHABLE_SECONDS", 0.05)
    site.robots = Reply("", 503)
    assert not (await robots.allowed(f"{site.url}/page")).allowed
    site.robots = "User-agent: *\nDisallow: /private\n"
    await asyncio.sleep(0.1)
    assert (await robots.allowed(f"{site.url}/page")).allowed
    assert site.counts["/robots.txt"] == 2


async def test_an_old_copy_counts_while_the_host_cannot_be_reached(
    site: Site, fetcher: Fetcher, cache: MemoryCache
) -> None:
    origin = site.url
    old = RobotsFile(
        state=RobotsState.PRESENT, fetched_at=time.time() - 2 * 86400, status=200, body=b"User-agent: *\nDisallow: /x"
    )
    await cache.set(cache_keys.robots(origin), old.dump(), ttl_seconds=60)
    site.robots = Reply("", 503)
    robots = Robots(fetcher, cache)
    assert (await robots.allowed(f"{origin}/page")).allowed
    assert not (await robots.allowed(f"{origin}/x")).allowed
    assert site.counts["/robots.txt"] == 1, "it was older than a day, so the host was asked"


async def test_a_copy_older_than_a_day_is_replaced(site: Site, fetcher: Fetcher, cache: MemoryCache) -> None:
    old = RobotsFile(
        state=RobotsState.PRESENT, fetched_at=time.time() - 2 * 86400, status=200, body=b"User-agent: *\nDisallow: /"
    )
    await cache.set(cache_keys.robots(site.url), old.dump(), ttl_seconds=60)
    site.robots = "User-agent: *\nDisallow: /new\n"
    assert (await Robots(fetcher, cache).allowed(f"{site.url}/page")).allowed


async def test_many_pages_at_once_fetch_one_robots_txt(site: Site, robots: Robots) -> None:
    site.robots = "User-agent: *\nDisallow: /private\n"
    site.latency_seconds = 0.05
    verdicts = await asyncio.gather(*(robots.allowed(f"{site.url}/page/{number}") for number in range(64)))
    assert all(verdict.allowed for verdict in verdicts)
    assert site.counts["/robots.txt"] == 1


async def test_a_cancelled_page_does_not_take_the_others_with_it(site: Site, robots: Robots) -> None:
    site.robots = "User-agent: *\nDisallow: /private\n"
    site.latency_seconds = 0.1
    first = asyncio.create_task(robots.allowed(f"{site.url}/one"))
    second = asyncio.create_task(robots.allowed(f"{site.url}/two"))
    await asyncio.sleep(0.03)
    first.cancel()
    assert (await second).allowed
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_another_process_uses_what_the_first_one_fetched(
    site: Site, fetcher: Fetcher, cache: MemoryCache
) -> None:
    site.robots = "User-agent: *\nDisallow: /private\nCrawl-delay: 2\nSitemap: https://a.example/s.xml\n"
    await Robots(fetcher, cache).allowed(f"{site.url}/page")
    other = await Robots(fetcher, cache).rules_for(f"{site.url}/private")
    assert not other.allows(f"{site.url}/private")
    assert (other.crawl_delay_seconds(), other.sitemaps) == (2.0, ("https://a.example/s.xml",))
    assert site.counts["/robots.txt"] == 1


async def test_of_fifty_megabytes_the_first_half_megabyte_counts(site: Site, robots: Robots) -> None:
    site.faults["/robots.txt"] = site.faults["/fault/endless-robots"]
    before = time.perf_counter()
    found = await robots.rules_for(f"{site.url}/page")
    assert time.perf_counter() - before < 5
    assert found.file.truncated
    assert 500 * 1024 <= len(found.file.body) <= 512 * 1024
    assert found.allows(f"{site.url}/page")
    assert not found.allows(f"{site.url}/private/x")


async def test_a_rule_that_the_limit_cuts_in_half_is_dropped(site: Site, robots: Robots) -> None:
    filler = "# " + "x" * 1021 + "\n"
    site.robots = (
        "User-agent: *\n" + filler * 511 + "#" * 980 + "\n" + "Disallow: /p/q/r/s/t/u/v/w/x/y/z/the-end\n" * 40
    )
    found = await robots.rules_for(f"{site.url}/page")
    assert found.file.truncated
    assert found.file.body.endswith(b"\n")
    assert found.allows(f"{site.url}/p/q")


@pytest.mark.parametrize(
    ("hops", "reason"), [(5, RobotsReason.DISALLOWED), (6, RobotsReason.NO_ROBOTS), (50, RobotsReason.NO_ROBOTS)]
)
async def test_five_redirects_are_followed(site: Site, robots: Robots, hops: int, reason: RobotsReason) -> None:
    def hop(request: SiteRequest) -> Reply:
        left = int(request.query.get("left", hops))
        return (
            redirect(f"/robots.txt?left={left - 1}") if left else Reply("User-agent: *\nDisallow: /", content_type=None)
        )

    site.robots = hop
    assert (await robots.allowed(f"{site.url}/page")).reason is reason


async def test_a_redirect_into_a_private_network_is_not_followed_and_means_not_now(site: Site, robots: Robots) -> None:
    site.robots = redirect("http://10.0.0.1/robots.txt")
    assert (await robots.allowed(f"{site.url}/page")).reason is RobotsReason.UNREACHABLE


async def test_of_a_blocked_host_nothing_is_asked(robots: Robots) -> None:
    with pytest.raises(UrlBlocked):
        await robots.allowed("http://10.0.0.1/page")


async def test_what_is_no_web_address_is_refused(robots: Robots) -> None:
    with pytest.raises(UrlInvalid):
        await robots.allowed("file:///etc/passwd")


def test_an_error_page_with_status_200_says_nothing() -> None:
    page = rules("\ufeff\n<!doctype html><html><pre>\nUser-agent: *\nDisallow: /\nSitemap: /x\n</pre></html>")
    assert page.allows("https://a.example/page")
    assert page.sitemaps == ()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\x01\x02" * 1000,
        b"\xff\xfe\xfd",
        b"Disallow: /before-any-agent",
        b"User-agent\nDisallow",
        b"User-agent: *\nCrawl-delay: soon\n",
        b"User-agent: *\nCrawl-delay: -5\n",
        b"User-agent: *\nDisallow: /%zz%\n",
        b"User-agent: *\nDisallow: " + b"/*a" * 5000,
        b":" * 100_000,
    ],
)
def test_a_senseless_robots_txt_allows_an_ordinary_page(body: bytes) -> None:
    found = rules(body)
    assert found.allows("https://a.example/page")
    assert found.crawl_delay_seconds() is None


def test_many_wildcards_are_matched_in_a_moment() -> None:
    found = rules("User-agent: *\n" + "Disallow: " + "/*a" * 200 + "b\n")
    before = time.perf_counter()
    assert found.allows("https://a.example/" + "a" * 2000)
    assert time.perf_counter() - before < 0.2


def test_rules_for_our_name_come_before_rules_for_everyone() -> None:
    found = rules("User-agent: *\nDisallow: /\nCrawl-delay: 9\n\nUser-agent: Scrubjay\nDisallow: /private\n")
    assert found.allows("https://a.example/page")
    assert not found.allows("https://a.example/private")
    assert not found.allows("https://a.example/page", "OtherBot/1.0")


def test_the_crawl_delay_of_everyone_counts_where_ours_is_not_given() -> None:
    found = rules(
        "User-agent: *\nCrawl-delay: 9\n\nUser-agent: Scrubjay\nDisallow: /x\n\nUser-agent: Mole\nCrawl-delay: 1.5\n"
    )
    assert found.crawl_delay_seconds() == 9
    assert found.crawl_delay_seconds("mole/2.0") == 1.5


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("Scrubjay/0.1 (+https://github.com/scrubjay/scrubjay)", "scrubjay"),
        ("Mozilla/5.0 (compatible; FooBot/2.1; +https://foo.example)", "foobot"),
        ("my-bot", "my-bot"),
        ("", ""),
        ("42", "42"),
    ],
)
def test_a_crawler_is_addressed_by_its_product_token(user_agent: str, token: str) -> None:
    assert product_token(user_agent) == token


def test_words_elsewhere_in_the_user_agent_are_not_our_name() -> None:
    assert rules("User-agent: github\nDisallow: /\n").allows(
        "https://a.example/", "Scrubjay/0.1 (+https://github.com/x)"
    )


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("HTTPS://A.Example:443/x?y=/z", "https://a.example"),
        ("http://a.example:8080", "http://a.example:8080"),
        ("http://user:pw@[::1]:81/", "http://[::1]:81"),
    ],
)
def test_rules_belong_to_scheme_host_and_port(url: str, origin: str) -> None:
    assert origin_of(parse_url(url)) == origin


def test_a_stored_file_comes_back_as_it_was() -> None:
    file = RobotsFile(
        state=RobotsState.PRESENT, fetched_at=12.5, status=200, message="m", truncated=True, body=b"a\nb\n\x00\xff"
    )
    assert RobotsFile.load(file.dump()) == file
    assert RobotsFile.load(replace(file, body=b"").dump()) == replace(file, body=b"")


async def test_parsed_rules_are_kept_for_a_bounded_number_of_hosts(
    robots: Robots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.crawler.robots.PARSED_ORIGINS", 5)
    async with running_site(hosts=11) as site:
        site.robots = "User-agent: *\nDisallow: /x\n"
        for number in range(1, 12):
            assert (await robots.allowed(f"{site.url_at(number)}/page")).allowed
        assert len(robots._parsed) == 5
        assert robots._parsed_bytes == 5 * len("User-agent: *\nDisallow: /x\n")
        await robots.allowed(f"{site.url_at(1)}/page")
        assert site.counts["/robots.txt"] == 11, "what is no longer parsed is still in the cache"
