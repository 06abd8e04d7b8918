"""The clock of watches: takes those that are due in leased batches, so that several processes share them.

Any process that runs jobs may do so. What a process had that died is due again when its lease ends.
"""

import asyncio
import time
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from scrubjay.errors import Conflict, ScrubjayError
from scrubjay.model.ids import new_id
from scrubjay.model.watching import ThrottleLevel, Watch
from scrubjay.queue.polling import PollLoop
from scrubjay.settings import Settings
from scrubjay.storage.database import Database
from scrubjay.storage.turns import TurnTaker
from scrubjay.storage.watches import Stories, Watches, WatchItems
from scrubjay.telemetry import get_logger
from scrubjay.watches.brake import read_brake
from scrubjay.watches.desk import NewsDesk
from scrubjay.watches.poll import Poller, PollOutcome, PollStatus
from scrubjay.watches.sorting import TOO_OLD

LOOK_SECONDS = 1.0
LEASE = timedelta(minutes=2)  # renewed while a poll is under way
RENEW_SECONDS = 30.0
LONG_LEASE = timedelta(minutes=15)  # of a poll that somebody asked for: longer than the longest
AGAIN = timedelta(seconds=30)  # after a failure that is not the source's
OUR_FAULT = "The poll failed on our side; the log has the details."
WAITING_SECONDS = 10.0
TIDY_SECONDS = 60.0
FORGET_SECONDS = 3600.0

log = get_logger(__name__)


class Watcher:
    def __init__(
        self,
        database: Database,
        settings: Settings,
        poller: Poller,
        desk: NewsDesk,
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._database = database
        self._settings = settings
        self._poller = poller
        self._desk = desk
        self._turns = TurnTaker(database, poller.clock)
        self._loop = PollLoop("watches", self._look, poll_seconds=look_seconds)
        self._lease = new_id("wrk")
        self._polls: dict[asyncio.Task[None], str] = {}  # with the ids of their watches
        self._renewed_at = 0.0

    async def start(self, *, alone: bool = False) -> None:
        """Begin to look. `alone` says that no other process can have taken watches."""
        if alone:
            async with self._database.writing() as connection:
                await Watches(connection).free_leases(self._now())
        self._loop.start()

    async def stop(self) -> None:
        """Polls that are under way are finished, within the time that a stopping worker has; the rest is due later."""
        await self._loop.stop()
        if not self._polls:
            return
        _, late = await asyncio.wait(self._polls, timeout=self._settings.shutdown_grace_seconds)
        cut_off = {poll: self._polls[poll] for poll in late}
        for poll in cut_off:
            poll.cancel()
        await asyncio.gather(*cut_off, return_exceptions=True)
        for watch_id in cut_off.values():
            await self._release(watch_id, self._lease, timedelta(0))

    def _now(self) -> datetime:
        return self._poller.clock()

    async def _look(self) -> bool:
        """Start due polls; true when there may be more to start."""
        taken = await self._begin_due()
        await self._renew()
        await self._take_turns()
        return taken > 0 and len(self._polls) < self._settings.watch_concurrency

    async def _renew(self) -> None:
        """What is polled now stays ours, however long it takes."""
        if not self._polls or time.monotonic() - self._renewed_at < RENEW_SECONDS:
            return
        self._renewed_at = time.monotonic()
        async with self._database.writing() as connection:
            await Watches(connection).renew_lease(self._polls.values(), self._lease, self._now() + LEASE)

    async def _begin_due(self) -> int:
        room = self._settings.watch_concurrency - len(self._polls)
        if room <= 0 or (await read_brake(self._database, self._settings)).level is ThrottleLevel.STOP:
            return 0
        watches = await self._lease_due(room)
        for watch in watches:
            task = asyncio.create_task(self._poll(watch), name=f"watch {watch.id}")
            self._polls[task] = watch.id
            task.add_done_callback(self._done)
        return len(watches)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._polls.pop(task, None)
        self._loop.wake()

    async def _lease_due(self, limit: int) -> list[Watch]:
        now = self._now()
        async with self._database.reading() as connection:
            if not await Watches(connection).any_due(now):
                return []
        async with self._database.writing() as connection:
            return list(await Watches(connection).lease_due(self._lease, limit=limit, now=now, until=now + LEASE))

    async def _poll(self, watch: Watch) -> None:
        """One poll. Whatever is wrong with one source, the others are polled."""
        try:
            await self._poller.poll(watch)
        except (ScrubjayError, SQLAlchemyError, OSError) as error:
            log.warning("a poll failed on our side; it is due again", watch_id=watch.id, reason=str(error))
            await self._release(watch.id, self._lease, AGAIN)
        except Exception:
            log.exception("a poll failed in a way that nobody thought of", watch_id=watch.id)
            failure = {"failures": watch.failures + 1, "last_error": OUR_FAULT}
            # Not at once: it would fail in the same way.
            wait = timedelta(seconds=watch.poll_interval_seconds)
            await self._release(watch.id, self._lease, wait, **failure)

    async def _release(self, watch_id: str, lease: str, wait: timedelta, **changes: Any) -> None:
        """Give a watch back. Where even that fails, its lease runs out by itself."""
        with suppress(ScrubjayError, SQLAlchemyError, OSError):
            async with self._database.writing() as connection:
                await Watches(connection).settle(watch_id, lease, next_poll_at=self._now() + wait, **changes)

    async def _take_turns(self) -> None:
        now = self._now()
        if await self._turns.is_due("watches.waiting", WAITING_SECONDS):
            await self._desk.rules.trigger.send_waiting(now)
        if await self._turns.is_due("watches.tidy", TIDY_SECONDS):
            await self.tidy(now)
        if await self._turns.is_due("watches.forget", FORGET_SECONDS):
            await self.forget(now)

    async def tidy(self, now: datetime) -> int:
        """End the stories that nobody tells any more."""
        async with self._database.writing() as connection:
            return await self._desk.rules.book.end_quiet(connection, now)

    async def forget(self, now: datetime) -> int:
        async with self._database.writing(long=True) as connection:
            removed = await WatchItems(connection).remove_old(now - TOO_OLD)
            return removed + await Stories(connection).remove_old(now - TOO_OLD)

    async def poll_due(self) -> list[PollOutcome]:
        """Poll everything that is due now, and come back when that is done."""
        outcomes: list[PollOutcome] = []
        while watches := await self._lease_due(self._settings.watch_concurrency):
            outcomes += await asyncio.gather(*(self._poller.poll(watch) for watch in watches))
        return outcomes

    async def poll_now(self, watch: Watch) -> PollOutcome:
        """Poll one watch, due or not. Conflict when somebody is at it."""
        now, lease = self._now(), new_id("wrk")
        async with self._database.writing() as connection:
            watches = Watches(connection)
            if not await watches.lease_one(watch, lease, now=now, until=now + LONG_LEASE):
                raise Conflict(f"The watch '{watch.name}' is being polled right now.")
            taken = await watches.get(watch.tenant_id, watch.id)
        try:
            outcome = await self._poller.poll(taken)
        except (ScrubjayError, SQLAlchemyError, OSError):
            await self._release(taken.id, lease, AGAIN)
            raise
        if outcome.status is PollStatus.LOST:
            raise Conflict(f"The watch '{watch.name}' was taken by somebody else meanwhile.")
        return outcome
