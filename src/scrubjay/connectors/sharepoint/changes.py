"""What changed in a library since a token of its log of changes: far less to ask than the whole listing.

The log tells ids only, keeps them for some weeks, and says nothing of the files in a folder that was renamed, moved or
deleted. Whatever it cannot tell for sure is told by None: then the library has to be listed. So is one that is small
beside its changes, because listing it takes fewer requests than looking them up.
"""

import math
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scrubjay.connectors.sharepoint.client import PAGE_SIZE, SharePointClient
from scrubjay.connectors.sharepoint.items import SELECTED, SharePointItem, all_of, is_folder, read_item
from scrubjay.connectors.sharepoint.libraries import Library
from scrubjay.errors import FetchFailed

MOST_CHANGES = 10_000  # of a library of any size
_FETCH_LIMIT = 1000
_IDS_PER_REQUEST = 70  # an address has room for no more: SharePoint reads 2048 characters of a query
_ADDED = 1
_UNUSABLE_TOKEN = ("-2130575172", "-2130575173", "InvalidChangeToken")


@dataclass(frozen=True, slots=True)
class LibraryChanges:
    """Files that were added or changed, and the list item ids of those that are gone or no longer wanted."""

    items: Sequence[SharePointItem]
    removed_ids: frozenset[int]
    token: str  # to ask with the next time


async def read_changes(
    client: SharePointClient, library: Library, since: str, known_ids: Collection[int], filter_: str | None = None
) -> LibraryChanges | None:
    """Changes since a token, beside the files that are known; None when a listing can tell better."""
    kinds: dict[int, set[int]] = {}
    token = since
    try:
        async for entry in _log(client, library, since):
            kinds.setdefault(int(entry["ItemId"]), set()).add(int(entry["ChangeType"]))
            token = str(entry["ChangeToken"]["StringValue"])
            if len(kinds) > MOST_CHANGES:
                return None
    except (KeyError, TypeError, ValueError):
        return None  # another kind of change than those of items
    except FetchFailed as error:
        if _is_unusable(error):
            return None
        raise
    lookups = math.ceil(len(kinds) / _IDS_PER_REQUEST) * (2 if filter_ else 1)
    if lookups > max(1, math.ceil(len(known_ids) / PAGE_SIZE)):
        return None
    rows = {int(row["Id"]): row async for row in _look_up(client, library, kinds)}
    if any(is_folder(row) and kinds[number] != {_ADDED} for number, row in rows.items()):
        return None
    gone = kinds.keys() - rows.keys()
    if any(number not in known_ids and _ADDED not in kinds[number] for number in gone):
        return None  # it may have been a folder, whose files are gone with it
    if filter_:
        rows = {int(row["Id"]): row async for row in _look_up(client, library, rows.keys(), filter_)}
    items = [read_item(row, client.site) for row in rows.values() if library.holds(row)]
    there = {item.sharepoint_listitem_id for item in items}
    return LibraryChanges(items, frozenset(kinds.keys() - there) & frozenset(known_ids), token)


async def _log(client: SharePointClient, library: Library, since: str) -> AsyncIterator[Mapping[str, Any]]:
    token = since
    while True:
        query = {
            "Item": True, "Add": True, "Update": True, "SystemUpdate": True, "DeleteObject": True, "Rename": True,
            "Move": True, "Restore": True, "FetchLimit": str(_FETCH_LIMIT), "ChangeTokenStart": {"StringValue": token},
        }  # fmt: skip
        subject = f"The log of changes of '{library.folder}'"
        answer = await client.post(f"{library.resource}/GetChanges", {"query": query}, subject=subject)
        entries = answer.get("value")
        if not isinstance(entries, list):
            raise FetchFailed(f"{subject} cannot be read.", error_type="not_sharepoint")
        for entry in entries:
            yield entry
        if len(entries) < _FETCH_LIMIT:
            return
        token = str(entries[-1]["ChangeToken"]["StringValue"])


async def _look_up(
    client: SharePointClient, library: Library, ids: Iterable[int], filter_: str | None = None
) -> AsyncIterator[Mapping[str, Any]]:
    for some in _batches(sorted(ids)):
        condition = all_of(filter_, " or ".join(f"Id eq {number}" for number in some))
        query = {"$select": SELECTED, "$expand": "File", "$filter": condition or ""}
        async for rows in client.pages(f"{library.resource}/items", query, subject=library.subject):
            for row in rows:
                yield row


def _batches(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    return (ids[start : start + _IDS_PER_REQUEST] for start in range(0, len(ids), _IDS_PER_REQUEST))


def _is_unusable(error: FetchFailed) -> bool:
    told = f"{error.details.get('code', '')} {error.message}"
    return error.details.get("status") == 404 or any(sign in told for sign in _UNUSABLE_TOKEN)
