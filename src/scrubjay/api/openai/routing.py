"""How this door answers: here, or, where the inventory is an OpenAI account, by whoever has it, word by word."""

from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.responses import StreamingResponse
from starlette.types import Send

from scrubjay.api.deps import key_of
from scrubjay.app import Scrubjay
from scrubjay.errors import FetchFailed, NotFound
from scrubjay.model.tenant import Scope
from scrubjay.openai.relay import ForwardedRequest, Relayed
from scrubjay.telemetry import get_logger

log = get_logger(__name__)

PREFIXES = ("/openai/v1/", "/openai/")
_READING_POSTS = ("search", "embeddings")


class OpenAiRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            jay: Scrubjay = request.app.state.scrubjay
            if not jay.inventory.is_remote:
                return await handle(request)
            # Before anything of the body is read: it goes on as it comes.
            who, _ = await jay.access.authenticate(key_of(request))
            passage = passage_of(request)
            scope = scope_of(request.method, passage.path)
            return passed_on(await jay.inventory.pass_on(who, passage, scope))

        return answer


def door_router(tag: str) -> APIRouter:
    return APIRouter(tags=[tag], route_class=OpenAiRoute)


def path_of(request: Request) -> str:
    """What follows `/v1/`, quoted anew; a path that leads elsewhere does not exist."""
    given = request.scope["path"]
    prefix = next((each for each in PREFIXES if given.startswith(each)), None)
    parts = given.removeprefix(prefix or "").split("/")
    if prefix is None or any(part in ("", ".", "..") for part in parts):
        raise NotFound(f"There is nothing at {given[:200]}.")
    return "/".join(quote(part, safe="") for part in parts)


def scope_of(method: str, path: str) -> Scope:
    """What a request takes, wherever it is answered."""
    parts = path.split("/")
    if method in ("GET", "HEAD") or (method == "POST" and parts[-1] in _READING_POSTS):
        return Scope.READ
    if method == "DELETE" and parts[0] == "vector_stores" and len(parts) == 2:
        return Scope.ADMIN
    return Scope.WRITE


def passage_of(request: Request) -> ForwardedRequest:
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    return ForwardedRequest(
        method=request.method,
        path=path_of(request),
        query=request.query_params.multi_items(),
        headers=request.headers.items(),
        body=request.stream() if has_body else None,
    )


class PassedOn(StreamingResponse):
    """An answer from behind. One that breaks off there breaks off here: it must not look as if it was complete."""

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self.body_iterator) as chunks:  # type: ignore[type-var]
            try:
                async for chunk in chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            except FetchFailed as error:
                log.warning("an answer broke off", reason=error.message)
                return  # without an end, upon which the server cuts the connection
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def passed_on(answer: Relayed) -> Response:
    response = PassedOn(answer.chunks, status_code=answer.status)
    response.raw_headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in answer.headers
    ]
    return response
