"""What holds at every door: who is let in, what is in every answer, and what an error looks like."""

import asyncio
import json
import re
import shutil
import string
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import select, update
from tests.acceptance.house import (
    ACTION_PATHS,
    PAGES,
    PUBLIC_PATHS,
    House,
    Key,
    Place,
    app_of_nobody,
    open_house,
    places,
    some_ids,
)
from tests.logbook import Logbook, keep_logbook

from scrubjay import __version__
from scrubjay.api.app import create_app
from scrubjay.api.middleware import security_headers
from scrubjay.api.problems import problem_of, problem_response
from scrubjay.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    RateLimited,
    ScrubjayError,
    Unauthenticated,
    Unavailable,
)
from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_uuid
from scrubjay.model.tenant import Scope
from scrubjay.settings import Settings
from scrubjay.storage.sign_ins import SignInRow

NOWHERE = "redis://:hunter2@127.0.0.1:1/0"
UNKNOWN_KEY = f"sj_00000000_{'x' * 43}"
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
# Only their shape is asked about; nothing is opened.
EVERYWHERE = places(app_of_nobody())
GUARDED = [place for place in EVERYWHERE if place.pattern not in PUBLIC_PATHS]


# --- Health


async def test_health_needs_no_key_and_says_that_the_process_is_up(house: House) -> None:
    answer = await house.ask("GET", "/api/v1/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "healthy"})


async def test_ready_needs_no_key_and_names_every_part(house: House) -> None:
    answer = await house.ask("GET", "/api/v1/health/ready")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ready",
        "checks": {"database": True, "blobs": True, "cache": True, "index": True},
    }


async def test_ready_is_503_and_names_the_part_that_is_down(settings: Settings) -> None:
    async with open_house(settings.model_copy(update={"cache_url": NOWHERE})) as house:
        answer = await house.ask("GET", "/api/v1/health/ready")
        assert answer.status_code == 503
        assert answer.json() == {
            "status": "not_ready",
            "checks": {"database": True, "blobs": True, "cache": False, "index": True},
        }
        assert (await house.ask("GET", "/api/v1/health")).status_code == 200


async def test_requests_are_served_uncounted_while_the_counter_is_down(settings: Settings, logbook: Logbook) -> None:
    async with open_house(settings.model_copy(update={"cache_url": NOWHERE})) as house:
        key = await house.key(rpm=1)
        statuses = [(await house.ask("GET", "/api/v1/jobs", key)).status_code for _ in range(2)]
    assert statuses == [200, 200]
    assert [line["level"] for line in logbook.lines if line["event"] == "request not counted"] == ["warning"] * 2
    assert "hunter2" not in logbook.text


# --- Request ids and headers


async def test_every_answer_has_a_request_id_and_the_security_headers(house: House, admin: Key) -> None:
    for place in EVERYWHERE:
        for key in (None, admin):
            answer = await house.ask(place.method, place.path(some_ids()), key)
            assert re.fullmatch(r"[0-9a-f-]{36}", answer.headers.get("x-request-id", "")), place
            assert {(name, value.encode()) for name, value in answer.headers.items()} >= {
                (name.decode(), value) for name, value in security_headers(place.pattern)
            }, place


async def test_two_requests_have_different_ids(house: House) -> None:
    answers = [await house.ask("GET", "/api/v1/health") for _ in range(2)]
    assert len({answer.headers["x-request-id"] for answer in answers}) == 2


async def test_a_given_request_id_is_kept_in_header_and_body(house: House) -> None:
    answer = await house.ask("GET", "/api/v1/jobs", headers={"X-Request-Id": "trace_42.a-B"})
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == "trace_42.a-B"


@pytest.mark.parametrize(
    "hostile",
    [b"a\r\nSet-Cookie: stolen=1", b"a\nb", b"x" * 1024, b"x" * 65, b"", b"a b", b"<script>", "é".encode(), b"a\x00"],
)
async def test_a_hostile_request_id_is_replaced(house: House, hostile: bytes) -> None:
    answer = await house.ask("GET", "/api/v1/jobs", headers=[(b"X-Request-Id", hostile)])
    assert re.fullmatch(r"[0-9a-f-]{36}", answer.headers["x-request-id"])
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "set-cookie" not in answer.headers


# --- Who is let in


