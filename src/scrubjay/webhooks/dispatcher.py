"""The loop that tells others: publishes what happened, and works off the queues of webhooks that are due.

A webhook belongs to whoever holds its lease, in one process at a time, so its queue is sent in order; different ones
are sent to at the same time. Whatever a process has not written down when it dies is sent again by another.
"""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from scrubjay.crawler.fetcher import Fetcher, Network
from scrubjay.errors import ScrubjayError
from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id
from scrubjay.model.webhook import Answer, Delivery, Webhook
from scrubjay.queue.polling import PollLoop
from scrubjay.queue.signals import OUTBOX, JobSignals
from scrubjay.storage.database import Database
from scrubjay.storage.deliveries import Deliveries
from scrubjay.storage.turns import TurnTaker
from scrubjay.storage.webhooks import Webhooks
from scrubjay.telemetry import get_logger
from scrubjay.telemetry.metrics import (
    webhook_circuits_open,
    webhook_deliveries_total,
    webhook_lag_seconds,
    webhook_queue_depth,
)
from scrubjay.webhooks.publisher import Publisher
from scrubjay.webhooks.sender import Sender
from scrubjay.webhooks.verdict import attempt_time, judge

POLL_SECONDS = 0.25  # how late an event is noticed that nobody announced
TIDY_SECONDS = 10.0
TIDY_BATCHES = 20  # at a turn; others wait for the writer meanwhile
FORGET_SECONDS = 600.0
COUNT_SECONDS = 5.0
AT_ONCE = 32  # webhooks that one process sends to at the same time
AT_ONCE_TO_HOST = 8  # of those, to one host: one that hangs does not take all places
LEASE_MARGIN_SECONDS = 10.0  # for writing down what came of an attempt

log = get_logger(__name__)


