"""How fresh a budget of requests keeps a site: adaptive plans against round robin and against random order.

A simulated site of 10,000 pages whose change rates follow a Pareto distribution. All policies have the same requests
a day, begin with one complete crawl, and know only what their own looks told them. Adaptive is the product's own
estimate and choice (`plans/freshness.py`). Staleness is the share of pages that changed since they were looked
at, averaged over time; age is how long that has been so.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scrubjay.plans.change_rates import DEFAULT_RATE, PRIOR_CHANGES, estimate_rates, gains, staleness
from scrubjay.storage.ledger import MAX_INTERVALS

HOUR = 3600.0
DAY = 24 * HOUR

Floats = NDArray[np.float64]
Choose = Callable[["Memory", float, int], NDArray[np.int64]]


@dataclass
class Memory:
    """What the looks so far have told, page by page: the ledger's columns."""

    pages: int
    looked_at: Floats = field(init=False)
    unchanged: Floats = field(init=False)
    intervals: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.looked_at = np.zeros(self.pages)
        self.unchanged = np.zeros(self.pages)
        self.intervals = np.zeros((self.pages, MAX_INTERVALS))

    def note(self, chosen: NDArray[np.int64], changed: NDArray[np.bool_], now: float) -> None:
        waited = now - self.looked_at[chosen]
        self.unchanged[chosen[~changed]] += waited[~changed]
        hit = chosen[changed]
        self.intervals[hit] = np.roll(self.intervals[hit], 1, axis=1)
        self.intervals[hit, 0] = waited[changed]
        self.looked_at[chosen] = now

    def rates(self) -> Floats:
        seconds = self.unchanged.sum() + self.intervals.sum() + PRIOR_CHANGES / DEFAULT_RATE
        return estimate_rates(self.unchanged, self.intervals, ((self.intervals > 0).sum() + PRIOR_CHANGES) / seconds)


def round_robin(memory: Memory, now: float, number: int) -> NDArray[np.int64]:
    return np.argsort(memory.looked_at, kind="stable")[:number]


def random_order(memory: Memory, now: float, number: int) -> NDArray[np.int64]:
    return np.random.default_rng(int(now)).choice(memory.pages, number, replace=False)


def adaptive(memory: Memory, now: float, number: int) -> NDArray[np.int64]:
    return np.argsort(-gains(memory.rates(), now - memory.looked_at), kind="stable")[:number]


def simulate(choose: Choose, rates: Floats, requests_per_day: int, days: int, seed: int) -> tuple[float, float, float]:
    """Mean staleness and mean age in hours over the second half, and what the estimate says at the end."""
    chance = np.random.default_rng(seed)
    memory = Memory(len(rates))
    next_change = chance.exponential(1 / rates)
    stale_since = np.full(len(rates), np.inf)
    shares, ages = [], []
    for hour in range(1, days * 24 + 1):
        now = hour * HOUR
        stale_since = np.minimum(stale_since, np.where(next_change <= now, next_change, np.inf))
        chosen = choose(memory, now, requests_per_day // 24)
        changed = next_change[chosen] <= now
        memory.note(chosen, changed, now)
        stale_since[chosen] = np.inf
        next_change[chosen[changed]] = now + chance.exponential(1 / rates[chosen[changed]])
        if hour > days * 12:
            is_stale = np.isfinite(stale_since)
            shares.append(is_stale.mean())
            ages.append(np.where(is_stale, now - np.where(is_stale, stale_since, now), 0).mean() / HOUR)
    told = staleness(memory.rates(), days * DAY - memory.looked_at)
    return float(np.mean(shares)), float(np.mean(ages)), told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--budgets", type=int, nargs="+", default=[2_000, 5_000, 10_000])
    parser.add_argument("--slowest-days", type=float, default=365.0, help="mean days between changes of the slowest")
    parser.add_argument("--alpha", type=float, default=0.5, help="the Pareto distribution's shape")
    options = parser.parse_args()
    chance = np.random.default_rng(5)
    rates = np.minimum((1 + chance.pareto(options.alpha, options.pages)) / (options.slowest_days * DAY), 1 / HOUR)
    print(f"{options.pages:,} pages, {options.days} days, median change every {1 / np.median(rates) / DAY:.0f} days")
    print(f"{'requests/day':>12} {'policy':>12} {'stale':>8} {'age h':>8} {'estimate':>9}   against adaptive")
    for budget in options.budgets:
        found = {
            choose.__name__: simulate(choose, rates, budget, options.days, 3)
            for choose in (adaptive, round_robin, random_order)
        }
        for name, (share, age, told) in found.items():
            less = "" if name == "adaptive" else f"{100 * (1 - found['adaptive'][0] / share):.0f} % less stale"
            print(f"{budget:>12,} {name:>12} {share:8.3f} {age:8.1f} {told:9.3f}   {less}")


if __name__ == "__main__":
    main()
