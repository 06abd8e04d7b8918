"""When a plan runs next."""

from datetime import UTC, datetime, timedelta

import pytest

from scrubjay.model.plan import IntervalType, Plan, ScheduleSettings
from scrubjay.plans.timing import first_due, latest_plausible, next_due

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "value", "apart"),
    [
        (IntervalType.MINUTES, 5, timedelta(minutes=5)),
        (IntervalType.HOURS, 24, timedelta(days=1)),
        (IntervalType.DAYS, 2, timedelta(days=2)),
        (IntervalType.WEEKS, 1, timedelta(days=7)),
    ],
)
def test_intervals_count_from_the_start_of_the_last_run(kind: IntervalType, value: int, apart: timedelta) -> None:
    schedule = ScheduleSettings(interval_type=kind, interval_value=value)
    assert next_due(schedule, NOON) == NOON + apart
    assert first_due(schedule, NOON) == NOON


def test_a_plan_that_runs_once_runs_at_once_and_not_again() -> None:
    once = ScheduleSettings(interval_type=IntervalType.ONE_TIME)
    assert (first_due(once, NOON), next_due(once, NOON)) == (NOON, None)


def test_cron_decides_by_the_clock() -> None:
    nightly = ScheduleSettings(cron="30 3 * * *")
    assert first_due(nightly, NOON) == next_due(nightly, NOON) == datetime(2026, 5, 2, 3, 30, tzinfo=UTC)


def test_jitter_comes_later_and_never_earlier() -> None:
    schedule = ScheduleSettings(interval_value=1, jitter_seconds=60)
    found = {next_due(schedule, NOON) for _ in range(50)}
    base = NOON + timedelta(hours=1)
    assert all(base <= each <= base + timedelta(minutes=1) for each in found if each is not None)
    assert len(found) > 10


def test_a_budget_is_spent_every_hour() -> None:
    assert next_due(ScheduleSettings(requests_per_day=240), NOON) == NOON + timedelta(hours=1)


def test_no_run_can_be_due_later_than_one_interval_from_now() -> None:
    plan = Plan(tenant_id="ten", schedule=ScheduleSettings(interval_value=2, jitter_seconds=10))
    assert latest_plausible(plan, NOON) == NOON + timedelta(hours=2, seconds=10)
    assert latest_plausible(Plan(tenant_id="ten", schedule=ScheduleSettings(cron="* * * * *")), NOON) is None
