"""When a watch is looked at next, and what it may still ask for today."""

import random
from datetime import UTC, datetime, timedelta

from scrubjay.model.watching import ThrottleLevel, Watch
from scrubjay.watches.brake import SLOWER

LONGEST_BACKOFF_SECONDS = 6 * 3600.0
LONGEST_RETRY_AFTER_SECONDS = 24 * 3600.0
FASTEST_SECONDS = 60.0
ESCALATED_FACTOR = 4
_JITTER = 0.05  # only ever earlier: nothing waits longer than its interval


def day_of(now: datetime) -> str:
    """Budgets are of days in UTC."""
    return now.astimezone(UTC).date().isoformat()


def next_day(now: datetime) -> datetime:
    today = now.astimezone(UTC)
    return today.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def used_today(watch: Watch, now: datetime) -> int:
    return watch.requests_today if watch.budget_day == day_of(now) else 0


def interval_seconds(watch: Watch, now: datetime, level: ThrottleLevel) -> float:
    """How long between polls as things are: escalated, throttled, or as the watch says."""
    seconds = float(watch.poll_interval_seconds)
    if level is ThrottleLevel.SLOW:
        return seconds * SLOWER
    if watch.escalated_until is not None and watch.escalated_until > now:
        return min(seconds, max(FASTEST_SECONDS, seconds / ESCALATED_FACTOR))
    return seconds


def reserved_requests(watch: Watch, now: datetime) -> int:
    """What previews must leave for the polls of the rest of the day; half of the budget at most."""
    polls = (next_day(now) - now).total_seconds() / watch.poll_interval_seconds
    return min(int(polls) + 1, watch.daily_budget // 2)


def next_poll(watch: Watch, now: datetime, level: ThrottleLevel, *, left: int) -> datetime:
    """After a poll that went well. A budget that does not suffice is spread over the rest of the day."""
    seconds = interval_seconds(watch, now, level)
    if left <= 0:
        return after_budget(now)
    rest = (next_day(now) - now).total_seconds()
    if rest / seconds > left:
        seconds = max(seconds, rest / left)
    return now + timedelta(seconds=seconds * _jitter())


def next_try(
    watch: Watch, now: datetime, level: ThrottleLevel, *, failures: int, retry_after_seconds: float | None
) -> datetime:
    """After a failure: twice as long each time, and not before the server wants to be asked again."""
    seconds = interval_seconds(watch, now, level)
    longest = max(seconds, LONGEST_BACKOFF_SECONDS)
    seconds = min(longest, seconds * 2 ** min(failures, 20)) * _jitter()
    if retry_after_seconds is not None:
        seconds = max(seconds, min(retry_after_seconds, LONGEST_RETRY_AFTER_SECONDS))
    return now + timedelta(seconds=seconds)


def after_budget(now: datetime) -> datetime:
    """Soon after midnight, and not all at the same moment."""
    return next_day(now) + timedelta(seconds=random.uniform(0, 300))  # noqa: S311 - spreads requests


def _jitter() -> float:
    return random.uniform(1 - _JITTER, 1.0)  # noqa: S311 - spreads requests, hides nothing
