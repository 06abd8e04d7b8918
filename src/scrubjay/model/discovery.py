"""Discovery: finding a site's addresses without crawling it. What is asked for, and what was found."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from scrubjay.errors import InvalidRequest
from scrubjay.model.patterns import MAX_PATTERN_LENGTH, UrlPattern

_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_DOMAIN = re.compile(rf"(?:(?P<scheme>https?)://)?(?P<host>{_LABEL}(?:\.{_LABEL})*)\.?(?::(?P<port>\d{{1,5}}))?/?")
_MAX_DOMAIN_LENGTH = 253


class DiscoverySource(StrEnum):
    SITEMAP = "sitemap"
    COMMON_CRAWL = "common_crawl"


class DiscoverySpec(BaseModel):
    """The payload of a discovery job. `domain` is a host name, or an origin (`http://127.0.0.1:8080`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    domain: Annotated[str, StringConstraints(min_length=1, max_length=300, strip_whitespace=True)]
    sources: tuple[DiscoverySource, ...] = Field((DiscoverySource.SITEMAP,), min_length=1, max_length=10)
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATTERN_LENGTH)] | None = None
    max_urls: int = Field(500, ge=1, le=10_000)
    score_query: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None
    score_threshold: float = Field(0.0, ge=0, le=1)

    @field_validator("domain")
    @classmethod
    def _check_domain(cls, domain: str) -> str:
        try:
            found = _DOMAIN.fullmatch(_to_ascii(domain.lower()))
        except UnicodeError:
            found = None
        if found is None or len(found["host"]) > _MAX_DOMAIN_LENGTH or int(found["port"] or 0) > 65535:
            raise ValueError("this is not a domain name")
        port = f":{found['port']}" if found["port"] else ""
        scheme = f"{found['scheme']}://" if found["scheme"] else ""
        return f"{scheme}{found['host']}{port}"

    @field_validator("sources")
    @classmethod
    def _drop_repeated(cls, sources: tuple[DiscoverySource, ...]) -> tuple[DiscoverySource, ...]:
        return tuple(dict.fromkeys(sources))

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                UrlPattern(pattern)
            except InvalidRequest as error:
                raise ValueError(error.message.removeprefix("pattern: ").rstrip(".")) from None
        return pattern

    @property
    def host(self) -> str:
        """The domain without scheme and port; `www` is only another name of the same site."""
        return self.domain.rpartition("://")[2].partition(":")[0].removeprefix("www.")

    @property
    def origins(self) -> tuple[str, ...]:
        """Where the site may be: as given, or over TLS first."""
        if "://" in self.domain:
            return (self.domain,)
        return (f"https://{self.domain}", f"http://{self.domain}")


def read_discovery_spec(values: dict[str, Any]) -> DiscoverySpec:
    """The spec, or InvalidRequest that names the field."""
    try:
        return DiscoverySpec.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "spec"
        raise InvalidRequest(f"{field}: {first['msg'].removeprefix('Value error, ')}.", field=field) from error


@dataclass(frozen=True, slots=True)
class DiscoveredUrl:
    url: str
    source: DiscoverySource
    score: float | None = None  # only when there was a query to score by
    lastmod: datetime | None = None


@dataclass(frozen=True, slots=True)
class DiscoveryProblem:
    """Something that could not be read; the rest was."""

    source: DiscoverySource
    url: str
    error_type: str
    message: str


@dataclass(slots=True)
class Discovery:
    """What was found, best first when it was scored; `seen` counts the distinct addresses before any filter."""

    urls: list[DiscoveredUrl] = field(default_factory=list)
    problems: list[DiscoveryProblem] = field(default_factory=list)
    seen: int = 0
    complete: bool = True  # False when a limit ended the search before its sources did


def _to_ascii(domain: str) -> str:
    """`xn--…` for the labels of a name that are not ASCII."""
    if domain.isascii():
        return domain
    return ".".join(label if label.isascii() else label.encode("idna").decode() for label in domain.split("."))
