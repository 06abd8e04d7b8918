"""What `/metrics` shows: what this process counted, and a few numbers that only the database knows.

Those are asked for when somebody scrapes, and not more often than every few seconds however many do. How stale plans
are takes longer to find out: that happens beside, and processes that share a cache share the answer.
"""

import asyncio
import json
import math
import time
from collections.abc import Mapping
from contextlib import suppress

from prometheus_client import generate_latest
from sqlalchemy.exc import SQLAlchemyError

from scrubjay.errors import Forbidden, ScrubjayError
from scrubjay.model.clock import utc_now
from scrubjay.model.plan import Plan
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Principal, Scope
from scrubjay.plans.freshness import expected_staleness
from scrubjay.services.access import require
from scrubjay.storage.cache import Cache
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.database import Database
from scrubjay.storage.documents import Documents
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.plans import Plans
from scrubjay.telemetry import crawl_meter, get_logger, registry
from scrubjay.telemetry.crawls import CRAWL_KINDS
from scrubjay.telemetry.metrics import (
    index_backlog_documents,
    index_chunks,
    index_lag_seconds,
    jobs_pending,
    metrics_failures_total,
    plan_staleness_ratio,
    plans_staleness_mean_ratio,
)

QUICK_SECONDS = 5.0
SLOW_SECONDS = 300.0
FRESHNESS_KEY = "metrics:freshness"
MOST_PLANS = 50  # whose staleness is estimated: those that ran last
SHOWN_PLANS = 20  # the stalest of them, by name
SAMPLE = 2000  # keys that speak for all of a plan's
_FAULTS = (ScrubjayError, SQLAlchemyError, OSError)

log = get_logger(__name__)


class Metrics:
    def __init__(self, database: Database, cache: Cache) -> None:
        self._database = database
        self._cache = cache
        self._turn = asyncio.Lock()
        self._quick_at = self._slow_at = -math.inf
        self._slow: asyncio.Task[None] | None = None

    async def exposition(self, principal: Principal) -> bytes:
        """Everything in Prometheus' text format."""
        require(principal, Scope.READ)
        if principal.tenant_id != DEFAULT_TENANT_ID:
            raise Forbidden("Metrics speak of every tenant; only keys of the default tenant may read them.")
        await self.refresh()
        return generate_latest(registry)

    async def refresh(self) -> None:
        """Ask for what only the database knows, unless somebody just did."""
        crawl_meter.forget_old()
        async with self._turn:
            if time.monotonic() - self._quick_at >= QUICK_SECONDS:
                await self._refresh_quick()
                self._quick_at = time.monotonic()
            if time.monotonic() - self._slow_at >= SLOW_SECONDS and (self._slow is None or self._slow.done()):
                self._slow_at = time.monotonic()
                self._slow = asyncio.create_task(self._refresh_slow(), name="metrics.slow")

    async def close(self) -> None:
        """Waits for what is being asked: a statement that is cut off would leave its connection open."""
        if self._slow is not None:
            await self._slow

    async def _refresh_quick(self) -> None:
        try:
            async with self._database.reading() as connection:
                pending = await Jobs(connection).pending_by_kind()
                backlog = await Documents(connection).due_count()
                oldest = await Documents(connection).oldest_due()
        except _FAULTS as error:
            self._miss(error)
            # An old number would look like a true one.
            _show_pending({})
            for gauge in (index_backlog_documents, index_lag_seconds):
                gauge.set(math.nan)
            crawl_meter.set_queue_depth(math.nan)
            return
        _show_pending(pending)
        crawl_meter.set_queue_depth(sum(pending.get(kind, 0) for kind in CRAWL_KINDS))
        index_backlog_documents.set(backlog)
        index_lag_seconds.set(0.0 if oldest is None else max(0.0, (utc_now() - oldest).total_seconds()))

    async def _refresh_slow(self) -> None:
        try:
            async with self._database.reading() as connection:
                index_chunks.set(await Chunks(connection).count())
            _show_staleness(await self._staleness())
        except _FAULTS as error:
            self._miss(error)

    async def _staleness(self) -> Mapping[str, float]:
        """How stale plans probably are, by id; as another process found out if it did so just now."""
        kept = None
        with suppress(ScrubjayError):
            kept = await self._cache.get(FRESHNESS_KEY)
        if kept is not None:
            shared: Mapping[str, float] = json.loads(kept)
            return shared
        now, found = utc_now(), dict[str, float]()
        for plan in await self._latest_plans():
            found[plan.id] = await expected_staleness(
                self._database, plan.id, plan.last_complete_at, now, sample=SAMPLE
            )
        with suppress(ScrubjayError):
            await self._cache.set(FRESHNESS_KEY, json.dumps(found).encode(), ttl_seconds=SLOW_SECONDS * 0.9)
        return found

    async def _latest_plans(self) -> list[Plan]:
        latest: list[Plan] = []
        after = ""
        while True:
            async with self._database.reading() as connection:
                page = await Plans(connection).all(after)
            if not page:
                return latest
            ran = [plan for plan in page if plan.last_crawl_finish_at is not None]
            latest = sorted([*latest, *ran], key=_finish, reverse=True)[:MOST_PLANS]
            after = page[-1].id

    @staticmethod
    def _miss(error: Exception) -> None:
        metrics_failures_total.inc()
        log.warning("metrics were not refreshed", reason=str(error))


def _finish(plan: Plan) -> float:
    return 0.0 if plan.last_crawl_finish_at is None else plan.last_crawl_finish_at.timestamp()


def _show_pending(pending: Mapping[str, int]) -> None:
    jobs_pending.clear()
    for kind, number in pending.items():
        jobs_pending.labels(kind=kind).set(number)


def _show_staleness(found: Mapping[str, float]) -> None:
    plan_staleness_ratio.clear()
    for plan_id, share in sorted(found.items(), key=lambda entry: -entry[1])[:SHOWN_PLANS]:
        plan_staleness_ratio.labels(plan_id=plan_id).set(share)
    plans_staleness_mean_ratio.set(sum(found.values()) / len(found) if found else 0.0)
