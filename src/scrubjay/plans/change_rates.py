"""How often keys change: each by a Poisson process, whose rate is estimated from looks at unequal intervals by
expectation maximisation. A look only tells whether it changed since; while little is known, the plan's mean counts.
"""

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from scrubjay.storage.ledger import MAX_INTERVALS, LedgerHistory

PRIOR_CHANGES = 0.5
DEFAULT_RATE = 1 / (14 * 86_400)  # a change in two weeks, where nothing is known at all
_ROUNDS = 25

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


def measure(
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
