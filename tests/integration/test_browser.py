"""A real Chromium behind the egress guard: what it shows, what it may reach, and where it gives up."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest
import pytest_asyncio
from tests import servers

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.browser import BrowserRenderer
from scrubjay.crawler.page_extractor import PageExtractor
from scrubjay.errors import FetchFailed, Unavailable, UrlBlocked
from scrubjay.extract import ExtractOptions, Verdict
from scrubjay.extract.pool import ExtractionPool

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

Pages = dict[str, bytes | tuple[int, dict[str, str], bytes]]


class Site:
    """A small server on one loopback address that remembers every connection."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.seen: list[str] = []
        self.connections = 0
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
            self.seen.append(path)
            page = self.pages.get(path, (404, {}, b"nothing here"))
            status, headers, body = page if isinstance(page, tuple) else (200, {"Content-Type": "text/html"}, page)
            if status == 0:
                await asyncio.sleep(60)
            lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            self.seen.append("broken off")
        finally:
            writer.close()


@asynccontextmanager
async def serving(pages: Pages, host: str = "127.0.0.1") -> AsyncIterator[Site]:
    site = Site(pages)
    server = await asyncio.start_server(site.handle, host, 0)
    port = server.sockets[0].getsockname()[1]
    site.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    try:
        yield site
    finally:
        server.close()


@asynccontextmanager
async def rendering(network: str = "127.0.0.1/32", **options: float) -> AsyncIterator[BrowserRenderer]:
    guard = EgressGuard([ip_network(network)])
    async with BrowserRenderer(guard, chromium_path=servers.chromium(), **options) as renderer:  # type: ignore[arg-type]
        yield renderer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[BrowserRenderer]:
    """Shared by this module, because a Chromium takes seconds to start; each page has a context of its own."""
    async with rendering() as renderer:
        yield renderer


# Every way in which a page can ask for something, aimed at one base address.
PROBES = """
<html><head><title>Probe</title>
<link rel="stylesheet" href="BASE/style.css"><link rel="prefetch" href="BASE/prefetch">
<link rel="preconnect" href="BASE"><link rel="icon" href="BASE/icon.png"></head><body>
<img src="BASE/image.png"><img src="/redirect-image"><script src="BASE/script.js"></script>
<iframe src="BASE/frame"></iframe><iframe src="/redirect-frame"></iframe>
<video src="BASE/video.mp4" preload="auto"></video><object data="BASE/object"></object>
<form id="form" target="inner" action="BASE/form"></form><iframe name="inner"></iframe><div id="done"></div>
<script>
const base = "BASE", tries = [];
const attempt = (run) => tries.push(Promise.resolve().then(run).catch(() => null));
attempt(() => fetch(base + "/fetch", {mode: "no-cors"}));
attempt(() => fetch("/redirect-fetch", {mode: "no-cors"}));
attempt(() => new Promise((end) => { const ask = new XMLHttpRequest(); ask.open("GET", base + "/xhr");
  ask.onloadend = end; ask.send(); }));
attempt(() => new Promise((end) => { const socket = new WebSocket(base.replace("http", "ws") + "/socket");
  socket.onclose = socket.onerror = end; }));
attempt(() => new Promise((end) => { const events = new EventSource(base + "/events"); events.onerror = end; }));
attempt(() => navigator.sendBeacon(base + "/beacon", "x"));
attempt(() => window.open(base + "/popup"));
attempt(() => document.getElementById("form").submit());
attempt(() => navigator.serviceWorker.register("/worker.js"));
attempt(() => new Promise((end) => {
  const code = "fetch('" + base + "/worker', {mode: 'no-cors'}).finally(() => postMessage(1))";
  const worker = new Worker(URL.createObjectURL(new Blob([code]))); worker.onmessage = worker.onerror = end; }));
attempt(() => { const frame = document.createElement("iframe"); document.body.append(frame);
  const Peer = window.RTCPeerConnection || frame.contentWindow.RTCPeerConnection;
  const peer = new Peer({iceServers: [{urls: "stun:UDP"}]}); peer.createDataChannel("x");
  return peer.createOffer().then((offer) => peer.setLocalDescription(offer)); });
attempt(() => new WebTransport(base.replace("http:", "https:") + "/transport").ready);
Promise.all(tries).then(() => { document.getElementById("done").textContent = "all tried"; });
</script></body></html>
"""


