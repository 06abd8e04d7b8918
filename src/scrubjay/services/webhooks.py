"""Webhooks as doors see them: who is told of what, with which secret, and what became of every delivery."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.fetcher import Network, is_secret_header
from scrubjay.errors import Conflict, InvalidRequest, NotFound
from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id
from scrubjay.model.page import Page
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.webhook import (
    DEFAULT_EVENTS,
    EVENTS,
    PING,
    Delivery,
    DeliveryStatus,
    Webhook,
    describe,
)
from scrubjay.queue.signals import JobSignals
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.services.reading import matching, read_item, read_page
from scrubjay.storage.database import Database
from scrubjay.storage.deliveries import Deliveries, DeliveryRow
from scrubjay.storage.plans import Plans
from scrubjay.storage.webhooks import WebhookRow, Webhooks
from scrubjay.webhooks.bodies import make_body
from scrubjay.webhooks.endpoint import Sealing, check_headers, check_secret, check_url
from scrubjay.webhooks.publisher import enqueue
from scrubjay.webhooks.sender import Sender
from scrubjay.webhooks.signing import new_secret

HIDDEN = "[hidden]"  # a value that is known and not shown; sent back, it stays as it is
GRACE_HOURS = 24
MAX_GRACE_HOURS = 7 * 24
MAX_WEBHOOKS = 500  # of one tenant
SWITCHED_OFF = "The webhook was switched off."


@dataclass(frozen=True, slots=True)
class Created:
    """A webhook with its secret, which is shown this once."""

    webhook: Webhook
    secret: str


class WebhookService:
    def __init__(
        self, database: Database, network: Network, signals: JobSignals, sealing: Sealing, sender: Sender
    ) -> None:
        self._database = database
        self._network = network
        self._signals = signals
        self._sealing = sealing
        self._sender = sender

    async def create(
        self,
        principal: Principal,
        *,
        url: str,
        events: Sequence[str] = DEFAULT_EVENTS,
        headers: Mapping[str, str] | None = None,
        secret: str | None = None,
        plan_id: str | None = None,
        is_active: bool = True,
    ) -> Created:
        require(principal, Scope.WRITE)
        secret = new_secret() if secret is None else secret
        webhook = replace(
            self._new(principal, url, headers or {}, secret),
            events=check_events(events),
            plan_id=plan_id,
            is_active=is_active,
        )
        async with self._database.writing() as connection:
            await self._check_plan(connection, principal, plan_id)
            own = (WebhookRow.tenant_id == principal.tenant_id, WebhookRow.job_id.is_(None))
            if await Webhooks(connection).count(*own) >= MAX_WEBHOOKS:
                raise Conflict(f"There are {MAX_WEBHOOKS} webhooks already; every event would be sent to each of them.")
            await note_act(
                connection, principal, "webhook.created", webhook.id, host=webhook.host, events=webhook.events
            )
            return Created(await Webhooks(connection).add(webhook), secret)

    def _new(
        self, principal: Principal, url: str, headers: Mapping[str, str], secret: str | None, *, prefix: str = ""
    ) -> Webhook:
        """A webhook whose parts were looked at, with what is secret sealed."""
        address = check_url(url, self._network.guard, field=f"{prefix}url")
        check_headers(headers, field=f"{prefix}headers")
        webhook_id = new_id("whk")
        if secret is not None:
            check_secret(secret, field=f"{prefix}secret")
        return Webhook(
            id=webhook_id,
            tenant_id=principal.tenant_id,
            url=address.text,
            host=address.host,
            headers=self._sealing.seal_headers(webhook_id, headers),
            sealed_secret=None if secret is None else self._sealing.seal_secret(webhook_id, secret),
        )

    def of_job(
        self, principal: Principal, url: str | None, headers: Mapping[str, str] | None, secret: str | None
    ) -> dict[str, Any] | None:
        """The `webhook` of a job's payload: an address that is told of this job's end alone, and of nothing else."""
        require(principal, Scope.WRITE)
        if url is None:
            for name, value in (("webhook_headers", headers), ("webhook_secret", secret)):
                if value:
                    raise InvalidRequest(f"{name} needs a webhook_url.", field=name)
            return None
        return describe(self._new(principal, url, headers or {}, secret, prefix="webhook_"))

    async def _check_plan(self, connection: AsyncConnection, principal: Principal, plan_id: str | None) -> None:
        if plan_id is not None:
            try:
                await Plans(connection).get(principal.tenant_id, plan_id)
            except NotFound:
                raise NotFound(f"Source '{plan_id}' not found.") from None

    async def page(
        self, principal: Principal, *, plan_id: str | None = None, limit: int = 100, offset: int = 0
    ) -> Page[Webhook]:
        """The newest first; addresses that only single jobs were started with are not among them."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            await self._check_plan(connection, principal, plan_id)
        wanted = [WebhookRow.job_id.is_(None), *matching((WebhookRow.plan_id, plan_id))]
        return await read_page(
            self._database, principal, Webhooks, *wanted, newest_first=True, limit=limit, offset=offset
        )

    async def get(self, principal: Principal, webhook_id: str) -> Webhook:
        return await read_item(self._database, principal, Webhooks, webhook_id)

    async def change(self, principal: Principal, webhook_id: str, **changes: Any) -> Webhook:
        """Change what is given: url, events, headers, secret, plan_id, is_active. The old secret is void at once."""
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            known = await self._locked(connection, principal, webhook_id)
            if "plan_id" in changes:
                await self._check_plan(connection, principal, changes["plan_id"])
            values = self._values(known, changes)
            if values.get("is_active") is False:
                await Deliveries(connection).end_pending(webhook_id, SWITCHED_OFF)
            if values:
                await Webhooks(connection).change(webhook_id, **values)
                await note_act(connection, principal, "webhook.changed", webhook_id, fields=sorted(changes))
            changed = await Webhooks(connection).get(principal.tenant_id, webhook_id)
        await self._signals.outbox()
        return changed

    def _values(self, known: Webhook, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Changes as they are kept."""
        values = {name: changes[name] for name in ("plan_id", "is_active") if name in changes}
        if "events" in changes:
            values["events"] = check_events(changes["events"])
        if "headers" in changes:
            values["headers"] = self._changed_headers(known, changes["headers"])
        if "secret" in changes:
            check_secret(changes["secret"])
            sealed = self._sealing.seal_secret(known.id, changes["secret"])
            values |= {"sealed_secret": sealed, "sealed_previous_secret": None, "previous_secret_until": None}
        if "url" in changes:
            address = check_url(changes["url"], self._network.guard)
            values |= {"url": address.text, "host": address.host}
        if "url" in changes or changes.get("is_active") is True:
            # What was learned of the old address says nothing about the new one; what waits is tried at once.
            waits = known.next_attempt_at is not None
            values |= {"failures": 0, "circuit_opened_at": None, "next_attempt_at": utc_now() if waits else None}
        if changes.get("is_active") is False:
            # Whoever is sending now has lost it: no result counts any more.
            values |= {"next_attempt_at": None, "lease_id": None, "leased_until": None}
        return values

    def _changed_headers(self, known: Webhook, headers: Mapping[str, str]) -> dict[str, str]:
        check_headers(headers)
        sealed = self._sealing.seal_headers(known.id, headers)
        for name, value in headers.items():
            if is_secret_header(name) and value == HIDDEN and name in known.headers:
                sealed[name] = known.headers[name]
        return sealed

    async def delete(self, principal: Principal, webhook_id: str) -> None:
        """With its deliveries; nothing is sent to it any more."""
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            await Webhooks(connection).get(principal.tenant_id, webhook_id)
            await Webhooks(connection).delete(principal.tenant_id, webhook_id)
            await note_act(connection, principal, "webhook.deleted", webhook_id)

    async def rotate(
        self, principal: Principal, webhook_id: str, *, secret: str | None = None, grace_hours: float = GRACE_HOURS
    ) -> Created:
        """Another secret; for the grace time everything is signed with both, so that receivers can follow."""
        require(principal, Scope.WRITE)
        if not 0 <= grace_hours <= MAX_GRACE_HOURS:
            raise InvalidRequest(f"grace_hours must be between 0 and {MAX_GRACE_HOURS}.", field="grace_hours")
        secret = new_secret() if secret is None else secret
        check_secret(secret)
        async with self._database.writing() as connection:
            known = await self._locked(connection, principal, webhook_id)
            await Webhooks(connection).change(
                webhook_id,
                sealed_secret=self._sealing.seal_secret(webhook_id, secret),
                sealed_previous_secret=known.sealed_secret,
                previous_secret_until=utc_now() + timedelta(hours=grace_hours),
            )
            await note_act(connection, principal, "webhook.rotated", webhook_id, grace_hours=grace_hours)
            return Created(await Webhooks(connection).get(principal.tenant_id, webhook_id), secret)

    async def test(self, principal: Principal, webhook_id: str) -> Delivery:
        """Send a `ping` now, once, past the queue; the delivery says what came back."""
        require(principal, Scope.WRITE)
        webhook = await self.get(principal, webhook_id)
        event_id, now = new_id("evt"), utc_now()
        body = make_body(event_id, PING, now, {"webhook_id": webhook_id})
        ping = Delivery(
            tenant_id=webhook.tenant_id, webhook_id=webhook_id, event=PING, event_id=event_id, body=body, max_attempts=1
        )
        async with self._network.fetcher() as fetcher:
            answer = await self._sender.send(fetcher, webhook, ping, now)
        ping = replace(
            ping,
            status=DeliveryStatus.DELIVERED if answer.is_success else DeliveryStatus.FAILED,
            attempts=1,
            response_status=answer.status,
            response_body=answer.body,
            error=answer.problem,
            last_attempt_at=now,
        )
        async with self._database.writing() as connection:
            await self._locked(connection, principal, webhook_id)  # it may have been deleted meanwhile
            return await Deliveries(connection).add(ping)

    async def deliveries(
        self,
        principal: Principal,
        *,
        webhook_id: str | None = None,
        status: DeliveryStatus | None = None,
        event: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Page[Delivery]:
        """The newest first."""
        if webhook_id is not None:
            await self.get(principal, webhook_id)
        row = DeliveryRow
        wanted = matching((row.status, status), (row.event, event), (row.webhook_id, webhook_id))
        return await read_page(
            self._database, principal, Deliveries, *wanted, newest_first=True, limit=limit, offset=offset
        )

    async def delivery(self, principal: Principal, delivery_id: str) -> Delivery:
        return await read_item(self._database, principal, Deliveries, delivery_id)

    async def replay(self, principal: Principal, delivery_id: str) -> Delivery:
        """The same body and event id once more, as a delivery of its own at the end of the queue."""
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            known = await Deliveries(connection).get(principal.tenant_id, delivery_id)
            webhook = await self._locked(connection, principal, known.webhook_id)
            if not webhook.is_active:
                raise Conflict("The webhook is switched off; switch it on before replaying its deliveries.")
            number = await Deliveries(connection).replays(webhook.id, known.event_id)
            again: dict[str, Any] = {
                name: getattr(known, name) for name in ("event", "event_id", "body", "job_id", "job_type")
            }
            [made] = await enqueue(connection, webhook, [{**again, "replay": number}], utc_now())
        await self._signals.outbox()
        return made

    async def _locked(self, connection: AsyncConnection, principal: Principal, webhook_id: str) -> Webhook:
        """The webhook, which nobody else puts anything into the queue of until the transaction ends."""
        for webhook in await Webhooks(connection).lock([webhook_id]):
            if webhook.tenant_id == principal.tenant_id:
                return webhook
        raise NotFound(f"Webhook '{webhook_id}' not found.")


def check_events(events: Sequence[str]) -> tuple[str, ...]:
    unknown = [event for event in events if event not in EVENTS]
    if unknown or not events:
        raise InvalidRequest(f"events must be one or more of: {', '.join(EVENTS)}.", field="events")
    return tuple(dict.fromkeys(events))
