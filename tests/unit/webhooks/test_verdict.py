"""What an answer means: delivered, later, given up, or the circuit opens."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scrubjay.model.webhook import Answer, Delivery, DeliveryStatus, Webhook
from scrubjay.webhooks.verdict import CIRCUIT_FAILURES, PROBE_SECONDS, due_time, judge, rest

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
WEBHOOK = Webhook(tenant_id="t", url="https://example.org/", host="example.org")
DELIVERY = Delivery(tenant_id="t", webhook_id=WEBHOOK.id, event="completed", event_id="e", body="{}")
REFUSED = Answer(status=503, body="busy")


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_2xx_is_delivered_and_ends_a_row_of_failures(status: int) -> None:
    verdict = judge(replace(WEBHOOK, failures=4), DELIVERY, Answer(status=status, body="ok"), NOW)
    assert verdict.outcome == "delivered"
    assert verdict.delivery["status"] is DeliveryStatus.DELIVERED
    assert (verdict.delivery["attempts"], verdict.delivery["error"]) == (1, None)
    assert verdict.webhook == {"failures": 0, "circuit_opened_at": None}


@pytest.mark.parametrize("answer", [Answer(status=s) for s in (100, 199, 300, 302, 400, 404, 410, 429, 500)])
def test_everything_else_is_tried_again(answer: Answer) -> None:
    verdict = judge(WEBHOOK, DELIVERY, answer, NOW)
    assert (verdict.outcome, verdict.delivery["attempts"]) == ("retried", 1)
    assert verdict.delivery["error"] == f"It answered with HTTP status {answer.status}."
    assert "status" not in verdict.delivery


def test_the_attempts_come_after_1_2_4_8_and_16_seconds_and_the_sixth_is_the_last() -> None:
    delivery, pauses = DELIVERY, []
    while True:
        verdict = judge(WEBHOOK, delivery, Answer(error="No complete answer in time."), NOW)
        if verdict.outcome == "failed":
            break
        assert verdict.rests_until == verdict.delivery["next_attempt_at"]
        pauses.append((verdict.delivery["next_attempt_at"] - NOW).total_seconds())
        delivery = replace(delivery, attempts=verdict.delivery["attempts"])
    assert pauses == [1, 2, 4, 8, 16]
    assert (verdict.delivery["attempts"], verdict.delivery["status"]) == (6, DeliveryStatus.FAILED)
    assert (verdict.delivery["next_attempt_at"], verdict.delivery["error"]) == (None, "No complete answer in time.")
    assert verdict.webhook == {"failures": 1}


def test_the_circuit_opens_after_enough_deliveries_in_a_row_were_given_up() -> None:
    last = replace(DELIVERY, attempts=5)
    before = judge(replace(WEBHOOK, failures=CIRCUIT_FAILURES - 2), last, REFUSED, NOW)
    then = judge(replace(WEBHOOK, failures=CIRCUIT_FAILURES - 1), last, REFUSED, NOW)
    assert before.rests_until is None
    assert then.webhook == {"failures": CIRCUIT_FAILURES, "circuit_opened_at": NOW}
    assert then.rests_until == NOW + timedelta(seconds=PROBE_SECONDS[0])


def test_a_probe_costs_no_attempt_and_the_next_one_comes_later() -> None:
    webhook, waits = replace(WEBHOOK, failures=CIRCUIT_FAILURES, circuit_opened_at=NOW), []
    for _ in range(6):
        verdict = judge(webhook, DELIVERY, REFUSED, NOW)
        assert verdict.outcome == "probed"
        assert "attempts" not in verdict.delivery
        assert "status" not in verdict.delivery
        assert verdict.rests_until is not None
        waits.append((verdict.rests_until - NOW).total_seconds())
        webhook = replace(webhook, **verdict.webhook)
    assert waits == [120, 240, 480, 900, 900, 900]
    assert judge(webhook, DELIVERY, Answer(status=200), NOW).webhook == {"failures": 0, "circuit_opened_at": None}


def test_what_comes_in_while_the_circuit_is_open_waits_for_the_probe() -> None:
    webhook = replace(WEBHOOK, failures=CIRCUIT_FAILURES, circuit_opened_at=NOW)
    assert due_time(WEBHOOK, NOW) == NOW
    assert due_time(webhook, NOW) == NOW + rest(CIRCUIT_FAILURES)
    assert due_time(webhook, NOW + timedelta(days=1)) == NOW + timedelta(days=1)
