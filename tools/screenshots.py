"""Takes a picture of every page of the dashboard, in light and dark, into `docs/images/dashboard/`.

    python tools/screenshots.py [--into FOLDER] [--width 1280] [--only NAME …]

Serves a temporary folder with sample content (`sample_content.py`), and asks the router which pages there are: a page
without a picture is an error.
"""

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from string import Formatter

import uvicorn
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from playwright.async_api import Browser, Page, async_playwright
from sample_content import changing_site, fill

from scrubjay.api.app import app_around
from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.crawler.browser import find_chromium
from scrubjay.settings import Settings
from scrubjay.telemetry.logs import configure_logging

INTO = Path(__file__).resolve().parent.parent / "docs" / "images" / "dashboard"
MAX_BYTES = 150_000
HEIGHT = 800
SETTLE_MS = 400  # for what is drawn or sent after a page is there
# Pages whose address says more than a route's pattern, or that are not below /ui.
MORE = {
    "home": "/",
    "search": "/ui/search?q=acorns&explain=true",
    "document-chunks": "/ui/documents/{document_id}?view=chunks",
    "document-versions": "/ui/documents/{document_id}?view=versions",
    "document-log": "/ui/documents/{document_id}?view=log",
    "document-details": "/ui/documents/{document_id}?view=details",
    "operation-changed": "/ui/plans/{plan_id}/operations/{operation_id}?section=Changed",
    "domains": "/v2/domains?format=ui",
}
REPLACED = {"/ui/search"}  # by one of those


def pages(app: FastAPI, ids: Mapping[str, str]) -> dict[str, str]:
    """A name and an address for every page that there is."""
    found = {name: pattern.format_map(ids) for name, pattern in MORE.items() if _is_known(pattern, ids)}
    for route in iter_route_contexts(app.routes):
        pattern = route.path or ""
        if "GET" not in (route.methods or ()) or not pattern.startswith("/ui/") or pattern in REPLACED:
            continue
        if pattern.endswith("/live") or pattern.startswith(("/ui/static/", "/ui/signin")):
            continue
        if not _is_known(pattern, ids):
            raise SystemExit(f"{pattern} has no sample: give sample_content.py one")
        found[_name(pattern)] = pattern.format_map(ids)
    return found


def _is_known(pattern: str, ids: Mapping[str, str]) -> bool:
    return all(name in ids for _, name, _, _ in Formatter().parse(pattern) if name)


def _name(pattern: str) -> str:
    """`/ui/plans/{plan_id}/edit` → `plan-edit`: a parameter speaks for what stands before it."""
    words: list[str] = []
    for part in pattern.removeprefix("/ui/").split("/"):
        if not part.startswith("{"):
            words.append(part)
        elif words:
            words[-1] = part.strip("{}").removesuffix("_id")
    return "-".join(words)


@asynccontextmanager
async def serving(jay: Scrubjay) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(app_around(jay), port=0, log_config=None, timeout_graceful_shutdown=1))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


async def take(
    browser: Browser, address: str, link: str, found: Mapping[str, str], options: argparse.Namespace
) -> None:
    for scheme in ("light", "dark"):
        viewport = {"width": options.width, "height": HEIGHT}
        context = await browser.new_context(color_scheme=scheme, viewport=viewport, reduced_motion="reduce")  # type: ignore[arg-type]
        page = await context.new_page()
        await page.goto(f"{address}/ui/signin")
        await shoot(page, options.into / f"signin-{scheme}.png")
        await page.goto(f"{address}/signin?token={link if scheme == 'light' else options.second_link}")
        for name, path in found.items():
            if options.only and name not in options.only:
                continue
            answer = await page.goto(address + path)
            if answer is None or not answer.ok:
                raise SystemExit(f"{path} answered {answer.status if answer else 'nothing'}")
            await shoot(page, options.into / f"{name}-{scheme}.png")
        await context.close()


async def shoot(page: Page, file: Path) -> None:
    await page.wait_for_timeout(SETTLE_MS)
    await page.screenshot(path=file)
    size = file.stat().st_size
    if size > MAX_BYTES:
        print(f"{file.name} has {size} bytes, more than {MAX_BYTES}")


async def main(options: argparse.Namespace) -> None:
    configure_logging("error")
    options.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, changing_site(Path(folder) / "site") as url:
        home = Path(folder) / "home"
        settings = Settings(home=home, allowed_private_networks="127.0.0.0/8")  # type: ignore[arg-type]
        async with open_scrubjay(settings, working=True) as jay, serving(jay) as address, async_playwright() as player:
            who = await jay.access.open_as_admin(home)
            ids = await fill(jay, who, Path(folder) / "site", url)
            link = await jay.access.create_sign_in_link(who)
            options.second_link = await jay.access.create_sign_in_link(who)
            browser = await player.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
            await take(browser, address, link, pages(app_around(jay), ids), options)
            await browser.close()
            for plan in (await jay.plans.page(who)).items:
                await jay.plans.stop(who, plan.id)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=INTO)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--only", nargs="*", default=[])
    asyncio.run(main(parser.parse_args()))
