"""Webhooks: addresses that are told what happened, and every delivery to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id

PING = "ping"  # what a test sends; nobody subscribes to it
# What the outbox calls it → what a webhook's `events` and the header X-Webhook-Event call it (spec 001 §7.1).
EVENT_OF_TOPIC: Mapping[str, str] = {
    "job.completed": "completed",
    "job.failed": "failed",
    "document.created": "document_created",
    "document.updated": "document_updated",
    "document.deleted": "document_deleted",
    "plan.changed": "plan.changed",
    "watch.breaking": "watch.breaking",
}
EVENTS = tuple(EVENT_OF_TOPIC.values())
DEFAULT_EVENTS = ("completed", "failed")
RETRY_SECONDS = (1, 2, 4, 8, 16)  # between one attempt and the next; after the last of them a delivery has failed
LONGEST_WAIT = timedelta(hours=1)  # nothing waits for longer, be it a retry, a probe or a lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    id: str = field(default_factory=lambda: new_id("whk"))
    tenant_id: str
    url: str
    host: str  # of the address; one host does not get all connections
    plan_id: str | None = None  # only events of this plan
    job_id: str | None = None  # of one job alone: the `webhook_url` that it was started with
    events: tuple[str, ...] = DEFAULT_EVENTS
    headers: Mapping[str, str] = field(default_factory=dict)  # what authenticates is sealed
    sealed_secret: str | None = None
    sealed_previous_secret: str | None = None
    previous_secret_until: datetime | None = None
    is_active: bool = True
    failures: int = 0  # deliveries in a row that were given up, and probes since
    circuit_opened_at: datetime | None = None
    last_position: int = 0  # of the newest delivery
    next_attempt_at: datetime | None = None  # when to look at its queue; none while that is empty
    lease_id: str | None = None  # who sends to it now
    leased_until: datetime | None = None
    created_at: datetime = field(default_factory=utc_now)

    def listens_to(self, event: str, plan_id: str | None) -> bool:
        return self.is_active and event in self.events and self.plan_id in (None, plan_id)


class DeliveryStatus(StrEnum):
    PENDING = "pending"  # waits for its turn, or for its next attempt
    DELIVERED = "delivered"  # answered with 2xx
    FAILED = "failed"  # given up


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    id: str = field(default_factory=lambda: new_id("whd"))
    tenant_id: str
    webhook_id: str
    event: str
    event_id: str  # the same in every attempt, every replay and for every webhook: receivers know it again by this
    position: int = 0  # in the webhook's queue
    replay: int = 0  # 0 is the first time; each replay is a delivery of its own
    body: str  # the exact text that is signed and sent
    job_id: str | None = None
    job_type: str | None = None
    status: DeliveryStatus = DeliveryStatus.PENDING
    attempts: int = 0
    max_attempts: int = len(RETRY_SECONDS) + 1
    response_status: int | None = None
    response_body: str | None = None
    error: str | None = None  # why the last attempt failed
    last_attempt_at: datetime | None = None
    next_attempt_at: datetime | None = None
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one attempt: a status with the beginning of the body, or an error in words."""

    status: int | None = None
    body: str | None = None
    error: str | None = None

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def problem(self) -> str | None:
        if self.is_success:
            return None
        return self.error or f"It answered with HTTP status {self.status}."


def describe(webhook: Webhook) -> dict[str, Any]:
    """A job's own webhook as its job remembers it until it has ended."""
    return {
        "id": webhook.id,
        "url": webhook.url,
        "host": webhook.host,
        "headers": dict(webhook.headers),
        "sealed_secret": webhook.sealed_secret,
    }