async def test_every_route_that_is_not_public_answers_401_without_a_key(house: House) -> None:
    answers = {str(place): await house.ask(place.method, place.path(some_ids())) for place in GUARDED}
    assert {place: answer.status_code for place, answer in answers.items()} == dict.fromkeys(answers, 401)
    for place in GUARDED:
        answer = answers[str(place)]
        if place.pattern.startswith(PAGES):
            assert place.method == "HEAD" or 'action="/ui/signin"' in answer.text, place
            continue
        expected = json.loads(problem_response(place.pattern, problem_of(Unauthenticated())).body)
        said = expected if place.method == "HEAD" else answer.json()  # which has no body
        assert {name: value for name, value in said.items() if name != "request_id"} == expected, place
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_public_paths_exist() -> None:
    assert {place.pattern for place in EVERYWHERE} >= PUBLIC_PATHS


async def test_a_key_is_taken_from_either_header(house: House, admin: Key) -> None:
    for headers in (
        {"Authorization": f"Bearer {admin.text}"},
        {"Authorization": f"bearer  {admin.text} "},
        {"X-Api-Key": admin.text},
        {"X-Api-Key": admin.text, "Authorization": f"Bearer {admin.text}"},
    ):
        assert (await house.ask("GET", "/api/v1/api-keys", headers=headers)).status_code == 200, headers


