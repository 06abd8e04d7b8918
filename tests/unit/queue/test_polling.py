"""The loop of background tasks goes on after faults, is woken, and ends when it is told to."""

import asyncio

import pytest

from scrubjay.errors import Unavailable
from scrubjay.queue.polling import PollLoop

NEVER = 3600.0


async def test_a_step_that_did_something_is_repeated_at_once() -> None:
    answers = [True, True, False]
    idle = asyncio.Event()

    async def step() -> bool:
        busy = answers.pop(0)
        if not busy:
            idle.set()
        return busy

    loop = PollLoop("test", step, poll_seconds=NEVER)
    loop.start()
    async with asyncio.timeout(10):
        await idle.wait()
        await loop.stop()
    assert answers == []
    assert loop.is_done


async def test_a_wake_up_ends_the_wait() -> None:
    steps: asyncio.Queue[int] = asyncio.Queue()

    async def step() -> None:
        steps.put_nowait(1)

    loop = PollLoop("test", step, poll_seconds=NEVER)
    loop.start()
    async with asyncio.timeout(10):
        await steps.get()
        loop.wake()
        await steps.get()
        await loop.stop()


@pytest.mark.parametrize("fault", [Unavailable("away"), OSError("no disk"), ValueError("a bug")])
async def test_the_loop_goes_on_after_a_fault(fault: Exception) -> None:
    recovered = asyncio.Event()
    faults = [fault]

    async def step() -> None:
        if faults:
            raise faults.pop()
        recovered.set()

    loop = PollLoop("test", step, poll_seconds=NEVER, fault_seconds=0)
    loop.start()
    async with asyncio.timeout(10):
        await recovered.wait()
        await loop.stop()


async def test_stopping_lets_a_step_end_and_cancelling_does_not() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def step() -> None:
        begun.set()
        await asyncio.sleep(0)
        ended.set()

    loop = PollLoop("test", step, poll_seconds=NEVER)
    loop.start()
    async with asyncio.timeout(10):
        await begun.wait()
        await loop.stop()
        assert ended.is_set()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    begun.clear()
    stuck = PollLoop("test", endless, poll_seconds=NEVER)
    stuck.start()
    async with asyncio.timeout(10):
        await begun.wait()
        await stuck.stop(cancel=True)
    assert stuck.is_done
