"""`scrubjay fetch`: one page as Markdown, on standard output."""

import sys
from typing import Annotated

import typer

from scrubjay.cli.context import admin, print_json, print_markdown, run
from scrubjay.cli.crawl_options import (
    Auth,
    Bearer,
    Extraction,
    Header,
    IgnoreRobots,
    Timeout,
    UserAgent,
    read_auth,
    read_headers,
)
from scrubjay.errors import InvalidRequest
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.extraction import ExtractOptions, Verdict


def fetch(
    url: Annotated[str, typer.Argument(help="The page to fetch.")],
    extraction: Extraction = "markdown",
    field: Annotated[
        list[str] | None, typer.Option(help="structured: a field to read, as 'name=CSS selector'.")
    ] = None,
    ignore_robots: IgnoreRobots = False,
    timeout: Timeout = 30.0,
    user_agent: UserAgent = None,
    header: Header = None,
    auth: Auth = None,
    bearer: Bearer = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything that was found as JSON.")] = False,
) -> None:
    """Fetch one page and print it as Markdown."""
    fields = _read_fields(field)
    spec = read_spec(
        {
            "start_urls": [url],
            "respect_robots": not ignore_robots,
            "timeout_seconds": timeout,
            "user_agent": user_agent,
            "headers": read_headers(header),
            "auth": read_auth(auth, bearer),
            "extraction": extraction,
            "fields": fields,
        }
    )

    async def main() -> bool:
        async with admin() as (jay, who):
            options = ExtractOptions(strategy=spec.extraction, fields=fields)
            response, found = await jay.crawls.fetch_page(who, spec, options)
        if as_json:
            print_json(
                {
                    "url": response.url,
                    "status": response.status,
                    "title": found.title,
                    "method": found.method,
                    "verdict": found.verdict,
                    "verdict_reason": found.verdict_reason,
                    "markdown": found.markdown,
                    "metadata": found.metadata,
                    "fields": found.fields,
                    "links": found.links,
                }
            )
        else:
            print_markdown(found.markdown)
        if found.verdict is not Verdict.CONTENT and not as_json:
            reason = f": {found.verdict_reason}" if found.verdict_reason else ""
            sys.stderr.write(f"scrubjay: this looks like no content ({found.verdict}{reason})\n")
        return found.verdict is Verdict.CONTENT

    if not run(main):
        raise typer.Exit(1)


def _read_fields(lines: list[str] | None) -> dict[str, str]:
    fields = {}
    for line in lines or ():
        name, equals, selector = line.partition("=")
        if not equals or not name.strip() or not selector.strip():
            raise InvalidRequest("A field looks like 'name=CSS selector'.", field="field")
        fields[name.strip()] = selector.strip()
    return fields
