"""A real web site on loopback, for tests: it keeps a record of every request, and can misbehave in many ways.

    async with running_site(pages=200) as site: ...
    python -m tests.site --pages 2000 [--port 8080] [--latency-ms 5] [--record requests.jsonl]

`site_pages.py` makes the linked pages, `site_faults.py` has the misbehaviour, each kind at its own path.
"""
# ruff: noqa: A005 - it is always imported as `tests.site`

import argparse
import asyncio
import inspect
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from tests.site_pages import GeneratedPages

HTML = "text/html; charset=utf-8"
REASONS = {200: "OK", 301: "Moved Permanently", 302: "Found", 304: "Not Modified", 404: "Not Found"}
STOP_SECONDS = 5
TLS_HANDSHAKE = b"\x16"  # somebody tries https: here is none


@dataclass(frozen=True)
class SiteRequest:
    """One request as the server saw it. `at` is the server's monotonic clock when the request was complete."""

    number: int
    at: float
    method: str
    target: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""
    in_flight: int = 1  # requests being answered at that moment, this one included
    client: str = ""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def host(self) -> str:
        return self.headers.get("host", "")


@dataclass(frozen=True)
class Reply:
    """An answer that follows the protocol."""

    body: bytes | str = b""
    status: int = 200
    content_type: str | None = HTML
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else self.body


def redirect(to: str, status: int = 302) -> Reply:
    return Reply(status=status, content_type=None, headers={"Location": to})


class Wire:
    """The open connection, for answers that do not follow the protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def start(self, *headers: str, status: str = "200 OK") -> None:
        await self.send("\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1"))

    def reset(self) -> None:
        """End the connection with a TCP reset, not politely."""
        self.writer.transport.abort()


Answer = Reply | Callable[[SiteRequest], Reply | Awaitable[Reply]]
Misbehaviour = Callable[[SiteRequest, Wire], Awaitable[None]]


class Site:
    """Answers from `pages`, then `faults`, then `fallback` (a generated site), then with 404."""

    def __init__(self, fallback: Callable[[SiteRequest], Reply | None] | None = None) -> None:
        self.pages: dict[str, Answer] = {}
        self.faults: dict[str, Misbehaviour] = {}
        self.fallback = fallback
        self.generated: GeneratedPages | None = None
        self.requests: list[SiteRequest] = []
        self.latency_seconds: float | Callable[[SiteRequest], float] = 0.0
        self.max_in_flight = 0
        self.port = 0
        self._in_flight = 0
        self._record: TextIO | None = None
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The home page's address, without the slash at the end."""
        return self.url_at(1)

    def url_at(self, host: int) -> str:
        """The same site under another loopback address, which makes it another host: 127.0.0.1, 127.0.0.2, …"""
        return f"http://127.0.0.{host}:{self.port}"

    @property
    def robots(self) -> Answer | None:
        return self.pages.get("/robots.txt")

    @robots.setter
    def robots(self, content: str | bytes | Answer) -> None:
        self.pages["/robots.txt"] = _as_answer(content, "text/plain")

    @property
    def sitemap(self) -> Answer | None:
        return self.pages.get("/sitemap.xml")

    @sitemap.setter
    def sitemap(self, content: str | bytes | Answer) -> None:
        self.pages["/sitemap.xml"] = _as_answer(content, "application/xml")

    def add(self, path: str, content: str | bytes | Answer, content_type: str = HTML) -> str:
        """Serve this at the path; returns the whole address."""
        self.pages[path] = _as_answer(content, content_type)
        return self.url + path

    def requests_for(self, path: str) -> list[SiteRequest]:
        return [request for request in self.requests if request.path == path]

    @property
    def counts(self) -> Counter[str]:
        """How often each path was asked for."""
        return Counter(request.path for request in self.requests)

    def gaps(self, host: str | None = None) -> list[float]:
        """Seconds between one request's arrival and the next one's, by the server's clock."""
        times = sorted(request.at for request in self.requests if host is None or request.host == host)
        return [later - earlier for earlier, later in pairwise(times)]

    def forget(self) -> None:
        self.requests.clear()
        self.max_in_flight = 0

    async def start(self, port: int = 0, *, hosts: int = 1, record: TextIO | None = None) -> None:
        self._record = record
        self.port = port
        for host in range(1, hosts + 1):
            server = await asyncio.start_server(self._serve, f"127.0.0.{host}", self.port, backlog=1024)
            self._servers.append(server)
            self.port = server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=STOP_SECONDS)
        for server in self._servers:
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            # Clients hang up in the middle of things; that is their right.
            with suppress(ConnectionError, TimeoutError):
                while await self._answer_next(Wire(reader, writer)):
                    pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer_next(self, wire: Wire) -> bool:
        """Whether the connection stays open for another request."""
        request = await self._read(wire)
        if request is None:
            return False
        self._in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            self._note(request)
            latency = self.latency_seconds(request) if callable(self.latency_seconds) else self.latency_seconds
            if latency:
                await asyncio.sleep(latency)
            fault = self.faults.get(request.path)
            if fault is not None and request.path not in self.pages:
                await fault(request, wire)
                return False
            await wire.send(_encode(request, _with_validators(request, await self._find(request))))
        finally:
            self._in_flight -= 1
        return request.headers.get("connection", "").lower() != "close"

    async def _read(self, wire: Wire) -> SiteRequest | None:
        try:
            first = await wire.reader.readexactly(1)
            if first == TLS_HANDSHAKE:
                return None
            head = first + await wire.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return None
        start, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = start.split(" ", 2)
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await wire.reader.readexactly(int(headers.get("content-length", "0")))
        peer = wire.writer.get_extra_info("peername")
        return SiteRequest(
            number=len(self.requests) + 1,
            at=time.monotonic(),
            method=method,
            target=target,
            headers=headers,
            body=body,
            in_flight=self._in_flight + 1,
            client=str(peer[0]) if peer else "",
        )

    def _note(self, request: SiteRequest) -> None:
        self.requests.append(request)
        if self._record is not None:
            facts = {"at": request.at, "target": request.target, "method": request.method}
            self._record.write(json.dumps(facts | {"in_flight": request.in_flight}) + "\n")
            self._record.flush()

    async def _find(self, request: SiteRequest) -> Reply:
        answer = self.pages.get(request.path)
        if callable(answer):
            found = answer(request)
            return await found if inspect.isawaitable(found) else found
        if answer is None and self.fallback is not None:
            answer = self.fallback(request)
        return answer if answer is not None else Reply("<h1>Not found</h1>", 404)


