"""Options that the commands which crawl and fetch share."""

from typing import Annotated, Any

import typer

from scrubjay.errors import InvalidRequest
from scrubjay.model.crawl_spec import CrawlStrategy, Extent

MaxDepth = Annotated[int, typer.Option("--depth", min=0, max=1000, help="Links away from the start; 0: only it.")]
MaxPages = Annotated[int, typer.Option(min=1, help="Stop after so many pages.")]
MaxSeconds = Annotated[float | None, typer.Option(min=0.1, help="Stop after so many seconds.")]
StrategyOption = Annotated[
    CrawlStrategy, typer.Option(help="Which page is next: breadth-first, depth-first, or by --keyword.")
]
Keyword = Annotated[list[str] | None, typer.Option(help="What best_first looks for; may be given several times.")]
ExtentOption = Annotated[
    Extent, typer.Option(help="Which links are followed: below the start, its host, its domain, or all.")
]
Include = Annotated[list[str] | None, typer.Option(help="Only addresses that match this regular expression.")]
Exclude = Annotated[list[str] | None, typer.Option(help="No addresses that match this regular expression.")]
Sitemaps = Annotated[bool, typer.Option("--sitemaps/--no-sitemaps", help="Also start from the site's sitemaps.")]
IgnoreRobots = Annotated[bool, typer.Option("--ignore-robots", help="Do not ask robots.txt for permission.")]
Concurrency = Annotated[int, typer.Option(min=1, max=256, help="Requests at the same time.")]
HostConcurrency = Annotated[int, typer.Option(min=1, max=64, help="Requests to one host at the same time.")]
Shards = Annotated[
    int | None,
    typer.Option(min=1, max=64, help="Have so many workers share the crawl, by host. Default: crawl_shards"),
]
DelayMs = Annotated[int, typer.Option(min=0, max=60_000, help="Milliseconds between two requests to a host.")]
RateLimit = Annotated[float | None, typer.Option(min=0.01, help="At most so many requests a second to a host.")]
Timeout = Annotated[float, typer.Option(min=0.1, max=600, help="Seconds that a page may take to arrive.")]
UserAgent = Annotated[str | None, typer.Option(help="How to introduce ourselves. Default: crawl_user_agent")]
Header = Annotated[list[str] | None, typer.Option(help="Send this header, as 'Name: value'.")]
Auth = Annotated[str | None, typer.Option(help="User and password for Basic authentication, as 'user:password'.")]
Bearer = Annotated[str | None, typer.Option(help="Token for Bearer authentication.")]
Extraction = Annotated[
    str, typer.Option("--extract", help="markdown, structured, raw, trafilatura, browser, crawl4ai or llm.")
]


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
