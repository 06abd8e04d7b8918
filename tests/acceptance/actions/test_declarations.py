"""Every endpoint that is declared, walked with all that can be wrong with a request; made of the declarations."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import pytest_asyncio
from tests.acceptance.house import ACTION_PATHS, PUBLIC_PATHS, House, Key, Place, places

from scrubjay.api.actions.declaration import Endpoint, Format, Kind, Param, Type, parse_shorthand
from scrubjay.api.actions.routes import RESOURCES
from scrubjay.api.app import app_around
from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENDPOINTS = [endpoint for resource in RESOURCES for endpoint in resource.endpoints()]
READ, WRITE, ADMIN = RANK = [Scope.READ, Scope.WRITE, Scope.ADMIN]
# The least scope for each endpoint. A new one must be added here before these tests pass again.
NEEDED = {
    f"/v2/{path}": scope
    for scope, paths in {
        READ: "domains domains/get crawler jobs jobs/get jobs/monitor jobs/results inventory inventory/files "
        "inventory/files/get inventory/vector_stores inventory/vector_stores/get inventory/vector_stores/files "
        "inventory/vector_stores/files/get inventory/assistants inventory/assistants/get inventory/responses "
        "inventory/responses/get",
        WRITE: "domains/create domains/update crawler/download_data crawler/process_data crawler/embed_data "
        "crawler/crawl jobs/control jobs/delete inventory/files/delete inventory/vector_stores/create "
        "inventory/vector_stores/update "
        "inventory/vector_stores/replicate inventory/vector_stores/files/delete inventory/assistants/create "
        "inventory/assistants/update inventory/assistants/delete inventory/responses/create inventory/responses/delete",
        ADMIN: "domains/delete inventory/vector_stores/delete",
    }.items()
    for path in paths.split()
}
# The specification's own words for each resource (and ours, where CONTRACTS adds to it).
SHORTHAND = {
    "inventory": "L(u)",
    "inventory/files": "L(jhu)G(jh)D(jhs)",
    "inventory/vector_stores": "L(jhu)C(jhs)G(jh)U(jhs)D(jhs)",
    "inventory/vector_stores/replicate": "L(jhs)",
    "inventory/vector_stores/files": "L(jhu)G(jh)D(jhs)",
    "inventory/assistants": "L(jhu)C(jhs)G(jh)U(jhs)D(jhs)",
    "inventory/responses": "L()C(jh)G(jh)D(jh)",
    "domains": "L(jhu)C(jhs)G(jh)U(jhs)D(jhs)",
    "crawler": "L(u)",
    "crawler/download_data": "L(jhs)",
    "crawler/process_data": "L(jhs)",
    "crawler/embed_data": "L(jhs)",
    "crawler/crawl": "L(jhs)",
    "jobs": "L(jhu)G(jh)D(jh)",
    "jobs/control": "L(jh)",
    "jobs/monitor": "L(jhs)",
    "jobs/results": "L(jh)",
}
MALFORMED: dict[Type, list[Any]] = {
    Type.TEXT: ["\0", "x" * 2_000_000],
    Type.NUMBER: ["x", "1.5", "-1", "9" * 30, "٣", "1e3", " 1"],
    Type.TRUTH: ["yes", "TRUE", "1", "null"],
    Type.CHOICE: ["nothing", "FULL", "🦜"],
    Type.LIST: ["\0"],
    Type.JSON: ["{", "5", '"x"', "[" * 5000],
}
MALFORMED_IN_JSON: dict[Type, list[Any]] = {
    Type.TEXT: [5, True, [], {}, "\ud800"],
    Type.NUMBER: [True, 1.5, [], {}],
    Type.TRUTH: [1, [], {}],
    Type.CHOICE: [5, [], {}],
    Type.LIST: [5, {}, [1], [[]]],
    Type.JSON: [5, True, "{"],
}


def sample(param: Param) -> str:
    if param.choices:
        return next(iter(param.choices))
    return {Type.NUMBER: str(param.least), Type.TRUTH: "false", Type.JSON: "{}"}.get(param.type, "x")


def needed_values(endpoint: Endpoint) -> dict[str, str]:
    return {param.name: sample(param) for param in endpoint.params if param.required}


def method_of(endpoint: Endpoint) -> str:
    return endpoint.kind.methods[0]


async def ask(house: House, key: Key | None, endpoint: Endpoint, values: dict[str, Any], **options: Any) -> Any:
    """In the address, or in a form where that is how it is sent; the address has a limit of its own."""
    if method_of(endpoint) in ("POST", "PUT"):
        return await house.ask(method_of(endpoint), endpoint.path, key, data=values, **options)
    return await house.ask(method_of(endpoint), endpoint.path, key, params={"_": "1", **values}, **options)


def cases() -> Iterator[Any]:
    for endpoint in ENDPOINTS:
        if endpoint.formats:
            for param in endpoint.params:
                if param.name != "format":
                    yield pytest.param(endpoint, param, id=f"{endpoint.path} {param.name}")


@pytest_asyncio.fixture(loop_scope="module")
async def key(library: House) -> Key:
    return await library.key()


async def test_the_shorthand_is_the_specifications() -> None:
    assert {resource.path: resource.shorthand for resource in RESOURCES} == SHORTHAND


@pytest.mark.parametrize("wrong", ["", "L", "L(", "L(x)", "l(j)", "L(j) G(j)", "L(j)L(h)", "X(j)", "L(jj"])
async def test_wrong_shorthand_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="L"):
        parse_shorthand(wrong)


async def test_every_route_of_the_door_is_declared() -> None:
    known = {place for place in places(app_around(None)) if place.pattern.startswith(ACTION_PATHS)}  # type: ignore[arg-type]
    declared = {
        Place(method, endpoint.path)
        for endpoint in ENDPOINTS
        for method in {
            *endpoint.kind.methods,
            "GET",
            *(["POST"] if endpoint.changes else []),
        }
    }
    queries = {Place("POST", "/describe"), Place("GET", "/describe2"), Place("POST", "/query"), Place("GET", "/query2")}
    whole = {Place("GET", "/v2/")}
    assert {place for place in known if place.pattern not in PUBLIC_PATHS} == declared | queries | whole
    assert set(NEEDED) == {endpoint.path for endpoint in ENDPOINTS}


async def test_the_door_says_what_there_is_to_those_with_a_key(library: House, key: Key) -> None:
    answer = await library.ask("GET", "/v2/", key)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    for path in SHORTHAND:
        assert f"  /v2/{path} - " in answer.text
    stranger = await library.ask("GET", "/v2/")
    assert (stranger.status_code, stranger.json()["ok"]) == (401, False)
    refused = await library.ask("POST", "/v2/", key)
    assert (refused.status_code, refused.json()["error"]) == (400, "HTTP method 'POST' not supported.")


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.path)
async def test_a_bare_get_explains_the_endpoint(library: House, key: Key, endpoint: Endpoint) -> None:
    answer = await library.ask("GET", endpoint.path, key)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert endpoint.path in answer.text
    if endpoint.formats:
        for param in endpoint.params:
            assert param.name in answer.text
            for choice in param.choices:
                assert f"{param.name}={choice}" in answer.text


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.path)
async def test_other_methods_are_not_supported(library: House, key: Key, endpoint: Endpoint) -> None:
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} - set(endpoint.kind.methods):
        params = needed_values(endpoint) if method == "GET" else {}
        answer = await library.ask(method, endpoint.path, key, params={"_": "1", **params})
        assert answer.status_code == 400, method
        if method != "HEAD":
            said = {"ok": False, "error": f"HTTP method '{method}' not supported.", "data": {}}
            assert answer.json() == said


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.path)
async def test_other_formats_are_not_supported(library: House, key: Key, endpoint: Endpoint) -> None:
    for format_ in [*(str(each) for each in Format if each not in endpoint.formats), "xml", "JSON", "🦜", "x" * 1000]:
        answer = await library.ask(
            method_of(endpoint), endpoint.path, key, params={"format": format_, **needed_values(endpoint)}
        )
        said = {"ok": False, "error": f"Format '{format_[:64]}' not supported.", "data": {}}
        assert (answer.status_code, answer.json()) == (400, said)


@pytest.mark.parametrize(("endpoint", "param"), list(cases()))
async def test_what_is_missing_or_malformed_is_named(
    library: House, key: Key, endpoint: Endpoint, param: Param
) -> None:
    values = needed_values(endpoint)
    others = {name: value for name, value in values.items() if name != param.name}
    if param.required:
        for given in (others, {**others, param.name: ""}):
            answer = await ask(library, key, endpoint, given)
            assert answer.status_code == 400
            assert answer.json() == {"ok": False, "error": f"Missing '{param.name}' parameter.", "data": {}}
    in_body = method_of(endpoint) in ("POST", "PUT")
    for wrong in MALFORMED[param.type]:
        if len(wrong) > 100_000:
            wrong = "x" * (param.max_length + 1)
            if len(wrong) > (900_000 if in_body else 10_000):
                continue  # the limit of bodies and addresses comes first
        answer = await ask(library, key, endpoint, {**others, param.name: wrong})
        assert answer.status_code == 400, (wrong[:20], answer.text[:200])
        assert answer.json()["error"].startswith(f"Parameter '{param.name}' "), answer.text
    if in_body:
        for wrong in MALFORMED_IN_JSON[param.type]:
            content = json.dumps({**others, param.name: wrong})
            answer = await library.ask(method_of(endpoint), endpoint.path, key, content=content)
            assert answer.status_code == 400, wrong
            assert answer.json()["error"].startswith(f"Parameter '{param.name}' "), answer.text


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.path)
async def test_unknown_parameters_are_refused(library: House, key: Key, endpoint: Endpoint) -> None:
    if endpoint.formats:
        answer = await library.ask(method_of(endpoint), endpoint.path, key, params={"dryrun": "true"})
        assert (answer.status_code, answer.json()["error"]) == (400, "Unknown parameter 'dryrun'.")


@pytest.mark.parametrize("scope", RANK[:2])
async def test_a_key_without_the_scope_is_403(library: House, scope: Scope) -> None:
    key = await library.key(scope, tenant="who may little")
    for endpoint in ENDPOINTS:
        if not endpoint.formats:
            continue
        answer = await ask(library, key, endpoint, needed_values(endpoint))
        if RANK.index(NEEDED[endpoint.path]) > RANK.index(scope):
            said = f"This needs a key with the scope '{NEEDED[endpoint.path]}'."
            assert (answer.status_code, answer.json()["error"]) == (403, said), endpoint.path
        else:
            # Without a language model, responses cannot be made.
            assert answer.status_code in (200, 400, 404, 503), (endpoint.path, answer.text)


async def test_nobody_gets_in_without_a_key(library: House) -> None:
    for endpoint in ENDPOINTS:
        answer = await ask(library, None, endpoint, needed_values(endpoint))
        said = {"ok": False, "error": "A valid API key is required.", "data": {}}
        assert (answer.status_code, answer.json()) == (401, said)


async def test_ids_that_do_not_exist_are_404(library: House, key: Key) -> None:
    for endpoint in ENDPOINTS:
        ids = [param.name for param in endpoint.params if param.required and param.name.endswith("_id")]
        if not ids or endpoint.kind is Kind.CREATE:
            continue
        for wrong in ("nothing", "../..", "🦜", "vs_" + "0" * 29, "CON"):
            values = needed_values(endpoint) | dict.fromkeys(ids, wrong)
            answer = await library.ask(method_of(endpoint), endpoint.path, key, params=values)
            assert answer.status_code == 404, (endpoint.path, wrong, answer.text)
            assert wrong in answer.json()["error"]
