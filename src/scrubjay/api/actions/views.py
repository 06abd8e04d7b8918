"""What pages show of a declared resource: cells, inputs, and what may be done with an item by whoever looks."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from scrubjay.api.actions.declaration import (
    PREFIX,
    Button,
    Endpoint,
    Format,
    Kind,
    Param,
    Resource,
    Type,
    in_words,
)
from scrubjay.model.tenant import Principal

MAX_CELL = 300
MAX_DEPTH = 12
# The one address in data that is shown as a link: it only looks. Any other may lead to an action (`asking.py`).
_LINKED = f"{PREFIX}/jobs/monitor?"
_LIST = re.compile(rf"{PREFIX}/[a-z_/]+\?format=ui")
_SIZES = ("bytes", "usage_bytes", "size_bytes")
_STATES = ("state", "status")


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of an item; `kind` is text, time, size or state."""

    kind: str
    value: Any
    href: str = ""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that may be done with an item: a link, a form, or a form behind a second step."""

    label: str
    address: str
    method: str = ""  # that a form means; a link has none
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a form; `rows` are the objects of a list, each with its own inputs."""

    name: str
    label: str
    about: str
    kind: str  # text, area, choice or rows
    value: str = ""
    options: tuple[str, ...] = ()
    required: bool = False
    longest: int = 0
    rows: "tuple[tuple[Input, ...], ...]" = ()


def address_of(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}"


def show_cell(name: str, value: Any, href: str = "") -> Cell:
    if name.endswith(("_at", "_utc")) and (moment := _moment(value)) is not None:
        return Cell("time", moment)
    if name in _SIZES and isinstance(value, int):
        return Cell("size", value)
    if name in _STATES and isinstance(value, str):
        return Cell("state", value)
    if name == "file_counts" and isinstance(value, Mapping):
        failed = f", {value['failed']} failed" if value.get("failed") else ""
        return Cell("text", f"{value.get('completed', 0)} of {value.get('total', 0)}{failed}")
    if name == "address" and isinstance(value, str) and _LIST.fullmatch(value):
        return Cell("text", value, value)
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return Cell("text", text if len(text) <= MAX_CELL else f"{text[:MAX_CELL]}…", href)


def _moment(value: Any) -> datetime | None:
    try:
        if isinstance(value, int):
            return datetime.fromtimestamp(value, UTC)
        return datetime.fromisoformat(value) if isinstance(value, str) and value else None
    except (ValueError, OverflowError, OSError):
        return None


def item_id(resource: Resource, item: Mapping[str, Any]) -> str:
    return str(item.get(resource.id_param, item.get("id", "")) or "")


def home_of(resource: Resource, identifier: str, carried: Mapping[str, str]) -> str:
    """Where one item is shown; nothing where it is not."""
    if resource.home and identifier:
        return resource.home.replace("{id}", quote(identifier, safe=""))
    view = resource.endpoint(Kind.GET)
    if view is None or Format.HTML not in view.formats or not identifier:
        return ""
    return address_of(view.path, {**carried, resource.id_param: identifier, "format": "html"})


def deeds_of(
    resource: Resource, item: Mapping[str, Any], who: Principal, carried: Mapping[str, str] | None = None
) -> list[Deed]:
    """What somebody may do with an item; `carried` is what the list was asked for and the item needs too."""
    identifier, carried = item_id(resource, item), carried or {}
    if not identifier:
        return []
    found = []
    if home := home_of(resource, identifier, carried):
        found.append(Deed("View", home))
    edit, delete = resource.endpoint(Kind.UPDATE), resource.endpoint(Kind.DELETE)
    if edit is not None and who.may(edit.action.scope):
        found.append(Deed("Edit", address_of(resource.title, {**carried, "format": "ui", "_edit": identifier})))
    found += [
        _pressed(button, resource, identifier)
        for button in resource.buttons
        if who.may(button.scope) and (not button.states or item.get("state") in button.states)
    ]
    if delete is not None and who.may(delete.action.scope):
        query = {**carried, resource.id_param: identifier, **format_of(delete)}
        found.append(Deed("Delete", address_of(delete.path, query), "DELETE", is_final=True))
    return found


def _pressed(button: Button, resource: Resource, identifier: str) -> Deed:
    query = {name: value.replace("{id}", identifier) for name, value in button.query.items()}
    address = address_of(f"{PREFIX}/{button.path}", query or {resource.id_param: identifier})
    return Deed(button.label, address, "GET" if button.changes else "")


def format_of(endpoint: Endpoint) -> dict[str, str]:
    return {"format": "html"} if Format.HTML in endpoint.formats else {"format": "json"}


def inputs_of(endpoint: Endpoint, item: Mapping[str, Any]) -> list[Input]:
    shown = [param for param in endpoint.params if param.in_form and param.name not in ("format", "dry_run")]
    return [_input(param, param.name, item.get(param.name)) for param in shown]


def _input(param: Param, name: str, value: Any) -> Input:
    if param.columns:
        rows = [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else []
        drawn = tuple(_row(param, name, number, row) for number, row in enumerate([*rows, {}]))
        return Input(name, param.title, param.about, "rows", rows=drawn)
    if param.type in (Type.CHOICE, Type.TRUTH):
        options = tuple(param.choices or ("false", "true"))
        chosen = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        return Input(name, param.title, param.about, "choice", chosen, options)
    is_long = param.type is Type.JSON or param.max_length > 1000
    text = "" if value is None or value == {} else value if isinstance(value, str | int) else _pretty(value)
    kind = "area" if is_long else "text"
    return Input(name, param.title, param.about, kind, str(text), (), param.required, param.max_length)


def _row(param: Param, name: str, number: int, row: Mapping[str, Any]) -> tuple[Input, ...]:
    """The inputs of one object; what has none of its own is in the last one, as JSON."""
    known = {column.name for column in param.columns}
    more = row.get("more") or {key: value for key, value in row.items() if key not in known}
    values = {**row, "more": more or None}
    return tuple(_input(column, f"{name}.{number}.{column.name}", values.get(column.name)) for column in param.columns)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def value_html(value: Any, depth: int = 0) -> Markup:
    """Any JSON as tables, nested where it is."""
    if depth > MAX_DEPTH:
        return Markup("<pre>{}</pre>").format(json.dumps(value, ensure_ascii=False))
    if isinstance(value, Mapping):
        return _table(((in_words(str(name)), each) for name, each in value.items()), depth)
    if isinstance(value, list | tuple):
        if value and all(isinstance(each, Mapping) for each in value):
            return _flat_table(value, depth)
        return _table(((str(number), each) for number, each in enumerate(value, 1)), depth)
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    if text.startswith(_LINKED):
        return Markup('<a href="{0}">{0}</a>').format(text)
    return Markup('<span class="said">{}</span>').format(text)


def _table(rows: Iterable[tuple[str, Any]], depth: int) -> Markup:
    line = Markup('<tr><th scope="row">{}</th><td>{}</td></tr>')
    found = Markup("").join(line.format(name, value_html(each, depth + 1)) for name, each in rows)
    if not found:
        return Markup('<span class="muted">nothing</span>')
    return Markup('<table class="facts"><tbody>{}</tbody></table>').format(found)


def _flat_table(items: Sequence[Mapping[str, Any]], depth: int) -> Markup:
    columns = list(dict.fromkeys(str(name) for item in items for name in item))
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(in_words(name)) for name in columns)
    rows = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(Markup("<td>{}</td>").format(value_html(item.get(name), depth + 1)) for name in columns)
        )
        for item in items
    )
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(escape(head), rows)
