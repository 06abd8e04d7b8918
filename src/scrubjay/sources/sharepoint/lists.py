"""Lists: found by title, read with what their columns refer to, written as one Markdown text and one CSV file."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from scrubjay.errors import FetchFailed
from scrubjay.sources.sharepoint.client import SharePointClient
from scrubjay.sources.sharepoint.items import all_of, format_utc, quoted, read_guid, read_moment
from scrubjay.sources.sharepoint.list_fields import (
    ATTACHMENTS,
    FIELDS_SELECTED,
    TITLE,
    ListField,
    read_fields,
    show_value,
    values_of,
)

_LOOKUPS_PER_REQUEST = 8  # SharePoint follows twelve in one request, and has some of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class ListState:
    """A list before its items are read: enough to see whether anything changed."""

    id: str
    title: str
    url: str
    server_relative_url: str
    item_count: int
    modified_at: datetime  # when an item was added, changed or deleted last
    resource: str = field(repr=False)

    @property
    def etag(self) -> str:
        return f"{self.item_count}-{int(self.modified_at.timestamp())}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListExport:
    """A whole list: its rows by column title, and the two texts made of them."""

    id: str
    title: str
    url: str
    raw_url: str
    server_relative_url: str
    modified_at: datetime
    columns: Sequence[str]
    rows: Sequence[Mapping[str, str]]
    markdown: str = field(repr=False)
    csv: str = field(repr=False)

    @property
    def last_modified_utc(self) -> str:
        return format_utc(self.modified_at)

    @property
    def last_modified_timestamp(self) -> int:
        return int(self.modified_at.timestamp())


async def find_list(client: SharePointClient, title: str, *, patient: bool = True) -> ListState:
    path = f"web/lists/GetByTitle({quote(quoted(title), safe='')})"
    query = {
        "$select": "Id,Title,ItemCount,LastItemModifiedDate,LastItemDeletedDate,RootFolder/ServerRelativeUrl",
        "$expand": "RootFolder",
    }
    row = await client.get(path, query, subject=f"The list '{title}' of {client.site.url}", patient=patient)
    try:
        root = str(row["RootFolder"]["ServerRelativeUrl"])
        moments = [read_moment(row[name]) for name in ("LastItemModifiedDate", "LastItemDeletedDate") if row.get(name)]
        list_id = read_guid(row["Id"])
        return ListState(
            id=list_id,
            title=str(row["Title"]),
            url=client.site.url_of(root),
            server_relative_url=root,
            item_count=int(row.get("ItemCount") or 0),
            modified_at=max(moments),
            resource=f"web/lists(guid'{list_id}')",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FetchFailed(f"The list '{title}' cannot be understood.", error_type="not_sharepoint") from error


async def export_list(client: SharePointClient, title: str, filter_: str | None = None) -> ListExport:
    state = await find_list(client, title)
    fields = read_fields(await _all(client, state, "fields", {"$select": FIELDS_SELECTED}))
    found = await _read_rows(client, state, fields, filter_)
    titles = _unique_titles(fields)
    terms = _terms_of(found)
    shown = [{titles[each]: show_value(each, row, terms) for each in fields} for row in found]
    plain = [[str(row["Id"]), *(show_value(each, row, terms, plain=True) for each in fields)] for row in found]
    columns = [titles[each] for each in fields]
    return ListExport(
        id=state.id,
        title=state.title,
        url=state.url,
        raw_url=client.site.raw_url_of(state.server_relative_url),
        server_relative_url=state.server_relative_url,
        modified_at=state.modified_at,
        columns=columns,
        rows=[{"Id": str(row["Id"]), **values} for row, values in zip(found, shown, strict=True)],
        markdown=_write_markdown(state.title, fields, titles, found, shown),
        csv=_write_csv(["Id", *columns], plain),
    )


async def _all(
    client: SharePointClient, state: ListState, what: str, query: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    async for page in client.pages(f"{state.resource}/{what}", query, subject=f"The list '{state.title}'"):
        rows += page
    return rows


async def _read_rows(
    client: SharePointClient, state: ListState, fields: Sequence[ListField], filter_: str | None
) -> list[dict[str, Any]]:
    """Every row with all of its columns; those that refer to elsewhere in several turns if they are many."""
    own = [each.key for each in fields if each.expanded is None and each.name != ATTACHMENTS]
    rows: dict[int, dict[str, Any]] = {}
    for number, query in enumerate(_queries(own, fields, filter_)):
        for row in await _all(client, state, "items", query):
            if number == 0:
                rows[int(row["Id"])] = dict(row)
            elif int(row["Id"]) in rows:  # what was added meanwhile comes with the next reading
                rows[int(row["Id"])].update(row)
    return [rows[key] for key in sorted(rows)]


def _queries(own: Sequence[str], fields: Sequence[ListField], filter_: str | None) -> Iterator[dict[str, str]]:
    elsewhere = [each for each in fields if each.expanded is not None]
    selected, expanded = ["Id", *own], []
    if any(each.name == ATTACHMENTS for each in fields):
        selected.append("AttachmentFiles/FileName")
        expanded.append("AttachmentFiles")
    if any(each.is_term for each in fields):
        selected += ["TaxCatchAll/ID", "TaxCatchAll/Term"]
        expanded.append("TaxCatchAll")
    for start in range(0, max(len(elsewhere), 1), _LOOKUPS_PER_REQUEST):
        some = elsewhere[start : start + _LOOKUPS_PER_REQUEST]
        query = {"$select": ",".join([*selected, *(each.expanded or "" for each in some)])}
        if expanded or some:
            query["$expand"] = ",".join([*expanded, *(each.key for each in some)])
        if wanted := all_of(filter_):
            query["$filter"] = wanted
        yield query
        selected, expanded = ["Id"], []


def _terms_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {
        str(term.get("ID", term.get("Id"))): str(term.get("Term") or "")
        for row in rows
        for term in values_of(row.get("TaxCatchAll"))
    }


def _unique_titles(fields: Sequence[ListField]) -> dict[ListField, str]:
    """Two columns may have one title; then the second is told by its own name too."""
    titles: dict[ListField, str] = {}
    for each in fields:
        taken = each.title in titles.values() or each.title == "Id"
        titles[each] = f"{each.title} ({each.name})" if taken else each.title
    return titles


def _write_markdown(
    title: str,
    fields: Sequence[ListField],
    titles: Mapping[ListField, str],
    rows: Sequence[Mapping[str, Any]],
    shown: Sequence[Mapping[str, str]],
) -> str:
    parts = [f"# {_one_line(title)}"]
    for row, values in zip(rows, shown, strict=True):
        heading = next((values[titles[each]] for each in fields if each.name == TITLE), "")
        lines = [f"### {_one_line(heading) or 'Item ' + str(row['Id'])}", ""]
        for each in fields:
            if each.name != TITLE and (text := values[titles[each]]):
                first, *more = text.splitlines()
                lines.append(f"- {_one_line(titles[each])}: {first}")
                lines += [f"  {line}" if line.strip() else "" for line in more]
        parts.append("\n".join(lines).rstrip())
    return "\n\n".join(parts) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _write_csv(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
