"""`scrubjay fetch`: one page as Markdown, on standard output."""

import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from scrubjay.cli.context import admin, print_json, print_markdown, run
from scrubjay.cli.crawl_options import CREDENTIALS, EXTRACTION, ROBOTS, TIMEOUT, USER_AGENT, spec_values
from scrubjay.cli.model_options import flag, with_options
from scrubjay.errors import InvalidRequest
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.extraction import ExtractOptions, Verdict


@with_options(
    EXTRACTION,
    flag("field", kind=list[str] | None, default=None, help="structured: a field to read, as 'name=CSS selector'."),
    ROBOTS,
    TIMEOUT,
    USER_AGENT,
    *CREDENTIALS,
)
def fetch(
    url: Annotated[str, typer.Argument(help="The page to fetch.")],
    options: dict[str, Any],
    as_json: Annotated[bool, typer.Option("--json", help="Print everything that was found as JSON.")] = False,
) -> None:
    """Fetch one page and print it as Markdown."""
    fields = _read_fields(options.pop("field", ()))
    spec = read_spec(spec_values(options) | {"start_urls": [url], "fields": fields})

    async def main() -> bool:
        async with admin() as (jay, who):
            wanted = ExtractOptions(strategy=spec.extraction, fields=fields)
            response, found = await jay.crawls.fetch_page(who, spec, wanted)
        if as_json:
            names = ("title", "method", "verdict", "verdict_reason", "markdown", "metadata", "fields", "links")
            facts = {name: getattr(found, name) for name in names}
            print_json({"url": response.url, "status": response.status, **facts})
        else:
            print_markdown(found.markdown)
        if found.verdict is not Verdict.CONTENT and not as_json:
            reason = f": {found.verdict_reason}" if found.verdict_reason else ""
            sys.stderr.write(f"scrubjay: this looks like no content ({found.verdict}{reason})\n")
        return found.verdict is Verdict.CONTENT

    if not run(main):
        raise typer.Exit(1)


def _read_fields(lines: Iterable[str]) -> dict[str, str]:
    fields = {}
    for line in lines:
        name, equals, selector = line.partition("=")
        if not equals or not name.strip() or not selector.strip():
            raise InvalidRequest("A field looks like 'name=CSS selector'.", field="field")
        fields[name.strip()] = selector.strip()
    return fields
