"""How stale a plan probably is, and which of its keys are worth a request now.

How often each of them changes is estimated in `change_rates.py`, which is imported late: it calculates with numpy.
The gain of looking at a key is the derivative of its expected freshness with respect to how often it is looked at:
looking always at the key with the largest gain keeps the most keys fresh within a budget (docs/plans.md).
"""

import heapq
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from scrubjay.storage.database import Database
from scrubjay.storage.ledger import Ledger, LedgerHistory

SAMPLE = 20_000
_PAGE = 5_000


async def expected_staleness(
    database: Database, plan_id: str, looked_at: datetime | None, now: datetime, *, sample: int = SAMPLE
) -> float:
    """How much of what a plan has is probably out of date. Of a large plan, a part of the keys speaks for all."""
    from scrubjay.plans.change_rates import mean_rate, measure, staleness

    histories: list[LedgerHistory] = []
    async for page in _pages(database, plan_id, min(_PAGE, sample)):
        histories += page
        if len(histories) >= sample:
            break
    rates, waited = measure(histories, mean_rate(histories), looked_at, now)
    return staleness(rates, waited)


async def choose_keys(
    database: Database, plan_id: str, looked_at: datetime | None, now: datetime, number: int
) -> list[tuple[float, str, str]]:
    """The keys that are most worth a look, best first: gain, hash, key."""
    from scrubjay.plans.change_rates import gains, mean_rate, measure

    mean: float | None = None
    best: list[tuple[float, str, str]] = []
    async for page in _pages(database, plan_id):
        if mean is None:
            mean = mean_rate(page)  # hashes are in no order of their own: the first page speaks for all
        worth = gains(*measure(page, mean, looked_at, now))
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
