"""How often keys change, how stale a plan probably is, and which keys are worth a request now.

A key's changes are taken for a Poisson process. Looks at unequal intervals only tell whether it changed in between;
its rate is estimated from them by expectation maximisation, drawn towards the plan's own mean while little is known.
The gain of looking at a key is the derivative of its expected freshness with respect to how often it is looked at:
looking always at the key with the largest gain keeps the most keys fresh within a budget (docs/plans.md).
"""

import heapq
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from scrubjay.storage.database import Database
from scrubjay.storage.ledger import Ledger, LedgerHistory

MAX_INTERVALS = 8  # changes whose intervals are kept for a key
PRIOR_CHANGES = 0.5
DEFAULT_RATE = 1 / (14 * 86_400)  # a change in two weeks, where nothing is known at all
SAMPLE = 20_000
_ROUNDS = 25
_PAGE = 5_000

Floats = NDArray[np.float64]


def estimate_rates(unchanged: Floats, intervals: Floats, mean_rate: float) -> Floats:
    """Changes per second. `intervals` has a row per key, with zeros where it has fewer of them."""
    prior_seconds = PRIOR_CHANGES / max(mean_rate, 1e-12)
    happened = intervals > 0
    seconds = unchanged + intervals.sum(axis=1) + prior_seconds
    rates = (PRIOR_CHANGES + happened.sum(axis=1)) / seconds
    for _ in range(_ROUNDS):
        # An interval in which something changed may hide several changes: how many are to be expected?
        expected = rates[:, None] * intervals
        expected = np.where(happened, expected / -np.expm1(-np.maximum(expected, 1e-12)), 0.0)
        rates = (PRIOR_CHANGES + expected.sum(axis=1)) / seconds
    return np.asarray(rates)


def gains(rates: Floats, waited_seconds: Floats) -> Floats:
    """What a look at each key is worth: its expected freshness gained per request, in seconds."""
    x = rates * np.maximum(waited_seconds, 0.0)
    return np.asarray((-np.expm1(-x) - x * np.exp(-x)) / np.maximum(rates, 1e-12))


def staleness(rates: Floats, waited_seconds: Floats) -> float:
    """The share of keys that have probably changed since they were looked at."""
    if not len(rates):
        return 0.0
    return float(np.mean(-np.expm1(-rates * np.maximum(waited_seconds, 0.0))))


def mean_rate(histories: Sequence[LedgerHistory]) -> float:
    """How often the keys of a plan change on average."""
    changes = sum(len(each.change_intervals) for each in histories)
    seconds = sum(each.unchanged_seconds + sum(each.change_intervals) for each in histories)
    return (changes + PRIOR_CHANGES) / (seconds + PRIOR_CHANGES / DEFAULT_RATE)


def _measure(
    histories: Sequence[LedgerHistory], mean: float, looked_at: datetime | None, now: datetime
) -> tuple[Floats, Floats]:
    """The rate of each key, and how long nobody looked at it. A complete run has looked at all of them."""
    intervals = np.zeros((len(histories), MAX_INTERVALS))
    unchanged, waited = np.zeros(len(histories)), np.zeros(len(histories))
    for row, each in enumerate(histories):
        last = each.last_seen_at if looked_at is None else max(each.last_seen_at, looked_at)
        unchanged[row] = each.unchanged_seconds + max(0.0, (last - each.last_seen_at).total_seconds())
        waited[row] = (now - last).total_seconds()
        recent = each.change_intervals[-MAX_INTERVALS:]
        intervals[row, : len(recent)] = recent
    return estimate_rates(unchanged, intervals, mean), waited


async def expected_staleness(
    database: Database, plan_id: str, looked_at: datetime | None, now: datetime, *, sample: int = SAMPLE
) -> float:
    """How much of what a plan has is probably out of date. Of a large plan, a part of the keys speaks for all."""
    histories: list[LedgerHistory] = []
    async for page in _pages(database, plan_id, min(_PAGE, sample)):
        histories += page
        if len(histories) >= sample:
            break
    rates, waited = _measure(histories, mean_rate(histories), looked_at, now)
    return staleness(rates, waited)


async def choose_keys(
    database: Database, plan_id: str, looked_at: datetime | None, now: datetime, number: int
) -> list[tuple[float, str, str]]:
    """The keys that are most worth a look, best first: gain, hash, key."""
    mean: float | None = None
    best: list[tuple[float, str, str]] = []
    async for page in _pages(database, plan_id):
        if mean is None:
            mean = mean_rate(page)  # hashes are in no order of their own: the first page speaks for all
        worth = gains(*_measure(page, mean, looked_at, now))
        best = heapq.nlargest(
            number,
            [*best, *((float(gain), each.key_hash, each.key) for gain, each in zip(worth, page, strict=True))],
        )
    return best


async def _pages(database: Database, plan_id: str, size: int = _PAGE) -> AsyncIterator[Sequence[LedgerHistory]]:
    after = ""
    while True:
        async with database.reading() as connection:
            page = await Ledger(connection).history(plan_id, after=after, limit=size)
        if not page:
            return
        yield page
        after = page[-1].key_hash
