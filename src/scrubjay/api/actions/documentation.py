"""The texts that a bare GET answers with, and the entries of the OpenAPI document; both made of the declaration."""

from collections.abc import Iterable, Mapping
from typing import Any

from scrubjay.api.actions.declaration import PREFIX, Endpoint, Kind, Param, Resource, Type
from scrubjay.api.actions.values import METHOD_FIELD

_VERBS = {
    Kind.LIST: "List",
    Kind.CREATE: "Create",
    Kind.GET: "Get single",
    Kind.UPDATE: "Update",
    Kind.DELETE: "Delete",
}
_SCHEMAS: Mapping[Type, Mapping[str, Any]] = {
    Type.TEXT: {"type": "string"},
    Type.NUMBER: {"type": "integer"},
    Type.TRUTH: {"type": "boolean"},
    Type.CHOICE: {"type": "string"},
    Type.LIST: {"type": "string", "description": "Values with commas between them."},
    Type.JSON: {},
}


def describe_resource(resource: Resource, children: Iterable[Resource] = ()) -> str:
    """The whole resource: its actions, and the endpoints below it."""
    lines = [resource.title, resource.about, ""]
    for endpoint in resource.endpoints():
        lines += [*_describe(endpoint), ""]
    below = [f"  {child.title} - {child.about}" for child in children]
    if below:
        lines += ["Below this address:", *below, ""]
    return "\n".join([*lines, *_FOOTER]) + "\n"


def describe_door(resources: Iterable[Resource]) -> str:
    """What there is at all; each of them explains itself."""
    lines = [f"{PREFIX}/", "Resources and actions; a bare GET of any of these explains it", ""]
    return "\n".join([*lines, *(f"  {each.title} - {each.about}" for each in resources), "", *_FOOTER]) + "\n"


def describe_endpoint(endpoint: Endpoint) -> str:
    lines = [endpoint.path, endpoint.resource.about, "", *_describe(endpoint), ""]
    return "\n".join([*lines, *_FOOTER]) + "\n"


_FOOTER = [
    "Results are {ok, error, data}. Parameters stand in the address; bodies may be JSON or a form.",
    "Every request needs a key: 'Authorization: Bearer <key>' or 'X-Api-Key: <key>'.",
]


def _describe(endpoint: Endpoint) -> list[str]:
    formats = ", ".join(endpoint.formats) or "this documentation only"
    verb = "Run" if endpoint.kind is Kind.LIST and endpoint.changes else _VERBS[endpoint.kind]
    lines = [f"{verb}: {', '.join(endpoint.kind.methods)} {endpoint.path} ({formats})"]
    if endpoint.action.about:
        lines.append(f"  {endpoint.action.about}")
    if not endpoint.formats:
        return lines
    for param in endpoint.params:
        lines += _describe_param(param)
    lines += [f"  Example: {method} {address}" for method, address in examples(endpoint)]
    return lines


def _describe_param(param: Param) -> list[str]:
    kind = "" if param.required else "Optional: "
    lines = [f"  - {kind}{param.name} - {param.about}"]
    first = next(iter(param.choices), None)
    for value, meaning in param.choices.items():
        default = " (default)" if value == first and not param.required else ""
        lines.append(f"    {param.name}={value}{default} - {meaning}")
    return lines


def examples(endpoint: Endpoint) -> list[tuple[str, str]]:
    method = endpoint.kind.methods[0]
    if endpoint.action.examples:
        return [(method, f"{endpoint.path}?{query}") for query in endpoint.action.examples]
    needed = [f"{param.name}={{{param.name}}}" for param in endpoint.params if param.required and not param.in_body]
    query = "&".join([*needed, *([f"format={endpoint.formats[0]}"] if endpoint.formats else [])])
    return [(method, f"{endpoint.path}?{query}")]


def openapi_of(endpoint: Endpoint, method: str) -> dict[str, Any]:
    """What FastAPI cannot know, because parameters are read here."""
    with_body = method in ("POST", "PUT")
    params = endpoint.params if endpoint.formats else ()
    found: dict[str, Any] = {
        "parameters": [_openapi_param(param, endpoint) for param in params if not (with_body and param.in_body)],
        "responses": {"200": {"description": "The result, or the documentation of the endpoint", "content": _ANSWERS}},
    }
    if with_body:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {param.name: {**_schema(param), "description": param.about} for param in params},
        }
        if method not in endpoint.kind.methods:
            meant = endpoint.kind.methods[0]
            schema["properties"][METHOD_FIELD] = {"const": meant, "description": "What this form means."}
            schema["required"] = [METHOD_FIELD]
        content = {kind: {"schema": schema} for kind in ("application/json", "application/x-www-form-urlencoded")}
        found["requestBody"] = {"content": content}
    return found


def _openapi_param(param: Param, endpoint: Endpoint) -> dict[str, Any]:
    # A bare GET is answered with documentation, and ids may stand in a body: nothing must be in the address.
    return {"name": param.name, "in": "query", "required": False, "description": param.about, "schema": _schema(param)}


def _schema(param: Param) -> dict[str, Any]:
    schema = dict(_SCHEMAS[param.type])
    if param.type is Type.CHOICE:
        schema["enum"] = list(param.choices)
    if param.type is Type.NUMBER:
        schema |= {"minimum": param.least, "maximum": param.most}
    if param.type is Type.TEXT:
        schema["maxLength"] = param.max_length
    return schema


RESULT = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "error": {"type": "string"}, "data": {}},
    "required": ["ok", "error", "data"],
}
_ANSWERS = {
    "application/json": {"schema": RESULT},
    "text/plain": {"schema": {"type": "string"}},
    "text/html": {"schema": {"type": "string"}},
    "text/event-stream": {"schema": {"type": "string"}},
}
