"""Cron expressions: validation and the next match, in UTC."""

from datetime import datetime

from scrubjay.errors import InvalidRequest
from scrubjay.model.clock import utc_now

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


def next_match(cron: str, after: datetime) -> datetime:
    """The first moment after another that a cron expression names."""
    from croniter.croniter import CroniterBadCronError, CroniterBadDateError, croniter

    try:
        match: datetime = croniter(cron, after).get_next(datetime)
    except (CroniterBadCronError, CroniterBadDateError) as error:
        raise InvalidRequest(f"The cron expression '{cron}' never fires.", field="cron") from error
    return match
