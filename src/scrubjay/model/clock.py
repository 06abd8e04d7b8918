"""Time as Scrubjay tells it: aware, in UTC, with microseconds."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)
