"""Requests passed on to OpenAI, Azure or a language model's server, with the operator's key instead of the client's.

Bodies stream in both directions. An upstream that cannot be reached is FetchFailed, which doors answer with 502.
"""

import json
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from scrubjay.crawler.relay import Relay, RelayAnswer, RelayRequest
from scrubjay.errors import FetchFailed, UrlBlocked

# Headers that belong to one connection, or tell who somebody is; neither is passed on.
_OWN_REQUEST_HEADERS = frozenset(
    {
        "authorization", "api-key", "x-api-key", "cookie", "host", "connection", "keep-alive", "te", "trailer",
        "transfer-encoding", "upgrade", "expect", "proxy-authorization", "proxy-connection", "forwarded",
        "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "openai-organization",
        "openai-project",
    }
)  # fmt: skip
_OWN_ANSWER_HEADERS = frozenset(
    {
        "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "set-cookie", "server", "date",
        "openai-organization", "openai-project", "x-request-id", "alt-svc", "strict-transport-security",
    }
)  # fmt: skip
# What Azure's dated API serves under the name of a deployment, which is the request's `model`.
_DEPLOYED = frozenset({"chat/completions", "completions", "embeddings"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedRequest:
    """A request as a client sent it; `path` is what follows `/v1/`."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)
    body: AsyncIterable[bytes] | bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Relayed:
    """An answer on its way back; read `chunks` to the end or close it."""

    status: int
    headers: Sequence[tuple[str, str]]
    chunks: AsyncIterator[bytes]

    async def read(self, max_bytes: int) -> bytes:
        """The whole body, for answers that are known to be small."""
        body = bytearray()
        async for chunk in self.chunks:
            body += chunk
            if len(body) > max_bytes:
                raise FetchFailed("The answer is too large.", error_type="too_large")
        return bytes(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where an OpenAI-compatible API is, and what it wants to see. `api_version` is Azure's, of its dated API."""

    base_url: str
    noun: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str | None = None


class Upstream:
    def __init__(self, relay: Relay, address: Address) -> None:
        self._relay = relay
        self.address = address

    async def send(self, passage: ForwardedRequest) -> Relayed:
        path, body = passage.path, passage.body
        if self.address.api_version is not None and path in _DEPLOYED:
            body = await _read(body)
            path = f"deployments/{_model(body)}/{path}"
        request = RelayRequest(
            url=self._url(path, passage.query),
            method=passage.method,
            headers={
                **{name: value for name, value in passage.headers if name.lower() not in _OWN_REQUEST_HEADERS},
                **self.address.headers,
            },
            body=body,
        )
        try:
            answer = await self._relay.send(request)
        except (FetchFailed, UrlBlocked) as error:
            raise FetchFailed(
                f"The {self.address.noun} cannot be reached: {error.message}",
                error_type=getattr(error, "error_type", "connection"),
            ) from error
        headers = [(name, value) for name, value in answer.headers if name.lower() not in _OWN_ANSWER_HEADERS]
        return Relayed(answer.status, headers, _closing(answer))

    def _url(self, path: str, query: Sequence[tuple[str, str]]) -> str:
        asked = list(query)
        if self.address.api_version is not None:
            asked = [(name, value) for name, value in asked if name != "api-version"]
            asked.append(("api-version", self.address.api_version))
        return f"{self.address.base_url.rstrip('/')}/{path}" + (f"?{urlencode(asked)}" if asked else "")


async def _closing(answer: RelayAnswer) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.chunks():
            yield chunk
    finally:
        answer.close()


async def _read(body: AsyncIterable[bytes] | bytes | None) -> bytes:
    if body is None or isinstance(body, bytes):
        return body or b""
    return b"".join([chunk async for chunk in body])


def _model(body: bytes) -> str:
    """The deployment that a request names; without a name, one that does not exist."""
    try:
        model = json.loads(body).get("model")
    except (ValueError, AttributeError):
        model = None
    return "".join(each for each in str(model) if each.isalnum() or each in "-_.").strip(".") or "none"
