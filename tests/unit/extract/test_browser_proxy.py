"""The browser's way out: who may use it, and where it leads."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.browser_proxy import BrowserProxy, ProxySession


class Listener:
    """A server that keeps what it was sent, and answers every request with the same words."""

    def __init__(self, body: bytes = b"hello") -> None:
        self.body = body
        self.requests: list[bytes] = []
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
            )
            self.requests.append(head + await reader.readexactly(length))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self.body) + self.body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            self.requests.append(b"broken off")
        finally:
            writer.close()


@asynccontextmanager
async def listening(host: str = "127.0.0.1", body: bytes = b"hello") -> AsyncIterator[Listener]:
    listener = Listener(body)
    server = await asyncio.start_server(listener.handle, host, 0)
    listener.port = server.sockets[0].getsockname()[1]
    async with server:
        yield listener


@pytest.fixture
async def proxy() -> AsyncIterator[BrowserProxy]:
    proxy = BrowserProxy(EgressGuard([ip_network("127.0.0.1/32")]))
    await proxy.start()
    yield proxy
    await proxy.close()


def pass_for(session: ProxySession) -> str:
    token = base64.b64encode(f"{session.username}:{session.password}".encode()).decode()
    return f"Proxy-Authorization: Basic {token}\r\n"


async def ask(proxy: BrowserProxy, text: str, *, then: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.address.rpartition(":")[2]))
    writer.write(text.encode() + b"\r\n")
    if then:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(then)
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_request_goes_through_without_what_was_meant_for_the_proxy(proxy: BrowserProxy) -> None:
    session = proxy.open_session()
    async with listening() as site:
        head = f"POST http://127.0.0.1:{site.port}/a?b=1 HTTP/1.1\r\nHost: elsewhere\r\nX-A: 1\r\nContent-Length: 4\r\n"
        answer = await ask(proxy, f"{head}Proxy-Connection: keep-alive\r\n{pass_for(session)}\r\nbodyEXTRA")
        assert answer.endswith(b"hello")
        (request,) = site.requests
    assert request.startswith(b"POST /a?b=1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % site.port)
    assert request.endswith(b"Connection: close\r\n\r\nbody")
    assert b"X-A: 1" in request
    assert b"Proxy-" not in request


async def test_a_tunnel_carries_both_ways(proxy: BrowserProxy) -> None:
    session = proxy.open_session()
    async with listening() as site:
        head = f"CONNECT 127.0.0.1:{site.port} HTTP/1.1\r\n{pass_for(session)}"
        assert (await ask(proxy, head, then=b"GET / HTTP/1.1\r\n\r\n")).endswith(b"hello")


@pytest.mark.parametrize(
    "pass_header", ["", "Proxy-Authorization: Basic cGFnZTp4\r\n", "Proxy-Authorization: Basic ???\r\n"]
)
async def test_nobody_without_a_sessions_password_gets_out(proxy: BrowserProxy, pass_header: str) -> None:
    proxy.open_session()
    async with listening() as site:
        for line in (f"GET http://127.0.0.1:{site.port}/", f"CONNECT 127.0.0.1:{site.port}"):
            answer = await ask(proxy, f"{line} HTTP/1.1\r\n{pass_header}")
            assert answer.startswith(b"HTTP/1.1 407 ")
        assert site.requests == []


async def test_a_closed_session_lets_nobody_out(proxy: BrowserProxy) -> None:
    session = proxy.open_session()
    await proxy.close_session(session)
    assert (await ask(proxy, f"GET http://127.0.0.1:1/ HTTP/1.1\r\n{pass_for(session)}")).startswith(b"HTTP/1.1 407 ")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.2",
        "2130706434",
        "0x7f.0.0.2",
        "0177.0.0.2",
        "[::ffff:127.0.0.2]",
        "169.254.169.254",
        "[::1]",
        "10.0.0.1",
    ],
)
async def test_an_address_that_the_guard_forbids_is_never_dialled(proxy: BrowserProxy, host: str) -> None:
    session = proxy.open_session()
    async with listening("127.0.0.2") as forbidden:
        for line in (f"GET http://{host}:{forbidden.port}/ HTTP/1.1", f"CONNECT {host}:{forbidden.port} HTTP/1.1"):
            assert (await ask(proxy, f"{line}\r\n{pass_for(session)}")).startswith(b"HTTP/1.1 403 ")
        assert forbidden.requests == []
    assert len(session.refused) == 1


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /origin-form HTTP/1.1", 400),
        ("GET ftp://127.0.0.1/ HTTP/1.1", 400),
        ("GET https://127.0.0.1/ HTTP/1.1", 400),
        ("CONNECT 127.0.0.1 HTTP/1.1", 400),
        ("CONNECT user@127.0.0.1:80 HTTP/1.1", 400),
        ("CONNECT 127.0.0.1:80/x HTTP/1.1", 400),
        ("GARBAGE", 400),
        ("POST http://127.0.0.1:1/ HTTP/1.1\r\nTransfer-Encoding: chunked", 411),
        ("POST http://127.0.0.1:1/ HTTP/1.1\r\nContent-Length: 99999999", 413),
        ("GET http://127.0.0.1:1/ HTTP/1.1", 502),
        ("GET http://no-such-host.invalid/ HTTP/1.1", 502),
    ],
)
async def test_what_cannot_be_forwarded_is_refused(proxy: BrowserProxy, line: str, status: int) -> None:
    session = proxy.open_session()
    answer = await ask(proxy, f"{line}\r\n{pass_for(session)}")
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


async def test_a_session_ends_when_its_budget_is_used_up(proxy: BrowserProxy) -> None:
    session = proxy.open_session(max_bytes=100_000)
    async with listening(body=b"x" * 1_000_000) as site:
        answer = await ask(proxy, f"GET http://127.0.0.1:{site.port}/ HTTP/1.1\r\n{pass_for(session)}")
    assert len(answer) < 300_000
    assert session.used_up


async def test_closing_a_session_ends_its_open_tunnels(proxy: BrowserProxy) -> None:
    session = proxy.open_session()
    async with listening() as site:
        waiting = asyncio.create_task(ask(proxy, f"CONNECT 127.0.0.1:{site.port} HTTP/1.1\r\n{pass_for(session)}"))
        while not session.tasks:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await proxy.close_session(session)
        assert (await asyncio.wait_for(waiting, 5)).startswith(b"HTTP/1.1 200 ")


async def test_a_length_in_odd_digits_is_refused(proxy: BrowserProxy) -> None:
    session = proxy.open_session()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.address.rpartition(":")[2]))
    head = f"POST http://127.0.0.1:1/ HTTP/1.1\r\nContent-Length: \N{SUPERSCRIPT TWO}\r\n{pass_for(session)}\r\n"
    writer.write(head.encode("latin-1"))
    assert (await reader.read()).startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_a_line_feed_cannot_add_a_header(proxy: BrowserProxy) -> None:
    session = proxy.open_session()
    async with listening() as site:
        head = f"GET http://127.0.0.1:{site.port}/ HTTP/1.1\r\nX-A: 1\nX-Evil: 1\r\n{pass_for(session)}"
        assert (await ask(proxy, head)).startswith(b"HTTP/1.1 400 ")
        assert site.requests == []


async def test_closing_a_session_with_open_tunnels_says_nothing_to_the_log(proxy: BrowserProxy) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
    session = proxy.open_session()
    async with listening() as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.address.rpartition(":")[2]))
        writer.write(f"CONNECT 127.0.0.1:{site.port} HTTP/1.1\r\n{pass_for(session)}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        await proxy.close_session(session)
        assert await reader.read() == b""
        writer.close()
        await asyncio.sleep(0.05)

    assert session.tasks == set()
    assert complaints == []
