"""The openai SDK's way out: its HTTP client hands every request to our relay, and so to the egress guard."""

from collections.abc import AsyncIterator

import httpx2

from scrubjay.crawler.relay import Relay, RelayAnswer, RelayRequest
from scrubjay.errors import FetchFailed, UrlBlocked

_FRAMING = frozenset({"host", "connection", "transfer-encoding"})


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: RelayAnswer) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.chunks():
                yield chunk
        except FetchFailed as error:
            raise httpx2.ReadError(error.message) from error

    async def aclose(self) -> None:
        self._answer.close()


class RelayTransport(httpx2.AsyncBaseTransport):
    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _FRAMING}
        has_body = request.method not in ("GET", "HEAD", "DELETE") or "content-length" in request.headers
        asked = RelayRequest(
            url=str(request.url),
            method=request.method,
            headers=headers,
            body=request.stream if has_body else None,  # type: ignore[arg-type]  # the async client's streams are async
        )
        try:
            answer = await self._relay.send(asked)
        except (FetchFailed, UrlBlocked) as error:
            raise httpx2.ConnectError(error.message, request=request) from error
        return httpx2.Response(answer.status, headers=list(answer.headers), stream=_Body(answer), request=request)
