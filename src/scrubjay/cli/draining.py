"""A server that stops in steps, for rolling restarts: not ready, then without streams, then gone."""

import asyncio
import signal
from types import FrameType

import uvicorn

from scrubjay.app import Scrubjay

STREAM_SECONDS = 0.3  # for the last bytes of streams that have ended
MAX_STREAM_SECONDS = 5.0  # for streams to end
LOOK_SECONDS = 0.05


class DrainingServer(uvicorn.Server):
    """After SIGTERM, it continues for `drain_seconds`; Ctrl-C or a second signal ends that at once."""

    def __init__(self, config: uvicorn.Config, jay: Scrubjay, drain_seconds: float) -> None:
        super().__init__(config)
        self._jay = jay
        self._drain_seconds = drain_seconds
        self._draining: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        at_once = sig != signal.SIGTERM or self._jay.health.is_stopping
        self._jay.health.is_stopping = True
        if at_once:
            super().handle_exit(sig, frame)
            return
        loop = asyncio.get_running_loop()
        stop = super().handle_exit

        async def drain_streams() -> None:
            await asyncio.sleep(self._drain_seconds)
            self._jay.jobs.send_followers_elsewhere()
            deadline = loop.time() + MAX_STREAM_SECONDS
            while self._jay.jobs.open_streams and loop.time() < deadline:  # noqa: ASYNC110 - a few looks at the end
                await asyncio.sleep(LOOK_SECONDS)
            await asyncio.sleep(STREAM_SECONDS)
            stop(sig, frame)

        def drain() -> None:
            self._draining = loop.create_task(drain_streams())

        # A signal comes between any two instructions: only this is safe to call then.
        loop.call_soon_threadsafe(drain)
