"""A receiver of webhooks: notes what it is told, and answers as a test wants it to.

In a test: `async with running_receiver() as receiver`. As a process of its own, to be killed:
`python -m tests.receiver --port 8099 --log told.jsonl` appends one line for each request before it answers.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.processes import LEASH

from scrubjay.webhooks.signing import is_signed

START_SECONDS = 20.0
Answer = Callable[["Told"], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Told:
    """One request, as it came."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: str
    at: float

    @property
    def id(self) -> str:
        return self.headers["x-webhook-id"]

    @property
    def event(self) -> str:
        return self.headers["x-webhook-event"]

    @property
    def data(self) -> Mapping[str, Any]:
        data: Mapping[str, Any] = json.loads(self.body)["data"]
        return data

    def is_signed_with(self, secret: str) -> bool:
        timestamp = int(self.headers["x-webhook-timestamp"])
        return is_signed(self.headers.get("x-webhook-signature", ""), secret, timestamp, self.body.encode())


class Receiver:
    """Answers 200 unless `answers` has something else for the path; `statuses` are given first, one at a time."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.answers: dict[str, Answer] = {}
        self.statuses: dict[str, list[int]] = {}
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_route("*", "/{path:.*}", self._take)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port, reuse_address=True).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def at(self, path: str) -> list[Told]:
        return [told for told in self.told if told.path == path]

    def note(self, told: Told) -> None:
        self.told.append(told)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = (await request.read()).decode()
        told = Told(path=request.path, headers=headers, body=body, at=asyncio.get_running_loop().time())
        self.note(told)
        if self.statuses.get(request.path):
            return web.Response(status=self.statuses[request.path].pop(0), text="as asked")
        answer = self.answers.get(request.path)
        return web.Response(text="thanks") if answer is None else await answer(told)


@asynccontextmanager
async def running_receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.start()
    try:
        yield receiver
    finally:
        await receiver.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ReceiverProcess:
    """A receiver that can be killed and started again at the same address; what it was told stays in its file."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / "told.jsonl"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [*LEASH, sys.executable, "-m", "tests.receiver", "--port", str(self.port), "--log", str(self._log)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"listening\n"

    def kill(self) -> None:
        """As `kill -9` does it, perhaps between noting something and answering."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(START_SECONDS)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    @property
    def told(self) -> list[Told]:
        if not self._log.exists():
            return []
        lines = self._log.read_text().splitlines()
        return [Told(**json.loads(line)) for line in lines if line.endswith("}")]


@contextmanager
def receiver_process(folder: Path) -> Iterator[ReceiverProcess]:
    receiver = ReceiverProcess(folder)
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.kill()


async def _serve(port: int, log: Path) -> None:
    receiver = Receiver()
    with log.open("a") as file:

        def note(told: Told) -> None:
            file.write(json.dumps(asdict(told)) + "\n")
            file.flush()
            os.fsync(file.fileno())

        receiver.note = note  # type: ignore[method-assign]
        await receiver.start(port)
        print("listening", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    options = parser.parse_args()
    asyncio.run(_serve(options.port, options.log))
