"""`scrubjay robots`: whether a page may be fetched, and what its host's robots.txt says besides."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from scrubjay.cli.context import cell, console, print_json, quiet_settings, run
from scrubjay.cli.crawl_options import UserAgent

if TYPE_CHECKING:
    from scrubjay.crawler.fetcher import Fetcher
    from scrubjay.crawler.robots import Robots, RobotsRules, RobotsVerdict
    from scrubjay.settings import Settings


def ask_robots(
    url: Annotated[str, typer.Argument(help="The page that would be fetched.")],
    user_agent: UserAgent = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say whether robots.txt lets us fetch a page. Exits with 1 when it does not."""
    settings = quiet_settings()
    chosen = user_agent or settings.crawl_user_agent

    async def main() -> "tuple[RobotsRules, RobotsVerdict]":
        async with open_robots(settings, chosen) as (_, robots):
            return await robots.rules_for(url), await robots.allowed(url)

    rules, verdict = run(main)
    from scrubjay.crawler.robots import product_token

    facts: dict[str, Any] = {
        "url": url,
        "allowed": verdict.allowed,
        "reason": str(verdict.reason),
        "message": verdict.message,
        "robots_txt": f"{rules.origin}/robots.txt",
        "status": rules.file.status,
        "user_agent": product_token(chosen),
        "crawl_delay_seconds": verdict.crawl_delay_seconds,
        "sitemaps": list(rules.sitemaps),
    }
    if as_json:
        print_json(facts)
    else:
        _show(facts)
    if not verdict.allowed:
        raise typer.Exit(1)


@asynccontextmanager
async def open_robots(settings: "Settings", user_agent: str) -> "AsyncIterator[tuple[Fetcher, Robots]]":
    """A fetcher and what robots.txt files say, without a data folder."""
    from scrubjay.app import open_network
    from scrubjay.crawler.robots import Robots
    from scrubjay.storage.cache import open_cache

    cache = open_cache(settings)
    try:
        async with open_network(settings) as network, network.fetcher(user_agent=user_agent) as fetcher:
            yield fetcher, Robots(fetcher, cache, user_agent=user_agent)
    finally:
        await cache.close()


def _show(facts: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    table.add_row("allowed", f"{'yes' if facts['allowed'] else 'no'} ({facts['reason']})")
    if facts["message"]:
        table.add_row("because", cell(facts["message"]))
    answered = f" (answered with {facts['status']})" if facts["status"] is not None else ""
    table.add_row("robots.txt", cell(facts["robots_txt"] + answered))
    table.add_row("read as", cell(facts["user_agent"]))
    delay = facts["crawl_delay_seconds"]
    table.add_row("crawl delay", "none" if delay is None else f"{delay:g} s")
    for number, sitemap in enumerate(facts["sitemaps"]):
        table.add_row("sitemaps" if number == 0 else "", cell(sitemap))
    console.print(table)
