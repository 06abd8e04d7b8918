"""Cron and interval schedules. Each tick submits one job in the whole cluster; ticks that were missed run once."""

import random
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.errors import InvalidRequest
from scrubjay.jobs.control import submit
from scrubjay.jobs.kinds import JobKinds
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job, Schedule
from scrubjay.storage.database import Database
from scrubjay.storage.schedules import Schedules
from scrubjay.telemetry import get_logger

log = get_logger(__name__)

CRON_FIELDS = 5


def validate_cron(expression: str) -> str:
    """The expression, or an InvalidRequest that says what is wrong with it."""
    from croniter import croniter  # here and below, because few processes read one, and all know this module

    if len(expression.split()) != CRON_FIELDS or not croniter.is_valid(expression):
        raise InvalidRequest(
            f"'{expression}' is not a cron expression of five fields (minute hour day month weekday).",
            field="cron",
        )
    next_match(expression, utc_now())
    return expression


def next_tick(schedule: Schedule, after: datetime) -> datetime:
    """The first tick later than `after`, in UTC, moved by the schedule's jitter."""
    if schedule.cron is not None:
        tick = next_match(schedule.cron, after)
    elif schedule.interval_seconds is not None:
        interval = timedelta(seconds=schedule.interval_seconds)
        missed = max(0, (after - schedule.next_run_at) // interval)
        tick = schedule.next_run_at + interval * (missed + 1)
    else:
        raise InvalidRequest("A schedule needs a cron expression or an interval.", field="interval_seconds")
    return tick + timedelta(seconds=random.uniform(0, schedule.jitter_seconds))  # noqa: S311 - spreads load


def next_match(cron: str, after: datetime) -> datetime:
    """The first moment after another that a cron expression names."""
    from croniter.croniter import CroniterBadCronError, CroniterBadDateError, croniter

    try:
        match: datetime = croniter(cron, after).get_next(datetime)
    except (CroniterBadCronError, CroniterBadDateError) as error:
        raise InvalidRequest(f"The cron expression '{cron}' never fires.", field="cron") from error
    return match


async def submit_due(database: Database, kinds: JobKinds, now: datetime) -> int:
    """Submit a job for every schedule that is due; returns how many ticks this process took."""
    async with database.reading() as connection:
        due = await Schedules(connection).due(now)
    taken = 0
    for schedule in due:
        try:
            async with database.writing() as connection:
                taken += await _take_tick(connection, kinds, schedule, now)
        except InvalidRequest as error:
            # One that cannot tick must not hold up the others.
            log.warning("schedule cannot tick", schedule_id=schedule.id, reason=error.message)
    return taken


async def _take_tick(connection: AsyncConnection, kinds: JobKinds, schedule: Schedule, now: datetime) -> bool:
    if not await Schedules(connection).move_on(schedule, next_tick(schedule, now), now):
        return False
    await submit(
        connection,
        Job(
            tenant_id=schedule.tenant_id,
            kind=schedule.kind,
            payload={**schedule.payload, "schedule_id": schedule.id},
            priority=schedule.priority,
            max_retries=kinds.get(schedule.kind).max_retries,
            unique_key=f"{schedule.id}@{schedule.next_run_at.isoformat()}",
        ),
    )
    return True