def probing(target: str, udp: str = "127.0.0.2:9") -> Pages:
    moved = {name: (302, {"Location": f"{target}/moved{name}"}, b"") for name in ("-image", "-frame", "-fetch")}
    page = PROBES.replace("BASE", target).replace("UDP", udp).encode()
    return {"/": page, **{f"/redirect{name}": answer for name, answer in moved.items()}}


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.received: list[bytes] = []

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.received.append(data)


async def test_scripts_have_run_in_what_is_given_back(browser: BrowserRenderer) -> None:
    page = (
        b"<title>x</title><div id=root></div><script>document.getElementById('root').innerHTML='<p>Filled</p>'</script>"
    )
    async with serving({"/": page}) as site:
        rendered = await browser.render(site.url + "/")
    assert (rendered.status, rendered.url) == (200, site.url + "/")
    assert '<div id="root"><p>Filled</p></div>' in rendered.html


async def test_what_appears_late_after_scrolling_and_behind_a_cookie_dialog_is_there(browser: BrowserRenderer) -> None:
    page = b"""<div style="height:3000px" id=long></div><p id=end></p>
        <div id="cookie-banner"><button onclick="document.body.append('refused')">Reject all</button>
        <button onclick="document.body.append('accepted')">Accept all</button></div>
        <script>setTimeout(() => document.body.append("later"), 300);
        addEventListener("scroll", () => { document.getElementById("end").textContent = "scrolled"; });</script>"""
    async with serving({"/": page}) as site:
        html = (await browser.render(site.url + "/")).html
    assert "later" in html
    assert '<p id="end">scrolled</p>' in html
    assert "refused" in html
    assert "accepted</body>" not in html


async def test_nothing_a_page_asks_for_reaches_a_forbidden_address(browser: BrowserRenderer) -> None:
    loop = asyncio.get_running_loop()
    transport, datagrams = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.2", 0))
    udp = f"127.0.0.2:{transport.get_extra_info('sockname')[1]}"
    async with serving({}, "127.0.0.2") as forbidden, serving(probing(forbidden.url, udp)) as site:
        html = (await browser.render(site.url + "/")).html
        await asyncio.sleep(0.5)
    transport.close()
    assert "all tried" in html
    assert {"/", "/redirect-image", "/redirect-frame", "/redirect-fetch"} <= set(site.seen)
    assert (forbidden.connections, forbidden.seen) == (0, [])
    assert datagrams.received == []
    assert "/worker.js" not in site.seen


async def test_the_same_page_reaches_the_same_address_once_the_guard_allows_it() -> None:
    async with (
        serving({}, "127.0.0.2") as other,
        serving(probing(other.url)) as site,
        rendering("127.0.0.0/8") as browser,
    ):
        await browser.render(site.url + "/")
    wanted = {
        "/image.png",
        "/script.js",
        "/frame",
        "/fetch",
        "/xhr",
        "/socket",
        "/worker",
        "/moved-image",
        "/moved-frame",
    }
    assert wanted <= set(other.seen)


@pytest.mark.parametrize(
    "target", ["http://169.254.169.254", "http://10.0.0.1", "http://[::1]:PORT", "http://2130706434:PORT"]
)
async def test_other_ways_to_write_a_forbidden_address_are_refused_too(browser: BrowserRenderer, target: str) -> None:
    async with AsyncExitStack() as stack:
        forbidden = await stack.enter_async_context(serving({}, "::1" if "::1" in target else "127.0.0.2"))
        target = target.replace("PORT", forbidden.url.rpartition(":")[2])
        site = await stack.enter_async_context(serving(probing(target)))
        assert "all tried" in (await browser.render(site.url + "/")).html
        assert forbidden.connections == 0


async def test_a_redirect_of_the_page_itself_to_a_forbidden_address_is_blocked(browser: BrowserRenderer) -> None:
    async with serving({"/x": b"secret"}, "127.0.0.2") as forbidden:
        pages: Pages = {
            "/moved": (302, {"Location": f"{forbidden.url}/x"}, b""),
            "/script": f"<script>location = '{forbidden.url}/x'</script>".encode(),
        }
        async with serving(pages) as site:
            with pytest.raises(UrlBlocked):
                await browser.render(site.url + "/moved")
            with pytest.raises(UrlBlocked):
                await browser.render(forbidden.url + "/x")
            with pytest.raises(UrlBlocked):
                await browser.render(site.url + "/script")
        assert forbidden.connections == 0


