"""The way out of a browser: a forward proxy on loopback that dials only what the egress guard lets through.

Chromium is told to send everything here, also what it would ask loopback for. Each page it opens has a session with
a secret of its own, so that nobody else can use the proxy and each page has its own budget.
"""

import asyncio
import base64
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass, field

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.errors import FetchFailed, UrlBlocked, UrlInvalid
from scrubjay.model.urls import parse_url

MAX_HEAD_BYTES = 64 * 1024
MAX_SESSION_BYTES = 100 * 1024 * 1024
_MAX_UPLOAD_BYTES = 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_CONNECT_SECONDS = 10.0
_HEAD_SECONDS = 20.0
_IDLE_SECONDS = 60.0
_USERNAME = "page"
# Meant for the proxy, or for one connection only.
_HOP_HEADERS = frozenset(
    {"connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade", "expect"}
)


class _ProxyRefused(Exception):
    """Answered with this status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(reason)


class _BudgetUsedUp(Exception):
    """The session has moved as many bytes as it may."""


@dataclass(eq=False)
class ProxySession:
    """One page's permission to go out, and what became of it."""

    password: str = field(repr=False)
    max_bytes: int
    bytes_moved: int = 0
    refused: set[str] = field(default_factory=set)  # host:port that the guard did not allow
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    @property
    def username(self) -> str:
        return _USERNAME

    @property
    def used_up(self) -> bool:
        return self.bytes_moved > self.max_bytes

    def count(self, moved: int) -> None:
        self.bytes_moved += moved
        if self.used_up:
            raise _BudgetUsedUp


@dataclass(frozen=True, slots=True)
class _Head:
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


