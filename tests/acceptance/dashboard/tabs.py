"""A real Chromium's tabs: what a page may never do is noted, and axe-core looks at it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import Browser, ConsoleMessage, Page, Request, expect
from tests.acceptance.house import Key

AXE = Path(__file__).parent / "tools" / "axe.min.js"  # fetched by `make install`
SECONDS = 20_000  # that a page may take to show something, in milliseconds


@dataclass
class Tab:
    """A page, and everything that it did which no page of ours may do."""

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)

    def listen(self) -> None:
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._see)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _see(self, request: Request) -> None:
        if not request.url.startswith((self.origin, "data:")):
            self.complaints.append(f"asked {request.url}")

    async def sign_in(self, key: Key) -> None:
        await self.page.goto(self.origin)
        await self.page.get_by_label("API key").fill(key.text)
        await self.page.get_by_role("button", name="Sign in").click()
        await expect(self.page.get_by_text("Signed in")).to_be_visible()


@asynccontextmanager
async def tab_of(browser: Browser, address: str, **options: object) -> AsyncIterator[Tab]:
    context = await browser.new_context(**options)  # type: ignore[arg-type]
    context.set_default_timeout(SECONDS)
    tab = Tab(await context.new_page(), address)
    tab.listen()
    try:
        yield tab
        assert tab.complaints == []
    finally:
        await context.close()


async def violations(tab: Tab, address: str, paths: Sequence[str]) -> list[str]:
    axe = AXE.read_text()
    found = []
    for path in paths:
        await tab.page.goto(address + path)
        await tab.page.evaluate(axe)
        result = await tab.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert result["passes"], path  # it has looked
        found += [
            f"{path}: {each['id']} {each['nodes'][0]['html'][:160]}"
            for each in result["violations"]
            if each["impact"] in ("serious", "critical")
        ]
    return found
