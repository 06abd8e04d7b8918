"""One fault in the middle of a run, of uploads and of searches: what it does, and how long until it is over."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

from tests.chaos import checks
from tests.chaos.arena import Arena
from tests.chaos.faults import Fault
from tests.chaos.traffic import Traffic

MIDDLE_FETCHES = 8
GOES_ON_SECONDS = 90.0


@dataclass(frozen=True)
class Recovery:
    """How a fault went. Seconds count from the moment that its cause was gone."""

    fault: str
    lasted_seconds: float
    goes_on_seconds: float  # until a document was added and found by search again
    settled_seconds: float  # until the run was over, everything indexed and everybody told
    answers: dict[str, int]  # what clients were told while it lasted
    run: str  # how the run ended that was in the middle of it
    runs_after: int  # that it took to see the whole site again


async def endure(arena: Arena, traffic: Traffic, fault: Fault | None) -> Recovery:
    pages, already = set(arena.pages.texts), len(arena.fetches())
    arena.pages.change()
    operation = await checks.start_run(arena)
    await _reach_the_middle(arena, already)
    before, began_at = Counter(traffic.answers), time.monotonic()
    if fault is not None:
        await fault.begin(arena)
    await asyncio.sleep(fault.seconds if fault else 1.0)
    if fault is not None:
        await fault.lift(arena)
    lifted_at, meanwhile = time.monotonic(), traffic.answers - before
    await _goes_on(traffic, lifted_at)
    goes_on_seconds = time.monotonic() - lifted_at
    ended = await checks.finish_run(arena, operation)
    async with traffic.held():
        await checks.settle(arena)
        settled_seconds = time.monotonic() - lifted_at
        await checks.compare(arena, traffic)
        await checks.nothing_is_gone(arena, pages)
        runs_after = 0
        if not checks.saw_everything(ended):
            runs_after = await checks.catch_up(arena)
            await checks.settle(arena)
            await checks.compare(arena, traffic)
        await checks.compare_with_site(arena)
    checks.fetched_at_most(arena, already, 4 * (1 + runs_after))
    return Recovery(
        fault=str(fault or "nothing"),
        lasted_seconds=lifted_at - began_at,
        goes_on_seconds=goes_on_seconds,
        settled_seconds=settled_seconds,
        answers=dict(meanwhile),
        run=str(ended.state),
        runs_after=runs_after,
    )


async def _reach_the_middle(arena: Arena, already: int) -> None:
    async def there() -> bool:
        return len(arena.fetches()) >= already + MIDDLE_FETCHES

    await checks.persist(there, "the run is in its middle")


async def _goes_on(traffic: Traffic, since: float) -> None:
    async def both() -> bool:
        return min(traffic.added_at, traffic.found_at) > since

    await checks.persist(both, "documents are added and found again", GOES_ON_SECONDS)
