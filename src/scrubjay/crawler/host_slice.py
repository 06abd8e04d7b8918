"""A host slice: the job that requests the pages of some hosts of a crawl, until others need these hosts.

All jobs of a crawl share its frontier, but a host belongs to one of them at a time (`sliced_crawl.py` hands hosts out),
so the fence of a slice's job covers everything that it does.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.storage.shared_crawls import SharedCrawls

SLICE_KIND = "crawl_slice"
SLICES_PER_WORKER = 2  # at once; a crawl makes as many for each worker, so all workers have the same number
LINGER_SECONDS = 0.5  # how long a slice without work waits for links that others find
LINGER_LOOK_SECONDS = 0.1
MOST_GRANTED = 500


class PageBudget:
    """The pages of a crawl's `max_pages` that one of its jobs may request."""

    def __init__(self, crawl_id: str, max_pages: int, parts: int, granted: int = 0) -> None:
        self.granted = granted
        self.is_used_up = False  # no page was left in the crawl's budget when one was wanted
        self._crawl_id = crawl_id
        self._max_pages = max_pages
        self._parts = parts

    async def ask(self, connection: AsyncConnection, wanted: int, granted: int) -> None:
        """Ask for more pages, and for a reserve while most of the crawl's budget is left.

        `granted` is what all jobs of the crawl have by now.
        """
        self.is_used_up = False
        if wanted <= 0:
            return
        left = self._max_pages - granted
        reserve = min(MOST_GRANTED, left // (4 * self._parts))
        crawls = SharedCrawls(connection)
        given = await crawls.grant(self._crawl_id, max(wanted, reserve), self._max_pages) if left > 0 else 0
        self.granted += given
        self.is_used_up = not given

    async def give_back(self, connection: AsyncConnection, used: int) -> None:
        """Leave to others what this job did not use."""
        await SharedCrawls(connection).give_back(self._crawl_id, self.granted - used)
        self.granted = used


class HostSlice:
    """One run of a slice. `state` is what an earlier run of the same job remembered."""

    def __init__(
        self, job_id: str, crawl_id: str, payload: Mapping[str, Any], max_pages: int, state: Mapping[str, Any]
    ) -> None:
        self.crawl_id = crawl_id
        self._job_id = job_id
        self.hosts = frozenset(payload["hosts"])
        self.spent: Mapping[str, int] = payload["spent"]  # host → pages that the crawl has requested before
        self.budget = PageBudget(crawl_id, max_pages, int(payload["parts"]), int(state.get("granted", 0)))
        self.is_over = False  # the crawl is
        self.yields = False  # it ends early, because others need its hosts
        self._idle_since: float | None = None

    @property
    def state(self) -> Mapping[str, Any]:
        return {"granted": self.budget.granted}

    async def look(self, connection: AsyncConnection, wanted: int) -> Sequence[str]:
        """Whether the crawl is over, more of the budget if needed; returns where its starts redirected to."""
        known = await SharedCrawls(connection).find_by_job(self.crawl_id)
        self.is_over = known is None or known.is_over
        if known is None:
            return ()
        self.yields = self.yields or self._job_id in known.yielding
        await self.budget.ask(connection, 0 if self.is_over else wanted, known.granted)
        return known.roots

    def note_work(self) -> None:
        self._idle_since = None

    async def linger(self) -> bool:
        """Wait a moment for links that other jobs find; false when this slice is to end."""
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        if self.is_over or self.budget.is_used_up:
            return False
        await asyncio.sleep(LINGER_LOOK_SECONDS)
        return now - self._idle_since < LINGER_SECONDS
