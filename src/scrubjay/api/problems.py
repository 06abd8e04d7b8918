"""Errors as each door's clients expect them. Rooms raise `ScrubjayError`s; only this file knows shapes and codes.

| path | door | shape |
|---|---|---|
| `/v1.0/…` | crawl plans | `{Error, Message, StatusCode, Context?, Description?}` |
| `/v2/…`, `/describe…`, `/query…` | actions | `{ok, error, data}` |
| `/openai/…` | OpenAI | `{error: {message, type, param, code}}` |
| `/ui/…` | dashboard | a page in words |
| `/api/v1/…` and everything else | RAG, control | `{error, code, details?, request_id?}` |
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from scrubjay.dashboard.problem_page import problem_page
from scrubjay.errors import (
    CircuitOpen,
    Conflict,
    ExtractionFailed,
    FetchFailed,
    Forbidden,
    HostBlocked,
    InvalidRequest,
    NotFound,
    RateLimited,
    ScrubjayError,
    Unauthenticated,
    Unavailable,
    UrlBlocked,
)
from scrubjay.telemetry import redact, request_id


@dataclass(frozen=True, slots=True)
class HttpProblem:
    status: int
    code: str
    message: str
    details: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None


PAGES = "/ui"
FRONT = frozenset({"/", "/signin"})  # where both people and programs come
INTERNAL = HttpProblem(500, "INTERNAL_ERROR", "Something went wrong on our side; the log has the details.")

_STATUSES: tuple[tuple[type[ScrubjayError], int, str], ...] = (
    (InvalidRequest, 400, "VALIDATION_ERROR"),
    (Unauthenticated, 401, "UNAUTHORIZED"),
    (Forbidden, 403, "FORBIDDEN"),
    (NotFound, 404, "NOT_FOUND"),
    (Conflict, 409, "CONFLICT"),
    (UrlBlocked, 403, "URL_BLOCKED"),
    (CircuitOpen, 503, "CIRCUIT_OPEN"),
    (HostBlocked, 403, "DOMAIN_BLOCKED"),
    (FetchFailed, 502, "FETCH_FAILED"),
    (ExtractionFailed, 422, "EXTRACTION_FAILED"),
    (RateLimited, 429, "RATE_LIMIT_EXCEEDED"),
    (Unavailable, 503, "UNAVAILABLE"),
)
_HTTP_CODES = {
    400: "VALIDATION_ERROR",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    413: "PAYLOAD_TOO_LARGE",
}


def problem_of(error: Exception) -> HttpProblem:
    """What an exception is to the outside; anything unexpected is an internal error without details."""
    if isinstance(error, RequestValidationError | WebSocketRequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        message = error.detail if isinstance(error.detail, str) else "The request could not be served."
        if error.status_code == 404 and message == "Not Found":
            message = "There is nothing at this address."
        return HttpProblem(
            error.status_code, _HTTP_CODES.get(error.status_code, "ERROR"), message, headers=error.headers
        )
    for kind, status, code in _STATUSES:
        if isinstance(error, kind):
            return HttpProblem(status, code, error.message, redact(error.details) or None, _headers(error))
    return INTERNAL


def _invalid(error: RequestValidationError | WebSocketRequestValidationError) -> HttpProblem:
    """Name the field: clients get what is wrong where, without their input played back."""
    fields = [{"field": _field(item), "message": item["msg"]} for item in error.errors()]
    first = fields[0] if fields else {"field": "body", "message": "invalid"}
    return HttpProblem(400, "VALIDATION_ERROR", f"{first['field']}: {first['message']}", {"fields": fields})


def _field(item: Mapping[str, Any]) -> str:
    place, *parts = item["loc"] or ("body",)
    if not parts or item["type"] == "json_invalid":  # then the part is a position in the text
        return str(place)
    return ".".join(str(part) for part in parts)


def _headers(error: ScrubjayError) -> Mapping[str, str] | None:
    if isinstance(error, RateLimited):
        return {
            "Retry-After": str(error.retry_after_seconds),
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": str(error.retry_after_seconds),
        }
    if isinstance(error, Unauthenticated):
        return {"WWW-Authenticate": "Bearer"}
    return None


def answer_problem(connection: HTTPConnection, problem: HttpProblem) -> Response:
    """What whoever asked gets: a program its door's shape, a person a page."""
    path = connection.url.path
    is_shared = path in FRONT or (path.startswith("/v2/") and connection.query_params.get("format") in ("html", "ui"))
    asks_in_person = is_shared and "text/html" in connection.headers.get("accept", "")
    if is_page(path) or asks_in_person:
        return problem_page(connection, problem.status, problem.message, problem.headers)
    return problem_response(path, problem)


def is_page(path: str) -> bool:
    """Whether an address is one of the dashboard's."""
    return path == PAGES or path.startswith(f"{PAGES}/")


def problem_response(path: str, problem: HttpProblem) -> JSONResponse:
    return JSONResponse(shape_for(path)(problem), status_code=problem.status, headers=dict(problem.headers or {}))


def shape_for(path: str) -> Callable[[HttpProblem], dict[str, Any]]:
    if path.startswith("/v1.0"):
        return _crawl_plan_shape
    if path.startswith(("/v2/", "/describe", "/query")):
        return _action_shape
    if path.startswith("/openai/"):
        return _openai_shape
    return _rag_shape


def _rag_shape(problem: HttpProblem) -> dict[str, Any]:
    body: dict[str, Any] = {"error": problem.message, "code": problem.code}
    if problem.details:
        body["details"] = dict(problem.details)
    if request_id.get() is not None:
        body["request_id"] = request_id.get()
    return body


_CRAWL_PLAN_CODES = {
    400: "BadRequest", 401: "AuthenticationFailed", 403: "AuthorizationFailed", 404: "NotFound", 409: "Conflict",
}  # fmt: skip


def _crawl_plan_shape(problem: HttpProblem) -> dict[str, Any]:
    code = _CRAWL_PLAN_CODES.get(problem.status, "BadRequest" if problem.status < 500 else "InternalError")
    body: dict[str, Any] = {"Error": code, "Message": problem.message, "StatusCode": problem.status}
    if problem.details:
        body["Context"] = dict(problem.details)
    return body


def _action_shape(problem: HttpProblem) -> dict[str, Any]:
    return {"ok": False, "error": problem.message, "data": {}}


_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def _openai_shape(problem: HttpProblem) -> dict[str, Any]:
    kind = _OPENAI_TYPES.get(problem.status, "invalid_request_error" if problem.status < 500 else "server_error")
    param = (problem.details or {}).get("field")
    return {"error": {"message": problem.message, "type": kind, "param": param, "code": problem.code.lower()}}
