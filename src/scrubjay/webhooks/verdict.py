"""What an answer means for a delivery and for its webhook: delivered, later, given up, or: leave the host alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from scrubjay.model.webhook import LONGEST_WAIT, RETRY_SECONDS, Answer, Delivery, DeliveryStatus, Webhook

CIRCUIT_FAILURES = 5  # deliveries in a row that were given up; then the circuit opens
PROBE_SECONDS = (60, 120, 240, 480, 900)  # how long an open circuit rests before the next probe


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    outcome: str  # delivered, retried, failed or probed
    delivery: Mapping[str, Any]
    webhook: Mapping[str, Any]
    rests_until: datetime | None = None  # nothing is sent to the webhook before


def judge(webhook: Webhook, delivery: Delivery, answer: Answer, now: datetime) -> DeliveryResult:
    seen: dict[str, Any] = {
        "last_attempt_at": now,
        "response_status": answer.status,
        "response_body": answer.body,
        "error": answer.problem,
        "next_attempt_at": None,
    }
    attempts = delivery.attempts + 1
    if answer.is_success:
        delivered = {**seen, "status": DeliveryStatus.DELIVERED, "attempts": attempts}
        return DeliveryResult("delivered", delivered, {"failures": 0, "circuit_opened_at": None})
    if webhook.circuit_opened_at is not None:
        # A probe: the delivery pays nothing for it, or an outage would use up everything that waits.
        failures = webhook.failures + 1
        until = now + rest(failures)
        waits = {**seen, "next_attempt_at": until}
        return DeliveryResult("probed", waits, {"failures": failures, "circuit_opened_at": now}, until)
    if attempts < delivery.max_attempts:
        pause = RETRY_SECONDS[min(attempts, len(RETRY_SECONDS)) - 1]
        until = now + timedelta(seconds=pause)
        return DeliveryResult("retried", {**seen, "attempts": attempts, "next_attempt_at": until}, {}, until)
    failures = webhook.failures + 1
    given_up = {**seen, "attempts": attempts, "status": DeliveryStatus.FAILED}
    if failures < CIRCUIT_FAILURES:
        return DeliveryResult("failed", given_up, {"failures": failures})
    return DeliveryResult("failed", given_up, {"failures": failures, "circuit_opened_at": now}, now + rest(failures))


def rest(failures: int) -> timedelta:
    return timedelta(seconds=PROBE_SECONDS[min(max(failures - CIRCUIT_FAILURES, 0), len(PROBE_SECONDS) - 1)])


def attempt_time(delivery: Delivery, now: datetime) -> datetime:
    """When a delivery may be sent; a time that only a wrong clock could have meant is no reason to wait."""
    planned = delivery.next_attempt_at
    return now if planned is None or planned > now + LONGEST_WAIT else planned


def due_time(webhook: Webhook, now: datetime) -> datetime:
    """When something that is new in a webhook's queue may be sent at the earliest."""
    if webhook.circuit_opened_at is None:
        return now
    return max(now, webhook.circuit_opened_at + rest(webhook.failures))
