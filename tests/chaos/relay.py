"""A TCP relay between Scrubjay and something it depends on, through which the network between them is made to fail."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from enum import StrEnum
from typing import Any

CHUNK = 65_536


class Weather(StrEnum):
    CLEAR = "clear"
    SLOW = "slow"  # every piece of data is late
    SILENT = "silent"  # connections are accepted, and nothing ever comes
    LOST = "lost"  # what is sent disappears; connections that lost something are reset when the weather clears
    REFUSING = "refusing"  # every connection is reset at once


class Relay:
    """Listens on a port of its own, in a thread of its own, so that a busy test does not make the network slow."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self.connections = 0
        self._target_port = target_port
        self._weather = Weather.CLEAR
        self._late_seconds = 0.0
        self._changed = asyncio.Event()
        self._spoiled: set[asyncio.Transport] = set()
        self._open: set[asyncio.Transport] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="relay")

    def start(self) -> None:
        self._thread.start()
        self._run(self._listen())

    def stop(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def turn(self, weather: Weather, late_seconds: float = 0.0) -> None:
        """Change the weather for connections that are open and for those to come."""
        self._run(self._turn(weather, late_seconds))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _turn(self, weather: Weather, late_seconds: float) -> None:
        self._weather, self._late_seconds = weather, late_seconds
        spoiled = self._open if weather is Weather.REFUSING else self._spoiled
        for transport in list(spoiled):
            transport.abort()
        self._spoiled.clear()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._join(reader, writer)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._weather is Weather.REFUSING:
            writer.transport.abort()
            return
        while self._weather in (Weather.SILENT, Weather.LOST):
            if self._weather is Weather.LOST:
                self._spoiled.add(writer.transport)
            await self._changed.wait()
            if writer.transport.is_closing():
                return
        upstream, downstream = await asyncio.open_connection("127.0.0.1", self._target_port)
        ends = {writer.transport, downstream.transport}
        self._open |= ends
        ways = [asyncio.create_task(self._copy(*way)) for way in ((reader, downstream), (upstream, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in ends:
                end.close()
            self._open -= ends
            self._spoiled -= ends

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            if self._weather is Weather.SLOW:
                await asyncio.sleep(self._late_seconds)
            while self._weather is Weather.SILENT:
                await self._changed.wait()
            if self._weather is Weather.LOST:
                self._spoiled.add(writer.transport)
            elif writer.transport not in self._spoiled:
                writer.write(data)
                await writer.drain()
        with suppress(OSError):
            if self._weather not in (Weather.LOST, Weather.SILENT) and writer.can_write_eof():
                writer.write_eof()
