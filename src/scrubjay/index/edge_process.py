"""The near end of the process that holds the embedded engine."""

import asyncio
import os
import pickle
import struct
import sys
from collections import deque
from pathlib import Path
from typing import Any, Self

from scrubjay.errors import Unavailable

LENGTH = struct.Struct("<Q")  # goes before every question and answer
_CLOSE_SECONDS = 60.0


class EdgeProcess:
    """Answers come in the order of the questions. When the process dies, everybody who waits is told."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._reader = asyncio.create_task(self._read_answers())
        self.alive = True

    @classmethod
    async def start(cls, folder: Path, dimensions: int) -> Self:
        """A process that has opened the folder; what it says against that is raised."""
        started = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-P",
                "-m",
                "scrubjay.index.edge_worker",
                str(folder),
                str(dimensions),
                str(os.getpid()),
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the process that asks; it ends this one
        )
        self = cls(started)
        opened = self._expect_answer()
        try:
            await opened
        except BaseException:
            await self.end()
            raise
        return self

    def ask(self, name: str, *arguments: Any) -> asyncio.Future[Any]:
        """Have one of the engine's methods called."""
        pipe = self._process.stdin
        if not self.alive or pipe is None:
            raise Unavailable("The search index's process has ended; it is being started again.")
        encoded = pickle.dumps((name, arguments), pickle.HIGHEST_PROTOCOL)
        pipe.write(LENGTH.pack(len(encoded)) + encoded)
        return self._expect_answer()

    def _expect_answer(self) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    async def _read_answers(self) -> None:
        pipe = self._process.stdout
        try:
            while pipe is not None:
                (length,) = LENGTH.unpack(await pipe.readexactly(LENGTH.size))
                answer = pickle.loads(await pipe.readexactly(length))  # noqa: S301 - from our own child
                self._settle(self._waiting.popleft(), answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.alive = False
            for future in self._waiting:
                self._settle(future, Unavailable("The search index's process died; it is being started again."))

    def _settle(self, future: asyncio.Future[Any], answer: Any) -> None:
        if future.done():  # whoever asked has gone away
            return
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    async def close(self) -> None:
        """Let it finish what it was asked to, and put everything on the disk."""
        if self.alive and self._process.stdin is not None:
            encoded = pickle.dumps(("close", ()))
            self._process.stdin.write(LENGTH.pack(len(encoded)) + encoded)
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await asyncio.shield(self._reader)
            except TimeoutError:
                pass
        await self.end()

    async def end(self) -> None:
        """At once. Nothing that was answered is lost: the engine writes ahead."""
        if self._process.returncode is None and self.alive:
            self._process.kill()
        await self._reader
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()
