"""`scrubjay discover`: the addresses that a site's sitemaps and Common Crawl know, one a line."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli.context import cell, print_json, quiet_settings, run
from scrubjay.cli.crawl_options import UserAgent
from scrubjay.cli.robots import open_robots
from scrubjay.model.discovery import DiscoverySource, read_discovery_spec

if TYPE_CHECKING:
    from scrubjay.model.discovery import Discovery


def discover(
    site: Annotated[str, typer.Argument(help="A domain, for example example.com.")],
    source: Annotated[
        list[DiscoverySource] | None, typer.Option(help="Where to look; may be given twice. Default: sitemap")
    ] = None,
    pattern: Annotated[str | None, typer.Option(help="Only addresses that match this regular expression.")] = None,
    query: Annotated[str | None, typer.Option(help="Score addresses by these words, best first.")] = None,
    score_threshold: Annotated[
        float, typer.Option(min=0, max=1, help="With --query: leave out what scores less.")
    ] = 0.0,
    max_urls: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of addresses.")] = 500,
    user_agent: UserAgent = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything that was found out as JSON.")] = False,
) -> None:
    """Find a site's addresses without crawling it."""
    spec = read_discovery_spec(
        {
            "domain": site,
            "sources": source or [DiscoverySource.SITEMAP],
            "pattern": pattern,
            "score_query": query,
            "score_threshold": score_threshold,
            "max_urls": max_urls,
        }
    )
    settings = quiet_settings()
    # After the settings: what is wrong with them should be told at once.
    from scrubjay.crawler.discovery import discover as find_addresses

    async def main() -> "Discovery":
        async with open_robots(settings, user_agent or settings.crawl_user_agent) as (fetcher, robots):
            return await find_addresses(spec, fetcher, robots, common_crawl_url=settings.common_crawl_url)

    found = run(main)
    if as_json:
        print_json(
            {
                "domain": spec.domain,
                "seen": found.seen,
                "complete": found.complete,
                "urls": [asdict(one) for one in found.urls],
                "problems": [asdict(one) for one in found.problems],
            }
        )
    else:
        _show(found)
    if found.problems and not found.urls:
        raise typer.Exit(1)


def _show(found: "Discovery") -> None:
    for one in found.urls:
        typer.echo(one.url if one.score is None else f"{one.score:.2f}  {one.url}")
    for problem in found.problems:
        sys.stderr.write(f"scrubjay: {cell(problem.url).plain}: {cell(problem.message).plain} ({problem.error_type})\n")
    if not found.urls and not found.problems:
        sys.stderr.write("scrubjay: no addresses were found\n")
    if not found.complete:
        sys.stderr.write("scrubjay: there may be more; see --max-urls\n")
