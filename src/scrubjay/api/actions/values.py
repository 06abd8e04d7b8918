"""Parameters of a request: from the address, from a JSON body or a form, read as the declaration says."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import Request
from starlette.datastructures import FormData, QueryParams, UploadFile
from starlette.exceptions import HTTPException

from scrubjay.api.actions.declaration import Endpoint, Format, Kind, Param, Type
from scrubjay.dashboard.session import TOKEN_FIELD
from scrubjay.errors import InvalidRequest

THEN_FIELD = "_then"  # in a form: the page to go on with
METHOD_FIELD = "_method"  # in a form: browsers can only send GET and POST, and only POST proves that a form was sent
_TRUTHS = {"true": True, "false": False}
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
MAX_FIELDS = 200
MAX_FORM_FIELDS = 10_000  # a thousand sources with all their inputs
_ROW = re.compile(r"(\w+)\.(\d{1,5})\.(\w+)")


@dataclass(frozen=True, slots=True)
class Given:
    """What a request carries, before anybody looked at it."""

    query: Mapping[str, str]
    body: Mapping[str, Any]
    method: str  # that is meant: a form may say so
    notes: Mapping[str, str] = field(default_factory=dict)  # what a form says beside its values

    @property
    def form_token(self) -> str:
        return self.notes.get(TOKEN_FIELD, "")


async def read_given(request: Request) -> Given:
    query = _single(request.query_params, "address")
    body: dict[str, Any] = {}
    method = request.method
    if method in ("POST", "PUT", "DELETE", "PATCH"):
        body = await _read_body(request)
        override = body.get(METHOD_FIELD)
        if method == "POST" and _is_form(request) and override in ("GET", "PUT", "DELETE"):
            method = str(override)
    notes = {TOKEN_FIELD: body.pop(TOKEN_FIELD)} if _is_form(request) and TOKEN_FIELD in body else {}
    notes |= {name: value for name, value in body.items() if name.startswith("_") and isinstance(value, str)}
    ignored = {name for name in (*query, *body) if name.startswith("_")}  # ours, or what proxies and tools add
    return Given(_without(query, ignored), _without(body, ignored), method, notes)


def gather_rows(endpoint: Endpoint, given: Given) -> Given:
    """The inputs of a form for lists of objects, as those lists: `file_sources.0.site_url` and its like.

    Objects that were left empty, or are to be removed, are left out. What is no JSON where it must be stays as text.
    """
    lists = {param.name: param for param in endpoint.params if param.columns}
    rows: dict[str, dict[int, dict[str, Any]]] = {}
    body = dict(given.body)
    for name in list(body):
        listed, _, rest = name.partition(".")
        if listed not in lists or listed in body or not isinstance(body[name], str):
            continue
        found = _ROW.fullmatch(name)
        if rest == "rows" or found is not None:
            value = body.pop(name).strip()
            row = rows.setdefault(listed, {})
            if found is not None and value:
                row.setdefault(int(found[2]), {})[found[3]] = value
    for listed, numbered in rows.items():
        kept = [row for _, row in sorted(numbered.items()) if "remove" not in row]
        body[listed] = [_object(lists[listed], row) for row in kept]
    return replace(given, body=body)


def _object(param: Param, row: Mapping[str, str]) -> dict[str, Any]:
    known = {column.name: column.type for column in param.columns}
    found: dict[str, Any] = {}
    for name, text in row.items():
        if known.get(name) is Type.NUMBER and text.isascii() and text.isdecimal() and len(text) < 16:
            found[name] = int(text)
        elif name == "more":
            found |= _settings(text)
        else:
            found[name] = text
    return found


def _settings(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"more": text}
    return value if isinstance(value, dict) else {"more": text}


def read_format(endpoint: Endpoint, given: Given) -> Format:
    """The format that is asked for; one that this endpoint does not have is an error."""
    asked = given.query.get("format", given.body.get("format"))
    if asked is None and Format.JSON not in endpoint.formats and endpoint.formats:
        return endpoint.formats[0]
    asked = str(Format.JSON if asked is None else asked)
    if asked not in [str(each) for each in endpoint.formats]:
        raise InvalidRequest(f"Format '{asked[:64]}' not supported.", field="format")
    return Format(asked)


def read_values(endpoint: Endpoint, given: Given) -> tuple[dict[str, Any], str]:
    """Every parameter with its value, and for an update, which item the address names.

    In an update, the id in the address says which one; another id in the body is what it is to become.
    """
    params = {param.name: param for param in endpoint.params}
    for name in (*given.query, *given.body):
        if name not in params:
            raise InvalidRequest(f"Unknown parameter '{name[:64]}'.", field=name[:64])
    texts = {**given.query, **given.body}
    target = ""
    id_param = endpoint.resource.id_param
    for name in given.query.keys() & given.body.keys():
        if str(given.query[name]) != str(given.body[name]) and not (endpoint.kind is Kind.UPDATE and name == id_param):
            raise InvalidRequest(f"Parameter '{name}' is given twice, with different values.", field=name)
    if endpoint.kind is Kind.UPDATE and id_param in params:
        target = _read(params[id_param], given.query.get(id_param, given.body.get(id_param, "")))
    values = {name: _read(param, texts.get(name)) for name, param in params.items() if name != "format"}
    for name, param in params.items():
        for number, row in enumerate(values[name] if param.columns and isinstance(values[name], list) else ()):
            if isinstance(row, dict) and isinstance(row.get("more"), str):
                raise InvalidRequest("Other settings must be a JSON object.", field=f"{name}.{number}.more")
    return {name: value for name, value in values.items() if value is not None}, target


def _read(param: Param, value: Any) -> Any:
    if value is None or (value == "" and (param.required or param.type is not Type.TEXT)):
        if param.required:
            raise InvalidRequest(f"Missing '{param.name}' parameter.", field=param.name)
        return _default(param)
    return _READERS[param.type](param, value)


def _default(param: Param) -> Any:
    if param.type is Type.CHOICE and param.default is None:
        return next(iter(param.choices), None)
    return param.default


def _read_text(param: Param, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(param, "must be text")
    if len(value) > param.max_length:
        raise _wrong(param, f"must have at most {param.max_length} characters")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise _wrong(param, "has a character that cannot be stored")
    return value


def _read_number(param: Param, value: Any) -> int:
    text = str(value)
    digits = text.removeprefix("-")
    is_whole = not isinstance(value, bool | float) and digits.isascii() and digits.isdigit() and len(digits) < 20
    if not is_whole or not param.least <= int(text) <= param.most:
        raise _wrong(param, f"must be a whole number from {param.least} to {param.most}")
    return int(text)


def _read_truth(param: Param, value: Any) -> bool:
    found = value if isinstance(value, bool) else _TRUTHS.get(value) if isinstance(value, str) else None
    if found is None:
        raise _wrong(param, "must be 'true' or 'false'")
    return found


def _read_choice(param: Param, value: Any) -> str:
    if not isinstance(value, str) or value not in param.choices:
        raise _wrong(param, f"must be one of: {', '.join(param.choices)}")
    return value


def _read_list(param: Param, value: Any) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts) or len(parts) > MAX_FIELDS:
        raise _wrong(param, "must be texts with commas between them")
    cleaned = [_read_text(param, part.strip()) for part in parts if part.strip()]
    if param.required and not cleaned:
        raise InvalidRequest(f"Missing '{param.name}' parameter.", field=param.name)
    return cleaned


def _read_json(param: Param, value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise _wrong(param, "must be valid JSON") from error
    if not isinstance(value, dict | list):
        raise _wrong(param, "must be a JSON object or array")
    return value


_READERS = {
    Type.TEXT: _read_text,
    Type.NUMBER: _read_number,
    Type.TRUTH: _read_truth,
    Type.CHOICE: _read_choice,
    Type.LIST: _read_list,
    Type.JSON: _read_json,
}


def _wrong(param: Param, requirement: str) -> InvalidRequest:
    return InvalidRequest(f"Parameter '{param.name}' {requirement}.", field=param.name)


async def _read_body(request: Request) -> dict[str, Any]:
    """JSON or a form, by content type. JSON that is said to be a form, as curl does unasked, is JSON all the same."""
    if _is_form(request) and not (await request.body()).lstrip().startswith(b"{"):
        try:
            async with request.form(max_fields=MAX_FORM_FIELDS, max_files=0) as form:
                return dict(_single(form, "form"))
        except HTTPException as error:
            raise InvalidRequest(f"The form cannot be read: {error.detail}", field="body") from error
    text = await request.body()
    if not text.strip():
        return {}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("The body is neither a form nor valid JSON.", field="body") from error
    if not isinstance(values, dict):
        raise InvalidRequest("The body must be a JSON object or a form.", field="body")
    return values


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() in _FORMS


def _single(given: QueryParams | FormData, place: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in given.multi_items():
        if name in values:
            raise InvalidRequest(f"Parameter '{name[:64]}' is given more than once in the {place}.", field=name[:64])
        if isinstance(value, UploadFile):
            raise InvalidRequest(f"Parameter '{name[:64]}' must be text, not a file.", field=name[:64])
        values[name] = value
    return values


def _without(values: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}
