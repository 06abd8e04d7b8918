"""Pages that go on by themselves: a part of a page is rendered anew when jobs tell something, and sent if it differs.

A browser that was cut off comes back by itself and gets the part as it is then, so it never has to catch up.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from scrubjay.errors import FollowerTooSlow
from scrubjay.queue.live import Told
from scrubjay.telemetry import get_logger

log = get_logger(__name__)

REST_SECONDS = 0.7  # between two renderings: people do not read faster
SEND_SECONDS = 10.0
END = "end"  # the event after which a page need not come back

Parts = Callable[[Sequence[Told]], Awaitable[Mapping[str, str]]]


class LiveResponse(EventSourceResponse):
    """A browser that takes nothing for a while is let go."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.info("a page took no events and was let go", path=scope["path"])


def live_response(batches: AsyncGenerator[Sequence[Told], None], render: Parts) -> LiveResponse:
    """What `render` makes of each part, by its name: at first of nothing new, then of every batch of events."""
    return LiveResponse(_differences(batches, render), send_timeout=SEND_SECONDS, sep="\n")


async def _differences(batches: AsyncGenerator[Sequence[Told], None], render: Parts) -> AsyncIterator[ServerSentEvent]:
    shown: dict[str, str] = {}

    async def changed(batch: Sequence[Told]) -> list[ServerSentEvent]:
        parts = {name: html for name, html in (await render(batch)).items() if shown.get(name) != html}
        shown.update(parts)
        return [ServerSentEvent(html, event=name, sep="\n") for name, html in parts.items()]

    async with aclosing(batches):
        for event in await changed(()):
            yield event
        try:
            async for batch in batches:
                for event in await changed(batch):
                    yield event
                await asyncio.sleep(REST_SECONDS)
        except FollowerTooSlow:
            return  # the browser comes back by itself
    yield ServerSentEvent("", event=END, sep="\n")
