"""The formats `html` and `ui`: renderings of the same `{ok, error, data}`. No scripts; forms and links do everything.

Browsers can send GET and POST only, so forms say in `_method` what they mean (`values.py`). Everything that comes from
data is escaped here, in one place.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import urlencode

from starlette.responses import HTMLResponse

from scrubjay.api.actions.declaration import PREFIX, Button, Endpoint, Format, Kind, Param, Resource, Type
from scrubjay.api.actions.values import METHOD_FIELD

STYLESHEET = f"{PREFIX}/style.css"
MAX_CELL = 300
MAX_DEPTH = 12
# The one address in data that is shown as a link: it only looks. Any other may lead to an action (`asking.py`).
_LINKED = f"{PREFIX}/jobs/monitor?"


def page(title: str, body: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)} - Scrubjay</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="stylesheet" href="{STYLESHEET}"></head>'
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>",
        status_code=status,
    )


def result_page(endpoint: Endpoint, result: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """The result as a table, nested where the data is."""
    error = f'<p class="error" role="alert">{escape(str(result["error"]))}</p>' if result["error"] else ""
    body = f"{_navigation(endpoint.resource)}{error}{value_html(result['data'], 0)}"
    return page(endpoint.path, body, status)


def ui_page(resource: Resource, items: Sequence[Mapping[str, Any]]) -> HTMLResponse:
    """All items, with what can be done with each, and a form to make one."""
    columns = resource.columns or tuple(dict.fromkeys(name for item in items[:1] for name in item))
    actions = _has_actions(resource)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    rows = "".join(
        f"<tr>{''.join(_cell(item.get(name)) for name in columns)}"
        f"{f'<td class=actions>{_item_actions(resource, item)}</td>' if actions else ''}</tr>"
        for item in items
    )
    head += '<th scope="col">Actions</th>' if actions else ""
    count = f"<p>{len(items)} {'item' if len(items) == 1 else 'items'}</p>"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if items else ""
    return page(resource.title, f"<p>{escape(resource.about)}</p>{_links(resource)}{_create(resource)}{count}{table}")


def link(path: str, query: Mapping[str, str]) -> str:
    return escape(f"{path}?{urlencode(query)}")


def _navigation(resource: Resource) -> str:
    listing = resource.endpoint(Kind.LIST)
    if listing is not None and Format.UI in listing.formats:
        return f'<p><a href="{link(listing.path, {"format": "ui"})}">All of {escape(listing.path)}</a></p>'
    return ""


def _links(resource: Resource) -> str:
    found = "".join(f'<li><a href="{escape(address)}">{escape(label)}</a></li>' for label, address in resource.links)
    return f"<nav><ul>{found}</ul></nav>" if found else ""


def _has_actions(resource: Resource) -> bool:
    return bool(resource.buttons) or any(resource.endpoint(kind) for kind in (Kind.GET, Kind.UPDATE, Kind.DELETE))


def _item_actions(resource: Resource, item: Mapping[str, Any]) -> str:
    identifier = str(item.get(resource.id_param, item.get("id", "")))
    if not identifier:
        return ""
    parts = []
    view, edit, delete = (resource.endpoint(kind) for kind in (Kind.GET, Kind.UPDATE, Kind.DELETE))
    if view is not None and Format.HTML in view.formats:
        parts.append(f'<a href="{link(view.path, {resource.id_param: identifier, "format": "html"})}">View</a>')
    if edit is not None:
        parts.append(f"<details><summary>Edit</summary>{_form(edit, item, {resource.id_param: identifier})}</details>")
    if delete is not None:
        parts.append(_confirmed("Delete", delete, {resource.id_param: identifier}))
    parts += [
        _button(button, resource.id_param, identifier)
        for button in resource.buttons
        if not button.states or item.get("state") in button.states
    ]
    return " ".join(parts)


def _button(button: Button, id_param: str, identifier: str) -> str:
    query = {name: value.replace("{id}", identifier) for name, value in button.query.items()}
    query = query or {id_param: identifier}
    path = f"{PREFIX}/{button.path}"
    if not button.changes:
        return f'<a href="{link(path, query)}">{escape(button.label)}</a>'
    sent = f"{_hidden(METHOD_FIELD, 'GET')}<button>{escape(button.label)}</button>"
    return f'<form action="{link(path, query)}" method="post">{sent}</form>'


def _confirmed(label: str, endpoint: Endpoint, query: Mapping[str, str]) -> str:
    """What cannot be undone takes a second step."""
    address = link(endpoint.path, {**query, **_format_of(endpoint)})
    form = (
        f'<form action="{address}" method="post">{_hidden(METHOD_FIELD, "DELETE")}<button>Yes, delete</button></form>'
    )
    return f"<details><summary>{escape(label)}</summary>{form}</details>"


def _create(resource: Resource) -> str:
    endpoint = resource.endpoint(Kind.CREATE)
    return "" if endpoint is None else f"<details><summary>Create</summary>{_form(endpoint, {}, {})}</details>"


def _form(endpoint: Endpoint, item: Mapping[str, Any], query: Mapping[str, str]) -> str:
    shown = [param for param in endpoint.params if param.name not in ("format", "dry_run")]
    fields = "".join(_field(param, item) for param in shown)
    override = _hidden(METHOD_FIELD, "PUT") if endpoint.kind is Kind.UPDATE else ""
    address = link(endpoint.path, {**query, **_format_of(endpoint)})
    label = "Save" if endpoint.kind is Kind.UPDATE else "Create"
    return f'<form action="{address}" method="post">{override}{fields}<button>{label}</button></form>'


def _format_of(endpoint: Endpoint) -> dict[str, str]:
    return {"format": "html"} if Format.HTML in endpoint.formats else {"format": "json"}


def _field(param: Param, item: Mapping[str, Any]) -> str:
    value = item.get(param.name)
    name, about = escape(param.name), escape(param.about)
    if param.type is Type.CHOICE or param.type is Type.TRUTH:
        options = "".join(_option(each, str(value)) for each in (param.choices or {"false": "", "true": ""}))
        control = f'<select name="{name}">{options}</select>'
    elif param.type is Type.JSON or param.max_length > 1000:
        text = (
            value
            if isinstance(value, str)
            else ""
            if value is None
            else json.dumps(value, indent=2, ensure_ascii=False)
        )
        control = f'<textarea name="{name}" rows="4">\n{escape(text)}</textarea>'  # the first line break is not content
    else:
        required = " required" if param.required else ""
        control = f'<input name="{name}" value="{escape("" if value is None else str(value))}"{required}>'
    return f"<label><span>{name}</span>{control}<small>{about}</small></label>"


def _option(value: str, current: str) -> str:
    selected = " selected" if value == current else ""
    return f'<option value="{escape(value)}"{selected}>{escape(value)}</option>'


def _hidden(name: str, value: str) -> str:
    return f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return f"<td>{escape(text if len(text) <= MAX_CELL else text[:MAX_CELL] + '…')}</td>"


def value_html(value: Any, depth: int = 0) -> str:
    """Any JSON as tables, nested where it is."""
    if depth > MAX_DEPTH:
        return f"<pre>{escape(json.dumps(value, ensure_ascii=False))}</pre>"
    if isinstance(value, Mapping):
        return _table(((str(name), each) for name, each in value.items()), depth)
    if isinstance(value, list | tuple):
        if value and all(isinstance(each, Mapping) for each in value):
            return _flat_table(value, depth)
        return _table(((str(number), each) for number, each in enumerate(value, 1)), depth)
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    if text.startswith(_LINKED):
        return f'<a href="{escape(text)}">{escape(text)}</a>'
    return f"<span>{escape(text)}</span>"


def _table(rows: Iterable[tuple[str, Any]], depth: int) -> str:
    found = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{value_html(each, depth + 1)}</td></tr>' for name, each in rows
    )
    return f"<table><tbody>{found}</tbody></table>" if found else '<span class="empty">nothing</span>'


def _flat_table(items: Sequence[Mapping[str, Any]], depth: int) -> str:
    columns = list(dict.fromkeys(str(name) for item in items for name in item))
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{value_html(item.get(name), depth + 1)}</td>' for name in columns)}</tr>" for item in items
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
