"""Options that `crawl` and `fetch` share: fields of CrawlSpec, and how headers and credentials are given."""

import inspect
from typing import Annotated, Any

import typer

from scrubjay.cli.model_options import flag, option
from scrubjay.errors import InvalidRequest
from scrubjay.model.crawl_spec import CrawlMode, CrawlSpec

IGNORE_ROBOTS = "Do not ask robots.txt for permission."
IgnoreRobots = Annotated[bool, typer.Option("--ignore-robots", help=IGNORE_ROBOTS)]
UserAgent = Annotated[str | None, typer.Option(help=CrawlSpec.model_fields["user_agent"].description)]


def crawl_option(field: str, *names: str, **details: Any) -> inspect.Parameter:
    return option(CrawlSpec, field, *names, **details)


TIMEOUT = crawl_option("timeout_seconds", "--timeout")
USER_AGENT = crawl_option("user_agent")
EXTRACTION = crawl_option(
    "extraction", "--extract", help="markdown, structured, raw, trafilatura, browser, crawl4ai or llm."
)
ROBOTS = flag("ignore_robots", "--ignore-robots", help=IGNORE_ROBOTS)
CREDENTIALS = (
    flag("header", kind=list[str] | None, default=None, help="Send this header, as 'Name: value'."),
    flag("auth", kind=str | None, default=None, help="Credentials for Basic authentication, as 'user:password'."),
    flag("bearer", kind=str | None, default=None, help="Token for Bearer authentication."),
)


def spec_values(options: dict[str, Any]) -> dict[str, Any]:
    """The values of a CrawlSpec, from fields of it and from options that say the same in other words."""
    values = dict(options)
    values["respect_robots"] = not values.pop("ignore_robots")
    values["headers"] = read_headers(values.pop("header", None))
    values["auth"] = read_auth(values.get("auth"), values.pop("bearer", None))
    if values.pop("sequential", False):
        values["mode"] = CrawlMode.SEQUENTIAL
    return values


def read_headers(lines: list[str] | None) -> dict[str, str]:
    headers = {}
    for line in lines or ():
        name, colon, value = line.partition(":")
        if not colon:
            raise InvalidRequest("A header looks like 'Name: value'.", field="header")
        headers[name.strip()] = value.strip()
    return headers


def read_auth(basic: str | None, bearer: str | None) -> dict[str, Any] | None:
    if basic is not None and bearer is not None:
        raise InvalidRequest("Give either --auth or --bearer.", field="auth")
    if bearer is not None:
        return {"type": "bearer", "secret": bearer}
    if basic is None:
        return None
    user, colon, password = basic.partition(":")
    if not colon:
        raise InvalidRequest("Credentials look like 'user:password'.", field="auth")
    return {"type": "basic", "name": user, "secret": password}
