"""Crawls give way while somebody asks and the process is behind; not otherwise, and never for long."""

import asyncio
import time

import pytest

from scrubjay.queue import courtesy


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courtesy, "_asked_at", float("-inf"))


async def keep_busy() -> None:
    while True:
        time.sleep(0.08)  # that nothing else runs meanwhile is the point
        await asyncio.sleep(0)


async def seconds_of_giving_way() -> float:
    began = time.monotonic()
    await courtesy.give_way()
    return time.monotonic() - began


async def test_nobody_asks_and_nothing_waits() -> None:
    busy = asyncio.create_task(keep_busy())
    assert await seconds_of_giving_way() < courtesy.PROBE_SECONDS
    busy.cancel()


async def test_somebody_asks_and_the_process_keeps_up() -> None:
    courtesy.note_request()
    assert await seconds_of_giving_way() < courtesy.PAUSE_SECONDS


async def test_somebody_asks_and_the_process_is_behind() -> None:
    courtesy.note_request()
    busy = asyncio.create_task(keep_busy())
    waited = await seconds_of_giving_way()
    busy.cancel()
    assert courtesy.PAUSE_SECONDS < waited < courtesy.MOST_SECONDS + 1


async def test_who_asked_long_ago_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courtesy, "_asked_at", time.monotonic() - courtesy.ASKED_SECONDS)
    busy = asyncio.create_task(keep_busy())
    assert await seconds_of_giving_way() < courtesy.PROBE_SECONDS
    busy.cancel()
