"""Passing requests on: through the same connections and guard as every fetch, but as they come, in both directions.

For an address that the operator set and whose answers somebody is waiting for word by word. Nothing is decoded,
followed, retried or kept.
"""

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
import yarl

from scrubjay.crawler.fetcher import Network, told_as_failures
from scrubjay.model.urls import parse_url

CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 600.0  # a model may think for long before its next word
MAX_HEADER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRequest:
    url: str
    method: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: AsyncIterable[bytes] | bytes | None = field(default=None, repr=False)


class RelayAnswer:
    """An answer whose body is still coming. Read `chunks` to the end, or `close` it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        return list(self._response.headers.items())

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, still encoded as its headers say."""
        try:
            with told_as_failures():
                async for chunk in self._response.content.iter_any():
                    yield chunk
        finally:
            self.close()

    def close(self) -> None:
        """Free the connection: for the next request if the body was read, for good otherwise."""
        self._response.close() if not self._response.content.at_eof() else self._response.release()


class Relay:
    def __init__(self, network: Network) -> None:
        self._guard = network.guard
        self._session = network.open_session(
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS),
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )

    async def send(self, request: RelayRequest) -> RelayAnswer:
        """The head of the answer, as soon as it is there. FetchFailed or UrlBlocked when there is none."""
        url = parse_url(request.url)
        self._guard.check_host(url.host)
        with told_as_failures():
            response = await self._session.request(
                request.method,
                yarl.URL(url.text, encoded=True),
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
            )
        return RelayAnswer(response)

    async def close(self) -> None:
        await self._session.close()
