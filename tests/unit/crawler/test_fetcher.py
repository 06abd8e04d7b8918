"""The one way out: redirects, limits, codings, credentials, cookies, proxies and the guard behind all of them."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import brotli
import pytest
import zstandard
from tests.site import Reply, Site, redirect, running_site
from tests.site_faults import API_KEY, API_KEY_HEADER, BEARER_TOKEN

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.fetcher import SPOOL_BYTES, Credentials, Fetcher, FetchRequest, Network
from scrubjay.crawler.proxies import ProxyPool, ProxyServer
from scrubjay.errors import FetchFailed, InvalidRequest, UrlBlocked, UrlInvalid
from scrubjay.model.crawling import ProxyRotation
from scrubjay.model.urls import parse_url

TEXT = ("A scrub jay remembers what it cached. " * 2000).encode()


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[Fetcher]:
    network = Network(EgressGuard([ip_network("127.0.0.0/8")]))
    try:
        async with network.fetcher(**options) as fetcher:
            yield fetcher
    finally:
        await network.close()


async def failure_of(fetcher: Fetcher, url: str, **options: Any) -> str:
    with pytest.raises(FetchFailed) as failed:
        await fetcher.fetch(FetchRequest(url=url, **options))
    return failed.value.error_type


async def test_a_page_comes_with_its_status_headers_and_body(fetcher: Fetcher, site: Site) -> None:
    site.add("/a", "<h1>A</h1>")

    answer = await fetcher.fetch(FetchRequest(url=site.url + "/a"))

    assert (answer.status, answer.body, answer.url) == (200, b"<h1>A</h1>", site.url + "/a")
    assert answer.content_type == "text/html; charset=utf-8"
    assert site.requests[0].headers["user-agent"].startswith("Scrubjay/")


async def test_an_http_error_is_an_answer(fetcher: Fetcher, site: Site) -> None:
    assert (await fetcher.fetch(FetchRequest(url=site.url + "/nothing"))).status == 404


@pytest.mark.parametrize(
    ("coding", "encoded"),
    [
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("gzip", gzip.compress(TEXT[:5000], mtime=0) + gzip.compress(TEXT[5000:], mtime=0)),
        ("x-gzip", gzip.compress(TEXT, mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)[2:-4]),
        ("br", brotli.compress(TEXT)),
        ("zstd", zstandard.compress(TEXT)),
        ("identity", TEXT),
        ("gzip, br", brotli.compress(gzip.compress(TEXT, mtime=0))),
    ],
)
async def test_every_coding_is_undone(fetcher: Fetcher, site: Site, coding: str, encoded: bytes) -> None:
    site.pages["/a"] = Reply(encoded, headers={"Content-Encoding": coding})

    answer = await fetcher.fetch(FetchRequest(url=site.url + "/a"))

    assert answer.body == TEXT
    assert "zstd" in site.requests[0].headers["accept-encoding"]


def squeezed(*pieces: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*map(packer.compress, pieces), packer.flush()])


@pytest.mark.parametrize(
    ("coding", "body", "error_type"),
    [
        # The innermost stream ends at once, and what would follow it for gigabytes is padding to its decoder.
        (
            "gzip, gzip, gzip",
            lambda: squeezed(squeezed(gzip.compress(b"", mtime=0), *[bytes(1 << 20)] * 300)),
            "too_large",
        ),
        ("gzip, gzip", lambda: squeezed(gzip.compress(b"", mtime=0) * 60_000), "bad_encoding"),
        ("zstd, gzip", lambda: squeezed(zstandard.compress(b"") * 60_000), "bad_encoding"),
        ("\x1b[31mred", lambda: b"x", "bad_encoding"),
    ],
)
async def test_a_bomb_between_two_codings_is_defused(
    fetcher: Fetcher, site: Site, coding: str, body: Callable[[], bytes], error_type: str
) -> None:
    site.pages["/a"] = Reply(body(), headers={"Content-Encoding": coding})

    with pytest.raises(FetchFailed) as failed:
        await fetcher.fetch(FetchRequest(url=site.url + "/a"))

    assert failed.value.error_type == error_type
    assert failed.value.message.isprintable()


async def test_headers_that_are_too_large_together_are_refused(fetcher: Fetcher, site: Site) -> None:
    site.pages["/a"] = Reply("x", headers={f"X-{number}": "x" * 60_000 for number in range(6)})

    assert await failure_of(fetcher, site.url + "/a") == "protocol"


@pytest.mark.parametrize(
    ("path", "error_type"),
    [
        ("/fault/endless-body", "too_large"),
        ("/fault/gzip-bomb", "too_large"),
        ("/fault/brotli-bomb", "too_large"),
        ("/fault/zstd-bomb", "too_large"),
        ("/fault/broken-gzip", "bad_encoding"),
        ("/fault/slow-body", "timeout"),
        ("/fault/slow-headers", "timeout"),
        ("/fault/redirect-loop", "redirect_loop"),
        ("/fault/redirect-self", "redirect_loop"),
        ("/fault/redirect-chain", "too_many_redirects"),
    ],
)
async def test_a_misbehaving_server_gives_one_failure_with_its_type(
    fetcher: Fetcher, site: Site, path: str, error_type: str
) -> None:
    assert path in site.faults or path in site.pages
    assert await failure_of(fetcher, site.url + path, max_bytes=1_000_000, timeout_seconds=1.5) == error_type


async def test_every_fault_of_the_zoo_ends_in_an_answer_or_a_typed_failure(fetcher: Fetcher, site: Site) -> None:
    paths = [path for path in [*site.faults, *site.pages] if path.startswith("/fault/")]
    assert len(paths) > 25

    async def ask(path: str) -> str:
        try:
            request = FetchRequest(url=site.url + path, max_bytes=1_000_000, timeout_seconds=2)
            return str((await fetcher.fetch(request)).status)
        except (FetchFailed, UrlBlocked) as error:
            return error.error_type

    outcomes = dict(zip(paths, await asyncio.gather(*map(ask, paths)), strict=True))

    assert "internal" not in outcomes.values()
    assert {"timeout", "too_large", "bad_encoding", "incomplete", "protocol", "blocked_address"} <= set(
        outcomes.values()
    )


async def test_a_body_over_the_limit_is_cut_when_the_request_says_so(fetcher: Fetcher, site: Site) -> None:
    site.pages["/a"] = Reply(gzip.compress(TEXT, mtime=0), headers={"Content-Encoding": "gzip"})

    answer = await fetcher.fetch(FetchRequest(url=site.url + "/a", max_bytes=100, truncate=True))

    assert (answer.body, answer.truncated) == (TEXT[:100], True)


async def test_a_large_body_waits_in_a_file_when_the_request_allows_it(fetcher: Fetcher, site: Site) -> None:
    body = b"x" * (SPOOL_BYTES + 1)
    site.pages["/a"] = Reply(body)

    answer = await fetcher.fetch(FetchRequest(url=site.url + "/a", spool=True))

    assert answer.file is not None
    try:
        assert (answer.body, answer.size, answer.file.read_bytes() == body) == (b"", len(body), True)
    finally:
        answer.file.unlink()
    async with fetcher.open(FetchRequest(url=site.url + "/a")) as (head, pieces):
        assert sum([len(piece) async for piece in pieces]) == head.size == len(body)
        file = head.file
    assert file is not None
    assert not file.exists()


async def test_validators_are_sent_and_304_is_recognised(fetcher: Fetcher, site: Site) -> None:
    site.add("/a", lambda request: Reply(status=304) if request.headers.get("if-none-match") == '"v1"' else Reply("x"))

    answer = await fetcher.fetch(FetchRequest(url=site.url + "/a", etag='"v1"', last_modified="yesterday"))

    assert answer.not_modified
    assert site.requests[0].headers["if-modified-since"] == "yesterday"


@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/latest", "http://10.0.0.1/", "http://[::1]:80/", "http://0/"]
)
async def test_a_redirect_to_an_inner_address_is_refused(fetcher: Fetcher, site: Site, target: str) -> None:
    site.pages["/a"] = redirect(target)

    with pytest.raises(UrlBlocked):
        await fetcher.fetch(FetchRequest(url=site.url + "/a", timeout_seconds=5))


@pytest.mark.parametrize("target", ["file:///etc/passwd", "gopher://127.0.0.1:70/_x", "data:,x", "http://["])
async def test_a_redirect_to_what_is_no_web_address_is_refused(fetcher: Fetcher, site: Site, target: str) -> None:
    site.pages["/a"] = redirect(target)

    assert await failure_of(fetcher, site.url + "/a") == "bad_redirect"


async def test_redirects_are_not_followed_when_not_asked(fetcher: Fetcher, site: Site) -> None:
    site.pages["/a"] = redirect("/b", 301)

    answer = await fetcher.fetch(FetchRequest(url=site.url + "/a", follow_redirects=False))

    assert (answer.status, answer.is_redirect, site.counts["/b"]) == (301, True, 0)


async def test_redirects_are_followed_and_told(fetcher: Fetcher, site: Site) -> None:
    site.pages["/a"] = redirect("/b", 302)
    site.pages["/b"] = redirect("c?x=1", 307)
    site.add("/c", "here")

    answer = await fetcher.fetch(FetchRequest(url=site.url + "/a"))

    assert answer.url == site.url + "/c?x=1"
    assert answer.redirects == (site.url + "/a", site.url + "/b")


async def test_credentials_do_not_cross_to_another_origin() -> None:
    async with running_site(hosts=2) as site:
        site.pages["/a"] = redirect(site.url_at(2) + "/b")
        site.add("/b", "here")
        start = parse_url(site.url)
        options = {
            "credentials": Credentials.bearer(start, "token-1"),
            "headers": {"X-Api-Key": "key-1", "X-Color": "blue"},
            "headers_origin": start.origin,
        }
        async with opened(**options) as fetcher:
            await fetcher.fetch(FetchRequest(url=site.url + "/a", headers={"Cookie": "nest=oak", "X-Own": "1"}))

    first, second = site.requests
    assert first.headers["authorization"] == "Bearer token-1"
    assert (first.headers["x-api-key"], first.headers["cookie"]) == ("key-1", "nest=oak")
    assert not {"authorization", "x-api-key", "cookie"} & set(second.headers)
    assert (second.headers["x-color"], second.headers["x-own"]) == ("blue", "1")


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda url: Credentials.basic(url, "jay", "acorn"), "/auth/basic"),
        (lambda url: Credentials.bearer(url, BEARER_TOKEN), "/auth/bearer"),
        (lambda url: Credentials.api_key(url, API_KEY_HEADER, API_KEY), "/auth/api-key"),
    ],
)
async def test_each_kind_of_credentials_is_really_sent(site: Site, make: Any, path: str) -> None:
    async with opened(credentials=make(parse_url(site.url))) as fetcher:
        signed_in = await fetcher.fetch(FetchRequest(url=site.url + path))
    async with opened() as fetcher:
        without = await fetcher.fetch(FetchRequest(url=site.url + path))

    assert signed_in.status == 200
    assert without.status in (401, 403)


async def test_a_user_in_the_address_is_sent_as_basic_credentials_and_not_to_a_redirects_target() -> None:
    async with running_site(hosts=2) as site, opened() as fetcher:
        site.pages["/a"] = redirect(f"http://other:pass@127.0.0.2:{site.port}/b")
        site.add("/b", "here")
        await fetcher.fetch(FetchRequest(url=site.url.replace("://", "://jay:acorn@") + "/a"))

    assert site.requests[0].headers["authorization"] == "Basic amF5OmFjb3Ju"
    assert "authorization" not in site.requests[1].headers


@pytest.mark.parametrize(
    "name", ["X-Auth-Key", "X-Auth", "Ocp-Apim-Subscription-Key", "X-Session-Id", "X-JWT-Assertion"]
)
async def test_a_header_that_authenticates_by_another_name_stays_with_its_origin_too(name: str) -> None:
    async with running_site(hosts=2) as site:
        site.pages["/a"] = redirect(site.url_at(2) + "/b")
        site.add("/b", "here")
        async with opened(headers={name: "key-1"}, headers_origin=parse_url(site.url).origin) as fetcher:
            await fetcher.fetch(FetchRequest(url=site.url + "/a"))

    assert site.requests[0].headers[name.lower()] == "key-1"
    assert name.lower() not in site.requests[1].headers


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", " Connection"])
def test_a_key_cannot_be_sent_in_what_frames_a_request(name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Credentials.api_key(parse_url("http://example.org/"), name, "40")
    assert refused.value.details["field"] == "auth.name"


async def test_a_cookie_for_a_public_suffix_is_not_taken(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_home(_: str, port: int, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", at_home)
    for host, domain in (
        ("evil.co.uk", "co.uk"),
        ("evil.github.io", ".GitHub.io"),
        ("evil.example.co.uk", "example.co.uk"),
    ):
        site.pages[f"/{host}"] = Reply("set", headers={"Set-Cookie": f"from={host}; Path=/; Domain={domain}"})
    site.add("/look", "look")
    async with opened() as fetcher:
        for host in ("evil.co.uk", "evil.github.io", "evil.example.co.uk"):
            await fetcher.fetch(FetchRequest(url=f"http://{host}:{site.port}/{host}"))
        for host in ("bank.co.uk", "victim.github.io", "www.example.co.uk"):
            await fetcher.fetch(FetchRequest(url=f"http://{host}:{site.port}/look"))

    cookies = [request.headers.get("cookie") for request in site.requests_for("/look")]
    assert cookies == [None, None, "from=evil.example.co.uk"]


async def test_cookies_stay_within_their_crawl(site: Site) -> None:
    async with opened() as one, opened() as other:
        await one.fetch(FetchRequest(url=site.url + "/cookie/set"))
        inside = await one.fetch(FetchRequest(url=site.url + "/cookie/needed"))
        outside = await other.fetch(FetchRequest(url=site.url + "/cookie/needed"))

    assert inside.status == 200
    assert outside.status in (401, 403)


async def test_a_name_that_answers_otherwise_the_second_time_is_dialled_at_the_first_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the address that was checked is the address that is used."""
    site.add("/a", "public")
    asked: list[str] = []

    async def rebinding(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "10.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", rebinding)
    async with opened() as fetcher:
        answer = await fetcher.fetch(FetchRequest(url=f"http://rebind.example:{site.port}/a"))

    assert (answer.body, asked) == (b"public", ["rebind.example"])


