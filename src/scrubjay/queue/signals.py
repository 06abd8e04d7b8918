"""Wake-ups between processes: there is work, somebody asked something of a job, an event was written.

A signal only saves waiting. Everything it announces is in the database, and who misses it finds it by looking.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from scrubjay.errors import Unavailable
from scrubjay.storage.cache import Cache
from scrubjay.telemetry import get_logger

log = get_logger(__name__)
WORK = "jobs:work"
CONTROL = "jobs:control"
EVENTS = "jobs:events"  # each message is the id of the job that an event was written for
OUTBOX = "outbox"  # something happened that others want to be told
SUBSCRIBE_SECONDS = 1.0
RESUBSCRIBE_SECONDS = 1.0
SEND_SECONDS = 1.0
QUIET_SECONDS = 10.0  # after a signal could not be sent: jobs must not wait for the cache at every checkpoint


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set or the time is up, and clear it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()


class JobSignals:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._quiet_until = 0.0

    async def work(self) -> None:
        await self._send(WORK, b"1")

    async def control(self) -> None:
        await self._send(CONTROL, b"1")

    async def event(self, job_id: str) -> None:
        await self._send(EVENTS, job_id.encode())

    async def outbox(self) -> None:
        await self._send(OUTBOX, b"1")

    @asynccontextmanager
    async def wake_up(self, channel: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever the channel is signalled, for as long as the context lasts."""
        signalled = asyncio.Event()
        async with self.listening(channel, lambda _: signalled.set()):
            yield signalled

    @asynccontextmanager
    async def listening(self, channel: str, heard: Callable[[bytes], None]) -> AsyncIterator[None]:
        """Call `heard` with every message of the channel, for as long as the context lasts."""
        subscribed = asyncio.Event()
        listener = asyncio.create_task(self._listen(channel, heard, subscribed))
        try:
            await wait_for_event(subscribed, SUBSCRIBE_SECONDS)
            yield
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    async def _listen(self, channel: str, heard: Callable[[bytes], None], subscribed: asyncio.Event) -> None:
        while True:
            try:
                async with self._cache.subscribe(channel) as messages:
                    subscribed.set()
                    async for message in messages:
                        heard(message)
            except Unavailable as error:
                log.warning("not listening; polling instead", channel=channel, reason=error.message)
            await asyncio.sleep(RESUBSCRIBE_SECONDS)

    async def _send(self, channel: str, message: bytes) -> None:
        if time.monotonic() < self._quiet_until:
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._cache.publish(channel, message)
        except (Unavailable, TimeoutError) as error:
            self._quiet_until = time.monotonic() + QUIET_SECONDS
            reason = str(error) or "no answer in time"
            log.warning("signal not sent; others will find out by polling", channel=channel, reason=reason)
