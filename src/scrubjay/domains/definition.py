"""A domain's definition, `domain.json`: a name, a vector store, sources of four kinds. People may edit it by hand."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from scrubjay.domains.names import is_safe_name
from scrubjay.domains.orders import CrawlScope
from scrubjay.errors import InvalidRequest
from scrubjay.model.crawl_spec import CrawlSpec, read_spec

MAX_DEFINITION_BYTES = 4 * 1024 * 1024
MAX_SOURCES = 1000
SOURCE_LISTS = ("file_sources", "list_sources", "sitepage_sources", "web_sources")
# Of a crawl's settings, those that a web source may not have: what it starts from, and what the domain decides.
_NOT_OF_A_SOURCE = frozenset({"start_urls", "scope_id", "refresh", "auth", "proxy_id"})
# Of those, what somebody may have meant seriously. It would be kept and shown, and nothing would ever use it.
_REFUSED = ("auth", "proxy_id", "start_urls")
_ADDRESS = re.compile(r"https?://[^\s/?#\\]+[^\s\\]*")

Line = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]
Prose = Annotated[str, StringConstraints(max_length=10_000, pattern=r"^[^\x00]*$")]


def _check_address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError("must be an address that begins with http:// or https://")
    if "@" in urlsplit(value).netloc:
        raise ValueError("must not have a name or password; whoever may read domains is shown it")
    return value


Address = Annotated[str, StringConstraints(max_length=2000), AfterValidator(_check_address)]


class DomainSource(BaseModel):
    """What every source has. Keys that we do not know stay as somebody wrote them."""

    model_config = ConfigDict(extra="allow", frozen=True)

    source_id: str

    @field_validator("source_id")
    @classmethod
    def _check_id(cls, value: str) -> str:
        if not is_safe_name(value):
            raise ValueError(
                "must be usable as the name of a folder: up to 64 letters, digits, '-', '_', '.' or spaces"
            )
        return value


class FileSource(DomainSource):
    """A document library, or a folder in it; `filter` is OData."""

    site_url: Address
    sharepoint_url_part: Line = ""
    filter: Line = ""


class ListSource(DomainSource):
    site_url: Address
    list_name: Line = Field(min_length=1)
    filter: Line = ""


class SitePageSource(FileSource):
    """A library of site pages."""


class WebSource(DomainSource):
    """A web site. Beside `start_url`, the settings of a crawl (`max_pages`, `include`, …) may stand here."""

    start_url: Address

    @model_validator(mode="after")
    def _check_settings(self) -> "WebSource":
        for name in _REFUSED:
            if name in (self.model_extra or {}):
                raise ValueError(f"'{name}' cannot be set for a source of a domain")
        try:
            self.spec()
        except InvalidRequest as error:
            raise ValueError(error.message) from error
        return self

    def spec(self) -> CrawlSpec:
        settings = {
            name: value
            for name, value in (self.model_extra or {}).items()
            if name in CrawlSpec.model_fields and name not in _NOT_OF_A_SOURCE
        }
        return read_spec({**settings, "start_urls": [self.start_url]})


class Definition(BaseModel):
    """The whole file. The domain's id is not in it: that is the name of its folder."""

    model_config = ConfigDict(extra="allow", frozen=True)

    vector_store_name: Line = ""
    vector_store_id: Line = ""
    name: Line = ""
    description: Prose = ""
    file_sources: tuple[FileSource, ...] = Field((), max_length=MAX_SOURCES)
    list_sources: tuple[ListSource, ...] = Field((), max_length=MAX_SOURCES)
    sitepage_sources: tuple[SitePageSource, ...] = Field((), max_length=MAX_SOURCES)
    web_sources: tuple[WebSource, ...] = Field((), max_length=MAX_SOURCES)

    @model_validator(mode="after")
    def _check_ids(self) -> "Definition":
        for listed in SOURCE_LISTS:
            seen: set[str] = set()
            for source in getattr(self, listed):
                if source.source_id.lower() in seen:  # folders that differ in case only are one folder on some systems
                    raise ValueError(f"{listed} has the source_id '{source.source_id}' twice")
                seen.add(source.source_id.lower())
        return self

    def dump(self) -> dict[str, Any]:
        """As it is written: known keys in their order, then those that somebody added."""
        return self.model_dump(mode="json")

    def sources(self, scope: CrawlScope, source_id: str | None = None) -> Iterator[tuple[CrawlScope, DomainSource]]:
        """The sources that a crawl is about."""
        for kind, listed in _LIST_OF.items():
            if scope in (CrawlScope.ALL, kind):
                for source in getattr(self, listed):
                    if source_id is None or source.source_id == source_id:
                        yield kind, source


_LIST_OF: Mapping[CrawlScope, str] = {
    CrawlScope.FILES: "file_sources",
    CrawlScope.LISTS: "list_sources",
    CrawlScope.SITEPAGES: "sitepage_sources",
    CrawlScope.WEB: "web_sources",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A domain as it is on disk. One whose file cannot be read has `problem` instead of a definition."""

    tenant_id: str
    domain_id: str
    definition: Definition
    problem: str = ""


def parse_definition(text: bytes) -> Definition:
    """The file's content, or InvalidRequest that says where it is wrong."""
    if len(text) > MAX_DEFINITION_BYTES:
        raise InvalidRequest(f"domain.json is larger than {MAX_DEFINITION_BYTES // 1024**2} MB.")
    try:
        values = json.loads(text.decode("utf-8-sig"))  # some editors leave a mark at the beginning
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"domain.json is not UTF-8 text: byte {error.start} is wrong.") from error
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"domain.json is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}."
        ) from error
    except RecursionError as error:
        raise InvalidRequest("domain.json is nested too deeply.") from error
    if not isinstance(values, dict):
        raise InvalidRequest("domain.json must be a JSON object.")
    return check_definition(values, place="domain.json: ")


def check_definition(values: Mapping[str, Any], place: str = "") -> Definition:
    try:
        return Definition.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ").rstrip(".")
        said = f"{field}: {message}" if field else message
        raise InvalidRequest(f"{place}{said}.", field=field or "sources") from error


def read_sources(text: str) -> dict[str, Sequence[Any]]:
    """`sources_json`: all lists of sources in one string, as forms send them."""
    try:
        values = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidRequest(f"Parameter 'sources_json' is not valid JSON: {error}.", field="sources_json") from error
    if not isinstance(values, dict):
        raise InvalidRequest(
            "Parameter 'sources_json' must be a JSON object with lists of sources.", field="sources_json"
        )
    for name, listed in values.items():
        if name not in SOURCE_LISTS or not isinstance(listed, list):
            known = ", ".join(SOURCE_LISTS)
            raise InvalidRequest(f"Parameter 'sources_json' takes lists named {known}.", field="sources_json")
    return values
