"""What one crawl is asked to do: where it starts, how far it goes, how it behaves, what it keeps."""

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from scrubjay.errors import InvalidRequest
from scrubjay.model.patterns import MAX_PATTERN_LENGTH, UrlPattern

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # what HTTP allows as the name of a header
_FORBIDDEN_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "accept-encoding"}
)


Pattern = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATTERN_LENGTH)]
Address = Annotated[str, StringConstraints(min_length=1, max_length=2048, strip_whitespace=True)]


def _check_header_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name.lower() in _FORBIDDEN_HEADERS:
        raise ValueError(f"the header '{name[:50]}' cannot be set")


def _check_header_value(name: str, value: str) -> None:
    if len(value) > 8000 or any(ord(character) < 32 and character != "\t" for character in value):
        raise ValueError(f"the value of the header '{name[:50]}' cannot be sent")


class CrawlStrategy(StrEnum):
    BFS = "bfs"
    DFS = "dfs"
    BEST_FIRST = "best_first"


class CrawlMode(StrEnum):
    SEQUENTIAL = "sequential"  # one page after the other, in the exact order of the strategy
    CONCURRENT = "concurrent"


class Extent(StrEnum):
    """Which links are followed, seen from where the crawl started."""

    CHILDREN = "children"  # the start's folder and below
    HOST = "host"  # the same host
    DOMAIN = "domain"  # the same registrable domain, with all its subdomains
    ANYWHERE = "anywhere"


class Strictness(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_enum_values=False)


class CrawlAuth(Strictness):
    """Credentials for the start's origin. `secret` is sealed wherever it is stored."""

    type: Literal["basic", "bearer", "api_key"]
    name: str | None = Field(None, max_length=200)  # user name, or the header's name
    secret: str = Field(repr=False, max_length=10_000)

    @model_validator(mode="after")
    def _check_header(self) -> "CrawlAuth":
        if self.type == "api_key" and self.name is not None:
            _check_header_name(self.name)
        if self.type != "basic":
            _check_header_value(self.name or self.type, self.secret)
        return self


class CrawlSpec(Strictness):
    """The payload of a `crawl` job. Limits are those of the specifications, widened for the command line."""

    start_urls: tuple[Address, ...] = Field(min_length=1, max_length=1000)
    scope_id: str | None = Field(None, max_length=32)  # crawls of one tenant that name the same one share pages

    strategy: CrawlStrategy = Field(
        CrawlStrategy.BFS, description="Which page is next: breadth-first, depth-first, or by keywords."
    )
    mode: CrawlMode = CrawlMode.CONCURRENT
    max_depth: int = Field(
        10, ge=0, le=1000, description="Maximum number of links away from the start; 0: only the start."
    )
    max_pages: int = Field(1000, ge=1, le=100_000_000, description="Stop after this number of pages.")
    max_pages_per_host: int | None = Field(None, ge=1, le=1_000_000)
    max_seconds: float | None = Field(None, gt=0, le=31_536_000, description="Stop after this number of seconds.")
    keywords: tuple[Annotated[str, StringConstraints(min_length=1, max_length=100)], ...] = Field(
        (), max_length=100, description="What best_first looks for."
    )
    score_threshold: float = Field(
        0.0, ge=0, le=1, description="best_first: do not follow links with a lower score (0 to 1)."
    )

    follow_links: bool = True
    extent: Extent = Field(
        Extent.HOST, description="Which links are followed: below the start, its host, its domain, or all."
    )
    include: tuple[Pattern, ...] = Field(
        (), max_length=100, description="Only URLs that match this regular expression."
    )
    exclude: tuple[Pattern, ...] = Field((), max_length=100, description="No URLs that match this regular expression.")
    use_sitemaps: bool = Field(True, description="Also start from the site's sitemaps.")
    follow_redirects: bool = True
    max_redirects: int = Field(10, ge=0, le=20)

    respect_robots: bool = True
    user_agent: str | None = Field(
        None, min_length=1, max_length=500, description="User agent. Default: the setting crawl_user_agent."
    )
    headers: dict[str, str] = Field(default_factory=dict, max_length=50)
    auth: CrawlAuth | None = None
    proxy_id: str | None = Field(None, max_length=32)
    delay_ms: int = Field(100, ge=0, le=60_000, description="Milliseconds between two requests to a host.")
    rate_limit_rps: float | None = Field(
        None, ge=0.01, le=10_000, description="Maximum number of requests per second to a host."
    )
    concurrency: int = Field(16, ge=1, le=256, description="Maximum number of concurrent requests.")
    host_concurrency: int = Field(8, ge=1, le=64, description="Maximum number of concurrent requests to one host.")
    concurrent_hosts: int | None = Field(None, ge=1, le=256)  # how many hosts are asked at the same time
    timeout_seconds: float = Field(30.0, ge=0.1, le=600, description="Timeout of a page in seconds.")
    max_bytes: int = Field(50 * 1024 * 1024, ge=1024, le=1024 * 1024 * 1024)
    retries: int = Field(2, ge=0, le=10)
    max_failed_share: float = Field(
        0.5, ge=0, le=1, description="Fail the crawl if a larger share of pages and files cannot be taken in."
    )

    extraction: Literal["markdown", "structured", "raw", "browser", "trafilatura", "crawl4ai", "llm"] = Field(
        "markdown", description="How pages are turned into text."
    )
    fields: dict[str, str] = Field(default_factory=dict, max_length=100)
    learn_boilerplate: bool = True
    keep_originals: bool = Field(False, description="Keep the bodies as they were fetched.")
    refresh: bool = Field(False, description="Fetch and extract every page again, even if it did not change.")

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            _check_header_name(name)
            _check_header_value(name, value)
        return headers

    @field_validator("user_agent")
    @classmethod
    def _check_user_agent(cls, value: str | None) -> str | None:
        if value is not None and any(ord(character) < 32 for character in value):
            raise ValueError("a user agent is one line of text")
        return value

    @field_validator("include", "exclude")
    @classmethod
    def _check_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                UrlPattern(pattern)
            except InvalidRequest as error:
                raise ValueError(error.message) from error
        return patterns


def read_spec(values: dict[str, Any]) -> CrawlSpec:
    """The spec, or InvalidRequest that names the field."""
    try:
        return CrawlSpec.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "spec"
        message = first["msg"].removeprefix("Value error, ")
        raise InvalidRequest(f"{field}: {message}.", field=field) from error
