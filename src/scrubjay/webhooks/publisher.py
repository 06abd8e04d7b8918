"""The outbox becomes deliveries: each event goes to the queue of every webhook that listens, once, in order.

An event is marked as published in the transaction that makes its deliveries, so that a process that dies in between
loses nothing and doubles nothing. Of several processes, one publishes at a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.errors import ScrubjayError
from scrubjay.model.clock import utc_now
from scrubjay.model.content import OutboxEvent
from scrubjay.model.webhook import EVENT_OF_TOPIC, Delivery, Webhook
from scrubjay.storage.database import Database
from scrubjay.storage.deliveries import Deliveries
from scrubjay.storage.outbox import Outbox
from scrubjay.storage.webhooks import WebhookRow, Webhooks
from scrubjay.telemetry import get_logger
from scrubjay.webhooks.bodies import OWN_WEBHOOK, data_of, make_body
from scrubjay.webhooks.verdict import due_time

BATCH = 250
KEPT_PUBLISHED = timedelta(hours=1)  # for whoever looks into what happened

log = get_logger(__name__)


class Publisher:
    def __init__(self, database: Database, retention_days: int) -> None:
        self._database = database
        self._retention = timedelta(days=retention_days)

    async def publish(self) -> bool:
        """Publish one batch; false when there was nothing to publish."""
        async with self._database.reading() as connection:
            if not await Outbox(connection).any_unpublished():
                return False
        async with self._database.writing() as connection:
            events = await Outbox(connection).unpublished(BATCH)
            if events:
                await self._enqueue(connection, events, utc_now())
                await Outbox(connection).mark_published([event.id for event in events], utc_now())
        return bool(events)

    async def catch_up(self) -> None:
        """For a process that sends nothing: what it left in the outbox goes to the queues, for one that does."""
        try:
            while await self.publish():
                pass
            while await self.tidy():
                pass
            await self.forget_jobs()
        except (ScrubjayError, SQLAlchemyError, OSError) as error:
            log.warning("events stay in the outbox until a worker runs", reason=str(error))

    async def _enqueue(self, connection: AsyncConnection, events: Sequence[OutboxEvent], now: datetime) -> None:
        listening = await Webhooks(connection).listening({event.tenant_id for event in events})
        own = await self._own_webhooks(connection, events)
        wanted: dict[str, list[OutboxEvent]] = {}
        for event in events:
            for webhook in _addressees(event, listening, own):
                wanted.setdefault(webhook.id, []).append(event)
        # Locked before anything is put into their queues: whoever sends empties them under the same lock.
        for webhook in await Webhooks(connection).lock(sorted(wanted)) if wanted else ():
            if webhook.is_active:
                await enqueue(connection, webhook, [_delivery(event) for event in wanted[webhook.id]], now)

    async def _own_webhooks(self, connection: AsyncConnection, events: Sequence[OutboxEvent]) -> Mapping[str, Webhook]:
        """The addresses that single jobs were started with; the first end of a job makes a webhook of its own."""
        described = {
            event.payload[OWN_WEBHOOK]["id"]: event for event in events if event.payload.get(OWN_WEBHOOK) is not None
        }
        webhooks: dict[str, Webhook] = {}
        for webhook_id, event in described.items():
            known = await Webhooks(connection).find(WebhookRow.id == webhook_id)
            job_id = str(event.payload["job_id"])
            webhooks[webhook_id] = known or await Webhooks(connection).add(
                Webhook(tenant_id=event.tenant_id, job_id=job_id, **event.payload[OWN_WEBHOOK])
            )
        return webhooks

    async def tidy(self) -> bool:
        """Forget a batch of events that were published and of deliveries that are old; true when there may be more."""
        now = utc_now()
        async with self._database.writing() as connection:
            events = await Outbox(connection).remove_before(now - KEPT_PUBLISHED, BATCH)
            deliveries = await Deliveries(connection).remove_before(now - self._retention, BATCH)
        return BATCH in (events, deliveries)

    async def forget_jobs(self) -> None:
        """Webhooks of single jobs go with their jobs."""
        before = utc_now() - timedelta(days=1)
        async with self._database.reading() as connection:
            lost = await Webhooks(connection).of_lost_jobs(before, BATCH)
        if lost:
            async with self._database.writing() as connection:
                for webhook in lost:
                    await Webhooks(connection).delete(webhook.tenant_id, webhook.id)


async def enqueue(
    connection: AsyncConnection, webhook: Webhook, deliveries: Sequence[Mapping[str, Any]], now: datetime
) -> Sequence[Delivery]:
    """Put deliveries at the end of a webhook's queue. The caller has its row locked."""
    made = [
        Delivery(
            tenant_id=webhook.tenant_id,
            webhook_id=webhook.id,
            position=webhook.last_position + number,
            next_attempt_at=now,
            created_at=now,
            **values,
        )
        for number, values in enumerate(deliveries, start=1)
    ]
    await Deliveries(connection).add_many(made)
    await Webhooks(connection).change(
        webhook.id,
        last_position=webhook.last_position + len(made),
        next_attempt_at=webhook.next_attempt_at or due_time(webhook, now),
    )
    return made


def _addressees(event: OutboxEvent, listening: Iterable[Webhook], own: Mapping[str, Webhook]) -> Iterable[Webhook]:
    name = EVENT_OF_TOPIC.get(event.topic)
    if name is None:
        return
    plan_id = event.payload.get("plan_id")
    for webhook in listening:
        if webhook.tenant_id == event.tenant_id and webhook.listens_to(name, plan_id):
            yield webhook
    if event.payload.get(OWN_WEBHOOK) is not None:
        yield own[event.payload[OWN_WEBHOOK]["id"]]


def _delivery(event: OutboxEvent) -> Mapping[str, Any]:
    name = EVENT_OF_TOPIC[event.topic]
    return {
        "event": name,
        "event_id": event.id,
        "body": make_body(event.id, name, event.created_at, data_of(event)),
        "job_id": event.payload.get("job_id"),
        "job_type": event.payload.get("kind"),
    }
