"""Around every request: an id, a count, a log line, and the last net under unexpected errors."""

import re
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scrubjay.api.problems import INTERNAL, problem_response
from scrubjay.model.ids import new_uuid
from scrubjay.telemetry import get_logger, http_request_seconds, http_requests_total, request_id

log = get_logger(__name__)

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
