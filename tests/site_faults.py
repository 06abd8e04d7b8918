"""The zoo: every way in which a site can misbehave, each at its own path under `/fault/`.

Answers that follow the protocol are pages; those that break it are written to the wire byte by byte.
"""

import asyncio
import base64
import gzip
import zlib
from collections.abc import Callable
from functools import cache

import brotli
import zstandard
from tests.site import HTML, Misbehaviour, Reply, Site, SiteRequest, Wire, redirect

BOMB_BYTES = 1 << 30
CHUNK = bytes(1 << 20)
XML = "application/xml"
SITEMAP_SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'

BASIC_USER, BASIC_PASSWORD = "jay", "acorn"
BEARER_TOKEN = "a-bearer-token"
API_KEY_HEADER, API_KEY = "X-Api-Key", "an-api-key"

CONTENT_TYPES: dict[str, tuple[str, bytes]] = {
    "html": (HTML, b"<!doctype html><title>Acorns</title><main><h1>Acorns</h1><p>Where they are.</p></main>"),
    "xhtml": ("application/xhtml+xml", b'<html xmlns="http://www.w3.org/1999/xhtml"><body><p>Acorns</p></body></html>'),
    "text": ("text/plain; charset=utf-8", "Acorns, Eicheln, どんぐり".encode()),
    "latin1": ("text/html; charset=iso-8859-1", "<title>Früchte</title><p>Äpfel und Eicheln</p>".encode("latin-1")),
    "markdown": ("text/markdown", b"# Acorns\n\nWhere they are.\n"),
    "csv": ("text/csv", b"tree,acorns\noak,12\n"),
    "json": ("application/json", b'{"acorns": [1, 2, 3]}'),
    "xml": (XML, b"<acorns><acorn>1</acorn></acorns>"),
    "rss": (
        "application/rss+xml",
        b'<rss version="2.0"><channel><title>Acorns</title><item><link>/page</link></item></channel></rss>',
    ),
    "pdf": (
        "application/pdf",
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>endobj\n"
        b"4 0 obj<</Length 43>>stream\nBT /F1 18 Tf 20 100 Td (Acorns here) Tj ET\nendstream endobj\n"
        b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n",
    ),
    "png": (
        "image/png",
        base64.b64decode(
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
        ),
    ),
    "octets": ("application/octet-stream", bytes(range(256))),
}


def add_faults(site: Site) -> None:
    """Every fault of this module, on this site."""
    for name, misbehave in _WIRE_FAULTS.items():
        site.faults[f"/fault/{name}"] = misbehave
    for name, (content_type, body) in CONTENT_TYPES.items():
        site.pages[f"/type/{name}"] = Reply(body, content_type=content_type)
    _add_redirects(site)
    _add_sign_ins(site)
    _add_recoveries(site)
    _add_sitemaps(site)
    site.pages["/fault/invalid-utf8"] = Reply(b"<title>\xff\xfe broken \xc3\x28</title><p>\x80\x81 text \xf0\x28</p>")
    site.pages["/fault/nested"] = lambda _: Reply(b"<div>" * (2 << 20))
    site.pages["/fault/empty"] = Reply(b"")
    site.pages["/trap/calendar"] = _calendar
    site.pages["/trap/session"] = _session
    inner, site.fallback = site.fallback, None
    site.fallback = lambda request: _endless_path(request) or (inner(request) if inner else None)


# Bodies that never end, come slowly, lie about their size, or grow.


async def _endless_body(request: SiteRequest, wire: Wire) -> None:
    await wire.start("Content-Type: text/html", "Transfer-Encoding: chunked")
    line = b"<p>There is always more.</p>\n" * 512
    while True:
        await wire.send(f"{len(line):x}\r\n".encode() + line + b"\r\n")


async def _endless_robots(request: SiteRequest, wire: Wire) -> None:
    """50 MB of rules, the first of which counts."""
    line = b"Disallow: /nowhere-in-particular-at-all\n" * 1024
    first = b"User-agent: *\nDisallow: /private\n"
    count = 50 * (1 << 20) // len(line)
    await wire.start("Content-Type: text/plain", f"Content-Length: {len(first) + count * len(line)}")
    await wire.send(first)
    for _ in range(count):
        await wire.send(line)


