"""Around every request: an id, a count, a log line, a limit to its body, and the last net under unexpected errors."""

import re
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scrubjay.api.deps import key_of
from scrubjay.api.problems import INTERNAL, problem_of, problem_response
from scrubjay.bootstrap import Scrubjay
from scrubjay.errors import Forbidden, Unauthenticated
from scrubjay.model.ids import new_uuid
from scrubjay.model.tenant import Scope as KeyScope
from scrubjay.services.access import require
from scrubjay.telemetry import get_logger, http_request_seconds, http_requests_total, request_id

log = get_logger(__name__)

MEGABYTE = 1024 * 1024
MAX_BODY_BYTES = MEGABYTE
MAX_DOCUMENT_BODY_BYTES = 60 * MEGABYTE
# Where documents come in. Whoever sends one of more than the other routes take must show a good key first.
DOCUMENT_PATHS = frozenset(
    {"/api/v1/documents", "/api/v1/documents/batch", "/api/v1/documents/upload", "/v1.0/documents"}
)

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ACCEPTABLE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'"),
)


class RequestMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        identifier = _request_id(scope)
        token = request_id.set(identifier)
        started, status = time.perf_counter(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.setdefault("headers", [])
                headers.extend([(b"x-request-id", identifier.encode()), *SECURITY_HEADERS])
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            if status:
                raise  # too late for an answer: let the server cut the connection
            await problem_response(scope["path"], INTERNAL)(scope, receive, send_with_id)
        finally:
            self._record(scope, status, time.perf_counter() - started)
            request_id.reset(token)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route: Any = scope.get("route")
        # The route's pattern, never the path: ids in labels would make the metrics grow without bound.
        pattern = getattr(route, "path", "unmatched")
        method = scope["method"] if scope["method"] in METHODS else "other"
        http_requests_total.labels(method=method, route=pattern, status=str(status)).inc()
        http_request_seconds.labels(route=pattern).observe(seconds)
        log.debug("request", method=scope["method"], path=scope["path"], status=status, ms=round(seconds * 1000, 1))


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
        limit = MAX_DOCUMENT_BODY_BYTES if scope["path"] in DOCUMENT_PATHS else MAX_BODY_BYTES
        try:
            await _admit(scope, _announced_bytes(scope), limit)
        except (HTTPException, Unauthenticated, Forbidden) as error:
            response = problem_response(scope["path"], problem_of(error))
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
        require(await jay.access.recognise(key_of(HTTPConnection(scope))), KeyScope.WRITE)


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