def _as_answer(content: str | bytes | Answer, content_type: str) -> Answer:
    return Reply(content, content_type=content_type) if isinstance(content, str | bytes) else content


def _with_validators(request: SiteRequest, reply: Reply) -> Reply:
    """304 when the client's copy is current; an ETag counts before a date, as RFC 9110 has it."""
    etag, modified = reply.headers.get("ETag"), reply.headers.get("Last-Modified")
    known = request.headers.get("if-none-match")
    if known is not None:
        current = etag is not None and etag in [part.strip() for part in known.split(",")]
    else:
        current = modified is not None and request.headers.get("if-modified-since") == modified
    if not (current and reply.status == 200):
        return reply
    kept = {name: reply.headers[name] for name in ("ETag", "Last-Modified") if name in reply.headers}
    return Reply(status=304, content_type=None, headers=kept)


def _encode(request: SiteRequest, reply: Reply) -> bytes:
    data = reply.data
    lines = [f"HTTP/1.1 {reply.status} {REASONS.get(reply.status, 'Whatever')}"]
    if reply.content_type is not None:
        lines.append(f"Content-Type: {reply.content_type}")
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    if reply.status != 304:
        lines.append(f"Content-Length: {len(data)}")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if request.method == "HEAD" or reply.status == 304 else head + data


def build_site(*, pages: int = 0, seed: int = 0, page_bytes: int = 2000) -> Site:
    """A site that is not started yet: `pages` generated ones if asked for, and every fault under `/fault/`."""
    # Here, not above: both are written in terms of what this module defines.
    from tests.site_faults import add_faults
    from tests.site_pages import GeneratedPages

    site = Site()
    if pages:
        site.generated = GeneratedPages(pages, seed, page_bytes)
        site.fallback = site.generated.reply
    add_faults(site)
    return site


@asynccontextmanager
async def running_site(*, pages: int = 0, seed: int = 0, page_bytes: int = 2000, hosts: int = 1) -> AsyncIterator[Site]:
    site = build_site(pages=pages, seed=seed, page_bytes=page_bytes)
    await site.start(hosts=hosts)
    try:
        yield site
    finally:
        await site.stop()


async def _serve_forever(options: argparse.Namespace) -> None:
    site = build_site(pages=options.pages, seed=options.seed, page_bytes=options.page_bytes)
    site.latency_seconds = options.latency_ms / 1000
    record = options.record.open("a") if options.record else None
    await site.start(options.port, hosts=options.hosts, record=record)
    # Whoever started the process reads the address from the first line.
    print(site.url, flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page-bytes", type=int, default=2000)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--hosts", type=int, default=1, help="serve as 127.0.0.1, 127.0.0.2, … on the same port")
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--record", type=Path, help="append every request to this file as JSON lines")
    try:
        asyncio.run(_serve_forever(parser.parse_args()))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