async def _slow_headers(request: SiteRequest, wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        await wire.send(b"z")
        await asyncio.sleep(1)


async def _slow_body(request: SiteRequest, wire: Wire) -> None:
    await wire.start("Content-Type: text/html", "Content-Length: 1000000")
    while True:
        await wire.send(b"z")
        await asyncio.sleep(1)


async def _silence(request: SiteRequest, wire: Wire) -> None:
    await wire.reader.read()


def _fixed(*headers: str, body: bytes = b"") -> Misbehaviour:
    """An answer whose headers need not fit its body."""

    async def misbehave(request: SiteRequest, wire: Wire) -> None:
        await wire.start("Content-Type: text/html", *headers, "Connection: close")
        await wire.send(body)

    return misbehave


def _bomb(encoding: str, make: Callable[[], bytes]) -> Misbehaviour:
    async def misbehave(request: SiteRequest, wire: Wire) -> None:
        body = await asyncio.to_thread(make)
        await wire.start("Content-Type: text/html", f"Content-Encoding: {encoding}", f"Content-Length: {len(body)}")
        await wire.send(body)

    return misbehave


@cache
def gzip_bomb(start: bytes = b"", filling: bytes = b"\0") -> bytes:
    """1 MB that becomes 1 GB. Its inside is one compressed block, repeated: compressing 1 GB takes too long."""
    chunk = filling * len(CHUNK)
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = compressor.compress(start) + compressor.flush(zlib.Z_FULL_FLUSH)
    block = compressor.compress(chunk) + compressor.flush(zlib.Z_FULL_FLUSH)
    count = BOMB_BYTES // len(chunk)
    checksum = zlib.crc32(start)
    for _ in range(count):
        checksum = zlib.crc32(chunk, checksum)
    size = (len(start) + count * len(chunk)) & 0xFFFFFFFF
    prefix = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    return (
        prefix + head + block * count + compressor.flush() + checksum.to_bytes(4, "little") + size.to_bytes(4, "little")
    )


@cache
def brotli_bomb() -> bytes:
    compressor = brotli.Compressor(quality=1)
    parts = [compressor.process(CHUNK) for _ in range(BOMB_BYTES // len(CHUNK))]
    return b"".join(parts) + compressor.finish()


@cache
def zstd_bomb() -> bytes:
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    parts = [compressor.compress(CHUNK) for _ in range(BOMB_BYTES // len(CHUNK))]
    return b"".join(parts) + compressor.flush()


_BROKEN_GZIP = gzip.compress(b"<p>whole</p>" * 1000, mtime=0)[:-600] + b"not gzip at all" * 20


# Answers that break the protocol.


async def _reset_midway(request: SiteRequest, wire: Wire) -> None:
    await wire.start("Content-Type: text/html", "Content-Length: 100000")
    await wire.send(b"<p>half a page")
    await asyncio.sleep(0.05)
    wire.reset()


async def _reset_at_once(request: SiteRequest, wire: Wire) -> None:
    wire.reset()


async def _no_answer(request: SiteRequest, wire: Wire) -> None:
    """The connection is closed without a word."""


async def _header_bomb(request: SiteRequest, wire: Wire) -> None:
    lines = [f"X-Bomb-{number}: {'b' * 1000}" for number in range(100)]
    await wire.start("Content-Type: text/html", "Content-Length: 2", *lines)
    await wire.send(b"ok")


async def _long_header(request: SiteRequest, wire: Wire) -> None:
    await wire.start("Content-Type: text/html", "Content-Length: 2", f"X-Bomb: {'b' * 100_000}")
    await wire.send(b"ok")


async def _garbage(request: SiteRequest, wire: Wire) -> None:
    await wire.send(b"<html><p>This server never heard of status lines.</p></html>\n" * 20)


async def _bad_chunks(request: SiteRequest, wire: Wire) -> None:
    await wire.start("Content-Type: text/html", "Transfer-Encoding: chunked")
    await wire.send(b"zz\r\nnot a chunk\r\n")


_WIRE_FAULTS: dict[str, Misbehaviour] = {
    "bad-chunks": _bad_chunks,
    "brotli-bomb": _bomb("br", brotli_bomb),
    "broken-brotli": _fixed("Content-Encoding: br", "Content-Length: 9", body=b"\xff\xff\xffnot br"),
    "broken-gzip": _fixed("Content-Encoding: gzip", f"Content-Length: {len(_BROKEN_GZIP)}", body=_BROKEN_GZIP),
    "cut-gzip": _fixed(
        "Content-Encoding: gzip", "Content-Length: 30", body=gzip.compress(b"whole" * 1000, mtime=0)[:30]
    ),
    "endless-body": _endless_body,
    "endless-robots": _endless_robots,
    "garbage": _garbage,
    "gzip-bomb": _bomb("gzip", gzip_bomb),
    "header-bomb": _header_bomb,
    "length-too-long": _fixed("Content-Length: 100000", body=b"<p>short</p>"),
    "length-too-short": _fixed("Content-Length: 10", body=b"<p>much longer than ten bytes</p>"),
    "long-header": _long_header,
    "no-answer": _no_answer,
    "reset-at-once": _reset_at_once,
    "reset-midway": _reset_midway,
    "silence": _silence,
    "slow-body": _slow_body,
    "slow-headers": _slow_headers,
    "unknown-encoding": _fixed("Content-Encoding: rot13", "Content-Length: 5", body=b"uryyb"),
    "zstd-bomb": _bomb("zstd", zstd_bomb),
}


# Redirects that lead nowhere, or where they must not.


def _add_redirects(site: Site) -> None:
    targets = {
        "redirect-loop": "/fault/redirect-loop-2",
        "redirect-loop-2": "/fault/redirect-loop",
        "redirect-self": "/fault/redirect-self",
        "redirect-file": "file:///etc/passwd",
        "redirect-gopher": "gopher://127.0.0.1:70/_x",
        "redirect-javascript": "javascript:alert(1)",
        "redirect-metadata": "http://169.254.169.254/latest/meta-data/",
        "redirect-private": "http://10.0.0.1/",
        "redirect-empty": "",
        "redirect-broken": "http://[not-an-address/",
    }
    for name, target in targets.items():
        site.pages[f"/fault/{name}"] = redirect(target)
    site.pages["/fault/redirect-nowhere"] = Reply(status=302, content_type=None)
    site.pages["/fault/redirect-elsewhere"] = lambda request: redirect(request.query.get("to", "/"))
    site.pages["/fault/redirect-chain"] = _redirect_chain


def _redirect_chain(request: SiteRequest) -> Reply:
    """50 hops, or as many as `?left=` says, and then a page."""
    left = int(request.query.get("left", "50"))
    return redirect(f"/fault/redirect-chain?left={left - 1}") if left else Reply("<h1>The end</h1>")


# Pages that want something first.


def _add_sign_ins(site: Site) -> None:
    secret = base64.b64encode(f"{BASIC_USER}:{BASIC_PASSWORD}".encode()).decode()
    site.pages["/auth/basic"] = _needs("authorization", f"Basic {secret}", 'Basic realm="nest"')
    site.pages["/auth/bearer"] = _needs("authorization", f"Bearer {BEARER_TOKEN}", "Bearer")
    site.pages["/auth/api-key"] = _needs(API_KEY_HEADER.lower(), API_KEY, None)
    site.pages["/cookie/set"] = Reply(
        '<a href="/cookie/needed">in</a>', headers={"Set-Cookie": "nest=oak; Path=/; HttpOnly"}
    )
    site.pages["/cookie/needed"] = _needs("cookie", "nest=oak", None)


def _needs(header: str, value: str, challenge: str | None) -> Callable[[SiteRequest], Reply]:
    def answer(request: SiteRequest) -> Reply:
        if request.headers.get(header) == value:
            return Reply("<title>Inside</title><p>The acorns are here.</p>")
        return Reply(
            "<p>No.</p>", 401 if challenge else 403, headers={"WWW-Authenticate": challenge} if challenge else {}
        )

    return answer


# Troubles that pass.


def _add_recoveries(site: Site) -> None:
    site.pages["/fault/429-once"] = _fails_first(1, Reply("slow down", 429, headers={"Retry-After": "1"}))
    site.pages["/fault/503-twice"] = _fails_first(2, Reply("not now", 503))
    site.pages["/fault/429-always"] = Reply("slow down", 429, headers={"Retry-After": "3600"})
    for status in (400, 401, 403, 404, 410, 451, 500, 502, 503, 504):
        site.pages[f"/status/{status}"] = Reply(f"<h1>{status}</h1>", status)


def _fails_first(times: int, failure: Reply) -> Callable[[SiteRequest], Reply]:
    left = times

    def answer(request: SiteRequest) -> Reply:
        nonlocal left
        left -= 1
        return failure if left >= 0 else Reply("<title>Recovered</title><p>Here I am.</p>")

    return answer


# Sitemaps that explode, go round in circles, or are none.


def _add_sitemaps(site: Site) -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    site.pages["/fault/sitemap-laughs.xml"] = Reply(
        f'<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY l0 "ha">{laughs}]>'
        f"<urlset {SITEMAP_SPACE}><url><loc>http://x/&l9;</loc></url></urlset>",
        content_type=XML,
    )
    site.pages["/fault/sitemap-external.xml"] = Reply(
        f'<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY file SYSTEM "file:///etc/hostname">]>'
        f"<urlset {SITEMAP_SPACE}><url><loc>http://x/&file;</loc></url></urlset>",
        content_type=XML,
    )
    site.pages["/fault/sitemap-loop-a.xml"] = lambda request: _index(request, "/fault/sitemap-loop-b.xml")
    site.pages["/fault/sitemap-loop-b.xml"] = lambda request: _index(request, "/fault/sitemap-loop-a.xml")
    site.pages["/fault/sitemap-endless.xml"] = _endless_index
    site.pages["/fault/sitemap-broken.xml"] = Reply(
        f"<urlset {SITEMAP_SPACE}><url><loc>http://x/</lo", content_type=XML
    )
    site.pages["/fault/sitemap-page.xml"] = Reply("<html><body><h1>Not here</h1></body></html>")
    site.faults["/fault/sitemap-bomb.xml.gz"] = _sitemap_bomb


def _index(request: SiteRequest, *paths: str) -> Reply:
    inner = "".join(f"<sitemap><loc>http://{request.host}{path}</loc></sitemap>" for path in paths)
    return Reply(f"<sitemapindex {SITEMAP_SPACE}>{inner}</sitemapindex>", content_type=XML)


def _endless_index(request: SiteRequest) -> Reply:
    """An index of three more of its kind, each of which has three more."""
    level = request.query.get("at", "0")
    return _index(request, *(f"/fault/sitemap-endless.xml?at={level}-{number}" for number in range(3)))


async def _sitemap_bomb(request: SiteRequest, wire: Wire) -> None:
    start = f"<urlset {SITEMAP_SPACE}><url><loc>http://{request.host}/first</loc></url>".encode()
    body = await asyncio.to_thread(gzip_bomb, start, b" ")
    await wire.start("Content-Type: application/gzip", f"Content-Length: {len(body)}")
    await wire.send(body)


# Traps: pages that make up more pages for as long as somebody follows.


def _calendar(request: SiteRequest) -> Reply:
    """A month that links the next and the one before, for ever."""
    year, month = int(request.query.get("year", "2025")), int(request.query.get("month", "1"))
    around = [divmod(year * 12 + month - 1 + step, 12) for step in (-1, 1)]
    links = "".join(f'<a href="/trap/calendar?year={y}&amp;month={m + 1}">{y}-{m + 1}</a>' for y, m in around)
    return Reply(f"<title>{year}-{month}</title><p>Nothing happens this month.</p>{links}")


def _session(request: SiteRequest) -> Reply:
    """Every visit gets a session id of its own, in every link."""
    session = f"{request.number:032x}"
    return Reply(
        f'<p>Welcome.</p><a href="/trap/session?PHPSESSID={session}">again</a>'
        f'<a href="/trap/session;jsessionid={session}">and again</a>'
    )


def _endless_path(request: SiteRequest) -> Reply | None:
    """/a/b/a/b/a/b…: a relative link that makes every page's path longer."""
    path = request.path.rstrip("/")
    if path.startswith("/trap/session;"):
        return _session(request)
    if not path.startswith("/trap/path"):
        return None
    return Reply(f'<p>Deeper.</p><a href="{path}/a/b">deeper</a>')
