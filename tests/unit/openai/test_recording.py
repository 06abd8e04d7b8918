"""A response is recognised in whatever pieces it comes, and passed on unchanged."""

import json
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from scrubjay.openai import recording
from scrubjay.openai.recording import recorded
from scrubjay.openai.relay import Relayed

RESPONSE = {"id": "resp_1", "object": "response", "output": [{"text": "ä" * 50}]}
EVENTS = [
    {"type": "response.created", "response": {"id": "resp_1"}},
    {"type": "response.completed", "response": RESPONSE},
]
STREAM = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in EVENTS).encode() + b": bye\n\n"


async def passed(body: bytes, kind: str, sizes: random.Random) -> tuple[bytes, list[Mapping[str, Any]]]:
    kept: list[Mapping[str, Any]] = []

    async def chunks() -> AsyncIterator[bytes]:
        at = 0
        while at < len(body):
            size = sizes.randint(1, 40)
            yield body[at : at + size]
            at += size

    async def keep(response: Mapping[str, Any]) -> None:
        kept.append(response)

    answer = recorded(Relayed(200, [("Content-Type", kind)], chunks()), keep)
    return b"".join([chunk async for chunk in answer.chunks]), kept


@pytest.mark.parametrize("seed", range(10))
async def test_any_cut_gives_the_same_bytes_and_the_same_response(seed: int) -> None:
    sizes = random.Random(seed)
    assert await passed(STREAM, "text/event-stream; charset=utf-8", sizes) == (STREAM, [RESPONSE])
    whole = json.dumps(RESPONSE).encode()
    assert await passed(whole, "application/json", sizes) == (whole, [RESPONSE])


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"data: {\n\n", b"\xff\xfe", b"data: response." + b"x" * 500 + b"\n"]
)
async def test_what_is_no_response_is_passed_on_and_not_kept(body: bytes) -> None:
    for kind in ("application/json", "text/event-stream"):
        assert await passed(body, kind, random.Random(1)) == (body, [])


async def test_what_is_too_long_is_passed_on_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_BYTES", 50)
    for body, kind in ((STREAM, "text/event-stream"), (json.dumps(RESPONSE).encode(), "application/json")):
        assert await passed(body, kind, random.Random(1)) == (body, [])
