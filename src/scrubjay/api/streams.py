"""Live events over HTTP: Server-Sent Events and WebSockets, for every door that has them.

Each event is written down once, however many listen. A listener that does not take what it is sent is let go, with
the position from which it can go on.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Header, WebSocket, WebSocketDisconnect
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from scrubjay.errors import FollowerTooSlow, InvalidRequest, ScrubjayError
from scrubjay.queue.live import Told, too_slow
from scrubjay.telemetry import get_logger

log = get_logger(__name__)

SEND_SECONDS = 10.0  # that one message may take to leave
CLOSE_SECONDS = 2.0
TRY_AGAIN_LATER = 1013  # the code of a WebSocket that is closed for now
MAX_POSITION = 2**63 - 1

Batches = AsyncGenerator[Sequence[Told], None]
LastEventId = Annotated[str | None, Header(max_length=20)]
SERVER_SENT_EVENT = {
    "schema": {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The event's number, for Last-Event-ID."},
            "event": {"type": "string"},
            "data": {"type": "string", "contentMediaType": "application/json"},
        },
        "required": ["data"],
    }
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a door calls an event, and how it writes one down."""

    name: Callable[[Told], str]
    body: Callable[[Told], dict[str, Any]]

    def text(self, told: Told) -> str:
        return json.dumps(self.body(told), separators=(",", ":"), ensure_ascii=False)

    def frame(self, told: Told) -> bytes:
        event = ServerSentEvent(told.form(self.text), event=self.name(told), id=str(told.position), sep="\n")
        return event.encode()


class EventStream(EventSourceResponse):
    """A stream of events. A listener that takes nothing for a while is cut off; it knows how to come back."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.info("a listener took no events and was let go", path=scope["path"])


def position_of(last_event_id: str | None, after: int | None) -> int | None:
    """Where a listener left off: what its browser says, or else what its address says."""
    if last_event_id is None:
        return after
    if not last_event_id.isdecimal() or int(last_event_id) > MAX_POSITION:
        raise InvalidRequest("Last-Event-ID: must be the number of an event.", field="Last-Event-ID")
    return int(last_event_id)


def event_stream(batches: Batches, dialect: Dialect) -> EventStream:
    return EventStream(_frames(batches, dialect), send_timeout=SEND_SECONDS, sep="\n")


async def _frames(batches: Batches, dialect: Dialect) -> AsyncIterator[bytes]:
    async with aclosing(batches):
        try:
            async for batch in batches:
                yield b"".join(told.form(dialect.frame) for told in batch)
        except FollowerTooSlow as error:
            # Browsers reconnect by themselves, with the number of the last event that they got.
            yield ServerSentEvent(comment=error.message, retry=1000, sep="\n").encode()


async def serve_socket(socket: WebSocket, batches: Batches, dialect: Dialect) -> None:
    """Send events until the log ends or somebody leaves."""
    await socket.accept()
    sending = asyncio.create_task(_send(socket, batches, dialect))
    leaving = asyncio.create_task(_wait_for_leave(socket))
    try:
        # A log that rests has nothing to send: only listening tells that nobody is there any more.
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        ended = await asyncio.gather(sending, leaving, return_exceptions=True)
    if isinstance(ended[0], FollowerTooSlow):
        await _let_go(socket, ended[0])
    elif isinstance(ended[0], ScrubjayError):
        raise ended[0]


async def _send(socket: WebSocket, batches: Batches, dialect: Dialect) -> None:
    sent = 0
    async with aclosing(batches):
        with suppress(WebSocketDisconnect):
            async for batch in batches:
                for told in batch:
                    try:
                        async with asyncio.timeout(SEND_SECONDS):
                            await socket.send_text(told.form(dialect.text))
                    except TimeoutError:
                        raise too_slow(sent) from None
                    sent = told.position
            await socket.close()


async def _let_go(socket: WebSocket, reason: FollowerTooSlow) -> None:
    log.info("a listener took no events and was let go", after=reason.position)
    with suppress(TimeoutError, WebSocketDisconnect, RuntimeError):  # it may be gone, or its closing take as long
        async with asyncio.timeout(CLOSE_SECONDS):
            await socket.close(code=TRY_AGAIN_LATER, reason=reason.message)


async def _wait_for_leave(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        continue  # what a listener says is of no interest
