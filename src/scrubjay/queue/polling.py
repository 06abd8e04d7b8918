"""The polling loop of every background task: run a step, wait for a wake-up or the interval, retry after faults."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

from sqlalchemy.exc import SQLAlchemyError

from scrubjay.errors import ScrubjayError
from scrubjay.queue.signals import JobSignals
from scrubjay.telemetry import get_logger

FAULT_SECONDS = 1.0

log = get_logger(__name__)


class PollLoop:
    """Calls `step` until stopped. A step that returns a true value is called again at once."""

    def __init__(
        self,
        name: str,
        step: Callable[[], Awaitable[object]],
        *,
        poll_seconds: float,
        fault_seconds: float = FAULT_SECONDS,
        signals: JobSignals | None = None,
        channel: str = "",
    ) -> None:
        self.name = name
        self.stopping = asyncio.Event()
        self._step = step
        self._poll_seconds = poll_seconds
        self._fault_seconds = fault_seconds
        self._signals = signals
        self._channel = channel
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self.name)

    def wake(self) -> None:
        """Do not wait for the interval: there may be something to do."""
        self._wake.set()

    async def stop(self, *, cancel: bool = False) -> None:
        """Let the current step end, or cancel it. Cancelling can cut a database connection off in a statement."""
        self.stopping.set()
        self._wake.set()
        if self._task is not None:
            if cancel:
                self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    @property
    def is_done(self) -> bool:
        return self._task is None or self._task.done()

    async def _run(self) -> None:
        async with AsyncExitStack() as stack:
            if self._signals is not None:
                await stack.enter_async_context(self._signals.listening(self._channel, lambda _: self.wake()))
            while not self.stopping.is_set():
                self._wake.clear()
                try:
                    if not await self._step():
                        await wait_until_set(self._wake, self._poll_seconds)
                except (ScrubjayError, SQLAlchemyError, OSError) as error:
                    log.warning("background task failed; retrying", task=self.name, reason=str(error))
                    await wait_until_set(self.stopping, self._fault_seconds)
                except Exception:  # a loop that ends leaves a process that looks healthy and does nothing
                    log.exception("background task failed; retrying", task=self.name)
                    await wait_until_set(self.stopping, self._fault_seconds)


async def wait_until_set(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set or the time is up. The event keeps its state."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
