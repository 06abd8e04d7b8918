"""The one way out: every request on behalf of a user-supplied address is made here.

A `Network` is a process's connections behind the egress guard. A `Fetcher` is one crawl's view of it: its user
agent, headers, credentials, cookies and proxies. Every hop of a redirect is read, checked and dialled anew.
"""

import asyncio
import base64
import re
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDict, CIMultiDictProxy

from scrubjay import __version__
from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.decoding import ACCEPT_ENCODING, decode_through, decoders_for
from scrubjay.crawler.proxies import ProxyPool, ProxyServer
from scrubjay.errors import FetchFailed, InvalidRequest, ScrubjayError, UrlBlocked, UrlInvalid
from scrubjay.model.urls import Url, is_public_suffix, parse_url
from scrubjay.telemetry import SECRET_NAMES, span
from scrubjay.telemetry.metrics import fetch_bytes_total, fetch_requests_total, fetch_seconds

USER_AGENT = f"Scrubjay/{__version__}"
MAX_BYTES = 50 * 1024 * 1024
SPOOL_BYTES = 1024 * 1024  # a larger body waits in a file, so that many of them do not fill the memory
_CHUNK_BYTES = 64 * 1024
_MAX_HEADER_BYTES = 64 * 1024
_MAX_HEADERS = 256
_MAX_COOKIES = 10_000
_MAX_HEAD_BYTES = 256 * 1024  # all headers together; they are kept with the page
_CONNECT_SECONDS = 15.0
_DNS_CACHE_SECONDS = 60
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Headers that authenticate under names which would not be secret elsewhere.
_SECRET_HEADER = re.compile(
    r"auth|(^|[-_])(key|session|sid|jwt|signature|pass|pwd|csrf|xsrf|saml)([-_]|$)", re.IGNORECASE
)
# They say where a request ends and whom it is for; a wrong one leaves the connection unfit for the next request.
_FRAMING_HEADERS = frozenset(
    {"host", "connection", "content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What is sent to one origin, and to no other: Basic, Bearer, or a header with an API key."""

    origin: tuple[str, str, int]
    header: str
    value: str = field(repr=False)

    @classmethod
    def basic(cls, url: Url, username: str, password: str) -> "Credentials":
        token = base64.b64encode(f"{username}:{password}".encode()).decode()
        return cls(origin=url.origin, header="Authorization", value=f"Basic {token}")

    @classmethod
    def bearer(cls, url: Url, token: str) -> "Credentials":
        return cls(origin=url.origin, header="Authorization", value=f"Bearer {token}")

    @classmethod
    def api_key(cls, url: Url, header: str, value: str) -> "Credentials":
        if header.strip().lower() in _FRAMING_HEADERS:
            raise InvalidRequest(f"The header '{header.strip()}' cannot carry a key.", field="auth.name")
        return cls(origin=url.origin, header=header, value=value)

    def may_go_to(self, url: Url) -> bool:
        return is_same_party(self.origin, url.origin)


def is_secret_header(name: str) -> bool:
    """Whether a header looks as if it authenticates: it is sealed where it is stored, and stays with one origin."""
    return SECRET_NAMES.search(name) is not None or _SECRET_HEADER.search(name) is not None


def is_same_party(ours: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    """The same origin, or the same host after it moved from plain HTTP to TLS on the usual ports."""
    moved_to_tls = ours[0] == "http" and ours[2] == 80 and other[0] == "https" and other[2] == 443
    return ours == other or (moved_to_tls and ours[1] == other[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    timeout_seconds: float = 30.0
    max_bytes: int = MAX_BYTES
    truncate: bool = False  # above max_bytes: keep what came so far instead of failing
    follow_redirects: bool = True
    max_redirects: int = 10
    etag: str | None = None
    last_modified: str | None = None
    spool: bool = False  # large bodies may go to `FetchResponse.file` instead of memory


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    requested_url: str
    url: str  # where the answer came from, after redirects
    status: int
    headers: CIMultiDictProxy[str]
    body: bytes = b""
    file: Path | None = None  # the body, when it was too large for memory; whoever asked for it removes it
    size: int = 0
    redirects: tuple[str, ...] = ()
    elapsed_seconds: float = 0.0
    truncated: bool = False
    attempts: int = 1

    @property
    def content_type(self) -> str | None:
        return self.headers.get("Content-Type")

    @property
    def etag(self) -> str | None:
        return self.headers.get("ETag")

    @property
    def last_modified(self) -> str | None:
        return self.headers.get("Last-Modified")

    @property
    def not_modified(self) -> bool:
        return self.status == 304

    @property
    def is_redirect(self) -> bool:
        return self.status in _REDIRECTS and "Location" in self.headers


class _GuardedResolver(AbstractResolver):
    """What aiohttp dials for a name is what the guard let through: the answer is used, not asked for again."""

    def __init__(self, guard: EgressGuard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self._guard.resolve(host, port, family)
        ]

    async def close(self) -> None:
        """Nothing is kept open."""


class _Cookies(aiohttp.CookieJar):
    """Without cookies for all of `co.uk` or `github.io`, which a host there could set for every other."""

    def update_cookies_from_headers(self, headers: Sequence[str], response_url: yarl.URL) -> None:
        super().update_cookies_from_headers([one for one in headers if not _is_for_suffix(one)], response_url)


def _is_for_suffix(cookie: str) -> bool:
    attributes = (part.partition("=") for part in cookie.split(";")[1:])
    domains = (value.strip(' ."\t') for name, _, value in attributes if name.strip().lower() == "domain")
    return any(is_public_suffix(domain.lower()) for domain in domains if domain)


class Network:
    """The connections of a process. Every socket is made by `_make_socket`, after the guard saw its address."""

    def __init__(self, guard: EgressGuard, *, user_agent: str = USER_AGENT, spool_folder: Path | None = None) -> None:
        self.guard = guard
        self.user_agent = user_agent
        self.spool_folder = spool_folder
        self._connector = aiohttp.TCPConnector(
            limit=0,
            resolver=_GuardedResolver(guard),
            ttl_dns_cache=_DNS_CACHE_SECONDS,
            socket_factory=self._make_socket,
        )

    def _make_socket(self, found: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = found
        self.guard.check(address[0])
        return socket.socket(family, kind, protocol)

    def fetcher(
        self,
        *,
        user_agent: str | None = None,
        headers: Mapping[str, str] | None = None,
        headers_origin: tuple[str, str, int] | None = None,
        credentials: Credentials | None = None,
        proxies: ProxyPool | None = None,
    ) -> "Fetcher":
        """A fetcher with its own cookies. Headers that look like secrets only go to `headers_origin`."""
        session = aiohttp.ClientSession(
            connector=self._connector,
            connector_owner=False,
            auto_decompress=False,
            cookie_jar=_Cookies(unsafe=True),  # hosts may be bare addresses
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            max_headers=_MAX_HEADERS,
            skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
        )
        own = CIMultiDict(
            {"Accept": _ACCEPT, "Accept-Encoding": ACCEPT_ENCODING, "User-Agent": user_agent or self.user_agent}
        )
        return Fetcher(self, session, own, _OwnHeaders(headers or {}, headers_origin), credentials, proxies)

    def open_session(self, **options: Any) -> aiohttp.ClientSession:
        """A bare session on these connections, for `relay.py`; whoever opens it closes it."""
        return aiohttp.ClientSession(connector=self._connector, connector_owner=False, **options)

    async def close(self) -> None:
        await self._connector.close()


class _OwnHeaders:
    """Headers that a crawl adds; what looks like a secret stays with the origin that it was given for."""

    def __init__(self, headers: Mapping[str, str], origin: tuple[str, str, int] | None) -> None:
        self._open = {name: value for name, value in headers.items() if not is_secret_header(name)}
        self._secret = {name: value for name, value in headers.items() if is_secret_header(name)}
        self._origin = origin

    def for_url(self, url: Url) -> Mapping[str, str]:
        if self._secret and self._origin is not None and is_same_party(self._origin, url.origin):
            return {**self._open, **self._secret}
        return self._open


@dataclass(slots=True)
class _Hop:
    """Where a request stands: it moves when a redirect is followed."""

    url: Url
    method: str
    body: bytes | None
    headers: Mapping[str, str]  # the request's own
    credentials: Credentials | None
    visited: list[str]
    started: float


class Fetcher:
    def __init__(
        self,
        network: Network,
        session: aiohttp.ClientSession,
        defaults: CIMultiDict[str],
        own: _OwnHeaders,
        credentials: Credentials | None,
        proxies: ProxyPool | None,
    ) -> None:
        self._network = network
        self._session = session
        self._defaults = defaults
        self._own = own
        self._credentials = credentials
        self._proxies = proxies

    @property
    def guard(self) -> EgressGuard:
        return self._network.guard

    async def close(self) -> None:
        await self._session.close()

    async def __aenter__(self) -> "Fetcher":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """The answer with its whole body, after redirects. HTTP errors are answers; FetchFailed is none."""
        hop = self._start(request)
        with span("fetch", "client", server__address=hop.url.host, http__request__method=request.method) as traced:
            try:
                answer = await self._follow_through(request, hop)
            except (FetchFailed, UrlBlocked) as error:
                fetch_requests_total.labels(getattr(error, "error_type", "blocked")).inc()
                raise
            traced.set(http__response__status_code=answer.status, http__response__body__size=answer.size)
        fetch_requests_total.labels(f"{answer.status // 100}xx" if answer.status < 600 else "unusual").inc()
        fetch_seconds.observe(answer.elapsed_seconds)
        fetch_bytes_total.inc(answer.size)
        return answer

    async def _follow_through(self, request: FetchRequest, hop: _Hop) -> FetchResponse:
        with told_as_failures():
            async with asyncio.timeout(request.timeout_seconds):
                while True:
                    answer = await self._ask(request, hop)
                    if not (request.follow_redirects and answer.is_redirect):
                        return answer
                    _follow(hop, answer, request.max_redirects)

    def _start(self, request: FetchRequest) -> _Hop:
        url = parse_url(request.url)
        credentials = self._credentials
        if url.username is not None or url.password is not None:
            credentials = Credentials.basic(url, url.username or "", url.password or "")
        headers = dict(request.headers)
        if request.etag:
            headers["If-None-Match"] = request.etag
        if request.last_modified:
            headers["If-Modified-Since"] = request.last_modified
        return _Hop(url, request.method, request.body, headers, credentials, [], time.perf_counter())

    async def _ask(self, request: FetchRequest, hop: _Hop) -> FetchResponse:
        if self._proxies is None:
            self.guard.check_host(hop.url.host)
            return await self._exchange(request, hop, {})
        # The proxy would resolve the name by itself; it is at least not asked for one that leads inside.
        await self.guard.resolve(hop.url.host, hop.url.port)
        with self._proxies.using() as proxy:
            return await self._exchange(request, hop, _proxy_options(proxy))

    async def _exchange(self, request: FetchRequest, hop: _Hop, options: Mapping[str, Any]) -> FetchResponse:
        async with self._session.request(
            hop.method,
            yarl.URL(hop.url.text, encoded=True),
            headers=self._headers(hop),
            data=hop.body,
            allow_redirects=False,
            timeout=_TIMEOUT,
            **options,
        ) as response:
            if sum(len(name) + len(value) for name, value in response.raw_headers) > _MAX_HEAD_BYTES:
                raise FetchFailed("The answer's headers are too large.", error_type="protocol")
            if response.cookies and len(self._session.cookie_jar) > _MAX_COOKIES:
                self._session.cookie_jar.clear()  # a crawl of the whole web must not remember all of it
            body, file, size, truncated = b"", None, 0, False
            if hop.method != "HEAD" and response.status != 304:
                body, file, size, truncated = await self._read(request, response)
            return FetchResponse(
                requested_url=request.url,
                url=hop.url.text,
                status=response.status,
                headers=response.headers,
                body=body,
                file=file,
                size=size,
                truncated=truncated,
                redirects=tuple(hop.visited),
                elapsed_seconds=time.perf_counter() - hop.started,
            )

    def _headers(self, hop: _Hop) -> CIMultiDict[str]:
        headers = self._defaults.copy()
        headers.update(self._own.for_url(hop.url))
        headers.update(hop.headers)
        if hop.credentials is not None and hop.credentials.may_go_to(hop.url):
            headers[hop.credentials.header] = hop.credentials.value
        return headers

    async def _read(
        self, request: FetchRequest, response: aiohttp.ClientResponse
    ) -> tuple[bytes, Path | None, int, bool]:
        declared = response.content_length
        if declared is not None and declared > request.max_bytes and not request.truncate:
            raise _too_large(request)
        coding = response.headers.get("Content-Encoding")
        if not coding and declared is not None and declared <= min(request.max_bytes, SPOOL_BYTES):
            body = await response.read()  # most answers: the parser itself keeps them to their length
            return body, None, len(body), False
        sink = _Sink(request, self._network.spool_folder)
        try:
            truncated = await _stream(response, coding, sink)
            return *sink.finish(), truncated
        except BaseException:
            sink.discard()
            raise

    @asynccontextmanager
    async def open(self, request: FetchRequest) -> AsyncIterator[tuple[FetchResponse, AsyncIterator[bytes]]]:
        """The answer's head and its decoded body piece by piece, for what need not fit into memory."""
        spooled = await self.fetch(replace(request, spool=True))
        try:
            yield spooled, _pieces(spooled)
        finally:
            if spooled.file is not None:
                spooled.file.unlink(missing_ok=True)


_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)


async def _pieces(response: FetchResponse) -> AsyncIterator[bytes]:
    if response.file is None:
        yield response.body
        return
    with response.file.open("rb") as opened:
        while piece := await asyncio.to_thread(opened.read, _CHUNK_BYTES):
            yield piece


def _follow(hop: _Hop, answer: FetchResponse, max_redirects: int) -> None:
    """Move to where the answer points; what was meant for another origin is left behind."""
    target = next_hop(answer, hop.visited, max_redirects)
    if answer.status == 303 or (answer.status in (301, 302) and hop.method == "POST"):
        hop.method, hop.body = ("HEAD" if hop.method == "HEAD" else "GET"), None
    if not is_same_party(hop.url.origin, target.origin):
        hop.headers = {name: value for name, value in hop.headers.items() if not is_secret_header(name)}
    hop.url = target


def next_hop(answer: FetchResponse, visited: list[str], max_redirects: int) -> Url:
    """Where a redirect leads; the address that it came from is added to the visited ones."""
    if answer.file is not None:
        answer.file.unlink(missing_ok=True)
    target = redirect_target(answer)
    visited.append(answer.url)
    if len(visited) > max_redirects:
        raise FetchFailed(f"More than {max_redirects} redirects.", error_type="too_many_redirects")
    if visited.count(target.text) > 1:
        # Once is allowed: a page may set a cookie and send its visitor back to itself.
        raise FetchFailed("The redirects lead in a circle.", error_type="redirect_loop")
    return target


def redirect_target(answer: FetchResponse) -> Url:
    """Where a redirect points. Credentials in a Location are not taken: a server may not choose whom we are."""
    location = answer.headers["Location"]
    try:
        # Servers send UTF-8 in headers, which aiohttp reads with surrogates for what is not ASCII.
        location = location.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return replace(parse_url(location, answer.url), username=None, password=None)
    except UrlInvalid as error:
        raise FetchFailed(
            f"The redirect leads to what cannot be fetched: {error.message}", error_type="bad_redirect"
        ) from error


def _proxy_options(proxy: ProxyServer) -> Mapping[str, Any]:
    if proxy.username is None:
        return {"proxy": proxy.url}
    # aiohttp moves this to Proxy-Authorization, of the request or of the CONNECT before it.
    credentials = Credentials.basic(parse_url(proxy.url), proxy.username, proxy.password or "")
    return {"proxy": proxy.url, "proxy_headers": {"Authorization": credentials.value}}


class _Sink:
    """Takes a body up to the request's limit: in memory, then, if the request allows it, in a file."""

    def __init__(self, request: FetchRequest, folder: Path | None) -> None:
        self._request = request
        self._folder = folder
        self._pieces: list[bytes] = []
        self._file: Any = None
        self.size = 0

    def add(self, piece: bytes) -> bool:
        """False when the body is cut off here."""
        room = self._request.max_bytes - self.size
        cut = len(piece) > room
        if cut and not self._request.truncate:
            raise _too_large(self._request)
        piece = piece[:room] if cut else piece
        self.size += len(piece)
        if self._file is None and self._request.spool and self.size > SPOOL_BYTES:
            self._file = tempfile.NamedTemporaryFile(dir=self._folder, prefix="body-", delete=False)  # noqa: SIM115
            self._file.write(b"".join(self._pieces))
            self._pieces.clear()
        if self._file is None:
            self._pieces.append(piece)
        else:
            self._file.write(piece)
        return not cut

    def finish(self) -> tuple[bytes, Path | None, int]:
        if self._file is None:
            return b"".join(self._pieces), None, self.size
        self._file.close()
        return b"", Path(self._file.name), self.size

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
            Path(self._file.name).unlink(missing_ok=True)


async def _stream(response: aiohttp.ClientResponse, coding: str | None, sink: _Sink) -> bool:
    """Decode the body into the sink; true when it was cut off."""
    decoders = decoders_for(coding)
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        for piece in decode_through(decoders, chunk):
            if not sink.add(piece):
                response.close()
                return True
    if not all(decoder.finish() for decoder in decoders):
        raise FetchFailed("The compressed content ends too early.", error_type="bad_encoding")
    return False


def _too_large(request: FetchRequest) -> FetchFailed:
    return FetchFailed(f"The body is larger than {request.max_bytes:,} bytes.", error_type="too_large")


class told_as_failures:  # noqa: N801 - reads as a phrase where it is used
    """What goes wrong below, as one of our own errors with an error_type."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, ScrubjayError):
            return
        failure = _failure(error)
        if failure is not None:
            raise failure from error


def _failure(error: BaseException) -> ScrubjayError | None:
    own = _find_own(error)
    if own is not None:
        return own
    for kinds, error_type, message in _FAILURES:
        if isinstance(error, kinds):
            detail = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
            failure = FetchFailed(message.format(detail=detail), error_type=error_type)
            failure.never_sent = isinstance(error, aiohttp.ClientConnectorError)
            return failure
    return None


def _find_own(error: BaseException) -> ScrubjayError | None:
    """The guard's refusal, when it comes back wrapped by those who dialled."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, UrlBlocked | FetchFailed):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


_FAILURES: tuple[tuple[tuple[type[BaseException], ...], str, str], ...] = (
    ((TimeoutError,), "timeout", "No complete answer in time."),
    ((aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch), "tls", "TLS failed: {detail}"),
    ((aiohttp.ClientProxyConnectionError, aiohttp.ClientHttpProxyError), "proxy", "The proxy failed: {detail}"),
    ((aiohttp.ClientConnectorDNSError,), "dns", "The name cannot be resolved: {detail}"),
    ((aiohttp.ClientPayloadError,), "incomplete", "The body ended too early or is malformed: {detail}"),
    ((aiohttp.ClientResponseError,), "protocol", "The answer is not valid HTTP: {detail}"),
    ((aiohttp.InvalidURL,), "invalid_url", "The address cannot be fetched: {detail}"),
    ((aiohttp.ClientError, OSError), "connection", "The connection failed: {detail}"),
    ((ValueError,), "protocol", "The answer cannot be understood: {detail}"),
)