async def test_two_different_keys_in_one_request_are_refused(house: House, admin: Key) -> None:
    other = await house.key()
    for headers in (
        [("Authorization", f"Bearer {admin.text}"), ("X-Api-Key", other.text)],
        [("X-Api-Key", admin.text), ("X-Api-Key", other.text)],
        [("Authorization", f"Bearer {admin.text}"), ("Authorization", f"Bearer {other.text}")],
    ):
        answer = await house.ask("GET", "/api/v1/api-keys", headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (
            401,
            "The request carries two different keys; send one.",
        )


async def test_basic_is_refused_even_beside_a_good_key(house: House, admin: Key) -> None:
    for headers in (
        {"Authorization": "Basic dXNlcjpwYXNzd29yZA=="},
        {"Authorization": "Basic dXNlcjpwYXNzd29yZA==", "X-Api-Key": admin.text},
    ):
        answer = await house.ask("GET", "/api/v1/api-keys", headers=headers)
        assert answer.status_code == 401
        assert "Bearer" in answer.json()["error"]


@pytest.mark.parametrize(
    "header",
    [b"Bearer", b"Bearer ", b"Bearer " + UNKNOWN_KEY.encode(), b"Bearer " + b"x" * 100_000, b"Bearer \xff\xfe\x80"],
)
async def test_what_is_not_a_known_key_is_401(house: House, header: bytes) -> None:
    answer = await house.ask("GET", "/api/v1/jobs", headers=[(b"Authorization", header)])
    assert answer.status_code == 401
    assert UNKNOWN_KEY not in answer.text


# --- Errors


DOORS = {"/v1.0/plans": "plans", "/v2/domains": "actions", "/openai/v1/files": "openai", "/api/v1/jobs": "rag"}
SHAPES: dict[ScrubjayError, tuple[int, dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    InvalidRequest("name is wrong.", field="name"): (
        400,
        {"Error": "BadRequest", "Message": "name is wrong.", "StatusCode": 400, "Context": {"field": "name"}},
        {"ok": False, "error": "name is wrong.", "data": {}},
        {
            "error": {
                "message": "name is wrong.",
                "type": "invalid_request_error",
                "param": "name",
                "code": "validation_error",
            }
        },
        {"error": "name is wrong.", "code": "VALIDATION_ERROR", "details": {"field": "name"}},
    ),
    Unauthenticated(): (
        401,
        {"Error": "AuthenticationFailed", "Message": "A valid API key is required.", "StatusCode": 401},
        {"ok": False, "error": "A valid API key is required.", "data": {}},
        {
            "error": {
                "message": "A valid API key is required.",
                "type": "authentication_error",
                "param": None,
                "code": "unauthorized",
            }
        },
        {"error": "A valid API key is required.", "code": "UNAUTHORIZED"},
    ),
    Forbidden("No."): (
        403,
        {"Error": "AuthorizationFailed", "Message": "No.", "StatusCode": 403},
        {"ok": False, "error": "No.", "data": {}},
        {"error": {"message": "No.", "type": "permission_error", "param": None, "code": "forbidden"}},
        {"error": "No.", "code": "FORBIDDEN"},
    ),
    NotFound("Gone."): (
        404,
        {"Error": "NotFound", "Message": "Gone.", "StatusCode": 404},
        {"ok": False, "error": "Gone.", "data": {}},
        {"error": {"message": "Gone.", "type": "not_found_error", "param": None, "code": "not_found"}},
        {"error": "Gone.", "code": "NOT_FOUND"},
    ),
    Conflict("Busy.", state="running"): (
        409,
        {"Error": "Conflict", "Message": "Busy.", "StatusCode": 409, "Context": {"state": "running"}},
        {"ok": False, "error": "Busy.", "data": {}},
        {"error": {"message": "Busy.", "type": "invalid_request_error", "param": None, "code": "conflict"}},
        {"error": "Busy.", "code": "CONFLICT", "details": {"state": "running"}},
    ),
    RateLimited("Slow down.", limit=60, retry_after_seconds=7): (
        429,
        {
            "Error": "BadRequest",
            "Message": "Slow down.",
            "StatusCode": 429,
            "Context": {"limit": 60, "retry_after_seconds": 7},
        },
        {"ok": False, "error": "Slow down.", "data": {}},
        {"error": {"message": "Slow down.", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"}},
        {"error": "Slow down.", "code": "RATE_LIMIT_EXCEEDED", "details": {"limit": 60, "retry_after_seconds": 7}},
    ),
    Unavailable("Down."): (
        503,
        {"Error": "InternalError", "Message": "Down.", "StatusCode": 503},
        {"ok": False, "error": "Down.", "data": {}},
        {"error": {"message": "Down.", "type": "server_error", "param": None, "code": "unavailable"}},
        {"error": "Down.", "code": "UNAVAILABLE"},
    ),
}


@pytest.mark.parametrize("error", SHAPES, ids=lambda error: type(error).__name__)
def test_every_error_has_the_shape_of_its_door(error: ScrubjayError) -> None:
    status, *bodies = SHAPES[error]
    for path, body in zip(DOORS, bodies, strict=True):
        answer = problem_response(path, problem_of(error))
        assert (answer.status_code, json.loads(answer.body)) == (status, body)


@pytest.mark.parametrize("prefix", ["/v1.0", "/v2", "/openai", "/api/v1", "/jobs"])
async def test_an_unknown_address_is_404_in_the_shape_of_its_door(house: House, prefix: str) -> None:
    answer = await house.ask("GET", f"{prefix}/nothing/here")
    expected = problem_response(f"{prefix}/x", problem_of(NotFound("There is nothing at this address.")))
    body = answer.json()
    body.pop("request_id", None)
    assert (answer.status_code, body) == (404, json.loads(expected.body))


@pytest.mark.parametrize("prefix", ["/v1.0", "/v2", "/openai", "/api/v1"])
async def test_an_unexpected_error_is_logged_with_its_request_id_and_tells_the_client_nothing(
    house: House, logbook: Logbook, prefix: str
) -> None:
    async def fail() -> None:
        raise RuntimeError("the wall fell on postgresql://jay:hunter2@db/x")

    house.app.add_api_route(f"{prefix}/broken", fail)
    answer = await house.ask("GET", f"{prefix}/broken", headers={"X-Request-Id": "find-me"})

    said = "Something went wrong on our side; the log has the details."
    shapes = {
        "/v1.0": {"Error": "InternalError", "Message": said, "StatusCode": 500},
        "/v2": {"ok": False, "error": said, "data": {}},
        "/openai": {"error": {"message": said, "type": "server_error", "param": None, "code": "internal_error"}},
        "/api/v1": {"error": said, "code": "INTERNAL_ERROR", "request_id": "find-me"},
    }
    assert (answer.status_code, answer.json()) == (500, shapes[prefix])
    assert answer.headers["x-request-id"] == "find-me"
    (line,) = [line for line in logbook.lines if line["level"] == "error"]
    assert (line["request_id"], line["path"]) == ("find-me", f"{prefix}/broken")
    assert "RuntimeError: the wall fell" in line["exception"]
    assert "hunter2" not in logbook.text


async def test_an_app_that_opens_its_own_scrubjay_never_logs_local_variables(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    app = create_app(settings.model_copy(update={"log_format": "json"}), working=False)

    async def fail() -> None:
        secret = "-".join(("hunter2", "in", "a", "variable"))
        raise RuntimeError(len(secret))

    app.add_api_route("/broken", fail)
    with keep_logbook():  # puts back what the app configures for its process
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://t", trust_env=False) as client:
                assert (await client.get("/broken")).status_code == 500
    logged = capsys.readouterr().err
    assert "request failed" in [json.loads(line)["event"] for line in logged.splitlines()]
    assert "hunter2-in-a-variable" not in logged


async def test_a_wrong_method_is_405_and_says_which_are_right(house: House, admin: Key) -> None:
    answer = await house.ask("PUT", "/api/v1/health", admin)
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize("path", ["/", "/api/v1/health", "/api/v1/health/ready", "/openapi.json"])
async def test_head_answers_like_get_where_monitors_look(house: House, path: str) -> None:
    assert (await house.ask("HEAD", path)).status_code == 200


async def test_head_never_uses_up_a_sign_in_link(house: House) -> None:
    token = await house.jay.access.create_sign_in_link(house.admin)
    assert (await house.ask("HEAD", f"/signin?token={token}")).status_code == 405
    assert (await house.ask("GET", f"/signin?token={token}")).status_code == 303


# --- The front door


async def test_programs_get_the_product_as_json(house: House) -> None:
    answer = await house.ask("GET", "/")
    body = answer.json()
    assert (body["Product"], body["Version"], sorted(body)) == (
        "Scrubjay",
        __version__,
        ["Product", "Timestamp", "Version"],
    )


async def test_browsers_get_a_page_that_says_how_to_sign_in(house: House) -> None:
    answer = await house.ask("GET", "/", headers=BROWSER)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<h1>Scrubjay" in answer.text
    assert "scrubjay keys link" in answer.text
    assert "Signed in" not in answer.text


async def test_a_sign_in_link_opens_a_session_that_looks_but_does_not_touch(house: House) -> None:
    token = await house.jay.access.create_sign_in_link(house.admin)
    async with house.client() as browser:
        answer = await browser.get("/signin", params={"token": token})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert "path=/" in cookie
        assert "Signed in" in (await browser.get("/", headers=BROWSER)).text

        assert (await browser.get("/api/v1/api-keys")).status_code == 200
        job = await house.job()
        for method, path in (
            ("POST", "/api/v1/api-keys"),
            ("POST", f"/api/v1/jobs/{job.id}/cancel"),
            ("DELETE", f"/api/v1/jobs/{job.id}"),
            ("PATCH", f"/api/v1/api-keys/{house.admin.key_id}"),
        ):
            assert (await browser.request(method, path, json={"name": "forged"})).status_code == 401, (method, path)
    assert (await house.jay.jobs.get(house.admin, job.id)).state == "pending"


async def test_the_session_cookie_is_for_https_only_when_the_link_came_that_way(house: House) -> None:
    for scheme, is_secure in (("http", False), ("https", True)):
        token = await house.jay.access.create_sign_in_link(house.admin)
        answer = await house.ask("GET", f"{scheme}://scrubjay.test/signin?token={token}")
        assert ("secure" in answer.headers["set-cookie"].lower()) is is_secure


# SQLite lets one writer in at a time; only PostgreSQL shows whether two at once are told apart.
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_of_those_that_use_a_link_at_once_exactly_one_wins(
    settings: Settings, database: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if database == "postgres" else None
    async with open_house(settings.model_copy(update={"database_url": url})) as house:
        for users in (2, 2, 8):
            token = await house.jay.access.create_sign_in_link(house.admin)
            answers = await asyncio.gather(*(house.ask("GET", f"/signin?token={token}") for _ in range(users)))
            assert sorted(answer.status_code for answer in answers) == [303] + [401] * (users - 1)
            assert (await house.ask("GET", f"/signin?token={token}")).status_code == 401


async def expire_sign_ins(house: House) -> None:
    async with house.jay.database.writing() as connection:
        await connection.execute(update(SignInRow).values(expires_at=utc_now() - timedelta(seconds=1)))


async def test_a_sign_in_link_expires_after_a_quarter_of_an_hour(house: House) -> None:
    token = await house.jay.access.create_sign_in_link(house.admin)
    async with house.jay.database.reading() as connection:
        (expires_at,) = (await connection.execute(select(SignInRow.expires_at))).scalars()
    assert timedelta(minutes=14) < expires_at - utc_now() <= timedelta(minutes=15)
    await expire_sign_ins(house)
    answer = await house.ask("GET", f"/signin?token={token}")
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


async def test_a_session_ends_with_its_time_and_with_its_key(house: House, admin: Key) -> None:
    for end in ("time", "key"):
        key = await house.key()
        who, _ = await house.jay.access.authenticate(key.text)
        async with house.client() as browser:
            await browser.get("/signin", params={"token": await house.jay.access.create_sign_in_link(who)})
            assert (await browser.get("/api/v1/jobs")).status_code == 200
            if end == "time":
                await expire_sign_ins(house)
            else:
                assert (await house.ask("DELETE", f"/api/v1/api-keys/{key.uuid}", admin)).status_code == 204
            assert (await browser.get("/api/v1/jobs")).status_code == 401
            assert "Signed in" not in (await browser.get("/", headers=BROWSER)).text


async def test_tokens_of_links_and_sessions_are_stored_as_hashes_only(house: House) -> None:
    token = await house.jay.access.create_sign_in_link(house.admin)
    answer = await house.ask("GET", f"/signin?token={token}")
    session = answer.cookies["scrubjay_session"]
    another = await house.jay.access.create_sign_in_link(house.admin)
    async with house.jay.database.reading() as connection:
        stored = str((await connection.execute(select(SignInRow.__table__))).all())
    assert len(stored) > 100
    assert not any(text in stored for text in (token, session, another))


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{body}", "é🦜"])
async def test_nothing_that_a_visitor_sends_comes_back_as_markup(house: House, hostile: str) -> None:
    async with house.client(cookies={"scrubjay_session": hostile.encode("ascii", "ignore").decode()}) as browser:
        for answer in (
            await browser.get("/", headers=BROWSER | {"User-Agent": "x"}, params={"next": hostile}),
            await browser.get("/signin", headers=BROWSER, params={"token": hostile}),
        ):
            assert answer.status_code in (200, 401)
            assert hostile not in answer.text
            assert "default-src 'none'" in answer.headers["content-security-policy"]


# --- Metrics


async def label_sets(house: House, key: Key) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    answer = await house.ask("GET", "/metrics", key)
    assert answer.status_code == 200
    return {
        (sample.name, frozenset(sample.labels.items()))
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_metrics_are_prometheus_text_that_counts_requests(house: House, admin: Key) -> None:
    await house.ask("GET", "/api/v1/health")
    answer = await house.ask("GET", "/metrics", admin)
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert all(family.documentation for family in families.values())
    counted = [
        sample.value
        for sample in families["scrubjay_http_requests"].samples
        if sample.labels == {"method": "GET", "door": "rag", "status": "200"}
    ]
    assert counted[0] >= 1


async def test_metrics_are_not_for_keys_of_other_tenants(house: House, admin: Key) -> None:
    assert (await house.ask("GET", "/metrics", admin)).status_code == 200
    answer = await house.ask("GET", "/metrics", await house.key(Scope.ADMIN, tenant="neighbour"))
    assert answer.status_code == 403
    assert "crawler_" not in answer.text


async def test_metrics_do_not_grow_with_what_clients_send(house: House, admin: Key) -> None:
    async with house.client(admin) as client:

        async def visit(number: int) -> None:
            await client.get(f"/api/v1/jobs/{new_uuid()}")
            await client.get(f"/nothing/{number}")
            await client.request(f"BREW{number}", "/api/v1/health")

        await visit(0)
        await label_sets(house, admin)
        before = await label_sets(house, admin)
        for number in range(1, 201):
            await visit(number)
    assert await label_sets(house, admin) == before


# --- The OpenAPI document


async def test_the_openapi_document_describes_every_route_once_with_its_errors(house: House) -> None:
    document = (await house.ask("GET", "/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    assert document["info"] == {"title": "Scrubjay", "version": __version__}
    operations = {
        Place(method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert set(operations) == {
        place
        for place in EVERYWHERE
        if place.method != "HEAD" and place.pattern != "/openapi.json" and not place.pattern.startswith(PAGES)
    }
    names = [operation["operationId"] for operation in operations.values()]
    assert len(names) == len(set(names))
    for place, operation in operations.items():
        responses = operation["responses"]
        assert any(status.startswith("2") for status in responses), place
        assert "422" not in responses, f"{place} never sends FastAPI's own shape"
        assert "4XX" in responses, place
        assert all(answer["description"] for answer in responses.values()), place
        for prefix, shape in (("/api/v1", "ErrorResponse"), ("/v1.0", "ProblemResponse")):
            if place.pattern.startswith(prefix):
                schema = responses["4XX"]["content"]["application/json"]["schema"]
                assert schema == {"$ref": f"#/components/schemas/{shape}"}, place
        wanted = set(re.findall(r"{(\w+)}", place.pattern))
        assert {item["name"] for item in operation.get("parameters", ()) if item["in"] == "path"} == wanted


async def test_the_openapi_document_says_where_a_key_is_needed_and_how_to_send_it(house: House) -> None:
    document = (await house.ask("GET", "/openapi.json")).json()
    schemes = document["components"]["securitySchemes"]
    assert {(scheme["type"], scheme.get("scheme") or scheme.get("name")) for scheme in schemes.values()} == {
        ("http", "bearer"),
        ("apiKey", "X-Api-Key"),
    }
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            ways = [name for requirement in operation.get("security", ()) for name in requirement]
            assert sorted(ways) == ([] if path in PUBLIC_PATHS else sorted(schemes)), (method, path)


async def test_every_reference_in_the_openapi_document_leads_somewhere(house: House) -> None:
    text = (await house.ask("GET", "/openapi.json")).text
    schemas = json.loads(text)["components"]["schemas"]
    used = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert used == set(schemas)


async def test_an_error_is_what_the_openapi_document_says_it_is(house: House, admin: Key) -> None:
    document = (await house.ask("GET", "/openapi.json")).json()
    schema = document["components"]["schemas"]["ErrorResponse"]
    for answer in (
        await house.ask("GET", "/api/v1/jobs"),
        await house.ask("GET", "/api/v1/jobs/x", admin),
        await house.ask("POST", "/api/v1/api-keys", admin, json={}),
    ):
        body = answer.json()
        assert set(schema["required"]) <= set(body) <= set(schema["properties"])


# --- Anything at all


ANY_TEXT = st.text(max_size=40) | st.sampled_from(["", "\x00", "../../etc/passwd", "NaN", "-1", "9" * 30, "true", "🦜"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)
BODY_FIELDS = [
    "name", "scopes", "rate_limit_rpm", "expires_at", "is_active", "RepositoryType", "RepositorySettings", "Schedule",
    "Filter", "MaxDrainTasks", "Chunking", "Labels", "Base64Content", "DocumentIds", "url", "events", "headers",
    "secret", "source_id", "grace_hours", "webhook_url", "webhook_headers",
]  # fmt: skip
BODIES = (
    ANY_JSON.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(
        st.sampled_from(BODY_FIELDS),
        ANY_JSON | st.datetimes().map(lambda moment: f"{moment.isoformat()}-23:59"),
        max_size=5,
    ).map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=60)
)
QUERIES = st.dictionaries(
    st.sampled_from(
        ["limit", "offset", "after", "status", "kind", "token", "maxResults", "continuationToken", "ordering", "skip"]
    ),
    ANY_TEXT,
    max_size=3,
)
PATH_TEXT = st.text(min_size=1, max_size=40) | st.sampled_from(["\x00", "..", "../..", string.punctuation, "x" * 5000])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]
) -> AsyncIterator[tuple[House, Key]]:
    """One house for all who only throw things at it."""
    home = tmp_path_factory.mktemp("shared")
    for file in migrated_databases:
        shutil.copy(file, home)
    async with open_house(Settings(home=home)) as house:
        yield house, await house.key()


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("place", [place for place in EVERYWHERE if place.method != "HEAD"], ids=str)
@hypothesis_settings(
    max_examples=12,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_whatever_is_sent_the_answer_is_never_a_5xx(
    shared: tuple[House, Key], place: Place, data: st.DataObject
) -> None:
    house, admin = shared
    ids = some_ids()
    for name in ids:
        if f"{{{name}}}" in place.pattern and data.draw(st.booleans(), label=f"odd {name}"):
            ids[name] = quote(data.draw(PATH_TEXT, label=name), safe="")
    answer = await house.ask(
        place.method,
        place.path(ids),
        admin,
        params=data.draw(QUERIES, label="query"),
        content=data.draw(BODIES, label="body"),
        headers={"Content-Type": data.draw(st.sampled_from(["application/json", "text/plain", "multipart/form-data"]))},
    )
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and place.pattern.startswith(PAGES):
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
    elif answer.status_code >= 400 and place.pattern != "/mcp":  # its protocol has answers of its own
        shape = {"Error", "Message", "StatusCode"} if place.pattern.startswith("/v1.0") else {"error", "code"}
        if place.pattern.startswith(ACTION_PATHS):
            shape = {"ok", "error", "data"}
        said = answer.json()
        if answer.url.path.startswith("/openai/"):  # a path with dots in it may have led elsewhere
            said, shape = said["error"], {"message", "type", "param", "code"}
        assert shape <= set(said)