class Dispatcher:
    def __init__(
        self, database: Database, signals: JobSignals, network: Network, publisher: Publisher, sender: Sender
    ) -> None:
        self._database = database
        self._network = network
        self._publisher = publisher
        self._sender = sender
        self._lease = timedelta(seconds=sender.timeout_seconds + LEASE_MARGIN_SECONDS)
        self._sending: dict[asyncio.Task[None], str] = {}  # → the host
        self._turns = TurnTaker(database)
        self._loop = PollLoop(
            "webhooks.dispatcher", self._turn, poll_seconds=POLL_SECONDS, signals=signals, channel=OUTBOX
        )
        self._next_count = 0.0

    async def start(self, *, alone: bool = False) -> None:
        """With `alone`, no other process can be sending: leases of an earlier process are freed at once."""
        if alone:
            async with self._database.writing() as connection:
                await Webhooks(connection).free_leases()
        self._loop.start()

    async def stop(self) -> None:
        """Only waiting for an answer is cancelled: a receiver recognises a repeated event by its id."""
        await self._loop.stop()
        await asyncio.gather(*self._sending)

    async def _turn(self) -> bool:
        """Publish and begin to send; true when there may be more to publish."""
        published = await self._publisher.publish()
        await self._begin()
        if time.monotonic() >= self._next_count:
            self._next_count = time.monotonic() + COUNT_SECONDS
            await self._count()
            await self._tidy()
        return published

    async def _tidy(self) -> None:
        if await self._turns.is_due("webhooks.tidy", TIDY_SECONDS):
            for _ in range(TIDY_BATCHES):
                if not await self._publisher.tidy():
                    break
        if await self._turns.is_due("webhooks.forget", FORGET_SECONDS):
            await self._publisher.forget_jobs()

    async def _count(self) -> None:
        async with self._database.reading() as connection:
            webhook_queue_depth.set(await Deliveries(connection).pending_count())
            webhook_circuits_open.set(await Webhooks(connection).open_circuits())

    async def _begin(self) -> None:
        """Take webhooks that are due, as far as there is room; the end of each is a reason to look again."""
        now = utc_now()
        if len(self._sending) >= AT_ONCE:
            return
        async with self._database.reading() as connection:
            if not await Webhooks(connection).any_due(now):
                return
        for webhook in await self._claim(now):
            task = asyncio.create_task(self._work_off(webhook), name=f"webhook.{webhook.id}")
            self._sending[task] = webhook.host
            task.add_done_callback(self._finished)

    async def _claim(self, now: datetime) -> list[Webhook]:
        hosts = Counter(self._sending.values())
        claimed: list[Webhook] = []
        async with self._database.writing() as connection:
            webhooks = Webhooks(connection)
            while (room := AT_ONCE - len(self._sending) - len(claimed)) > 0:
                busy = [host for host, number in hosts.items() if number >= AT_ONCE_TO_HOST]
                due = await webhooks.due(now, room, busy)
                for webhook in due:
                    if hosts[webhook.host] < AT_ONCE_TO_HOST:
                        hosts[webhook.host] += 1  # also when somebody else is faster, so that this comes to an end
                        leased = replace(webhook, lease_id=new_id("wrk"))
                        if await webhooks.lease(webhook.id, leased.lease_id or "", now, now + self._lease):
                            claimed.append(leased)
                if not due:
                    break
        return claimed

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._sending.pop(task, None)
        self._loop.wake()

    async def _work_off(self, webhook: Webhook) -> None:
        """Send what is due, one after the other, until something has to wait."""
        try:
            async with self._network.fetcher() as fetcher:
                held: Webhook | None = webhook
                while held is not None:
                    held = await self._send_next(fetcher, held)
        except (ScrubjayError, SQLAlchemyError, OSError) as error:
            # The lease runs out, and whoever is next finds the queue as it was.
            log.warning("a delivery could not be written down", webhook_id=webhook.id, reason=str(error))
        except Exception:  # a task that fails in silence would leave its webhook untold
            log.exception("a delivery failed", webhook_id=webhook.id)

    async def _send_next(self, fetcher: Fetcher, webhook: Webhook) -> Webhook | None:
        """The webhook, still held, when there is more to send to it now."""
        async with self._database.reading() as connection:
            delivery = await Deliveries(connection).head(webhook.id)
        answer = None
        now = utc_now()
        if delivery is not None and not self._loop.stopping.is_set() and attempt_time(delivery, now) <= now:
            answer = await self._send_unless_over(fetcher, webhook, delivery, now)
        return await self._settle(webhook, delivery, answer)

    async def _send_unless_over(
        self, fetcher: Fetcher, webhook: Webhook, delivery: Delivery, now: datetime
    ) -> Answer | None:
        sending = asyncio.create_task(self._sender.send(fetcher, webhook, delivery, now))
        stopping = asyncio.create_task(self._loop.stopping.wait())
        await asyncio.wait((sending, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not sending.done():
            sending.cancel()
        with suppress(asyncio.CancelledError):
            return await sending
        return None

    async def _settle(self, webhook: Webhook, delivery: Delivery | None, answer: Answer | None) -> Webhook | None:
        """Write down what came of it, and keep the webhook only if its next delivery is due."""
        now = utc_now()
        until = None
        async with self._database.writing() as connection:
            webhooks, deliveries = Webhooks(connection), Deliveries(connection)
            held = await webhooks.hold(webhook.id, webhook.lease_id or "", now + self._lease)
            if held is None:
                return None  # somebody else has it, or it was switched off; then nothing of this counts
            if delivery is not None and answer is not None:
                verdict = judge(held, delivery, answer, now)
                await deliveries.change(delivery.id, **verdict.delivery)
                if verdict.webhook:
                    await webhooks.change(webhook.id, **verdict.webhook)
                until = verdict.rests_until
            head = await deliveries.head(webhook.id)
            next_at = None if head is None else max(attempt_time(head, now), until or now)
            goes_on = next_at is not None and next_at <= now and not self._loop.stopping.is_set()
            freed = {} if goes_on else {"lease_id": None, "leased_until": None}
            await webhooks.change(webhook.id, next_attempt_at=next_at, **freed)
        if delivery is not None and answer is not None:
            self._tell(webhook, delivery, answer, verdict.outcome, now)
        if next_at is not None and not goes_on:
            asyncio.get_running_loop().call_later((next_at - now).total_seconds() + 0.001, self._loop.wake)
        return held if goes_on else None

    def _tell(self, webhook: Webhook, delivery: Delivery, answer: Answer, outcome: str, now: datetime) -> None:
        webhook_deliveries_total.labels(outcome=outcome).inc()
        if outcome == "delivered":
            webhook_lag_seconds.observe(max(0.0, (now - delivery.created_at).total_seconds()))
            return
        log.warning(
            "a webhook was not delivered",
            webhook_id=webhook.id,
            delivery_id=delivery.id,
            host=webhook.host,
            outcome=outcome,
            reason=answer.problem,
        )