async def test_a_name_that_turns_inward_between_two_requests_is_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.pages["/a"] = Reply("public", headers={"Connection": "close"})
    answers = iter(["127.0.0.1", "10.0.0.1"])

    async def rebinding(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", rebinding)
    monkeypatch.setattr("scrubjay.crawler.fetcher._DNS_CACHE_SECONDS", 0)
    async with opened() as fetcher:
        await fetcher.fetch(FetchRequest(url=f"http://rebind.example:{site.port}/a"))
        with pytest.raises(UrlBlocked):
            await fetcher.fetch(FetchRequest(url=f"http://rebind.example:{site.port}/a"))


async def test_the_socket_itself_is_guarded_even_if_a_resolver_lets_an_address_through(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = EgressGuard()
    network = Network(guard)
    monkeypatch.setattr(guard, "check_host", lambda host: None)
    try:
        async with network.fetcher() as fetcher:
            with pytest.raises(UrlBlocked):
                await fetcher.fetch(FetchRequest(url=site.url + "/"))
    finally:
        await network.close()
    assert site.requests == []


@pytest.mark.parametrize("url", ["http://[::1]/", "http://0x7f.1/", "http://10.0.0.1/", "http://2130706433/"])
async def test_without_an_allowed_network_nothing_inside_is_asked(url: str) -> None:
    network = Network(EgressGuard())
    try:
        async with network.fetcher() as fetcher:
            with pytest.raises(UrlBlocked):
                await fetcher.fetch(FetchRequest(url=url))
    finally:
        await network.close()


async def test_an_invalid_address_is_refused_before_anything_is_sent(fetcher: Fetcher) -> None:
    with pytest.raises(UrlInvalid):
        await fetcher.fetch(FetchRequest(url="file:///etc/passwd"))


async def test_a_proxy_is_used_and_signed_in_to(site: Site) -> None:
    """The test site answers whatever it is asked for, which makes it a proxy that makes things up."""
    site.add("/page", "through the proxy")
    proxies = ProxyPool([ProxyServer.parse(site.url, "jay", "acorn")])
    async with opened(proxies=proxies) as fetcher:
        answer = await fetcher.fetch(FetchRequest(url="http://93.184.216.34/page"))

    assert answer.body == b"through the proxy"
    assert site.requests[0].target == "http://93.184.216.34/page"
    assert site.requests[0].headers["proxy-authorization"] == "Basic amF5OmFjb3Ju"


async def test_a_proxy_that_points_inside_is_refused() -> None:
    async with opened(proxies=ProxyPool([ProxyServer.parse("http://10.0.0.1:3128")])) as fetcher:
        with pytest.raises(UrlBlocked):
            await fetcher.fetch(FetchRequest(url="http://93.184.216.34/", timeout_seconds=5))


async def test_a_proxy_is_not_asked_for_what_points_inside(site: Site) -> None:
    async with opened(proxies=ProxyPool([ProxyServer.parse(site.url)])) as fetcher:
        for url in ("http://169.254.169.254/latest", "http://10.0.0.1/", "https://[::1]/"):
            with pytest.raises(UrlBlocked):
                await fetcher.fetch(FetchRequest(url=url, timeout_seconds=5))

    assert site.requests == []


def servers(count: int) -> list[ProxyServer]:
    return [ProxyServer.parse(f"http://proxy{number}.example:3128") for number in range(count)]


def chosen(pool: ProxyPool, times: int) -> list[int]:
    numbers = []
    for _ in range(times):
        with pool.using() as server:
            numbers.append(int(server.url[12]))
    return numbers


def test_round_robin_takes_proxies_in_turn() -> None:
    assert chosen(ProxyPool(servers(3)), 7) == [0, 1, 2, 0, 1, 2, 0]


def test_least_used_takes_the_proxy_with_the_fewest_requests_under_way() -> None:
    pool = ProxyPool(servers(2), ProxyRotation.LEAST_USED)
    with pool.using() as first, pool.using() as second:
        assert {first.url, second.url} == {server.url for server in servers(2)}
        with pool.using() as third:
            assert third.url in (first.url, second.url)
    assert sorted(chosen(pool, 2)) == [0, 1]


def test_random_takes_every_proxy_sooner_or_later() -> None:
    assert set(chosen(ProxyPool(servers(3), ProxyRotation.RANDOM), 200)) == {0, 1, 2}


def test_a_pool_without_proxies_is_refused_by_field() -> None:
    with pytest.raises(InvalidRequest) as refused:
        ProxyPool([])
    assert refused.value.details["field"] == "servers"


def test_secrets_do_not_show_in_what_is_printed() -> None:
    url = parse_url("http://example.org/")
    shown = repr(Credentials.bearer(url, "token-1")) + repr(ProxyServer.parse("http://p.example", "jay", "acorn"))
    shown += repr(parse_url("http://jay:acorn@example.org/"))
    shown += repr(FetchRequest(url=url.text, headers={"Authorization": "token-1"}, body=b"acorn"))

    assert "token-1" not in shown
    assert "acorn" not in shown
