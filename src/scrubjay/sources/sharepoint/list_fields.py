"""The columns of a list, and what their values look like to people: every type of column that SharePoint has."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import time
from typing import Any

from scrubjay.sources.sharepoint.canvas import html_to_markdown
from scrubjay.sources.sharepoint.items import read_moment

SEPARATOR = " | "
FIELDS_SELECTED = "InternalName,Title,TypeAsString,EntityPropertyName,Hidden,ReadOnlyField,LookupField,RichText"
TITLE = "Title"
ATTACHMENTS = "Attachments"
_PEOPLE = frozenset({"User", "UserMulti"})
_LOOKUPS = frozenset({"Lookup", "LookupMulti"})
_TERMS = frozenset({"TaxonomyFieldType", "TaxonomyFieldTypeMulti"})
# Columns that every list has and nobody filled in.
_SYSTEM = frozenset(
    {
        "AppAuthor", "AppEditor", "Author", "ComplianceAssetId", "ContentType", "ContentTypeId", "Created", "DocIcon",
        "Edit", "Editor", "FileLeafRef", "FolderChildCount", "ID", "ItemChildCount", "LinkTitle", "LinkTitleNoMenu",
        "MediaServiceImageTags", "Modified", "Order", "TaxCatchAll", "TaxCatchAllLabel",
    }
)  # fmt: skip
_CALCULATED = re.compile(r"(float|string|datetime|boolean|error);#", re.IGNORECASE)
_OWN = re.compile(r"_(?!x[0-9A-Fa-f]{4}_)")  # such names are SharePoint's, unless the mark writes a character
_HTML = re.compile(r"<[a-zA-Z/!]")


@dataclass(frozen=True, slots=True)
class ListField:
    name: str  # of the column inside SharePoint
    title: str  # as people see it
    kind: str
    key: str  # of its value in a row
    lookup: str = TITLE  # which column of the other list is shown

    @property
    def expanded(self) -> str | None:
        """What must be asked for by name, because the row itself has an id only."""
        if self.kind in _PEOPLE:
            return f"{self.key}/Title,{self.key}/EMail"
        return f"{self.key}/{self.lookup}" if self.kind in _LOOKUPS else None

    @property
    def is_term(self) -> bool:
        return self.kind in _TERMS


def read_fields(rows: Iterable[Mapping[str, Any]]) -> list[ListField]:
    """The columns that people fill in or that are calculated from those, in the list's order, the title first."""
    fields = [_read_field(row) for row in rows if _is_wanted(row)]
    return sorted(fields, key=lambda each: each.name != TITLE)


def _is_wanted(row: Mapping[str, Any]) -> bool:
    name, kind = str(row["InternalName"]), str(row["TypeAsString"])
    if row.get("Hidden") or name in _SYSTEM or _OWN.match(name) or kind == "Computed":
        return False
    # What cannot be written is SharePoint's own, but for formulas and columns that come along with a lookup.
    return not row.get("ReadOnlyField") or kind in _LOOKUPS or kind == "Calculated"


def _read_field(row: Mapping[str, Any]) -> ListField:
    return ListField(
        str(row["InternalName"]),
        str(row.get("Title") or row["InternalName"]),
        str(row["TypeAsString"]),
        str(row.get("EntityPropertyName") or row["InternalName"]),
        str(row.get("LookupField") or TITLE),
    )


def show_value(field: ListField, row: Mapping[str, Any], terms: Mapping[str, str], *, plain: bool = False) -> str:
    """A value as text, empty if there is none. `plain` keeps notes as SharePoint has them, for the CSV file."""
    if field.name == ATTACHMENTS:
        return SEPARATOR.join(str(each.get("FileName", "")) for each in values_of(row.get("AttachmentFiles")))
    show = _SHOWN.get(field.kind, _show_anything)
    if field.kind == "Note" and plain:
        show = str
    if field.is_term:
        texts = [_show_term(each, terms) for each in values_of(row.get(field.key))]
    elif field.kind in _LOOKUPS:
        texts = [_show_anything(_lookup(each, field.lookup)) for each in values_of(row.get(field.key))]
    else:
        texts = [show(each) for each in values_of(row.get(field.key))]
    return SEPARATOR.join(text for text in texts if text)


def values_of(value: Any) -> list[Any]:
    """One or many: SharePoint writes many as a list, or in older shapes as an object with a list in it."""
    if isinstance(value, Mapping) and isinstance(value.get("results"), list):
        value = value["results"]
    return [each for each in (value if isinstance(value, list) else [value]) if each is not None and each != ""]


def _lookup(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else value


def _show_number(value: Any) -> str:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _show_date(value: Any) -> str:
    try:
        moment = read_moment(value)
    except ValueError:
        return str(value)
    return f"{moment:%Y-%m-%d}" if moment.time() == time.min else f"{moment:%Y-%m-%d %H:%M} UTC"


def _show_boolean(value: Any) -> str:
    return "Yes" if str(value).lower() in ("true", "1", "yes") else "No"


def _show_person(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    name, email = str(value.get("Title") or ""), str(value.get("EMail") or value.get("Email") or "")
    return f"{name} <{email}>" if name and email else name or email


def _show_link(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    url, words = str(value.get("Url") or ""), str(value.get("Description") or "")
    return f"{words} <{url}>" if url and words and words != url else url or words


def _show_note(value: Any) -> str:
    text = str(value)
    return html_to_markdown(text) if _HTML.search(text) else text.strip()


def _show_calculated(value: Any) -> str:
    text = str(value)
    found = _CALCULATED.match(text)
    if found is None:
        return _show_anything(value)
    return _CALCULATED_SHOWN.get(found[1].lower(), str)(text[found.end() :])


def _show_term(value: Any, terms: Mapping[str, str]) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    label = str(value.get("Label") or "")
    # Of a column with one term, SharePoint tells the term's number as its label; its hidden catalogue has the words.
    return terms.get(str(value.get("WssId"))) or label


def _show_anything(value: Any) -> str:
    if isinstance(value, bool):
        return _show_boolean(value)
    if isinstance(value, int | float):
        return _show_number(value)
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)  # pictures and places are JSON in a string
        except (ValueError, RecursionError):
            return str(value)
    if isinstance(value, Mapping):
        named = next((value[key] for key in _NAMES if value.get(key)), None)
        return str(named) if named is not None else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return str(value).strip()


_NAMES = ("DisplayName", "Title", "Label", "fileName", "Description", "Name")
_CALCULATED_SHOWN: Mapping[str, Callable[[Any], str]] = {
    "float": _show_number,
    "datetime": _show_date,
    "boolean": _show_boolean,
}
_SHOWN: Mapping[str, Callable[[Any], str]] = {
    "Boolean": _show_boolean,
    "Calculated": _show_calculated,
    "Currency": _show_number,
    "DateTime": _show_date,
    "Note": _show_note,
    "Number": _show_number,
    "URL": _show_link,
    "User": _show_person,
    "UserMulti": _show_person,
}
