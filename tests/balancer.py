"""A load balancer of the plainest kind: each connection goes to a server that says that it is ready."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

LOOK_SECONDS = 0.1
READY = b"GET /api/v1/health/ready HTTP/1.1\r\nHost: balancer\r\nConnection: close\r\n\r\n"


class Balancer:
    def __init__(self, ports: Sequence[int]) -> None:
        self.ready: dict[int, bool] = dict.fromkeys(ports, False)
        self.port = 0
        self._turn = 0
        self._connections: set[asyncio.Task[None]] = set()

    async def look(self) -> None:
        while True:
            for port in self.ready:
                self.ready[port] = await self._is_ready(port)
            await asyncio.sleep(LOOK_SECONDS)

    async def _is_ready(self, port: int) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        try:
            writer.write(READY)
            return b" 200 " in await reader.readline()
        except OSError:
            return False
        finally:
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports = [port for port, ready in self.ready.items() if ready]
        self._turn += 1
        try:
            port = ports[self._turn % len(ports)]
            upstream, downstream = await asyncio.open_connection("127.0.0.1", port)
        except (OSError, ZeroDivisionError):
            writer.close()
            return
        with suppress(OSError):
            await asyncio.gather(_copy(reader, downstream), _copy(upstream, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def balancing(ports: Sequence[int]) -> AsyncIterator[Balancer]:
    balancer = Balancer(ports)
    looking = asyncio.create_task(balancer.look())
    server = await asyncio.start_server(balancer.serve, "127.0.0.1", 0)
    balancer.port = server.sockets[0].getsockname()[1]
    try:
        yield balancer
    finally:
        looking.cancel()
        server.close()
        await asyncio.gather(looking, return_exceptions=True)
