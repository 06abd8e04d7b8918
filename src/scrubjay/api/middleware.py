"""Around every request: an id, a count, a log line, a limit to its body, and the last net under unexpected errors."""

import re
import time
from typing import Any
from weakref import WeakKeyDictionary

from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scrubjay.api.deps import key_of
from scrubjay.api.problems import FRONT, INTERNAL, answer_problem, is_page, problem_of
from scrubjay.app import Scrubjay
from scrubjay.errors import Forbidden, Unauthenticated
from scrubjay.model.ids import new_uuid
from scrubjay.model.tenant import Principal
from scrubjay.model.tenant import Scope as KeyScope
from scrubjay.openai.local_files import MAX_FILE_BYTES
from scrubjay.queue.courtesy import note_request
from scrubjay.services.access import SESSION_COOKIE, require
from scrubjay.services.acts import asked_from
from scrubjay.telemetry import get_logger, http_request_seconds, http_requests_total, request_id, span
from scrubjay.telemetry.tracing import TRACEPARENT, Span

log = get_logger(__name__)

MEGABYTE = 1024 * 1024
MAX_BODY_BYTES = MEGABYTE
MAX_DOCUMENT_BODY_BYTES = 60 * MEGABYTE
MAX_MODEL_BODY_BYTES = 32 * MEGABYTE  # pictures are sent to language models inside of the text
MAX_FILE_BODY_BYTES = MAX_FILE_BYTES + 64 * 1024
# Where much may come in. Whoever sends more than the other routes take must show a good key first.
LARGE_BODIES = {
    **dict.fromkeys(
        (
            "/api/v1/documents",
            "/api/v1/documents/batch",
            "/api/v1/documents/upload",
            "/v1.0/documents",
            "/ui/documents/upload",
        ),
        MAX_DOCUMENT_BODY_BYTES,
    ),
    **dict.fromkeys(("/openai/v1/files", "/openai/files"), MAX_FILE_BODY_BYTES),
    **{
        f"{prefix}/{path}": MAX_MODEL_BODY_BYTES
        for prefix in ("/openai/v1", "/openai")
        for path in ("chat/completions", "responses", "embeddings")
    },
}

# Which door a request came to, by how its route begins; the histogram of seconds has one line each, not one per route.
DOORS = (
    ("/api/v1", "rag"), ("/ws/crawl", "rag"), ("/v1.0", "crawlplans"), ("/v2", "actions"), ("/openai", "openai"),
    ("/mcp", "mcp"), ("/jobs", "control"), ("/job_status", "control"), ("/stop_job", "control"),
    ("/clear_jobs", "control"), ("/unified_production_crawl", "control"), ("/api/crawl", "control"),
    ("/call", "control"), ("/register", "control"), ("/agents", "control"), ("/tools", "control"),
    ("/watches", "watches"), ("/stories", "watches"), ("/describe", "actions"), ("/query", "actions"),
    ("/ui", "dashboard"),
)  # fmt: skip
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ACCEPTABLE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# Only the dashboard's pages run scripts, and only its own: what was crawled is served elsewhere, where none may run.
PAGE_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'"),
)


PAGE_HEADERS = (*SECURITY_HEADERS[:-1], (b"content-security-policy", PAGE_POLICY))


# Pages of the dashboard at addresses of another door; what that answers programs with no browser takes for a script.
ALSO_PAGES = ("/v2/", "/query2", "/describe2")


def security_headers(path: str) -> tuple[tuple[bytes, bytes], ...]:
    return PAGE_HEADERS if path in FRONT or is_page(path) or path.startswith(ALSO_PAGES) else SECURITY_HEADERS


class RequestMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        note_request()
        identifier = _request_id(scope)
        token = request_id.set(identifier)
        origin = asked_from.set((door_of(scope["path"]), (scope.get("client") or (None,))[0]))
        started, status, seconds = time.perf_counter(), 0, 0.0

        async def send_with_id(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                # Until the answer begins: a stream of events may go on for hours.
                status, seconds = message["status"], time.perf_counter() - started
                headers = message.setdefault("headers", [])
                headers.extend([(b"x-request-id", identifier.encode()), *security_headers(scope["path"])])
            await send(message)

        try:
            with _traced(scope, identifier) as traced:
                await self._app(scope, receive, send_with_id)
                _tell(traced, scope, status)
        except Exception:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            if status:
                raise  # too late for an answer: let the server cut the connection
            await answer_problem(HTTPConnection(scope), INTERNAL)(scope, receive, send_with_id)
        finally:
            self._record(scope, status, seconds)
            request_id.reset(token)
            asked_from.reset(origin)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        pattern = _pattern(scope)
        method = scope["method"] if scope["method"] in METHODS else "other"
        http_requests_total.labels(method=method, door=door_of(pattern), status=str(status)).inc()
        http_request_seconds.labels(door=door_of(pattern)).observe(seconds)
        log.debug("request", method=scope["method"], path=scope["path"], status=status, ms=round(seconds * 1000, 1))


def door_of(pattern: str) -> str:
    return next((name for prefix, name in DOORS if pattern.startswith(prefix)), "front")


def _pattern(scope: Scope) -> str:
    """The route's pattern, never the path: ids in labels would make the metrics grow without bound."""
    route = scope.get("route")
    if route is None:
        return "unmatched"
    app = scope["app"]
    if app not in _patterns:
        # A route knows its pattern without the prefixes of the routers around it.
        _patterns[app] = {id(place.original_route): place.path or "" for place in iter_route_contexts(app.routes)}
    return _patterns[app].get(id(route)) or str(getattr(route, "path", "unmatched"))


_patterns: WeakKeyDictionary[Any, dict[int, str]] = WeakKeyDictionary()


def _traced(scope: Scope, identifier: str) -> Span:
    """Goes on with the client's trace, if it has one."""
    given = next((value.decode("latin-1") for name, value in scope["headers"] if name == TRACEPARENT.encode()), None)
    method = scope["method"] if scope["method"] in METHODS else "other"
    return span(method, "server", parent=given, http__request__method=method, request__id=identifier)


def _tell(traced: Span, scope: Scope, status: int) -> None:
    pattern = _pattern(scope)
    method = scope["method"] if scope["method"] in METHODS else "other"
    traced.rename(f"{method} {pattern}")
    traced.set(http__route=pattern, http__response__status_code=status)


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ACCEPTABLE_ID.fullmatch(value):
            return str(value.decode())
    return str(new_uuid())


class BodyLimitMiddleware:
    """Counts what a body has while it comes in, and stops reading where no honest request goes on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = LARGE_BODIES.get(scope["path"], MAX_BODY_BYTES)
        try:
            await _admit(scope, _announced_bytes(scope), limit)
        except (HTTPException, Unauthenticated, Forbidden) as error:
            response = answer_problem(HTTPConnection(scope), problem_of(error))
            response.headers["Connection"] = "close"  # or the server would go on to read what nobody wants
            await response(scope, receive, send)
            return
        await self._app(scope, _counted(receive, limit), send)


async def _admit(scope: Scope, announced: int | None, limit: int) -> None:
    if announced is not None and announced > limit:
        raise _too_large(limit)
    small = scope["method"] not in ("POST", "PUT") if announced is None else announced <= MAX_BODY_BYTES
    if limit > MAX_BODY_BYTES and not small:
        jay: Scrubjay = scope["app"].state.scrubjay
        require(await _recognise(jay, HTTPConnection(scope)), KeyScope.WRITE)


async def _recognise(jay: Scrubjay, connection: HTTPConnection) -> Principal:
    """Whoever sends much: the owner of a key, or of the session from whose page it comes."""
    if is_page(connection.url.path):
        return await jay.access.authenticate_session(connection.cookies.get(SESSION_COOKIE, ""))
    return await jay.access.recognise(key_of(connection))


def _counted(receive: Receive, limit: int) -> Receive:
    total = 0

    async def receive_counted() -> Message:
        nonlocal total
        message = await receive()
        if message["type"] == "http.request":
            total += len(message.get("body", b""))
            if total > limit:
                raise _too_large(limit)
        return message

    return receive_counted


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"The body of the request is larger than {limit // MEGABYTE} MB.")


def _announced_bytes(scope: Scope) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return None
