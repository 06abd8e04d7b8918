"""Change rates from looks at unequal intervals, what a look is worth, and how stale a plan is."""

import numpy as np
import pytest

from scrubjay.plans.change_rates import estimate_rates, gains, staleness
from scrubjay.storage.ledger import MAX_INTERVALS

DAY = 86_400.0


def padded(*intervals: float) -> list[float]:
    return [*intervals, *([0.0] * (MAX_INTERVALS - len(intervals)))]


def test_rates_are_found_again_from_looks_at_unequal_intervals() -> None:
    chance = np.random.default_rng(1)
    true = np.repeat([0.05, 0.5, 2.0], 300) / DAY
    unchanged, intervals = np.zeros(900), np.zeros((900, MAX_INTERVALS))
    for _ in range(40):
        apart = chance.uniform(0.2, 3.0, 900) * DAY
        changed = chance.random(900) < -np.expm1(-true * apart)
        room = (intervals > 0).sum(axis=1) < MAX_INTERVALS
        unchanged += np.where(~changed, apart, 0)
        for row in np.flatnonzero(changed & room):
            intervals[row, int((intervals[row] > 0).sum())] = apart[row]
    slow = estimate_rates(unchanged, intervals, 0.5 / DAY)[:300]
    assert np.median(slow) * DAY == pytest.approx(0.05, rel=0.3)


def test_what_changed_more_often_in_the_same_time_changes_faster() -> None:
    unchanged = np.array([10.0, 9.0, 8.0]) * DAY
    intervals = np.array([padded(), padded(DAY), padded(DAY, DAY)])
    never, once, twice = estimate_rates(unchanged, intervals, 1 / (14 * DAY))
    assert never < once < twice


def test_a_key_of_which_little_is_known_is_taken_for_an_average_one() -> None:
    [rate] = estimate_rates(np.zeros(1), np.zeros((1, MAX_INTERVALS)), 1 / DAY)
    assert rate == pytest.approx(1 / DAY)


def test_a_look_is_worth_more_the_longer_nobody_looked_and_nothing_right_after_one() -> None:
    rates = np.full(3, 1 / DAY)
    none, some, more = gains(rates, np.array([0.0, DAY, 5 * DAY]))
    assert none == 0
    assert some < more


def test_what_changes_faster_than_anybody_could_look_is_not_worth_the_requests() -> None:
    steady, hectic = gains(np.array([1 / DAY, 1000 / DAY]), np.array([DAY, DAY]))
    assert steady > hectic


def test_staleness_is_the_share_that_has_probably_changed() -> None:
    assert staleness(np.array([1 / DAY]), np.array([0.0])) == 0
    assert staleness(np.array([1 / DAY, 1 / DAY]), np.array([0.0, 1e9])) == pytest.approx(0.5)
    assert staleness(np.array([]), np.array([])) == 0
