"""Deferring jobs to Procrastinate on PostgreSQL, in the transaction that makes them pending.

A deferral names a job and its due time. When either is out of date, the worker that fetches it does nothing.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

QUEUE_SCHEMA = "procrastinate"
RUN_TASK = "scrubjay.run"
SWEEP_LOCK = 0x5C12C  # the number of an advisory lock; 0x5C12B is that of migrations
SKEW = "interval '0.1 seconds'"  # a clock of another machine may be this far ahead without making a job wait


def _defer(condition: str) -> TextClause:
    """Built from the rows themselves: a queue for each kind, and the row's priority and due time."""
    return text(f"""
        SELECT {QUEUE_SCHEMA}.procrastinate_defer_jobs_v1(array_agg(
            ROW(kind, '{RUN_TASK}', -priority, NULL, NULL, jsonb_build_object('job_id', id, 'due_at', due_at),
                CASE WHEN due_at > clock_timestamp() + {SKEW} THEN due_at END
            )::{QUEUE_SCHEMA}.procrastinate_job_to_defer_v1
            ORDER BY due_at, id))
        FROM jobs WHERE state = 'pending' AND {condition}
        HAVING count(*) > 0
    """)  # noqa: S608 - constants of this module


_DEFER_SOME = _defer("id = ANY(:ids)")
_DEFER_ALL = _defer("true")
_DEFER_OVERDUE = _defer(f"""due_at < :before AND NOT EXISTS (
    SELECT 1 FROM {QUEUE_SCHEMA}.procrastinate_jobs AS deferral
    WHERE deferral.status = 'todo' AND deferral.args ->> 'job_id' = jobs.id)""")  # noqa: S608 - likewise


async def defer(connection: AsyncConnection, job_ids: Sequence[str]) -> None:
    """Defer those of the jobs that are pending. Other databases have no queue beside the table `jobs`."""
    if connection.dialect.name == "postgresql":
        await connection.execute(_DEFER_SOME, {"ids": list(job_ids)})


def defer_pending(connection: Connection) -> None:
    """Defer every pending job: for a database whose jobs were queued without Procrastinate."""
    connection.execute(_DEFER_ALL)


async def defer_overdue(connection: AsyncConnection, before: datetime) -> int:
    """Defer jobs that were due before then and have no deferral; returns how many.

    An earlier version of Scrubjay or a restored backup made them pending, or a fetched deferral was lost on its way.
    """
    deferred = (await connection.execute(_DEFER_OVERDUE, {"before": before})).scalar()
    return len(deferred or ())


async def try_sweep_lock(connection: AsyncConnection) -> bool:
    """Whether this transaction is the only one that sweeps the queue; it is until it ends."""
    taken = await connection.execute(text("SELECT pg_try_advisory_xact_lock(:number)"), {"number": SWEEP_LOCK})
    return bool(taken.scalar())