class BrowserProxy:
    def __init__(self, guard: EgressGuard) -> None:
        self._guard = guard
        self._sessions: dict[str, ProxySession] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)

    @property
    def address(self) -> str:
        if self._server is None:
            raise RuntimeError("the proxy has not been started")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        for session in list(self._sessions.values()):
            await self.close_session(session)
        if self._server is not None:
            self._server.close()
            await _end(self._tasks)
            await self._server.wait_closed()

    def open_session(self, *, max_bytes: int = MAX_SESSION_BYTES) -> ProxySession:
        session = ProxySession(password=secrets.token_urlsafe(24), max_bytes=max_bytes)
        self._sessions[session.password] = session
        return session

    async def close_session(self, session: ProxySession) -> None:
        """End what the page still has open; its password is worth nothing afterwards."""
        self._sessions.pop(session.password, None)
        await _end(session.tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("connections are handled in tasks")
        self._tasks.add(task)
        session: ProxySession | None = None
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await _read_head(reader)
            session = self._session_of(head)
            session.tasks.add(task)
            await self._serve(head, session, reader, writer)
        except _ProxyRefused as refusal:
            await _answer(writer, refusal)
        except asyncio.CancelledError:
            pass  # only we cancel, and then wait for the end; asyncio would log a traceback for each connection
        except (OSError, TimeoutError, asyncio.IncompleteReadError, _BudgetUsedUp):
            pass  # the browser is told by the end of the connection, and the session knows about its budget
        finally:
            self._tasks.discard(task)
            if session is not None:
                session.tasks.discard(task)
            writer.close()

    def _session_of(self, head: _Head) -> ProxySession:
        scheme, _, token = (head.get("proxy-authorization") or "").partition(" ")
        try:
            username, _, password = base64.b64decode(token, validate=True).decode().partition(":")
        except ValueError:
            raise _ProxyRefused(407, "Proxy Authentication Required") from None
        if scheme.lower() == "basic" and username == _USERNAME:
            for known, session in self._sessions.items():
                if hmac.compare_digest(known.encode(), password.encode()):
                    return session
        raise _ProxyRefused(407, "Proxy Authentication Required")

    async def _serve(
        self, head: _Head, session: ProxySession, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if head.method == "CONNECT":
            host, port = _authority(head.target)
            upstream, upwriter = await self._dial(host, port, session)
            try:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _relay_both(session, (reader, writer), (upstream, upwriter))
            finally:
                upwriter.close()
            return
        try:
            url = parse_url(head.target)
        except UrlInvalid as error:
            raise _ProxyRefused(400, "Bad Request") from error
        if url.scheme != "http":
            raise _ProxyRefused(400, "Bad Request")
        body_bytes = _body_bytes(head)
        upstream, upwriter = await self._dial(url.host, url.port, session)
        try:
            upwriter.write(_origin_request(head, url.text))
            # The body and not a byte more: a second request on this connection would not have been checked.
            await _relay_exactly(session, reader, upwriter, body_bytes)
            await _relay(session, upstream, writer)
        finally:
            upwriter.close()

    async def _dial(
        self, host: str, port: int, session: ProxySession
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            addresses = await self._guard.resolve(host, port)
        except UrlBlocked as error:
            session.refused.add(f"{host}:{port}")
            raise _ProxyRefused(403, "Forbidden by the egress guard") from error
        except FetchFailed as error:
            raise _ProxyRefused(502, "Name not resolved") from error
        for address in addresses:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(str(address), port)
        raise _ProxyRefused(502, "Bad Gateway")


async def _end(tasks: "set[asyncio.Task[None]]") -> None:
    ending = [task for task in tasks if task is not asyncio.current_task()]
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


async def _read_head(reader: asyncio.StreamReader) -> _Head:
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.LimitOverrunError as error:
        raise _ProxyRefused(431, "Request Header Fields Too Large") from error
    parts = lines[0].split(" ")
    if any("\n" in line or "\r" in line for line in lines):
        raise _ProxyRefused(400, "Bad Request")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise _ProxyRefused(400, "Bad Request")
    headers = []
    for line in lines[1:-2]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise _ProxyRefused(400, "Bad Request")
        headers.append((name, value.strip()))
    return _Head(parts[0].upper(), parts[1], tuple(headers))


def _authority(target: str) -> tuple[str, int]:
    """`host:port` of a CONNECT, read as the host of an address so that odd forms mean what they mean elsewhere."""
    try:
        url = parse_url(f"https://{target}/")
    except UrlInvalid as error:
        raise _ProxyRefused(400, "Bad Request") from error
    if url.username or url.password or not target.rpartition(":")[2].isdecimal():
        raise _ProxyRefused(400, "Bad Request")
    return url.host, url.port


def _body_bytes(head: _Head) -> int:
    if head.get("transfer-encoding") is not None:
        raise _ProxyRefused(411, "Length Required")
    length = head.get("content-length") or "0"
    if not length.isdecimal() or int(length) > _MAX_UPLOAD_BYTES:
        raise _ProxyRefused(413, "Content Too Large")
    return int(length)


def _origin_request(head: _Head, url: str) -> bytes:
    authority, slash, path = url.partition("//")[2].partition("/")
    lines = [f"{head.method} {slash}{path} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {value}" for name, value in head.headers if name.lower() not in {*_HOP_HEADERS, "host"}]
    lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _relay_exactly(
    session: ProxySession, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int
) -> None:
    while count:
        async with asyncio.timeout(_IDLE_SECONDS):
            piece = await reader.read(min(count, _CHUNK_BYTES))
            if not piece:
                raise ConnectionError("the browser went away")
            session.count(len(piece))
            writer.write(piece)
            await writer.drain()
        count -= len(piece)


async def _relay(session: ProxySession, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        async with asyncio.timeout(_IDLE_SECONDS):
            piece = await reader.read(_CHUNK_BYTES)
            if not piece:
                return
            session.count(len(piece))
            writer.write(piece)
            await writer.drain()


async def _relay_both(
    session: ProxySession,
    browser: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Both ways until one side ends."""
    ways = [
        asyncio.ensure_future(_relay(session, browser[0], upstream[1])),
        asyncio.ensure_future(_relay(session, upstream[0], browser[1])),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _answer(writer: asyncio.StreamWriter, refusal: _ProxyRefused) -> None:
    # With a body: without one, Chromium shows an error page of its own in place of the address.
    body = f"{refusal.reason}\n"
    lines = [f"HTTP/1.1 {refusal.status} {refusal.reason}", f"Content-Length: {len(body)}", "Connection: close"]
    lines.append("Content-Type: text/plain")
    if refusal.status == 407:
        lines.append('Proxy-Authenticate: Basic realm="scrubjay"')
    with suppress(OSError):
        writer.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
        await writer.drain()
