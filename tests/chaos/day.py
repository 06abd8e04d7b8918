"""A day of a cluster in minutes: faults come as they would in 24 hours, and only the idle time between them is skipped.

The waiting between faults is shortened; faults, restarts, timeouts and recoveries take the time that they take.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos import checks
from tests.chaos.arena import Arena
from tests.chaos.faults import Fault, all_faults
from tests.chaos.traffic import Traffic

from scrubjay.model.plan import Operation

MINUTES_BETWEEN_FAULTS = 20.0  # on average
HOUR_SECONDS = 10.0  # what is left of an hour before everything has to settle
SHORTEST_SECONDS, LONGEST_SECONDS = 0.5, 4.0  # of a fault


@dataclass
class Day:
    hours: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    settle_seconds: list[float] = field(default_factory=list)
    pages: int = 0
    notes: int = 0
    told: int = 0
    seconds: float = 0.0


async def spend_day(arena: Arena, traffic: Traffic, chance: random.Random, hours: int, most_minutes: float) -> Day:
    day, began_at = Day(), time.monotonic()
    await checks.catch_up(arena)
    bag: list[Fault] = []
    for hour in range(1, hours + 1):
        if time.monotonic() - began_at > 60 * most_minutes:
            break
        due = [(moment, _draw(bag, arena, chance)) for moment in _moments(chance)]
        try:
            await _spend_hour(arena, traffic, chance, due, day)
        except AssertionError as error:
            error.add_note(f"in hour {hour}, with {[f'{moment:.1f} s {fault}' for moment, fault in due]}")
            raise
        day.hours = hour
        print(f"hour {hour}: {len(due)} faults, settled after {day.settle_seconds[-1]:.1f} s", flush=True)
    day.answers = Counter(traffic.answers)
    day.pages, day.notes, day.told = len(arena.pages.texts), len(traffic.acknowledged), len(arena.receiver.told)
    day.seconds = time.monotonic() - began_at
    return day


def _moments(chance: random.Random) -> Sequence[float]:
    """When faults come in one hour, in seconds of ours."""
    moments, minutes = [], chance.expovariate(1 / MINUTES_BETWEEN_FAULTS)
    while minutes < 60:
        moments.append(minutes / 60 * HOUR_SECONDS)
        minutes += chance.expovariate(1 / MINUTES_BETWEEN_FAULTS)
    return moments


def _draw(bag: list[Fault], arena: Arena, chance: random.Random) -> Fault:
    """Each fault once before any comes again."""
    if not bag:
        bag += all_faults(arena)
        chance.shuffle(bag)
    return bag.pop()


async def _spend_hour(
    arena: Arena, traffic: Traffic, chance: random.Random, due: Sequence[tuple[float, Fault]], day: Day
) -> None:
    pages, already, ended_runs = set(arena.pages.texts), len(arena.fetches()), sum(day.runs.values())
    over = asyncio.Event()
    running = asyncio.create_task(_run_again_and_again(arena, day, over))
    busy: dict[str, asyncio.Lock] = {}
    harms = [
        _strike(arena, moment, fault, chance.uniform(SHORTEST_SECONDS, LONGEST_SECONDS), busy) for moment, fault in due
    ]
    try:
        await asyncio.gather(asyncio.sleep(HOUR_SECONDS), *harms)
    finally:
        over.set()
    lifted_at = time.monotonic()
    day.faults.update(str(fault) for _, fault in due)
    last = await running
    async with traffic.held():
        await checks.settle(arena)
        day.settle_seconds.append(time.monotonic() - lifted_at)
        await checks.compare(arena, traffic)
        await checks.nothing_is_gone(arena, pages)
        runs = sum(day.runs.values()) - ended_runs
        if not checks.saw_everything(last):
            runs += await checks.catch_up(arena)
            await checks.settle(arena)
            await checks.compare(arena, traffic)
        await checks.compare_with_site(arena)
    checks.fetched_at_most(arena, already, runs + 3 * len(due))


async def _run_again_and_again(arena: Arena, day: Day, over: asyncio.Event) -> Operation:
    """The site changes, a run sees it, and so on until the hour is over."""
    while True:
        arena.pages.change()
        ended = await checks.finish_run(arena, await checks.start_run(arena))
        day.runs[str(ended.state)] += 1
        if over.is_set():
            return ended


async def _strike(arena: Arena, moment: float, fault: Fault, seconds: float, busy: dict[str, asyncio.Lock]) -> None:
    await asyncio.sleep(moment)
    # Two faults of one thing come after each other; faults of different things may come together.
    async with busy.setdefault(fault.target, asyncio.Lock()):
        await fault.begin(arena)
        await asyncio.sleep(seconds)
        await fault.lift(arena)
