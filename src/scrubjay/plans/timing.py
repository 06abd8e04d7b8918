"""When a plan runs next: by its interval, its cron expression, or page by page within a budget of requests."""

import random
from datetime import datetime, timedelta

from scrubjay.model.plan import IntervalType, Plan, ScheduleSettings
from scrubjay.queue.schedule import next_match

SLICES_PER_DAY = 24  # in which an adaptive plan spends its requests
_UNITS = {
    IntervalType.MINUTES: timedelta(minutes=1),
    IntervalType.HOURS: timedelta(hours=1),
    IntervalType.DAYS: timedelta(days=1),
    IntervalType.WEEKS: timedelta(weeks=1),
}


def interval_of(schedule: ScheduleSettings) -> timedelta | None:
    """The time between two runs; nothing where a clock or nobody decides."""
    if schedule.requests_per_day is not None:
        return timedelta(days=1) / SLICES_PER_DAY
    if schedule.cron is not None or schedule.interval_type is IntervalType.ONE_TIME:
        return None
    return _UNITS[schedule.interval_type] * schedule.interval_value


def next_due(schedule: ScheduleSettings, started: datetime) -> datetime | None:
    """When the run after the one that started then is due; however that one ends."""
    interval = interval_of(schedule)
    if interval is not None:
        due = started + interval
    elif schedule.cron is not None:
        due = next_match(schedule.cron, started)
    else:
        return None
    return due + timedelta(seconds=random.uniform(0, schedule.jitter_seconds))  # noqa: S311 - spreads load


def first_due(schedule: ScheduleSettings, now: datetime) -> datetime:
    """When a plan that never ran is due: at once, unless a clock decides."""
    if schedule.cron is not None and schedule.requests_per_day is None:
        return next_match(schedule.cron, now)
    return now


def latest_plausible(plan: Plan, now: datetime) -> datetime | None:
    """No run can be due later than this, unless the clock was put back since that was decided."""
    interval = interval_of(plan.schedule)
    if interval is None:
        return None
    return now + interval + timedelta(seconds=plan.schedule.jitter_seconds)
