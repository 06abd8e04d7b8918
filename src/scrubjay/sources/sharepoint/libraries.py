"""Document libraries: found by their address, listed in pages, filtered by SharePoint and checked once more here."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from scrubjay.errors import FetchFailed
from scrubjay.sources.sharepoint.client import SharePointClient
from scrubjay.sources.sharepoint.items import (
    SELECTED,
    SharePointItem,
    all_of,
    is_folder,
    path_of,
    quoted,
    read_guid,
    read_item,
)

_LIBRARY = 1  # the BaseType of lists that hold files
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Library:
    """A library, or one folder of it."""

    id: str
    title: str
    root: str  # server-relative, like the next
    folder: str

    @property
    def subject(self) -> str:
        return f"The library '{self.folder}'"

    @property
    def resource(self) -> str:
        return f"web/lists(guid'{self.id}')"

    @property
    def prefix(self) -> str:
        return f"{self.folder}/"

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is a file of this folder; names are the same for SharePoint whatever their case."""
        return not is_folder(row) and path_of(row).lower().startswith(self.prefix.lower())


async def find_library(client: SharePointClient, url_part: str, *, patient: bool = True) -> Library:
    """The library that an address is in: the one whose root is the longest beginning of it."""
    wanted = client.site.resolve(url_part)
    query = {
        "$select": "Id,Title,BaseType,RootFolder/ServerRelativeUrl",
        "$expand": "RootFolder",
        "$filter": f"BaseType eq {_LIBRARY}",
    }
    subject = f"The site {client.site.url}"
    answer = await client.get("web/lists", {**query, "$top": "5000"}, subject=subject, patient=patient)
    try:
        libraries = [_read_library(row, wanted) for row in answer["value"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise FetchFailed(f"{subject} did not name its libraries.", error_type="not_sharepoint") from error
    around = [each for each in libraries if f"{wanted}/".lower().startswith(f"{each.root}/".lower())]
    if around:
        return max(around, key=lambda each: len(each.root))
    known = ", ".join(f"'{each.root}'" for each in libraries[:_SHOWN]) or "none"
    raise FetchFailed(
        f"There is no library at '{wanted}'; the libraries that the app can see there are {known}.",
        error_type="not_found",
    )


def _read_library(row: Mapping[str, Any], wanted: str) -> Library:
    return Library(
        read_guid(row["Id"]),
        str(row["Title"]),
        str(row["RootFolder"]["ServerRelativeUrl"]).rstrip("/"),
        wanted,
    )


async def require_folder(client: SharePointClient, library: Library) -> None:
    """An empty listing must mean an empty folder, not one that was renamed or never was."""
    if library.folder.lower() == library.root.lower():
        return
    path = "web/GetFolderByServerRelativePath(DecodedUrl=@a1)"
    query = {"@a1": quoted(library.folder), "$select": "Exists"}
    answer = await client.get(path, query, subject=f"The folder '{library.folder}'")
    if answer.get("Exists") is False:
        raise FetchFailed(f"There is no folder '{library.folder}' (any more).", error_type="not_found")


async def list_files(
    client: SharePointClient, library: Library, filter_: str | None = None, *, most: int | None = None
) -> AsyncIterator[SharePointItem]:
    """Every file of the library's folder that the filter wants, each once."""
    seen: set[int] = set()
    async for rows in _pages(client, library, filter_, most):
        for row in rows:
            if library.holds(row):
                item = read_item(row, client.site)
                if item.sharepoint_listitem_id not in seen:
                    seen.add(item.sharepoint_listitem_id)
                    yield item
    if not seen:
        await require_folder(client, library)


async def _pages(
    client: SharePointClient, library: Library, filter_: str | None, most: int | None
) -> AsyncIterator[list[Mapping[str, Any]]]:
    query = {"$select": SELECTED, "$expand": "File"}
    if most is not None:
        query["$top"] = str(max(1, min(most, 5000)))
    narrow = all_of(filter_, f"FSObjType eq 0 and startswith(FileRef,{quoted(library.prefix)})")
    # A large library refuses what it has no index for; then it is read whole, and sorted out here.
    for condition in (narrow, all_of(filter_)):
        begun = False
        try:
            wanted = query if condition is None else {**query, "$filter": condition}
            async for rows in client.pages(f"{library.resource}/items", wanted, subject=library.subject):
                begun = True
                yield rows
        except FetchFailed as error:
            if begun or condition != narrow or error.error_type != "threshold":
                raise
        else:
            return