async def test_pages_share_neither_cookies_nor_storage(browser: BrowserRenderer) -> None:
    page = b"""<p id=p></p><script>p.textContent = document.cookie + localStorage.x;
        document.cookie = "a=1"; localStorage.x = "y"</script>"""
    async with serving({"/": page}) as site:
        for _ in range(2):
            assert '<p id="p">undefined</p>' in (await browser.render(site.url + "/")).html


async def test_a_page_that_never_answers_is_given_up_in_time_and_the_next_one_works(
    browser: BrowserRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving({"/": b"<p>fine", "/slow": (0, {}, b"")}) as site:
        with monkeypatch.context() as patched:
            patched.setattr(browser, "_page_seconds", 3.0)
            with pytest.raises(FetchFailed) as failed:
                await browser.render(site.url + "/slow")
        assert failed.value.error_type == "browser_timeout"
        assert "fine" in (await browser.render(site.url + "/")).html


async def test_a_page_that_keeps_its_scripts_busy_is_given_up_in_time() -> None:
    async with serving({"/": b"<script>while (true) {}</script>"}) as site, rendering(page_seconds=4.0) as browser:
        with pytest.raises(FetchFailed) as failed:
            await asyncio.wait_for(browser.render(site.url + "/"), 20)
        assert failed.value.error_type == "browser_timeout"


async def test_a_page_that_loads_too_much_is_too_large() -> None:
    large = (200, {"Content-Type": "application/json"}, json.dumps("x" * 3_000_000).encode())
    page = b"<script>fetch('/data').then((answer) => answer.text())</script>"
    async with serving({"/": page, "/data": large}) as site, rendering(max_page_bytes=1_000_000) as browser:
        with pytest.raises(FetchFailed) as failed:
            await browser.render(site.url + "/")
        assert failed.value.error_type == "too_large"


async def test_a_download_is_not_a_page(browser: BrowserRenderer) -> None:
    file = (200, {"Content-Type": "application/zip", "Content-Disposition": "attachment; filename=x.zip"}, b"PK")
    async with serving({"/x.zip": file}) as site:
        with pytest.raises(FetchFailed) as failed:
            await browser.render(site.url + "/x.zip")
        assert failed.value.error_type == "not_a_page"


async def test_a_browser_that_died_is_started_again() -> None:
    async with serving({"/": b"<p>fine"}) as site, rendering() as browser:
        await browser.render(site.url + "/")
        assert browser._browser is not None
        await browser._browser.close()
        assert "fine" in (await browser.render(site.url + "/")).html


FILLED = """<title>Jays</title><div id=root></div><script>
const paragraph = "<p>" + "Scrub jays hide acorns in autumn. ".repeat(20) + "</p>";
document.getElementById("root").innerHTML =
  "<main><h1>Jays</h1>" + paragraph.repeat(5) + "<a href='/next'>Next</a></main>"</script>"""


@pytest.mark.parametrize("strategy", ["browser", "crawl4ai"])
async def test_a_shell_that_scripts_fill_is_extracted_as_the_browser_shows_it(
    browser: BrowserRenderer, strategy: str
) -> None:
    async with serving({"/": FILLED.encode()}) as site, ExtractionPool(processes=1) as pool:
        url, options = site.url + "/", ExtractOptions(strategy=strategy)
        plain = await pool.extract(FILLED.encode(), url=url, content_type="text/html")
        assert plain.verdict is Verdict.EMPTY
        extractor = PageExtractor(pool, browser=browser)
        found = await extractor.extract(FILLED.encode(), url=url, content_type="text/html", options=options)
    assert found.verdict is Verdict.CONTENT
    assert "Scrub jays hide acorns in autumn." in found.markdown
    assert found.links == [site.url + "/next"]
    assert found.method == "browser"
    assert ("fallback" in found.metadata) == (strategy == "crawl4ai")


async def test_without_a_browser_the_reason_is_told() -> None:
    renderer = BrowserRenderer(EgressGuard([ip_network("127.0.0.0/8")]), chromium_path=Path("/no/such/chromium"))
    with pytest.raises(Unavailable, match="SCRUBJAY_CHROMIUM_PATH"):
        await renderer.render("http://127.0.0.1:1/")
