"""What routes depend on: the running Scrubjay, and who is asking. Every door asks through `principal`."""

import re
from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import Depends, Path, Request, Response, Security, WebSocket
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.requests import HTTPConnection

from scrubjay.app import Scrubjay
from scrubjay.errors import NotFound, Unauthenticated
from scrubjay.model.ids import ID_LENGTH, id_from_uuid
from scrubjay.model.tenant import Principal
from scrubjay.services.access import SESSION_COOKIE as SESSION_COOKIE  # the doors take it from here

_SAFE_METHODS = {"GET", "HEAD"}
_ID = re.compile(rf"(?=.{{{ID_LENGTH}}}$)[a-z]+_[0-9a-v]+")


# These two only put the ways to send a key into the OpenAPI document; `key_of` does the reading.
WAYS = (HTTPBearer(auto_error=False, scheme_name="Bearer"), APIKeyHeader(name="X-Api-Key", auto_error=False))


def scrubjay(request: Request) -> Scrubjay:
    app: Scrubjay = request.app.state.scrubjay
    return app


async def principal(
    request: Request,
    response: Response,
    jay: Annotated[Scrubjay, Depends(scrubjay)],
    _bearer: Annotated[object, Security(WAYS[0])],
    _header: Annotated[object, Security(WAYS[1])],
) -> Principal:
    """Who is asking: a key in `Authorization: Bearer` or `X-Api-Key`, or a browser's session for looking."""
    key = key_of(request)
    session = request.cookies.get(SESSION_COOKIE)
    if key is None and session and request.method in _SAFE_METHODS:
        return await jay.access.authenticate_session(session)
    who, allowance = await jay.access.authenticate(key)
    if allowance is not None:
        response.headers["X-RateLimit-Remaining"] = str(allowance.remaining)
        response.headers["X-RateLimit-Reset"] = str(allowance.reset_seconds)
    return who


def socket_scrubjay(socket: WebSocket) -> Scrubjay:
    app: Scrubjay = socket.app.state.scrubjay
    return app


async def socket_principal(socket: WebSocket, jay: Annotated[Scrubjay, Depends(socket_scrubjay)]) -> Principal:
    """Who opens a socket: a key in its headers, or a browser's session if the page is one of ours."""
    key = key_of(socket)
    session = socket.cookies.get(SESSION_COOKIE)
    if key is None and session and _is_own_origin(socket):
        return await jay.access.authenticate_session(session)
    who, _ = await jay.access.authenticate(key)
    return who


def _is_own_origin(socket: WebSocket) -> bool:
    """Browsers open sockets for any page, with cookies: only pages that came from here may use them."""
    origin = urlsplit(socket.headers.get("origin", ""))
    return origin.scheme in ("http", "https") and origin.netloc == socket.headers.get("host")


def key_of(request: HTTPConnection) -> str | None:
    """The one key of a request; two different ones are an error, so that no check sees another than the next."""
    given = request.headers.getlist("x-api-key")
    for header in request.headers.getlist("authorization"):
        scheme, _, bearer = header.partition(" ")
        if bearer and scheme.lower() != "bearer":
            raise Unauthenticated("Use 'Authorization: Bearer <key>' or 'X-Api-Key: <key>'.")
        given.append(bearer)
    candidates = {value.strip() for value in given if value.strip()}
    if len(candidates) > 1:
        raise Unauthenticated("The request carries two different keys; send one.")
    return candidates.pop() if candidates else None


def identifier(prefix: str, noun: str, name: str) -> Callable[[str], str]:
    """A path parameter that is an id of ours, in either spelling: `job_…` or the UUID inside it."""

    def _parse(value: Annotated[str, Path(alias=name)]) -> str:
        if _ID.fullmatch(value) and value.startswith(prefix + "_"):
            return value
        try:
            return id_from_uuid(prefix, UUID(value))
        except ValueError:
            raise NotFound(f"{noun.capitalize()} '{value[:64]}' not found.") from None

    return _parse


Who = Annotated[Principal, Depends(principal)]
Jay = Annotated[Scrubjay, Depends(scrubjay)]
SocketWho = Annotated[Principal, Depends(socket_principal)]
SocketJay = Annotated[Scrubjay, Depends(socket_scrubjay)]
