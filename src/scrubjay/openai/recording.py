"""A language model's response, kept while it is passed on: the last event of its stream, or its one object."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from scrubjay.documents.texts import storable_text
from scrubjay.model.knowledge import Response
from scrubjay.openai.relay import Relayed
from scrubjay.storage.database import Database
from scrubjay.storage.inventory import Responses

MAX_BYTES = 8 * 1024 * 1024  # of one response; a longer one is passed on, and not kept
MAX_ID = 128
_LAST = frozenset({"response.completed", "response.failed", "response.incomplete"})

Keep = Callable[[Mapping[str, Any]], Awaitable[None]]


def recorded(answer: Relayed, keep: Keep) -> Relayed:
    """The same answer; what it says in the end is handed to `keep` before its last piece goes out."""
    kind = next((value for name, value in answer.headers if name.lower() == "content-type"), "")
    watcher = _Events() if kind.startswith("text/event-stream") else _Whole()
    return replace(answer, chunks=_watched(answer.chunks, watcher, keep))


async def _watched(chunks: AsyncIterator[bytes], watcher: "_Events | _Whole", keep: Keep) -> AsyncIterator[bytes]:
    held: bytes | None = None
    async for chunk in chunks:
        watcher.see(chunk)
        if watcher.is_last:
            held = chunk
            break
        yield chunk
    response = watcher.response()
    if response is not None:
        await keep(response)
    if held is not None:
        yield held
    async for chunk in chunks:
        yield chunk


class _Events:
    """Looks at the lines of a stream of events, and remembers the one that has the whole response."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._found: Mapping[str, Any] | None = None

    @property
    def is_last(self) -> bool:
        return self._found is not None

    def see(self, chunk: bytes) -> None:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._read(bytes(self._line) + line)
            self._line.clear()
        if len(self._line) + len(rest) <= MAX_BYTES:
            self._line += rest

    def _read(self, line: bytes) -> None:
        if not line.startswith(b"data:") or b"response." not in line[:200]:
            return
        event = _object(line[5:])
        if event is not None and event.get("type") in _LAST and isinstance(event.get("response"), Mapping):
            self._found = event["response"]

    def response(self) -> Mapping[str, Any] | None:
        return self._found


class _Whole:
    is_last = False

    def __init__(self) -> None:
        self._body = bytearray()

    def see(self, chunk: bytes) -> None:
        if len(self._body) <= MAX_BYTES:
            self._body += chunk

    def response(self) -> Mapping[str, Any] | None:
        return _object(bytes(self._body)) if len(self._body) <= MAX_BYTES else None


def _object(text: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


async def keep_response(database: Database, tenant_id: str, body: Mapping[str, Any]) -> None:
    """Remember a response, unless its client asked for it not to be stored."""
    identifier = body.get("id")
    if body.get("object") != "response" or body.get("store") is False:
        return
    if not isinstance(identifier, str) or not 1 <= len(identifier) <= MAX_ID:
        return
    conversation = body.get("conversation")
    response = Response(
        tenant_id=tenant_id,
        id=storable_text(identifier),
        model=storable_text(str(body.get("model") or ""))[:255],
        status=str(body.get("status") or "completed")[:32],
        previous_response_id=_identifier(body.get("previous_response_id")),
        conversation_id=_identifier(conversation.get("id") if isinstance(conversation, Mapping) else None),
        body=json.loads(storable_text(json.dumps(body, ensure_ascii=False))),
        created_at=_moment(body.get("created_at")),
    )
    async with database.writing() as connection:
        await Responses(connection).delete(tenant_id, response.id)
        await Responses(connection).add(response)


def _identifier(value: object) -> str | None:
    return storable_text(value) if isinstance(value, str) and 1 <= len(value) <= MAX_ID else None


def _moment(seconds: object) -> datetime:
    try:
        return datetime.fromtimestamp(float(seconds), UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.now(UTC)
