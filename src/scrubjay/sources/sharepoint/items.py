"""What SharePoint's listings are made of: the site's address, files with what tells whether they changed, and OData."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from scrubjay.errors import FetchFailed, InvalidRequest
from scrubjay.model.urls import parse_url

SELECTED = "Id,UniqueId,FileLeafRef,FileRef,File/Length,Modified,FSObjType"
_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class SiteAddress:
    """A site (`https://acme.sharepoint.com/sites/demo`) in the parts that its own addresses are made of."""

    origin: str  # without a slash at the end
    path: str  # unencoded, empty for the root site

    @classmethod
    def parse(cls, text: str, *, field: str = "site_url") -> "SiteAddress":
        url = parse_url(text, field=field)
        if url.username or url.password or "?" in url.text or "#" in text:
            raise InvalidRequest(f"{field} must have neither credentials nor a query.", field=field)
        parts = urlsplit(url.text)
        return cls(f"{parts.scheme}://{parts.netloc}", unquote(parts.path).rstrip("/"))

    @property
    def url(self) -> str:
        return self.origin + quote(self.path)

    def resolve(self, url_part: str) -> str:
        """The server-relative path of what a source calls `/Shared Documents/sub`."""
        part = "/" + url_part.strip().strip("/")
        inside = part == self.path or part.startswith(f"{self.path}/")
        return part.rstrip("/") if self.path and inside else f"{self.path}{part}".rstrip("/")

    def raw_url_of(self, server_relative_url: str) -> str:
        return self.origin + server_relative_url

    def url_of(self, server_relative_url: str) -> str:
        return self.origin + quote(server_relative_url)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePointItem:
    """A file of a library or a page, as a listing shows it; the names are those of the map files."""

    sharepoint_listitem_id: int
    sharepoint_unique_file_id: str
    filename: str
    file_type: str  # without the dot, in lower case
    file_size: int
    url: str
    raw_url: str
    server_relative_url: str
    modified_at: datetime
    problem: str | None = None  # why it cannot be read, although it is listed

    @property
    def last_modified_utc(self) -> str:
        return format_utc(self.modified_at)

    @property
    def last_modified_timestamp(self) -> int:
        return int(self.modified_at.timestamp())


def format_utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def read_moment(value: object) -> datetime:
    """SharePoint's times; those without a zone are in UTC."""
    moment = datetime.fromisoformat(str(value))
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def is_folder(row: Mapping[str, Any]) -> bool:
    return str(row.get("FSObjType", row.get("FileSystemObjectType"))) == "1"


def path_of(row: Mapping[str, Any]) -> str:
    if not row.get("FileRef"):
        raise _unintelligible(row)
    return str(row["FileRef"])


def read_item(row: Mapping[str, Any], site: SiteAddress) -> SharePointItem:
    """One row of a listing. A row that cannot be understood makes the whole listing worthless, and is raised."""
    try:
        path = path_of(row)
        name = str(row.get("FileLeafRef") or path.rpartition("/")[2])
        file = row.get("File")
        return SharePointItem(
            sharepoint_listitem_id=int(row["Id"] if "Id" in row else row["ID"]),
            sharepoint_unique_file_id=str(row["UniqueId"]).strip("{}").lower(),
            filename=name,
            file_type=name.rpartition(".")[2].lower() if "." in name else "",
            file_size=int(file["Length"]) if file else 0,
            url=site.url_of(path),
            raw_url=site.raw_url_of(path),
            server_relative_url=path,
            modified_at=read_moment(row["Modified"]),
            problem=None if file else "SharePoint shows this item, but no file in it.",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _unintelligible(row) from error


def _unintelligible(row: Mapping[str, Any]) -> FetchFailed:
    shown = str(row)[:200]
    return FetchFailed(
        f"SharePoint's listing has an entry that cannot be understood: {shown}", error_type="not_sharepoint"
    )


def quoted(text: str) -> str:
    """A string as OData writes it."""
    return "'" + text.replace("'", "''") + "'"


def all_of(*conditions: str | None) -> str | None:
    """Conditions joined by `and`; the caller's own ones may have an `or` inside."""
    given = [f"({condition})" for condition in conditions if condition and condition.strip()]
    return " and ".join(given) or None


def read_guid(value: object) -> str:
    text = str(value).strip("{}")
    if not _GUID.fullmatch(text):
        raise FetchFailed(f"SharePoint calls a list {text[:50]!r}, which is no id.", error_type="not_sharepoint")
    return text.lower()
