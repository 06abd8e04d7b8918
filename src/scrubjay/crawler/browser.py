"""The strategy `browser`: a page as an installed Chromium shows it, for pages that scripts fill.

Everything that Chromium asks for goes through `crawler/browser_proxy.py`, and so through the egress guard. What comes
out is HTML, which goes the way of every other page.
"""

import asyncio
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.browser_proxy import BrowserProxy, ProxySession
from scrubjay.errors import FetchFailed, Unavailable, UrlBlocked
from scrubjay.model.urls import parse_url
from scrubjay.telemetry import get_logger

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page, Playwright, Response

EXECUTABLES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAX_HTML_CHARACTERS = 20_000_000
MAX_PAGE_BYTES = 60 * 1024 * 1024
_START_SECONDS = 30.0
_IDLE_SECONDS = 4.0
_STEP_SECONDS = 5.0
_SCROLLS = 8

_ARGUMENTS = [
    # Loopback is otherwise never asked of a proxy. Names are resolved by the proxy alone.
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    # Ways around a proxy: QUIC, WebRTC, and what the browser itself likes to fetch.
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
    "--no-pings",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-client-side-phishing-detection",
    "--disable-features=WebTransport,AsyncDns,DnsOverHttps,OptimizationHints,MediaRouter,Translate",
    "--disable-dev-shm-usage",
    "--mute-audio",
]
# Before any script of a page: no channels that need no HTTP.
_BEFORE_SCRIPTS = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCDataChannel", "WebTransport"]) {
  delete window[name];
}
"""
_SCROLL = """async (steps) => {
  const pause = () => new Promise((done) => setTimeout(done, 120));
  for (let step = 0; step < steps; step++) {
    const before = document.documentElement.scrollHeight;
    window.scrollTo(0, before);
    await pause();
    if (step > 1 && document.documentElement.scrollHeight === before) break;
  }
  window.scrollTo(0, 0);
}"""
# Refusing is tried before accepting; only inside something that calls itself a cookie or consent dialog.
_DISMISS = """() => {
  const box = /cookie|consent|gdpr|privacy|onetrust|didomi|cmp|truste|usercentrics/i;
  const words = [/^(reject|decline|refuse|deny)( all)?( cookies)?$/i,
    /^(only )?(necessary|essential)( cookies)?( only)?$/i, /^(alle )?ablehnen$/i, /^tout refuser$/i,
    /^(accept|allow|agree)( all)?( cookies)?$/i, /^(i agree|got it|ok|okay)$/i, /^(alle )?akzeptieren$/i,
    /^tout accepter$/i, /^close$/i, /^×$/];
  const boxes = [...document.querySelectorAll("div,section,aside,dialog,form")].filter(
    (each) => box.test(each.id + " " + each.className + " " + (each.getAttribute("aria-label") || "")));
  const buttons = boxes.flatMap((each) => [...each.querySelectorAll("button,a,input[type=button],[role=button]")]);
  for (const word of words) {
    const button = buttons.find((each) => word.test((each.innerText || each.value || "").trim()));
    if (button) { button.click(); return true; }
  }
  return false;
}"""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    url: str  # after redirects
    status: int
    html: str
    content_type: str = "text/html; charset=utf-8"


def find_chromium(path: Path | None = None) -> Path | None:
    """The browser that the setting names, else the first installed one."""
    if path is not None:
        return path if os.access(path, os.X_OK) else None
    return next((Path(found) for name in EXECUTABLES if (found := shutil.which(name))), None)


class BrowserRenderer:
    """One Chromium, started when the first page needs it. Each page gets a context of its own and shares nothing."""

    def __init__(
        self,
        guard: EgressGuard,
        *,
        chromium_path: Path | None = None,
        user_agent: str | None = None,
        page_seconds: float = 30.0,
        max_page_bytes: int = MAX_PAGE_BYTES,
        pages: int = 2,
    ) -> None:
        self._guard = guard
        self._chromium_path = chromium_path
        self._user_agent = user_agent
        self._page_seconds = page_seconds
        self._max_page_bytes = max_page_bytes
        self._turns = asyncio.Semaphore(pages)
        self._starting = asyncio.Lock()
        self._proxy: BrowserProxy | None = None
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def unavailable_reason(self) -> str | None:
        """Why no page can be rendered here, or None."""
        try:
            import playwright.async_api  # noqa: F401
        except ImportError:
            return "the package playwright is not installed (pip install 'scrubjay[browser]')"
        if find_chromium(self._chromium_path) is None:
            return "there is no Chromium (install one, or set SCRUBJAY_CHROMIUM_PATH)"
        return None

    async def render(self, url: str) -> RenderedPage:
        """The page after its scripts ran. Raises UrlBlocked, FetchFailed, or Unavailable without a browser."""
        address = parse_url(url)
        await self._guard.resolve(address.host, address.port)
        async with self._turns:
            browser, proxy = await self._started()
            session = proxy.open_session(max_bytes=self._max_page_bytes)
            try:
                async with asyncio.timeout(self._page_seconds):
                    return await self._render(browser, proxy, session, address.text)
            except TimeoutError:
                seconds = f"{self._page_seconds:g}"
                raise FetchFailed(
                    f"The browser took longer than {seconds} seconds.", error_type="browser_timeout", url=url
                ) from None
            finally:
                await proxy.close_session(session)

    async def close(self) -> None:
        async with self._starting:
            if self._browser is not None:
                await self._browser.close()
            if self._playwright is not None:
                await self._playwright.stop()
            if self._proxy is not None:
                await self._proxy.close()
            self._browser = self._playwright = self._proxy = None

    async def __aenter__(self) -> "BrowserRenderer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _started(self) -> "tuple[Browser, BrowserProxy]":
        async with self._starting:
            reason = self.unavailable_reason()
            if reason:
                raise Unavailable(f"Pages cannot be rendered: {reason}.")
            if self._proxy is None:
                self._proxy = BrowserProxy(self._guard)
                await self._proxy.start()
            if self._browser is None or not self._browser.is_connected():
                self._browser = await self._launch(self._proxy)
            return self._browser, self._proxy

    async def _launch(self, proxy: BrowserProxy) -> "Browser":
        from playwright.async_api import Error, async_playwright

        if self._playwright is None:
            self._playwright = await async_playwright().start()
        sandbox = os.geteuid() != 0
        if not sandbox:
            log.warning("browser_without_sandbox", reason="Chromium has no sandbox for root; run as another user")
        try:
            return await self._playwright.chromium.launch(
                executable_path=find_chromium(self._chromium_path),
                args=_ARGUMENTS,
                chromium_sandbox=sandbox,
                # Without a session's password this one leads nowhere: what is not a page's has no way out.
                proxy={"server": proxy.address, "bypass": "<-loopback>"},
                # Scrubjay's own settings have keys and passwords, which are not for a browser.
                env={name: value for name, value in os.environ.items() if not name.startswith("SCRUBJAY_")},
                timeout=_START_SECONDS * 1000,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except Error as error:
            raise Unavailable(f"Chromium does not start: {error.message.splitlines()[0]}") from error

    async def _render(self, browser: "Browser", proxy: BrowserProxy, session: ProxySession, url: str) -> RenderedPage:
        from playwright.async_api import Error

        try:
            context = await browser.new_context(
                proxy={
                    "server": proxy.address,
                    "bypass": "<-loopback>",
                    "username": session.username,
                    "password": session.password,
                },
                accept_downloads=False,
                service_workers="block",
                user_agent=self._user_agent,
                viewport={"width": 1280, "height": 1600},
            )
        except Error as error:
            raise FetchFailed(f"The browser failed: {_first_line(error)}", error_type="browser_crashed") from error
        try:
            return await self._visit(context, session, url)
        except Error as error:
            raise _failure(error, session, url) from error
        finally:
            # A page can keep its browser from closing it; the turn must end all the same.
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(_STEP_SECONDS):
                    await context.close()

    async def _visit(self, context: "BrowserContext", session: ProxySession, url: str) -> RenderedPage:
        await context.add_init_script(_BEFORE_SCRIPTS)
        page = await context.new_page()
        page.on("dialog", lambda dialog: dialog.dismiss())
        # A page may open others; only the one that was asked for is looked at.
        context.on("page", lambda other: other.close())
        response = await page.goto(url, wait_until="domcontentloaded", timeout=self._page_seconds * 1000)
        _check(page, response, session)
        await self._settle(page)
        html = await page.content()
        # Scripts may have moved the page elsewhere in the meantime.
        _check(page, None, session)
        if len(html) > MAX_HTML_CHARACTERS or session.used_up:
            raise FetchFailed("The page is too large for the browser.", error_type="too_large", url=url)
        return RenderedPage(url=page.url, status=response.status if response else 200, html=html)

    async def _settle(self, page: "Page") -> None:
        """Wait, dismiss, scroll, wait: each step as far as it gets in its time."""
        await _try(page.wait_for_load_state("load", timeout=_STEP_SECONDS * 1000))
        await _try(page.wait_for_load_state("networkidle", timeout=_IDLE_SECONDS * 1000))
        await _try(page.evaluate(_DISMISS))
        await _try(page.evaluate(_SCROLL, _SCROLLS))
        await _try(page.wait_for_load_state("networkidle", timeout=_IDLE_SECONDS * 1000))


async def _try(step: Any) -> None:
    from playwright.async_api import Error

    # A page that never rests, or moves on while it is looked at, is taken as it stands.
    with suppress(Error, TimeoutError):
        async with asyncio.timeout(_STEP_SECONDS):
            await step


def _check(page: "Page", response: "Response | None", session: ProxySession) -> None:
    """A redirect may have led where the guard does not go; the proxy's refusal must not pass for the page."""
    if not page.url.startswith(("http://", "https://")):
        raise FetchFailed("The page led to an address that is not on the web.", error_type="not_a_page")
    address = parse_url(page.url)
    if f"{address.host}:{address.port}" in session.refused:
        raise UrlBlocked(f"The page leads to {address.host}, which must not be reached from here.")
    if response is not None and response.status == 407:
        raise FetchFailed("The browser was not let out.", error_type="browser_crashed")


def _failure(error: Exception, session: ProxySession, url: str) -> Exception:
    message = _first_line(error)
    if session.used_up:
        return FetchFailed("The page is too large for the browser.", error_type="too_large", url=url)
    if session.refused and "ERR_TUNNEL_CONNECTION_FAILED" in message:
        return UrlBlocked(
            f"The page leads to {', '.join(sorted(session.refused))}, which must not be reached from here."
        )
    if "Download is starting" in message or "ERR_ABORTED" in message:
        return FetchFailed("The address is a download and not a page.", error_type="not_a_page", url=url)
    if "ERR_HTTP_RESPONSE_CODE_FAILURE" in message:
        return FetchFailed("The answer was an error without a page.", error_type="http_error", url=url)
    if "Timeout" in message:
        return FetchFailed(f"The browser took too long: {message}", error_type="browser_timeout", url=url)
    if "closed" in message or "crashed" in message:
        return FetchFailed(f"The browser failed: {message}", error_type="browser_crashed", url=url)
    return FetchFailed(f"The browser could not open the page: {message}", error_type="connection", url=url)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
