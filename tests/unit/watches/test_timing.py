"""When a watch is looked at next: budgets, backoff, escalation and the brake."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from scrubjay.model.watching import ThrottleLevel, Watch, WatchKind
from scrubjay.watches.timing import (
    LONGEST_BACKOFF_SECONDS,
    interval_seconds,
    next_poll,
    next_try,
    reserved_requests,
    used_today,
)

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
WATCH = Watch(tenant_id="t", name="w", url="u", kind=WatchKind.FEED, poll_interval_seconds=900, daily_budget=200)
OFF = ThrottleLevel.OFF


def test_the_next_poll_is_never_later_than_the_interval_while_the_budget_suffices() -> None:
    waits = [(next_poll(WATCH, NOW, OFF, left=100) - NOW).total_seconds() for _ in range(200)]
    assert 900 * 0.94 < min(waits) < max(waits) <= 900


def test_a_budget_that_does_not_suffice_is_spread_over_the_day() -> None:
    wait = (next_poll(WATCH, NOW, OFF, left=4) - NOW).total_seconds()
    assert 3 * 3600 * 0.94 < wait <= 3 * 3600
    assert next_poll(WATCH, NOW, OFF, left=0) >= datetime(2026, 3, 5, tzinfo=UTC)


def test_requests_of_yesterday_do_not_count() -> None:
    assert used_today(replace(WATCH, requests_today=7, budget_day="2026-03-04"), NOW) == 7
    assert used_today(replace(WATCH, requests_today=7, budget_day="2026-03-03"), NOW) == 0


def test_previews_leave_enough_for_the_polls_of_the_day_but_not_more_than_half() -> None:
    assert reserved_requests(WATCH, NOW) == 49
    assert reserved_requests(replace(WATCH, daily_budget=10), NOW) == 5


def test_failures_wait_twice_as_long_each_time_up_to_a_limit() -> None:
    def wait(failures: int, retry_after: float | None = None) -> float:
        when = next_try(WATCH, NOW, OFF, failures=failures, retry_after_seconds=retry_after)
        return (when - NOW).total_seconds()

    assert 900 * 2 * 0.94 < wait(1) <= 900 * 2
    assert 900 * 8 * 0.94 < wait(3) <= 900 * 8
    assert LONGEST_BACKOFF_SECONDS * 0.94 < wait(1000) <= LONGEST_BACKOFF_SECONDS
    assert wait(1, 7200) == 7200
    assert wait(1, 10**9) == 24 * 3600


def test_escalation_and_the_brake_change_the_interval() -> None:
    escalated = replace(WATCH, escalated_until=NOW + timedelta(minutes=1))
    assert interval_seconds(escalated, NOW, OFF) == 225
    assert interval_seconds(escalated, NOW + timedelta(minutes=2), OFF) == 900
    assert interval_seconds(escalated, NOW, ThrottleLevel.SLOW) == 3600
    assert interval_seconds(replace(escalated, poll_interval_seconds=60), NOW, OFF) == 60
    assert interval_seconds(replace(escalated, poll_interval_seconds=100), NOW, OFF) == 60
