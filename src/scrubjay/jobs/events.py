"""Following a job's event log live, from any point and from any process."""

from collections.abc import AsyncIterator

from scrubjay.jobs.signals import JobSignals, events_channel, wait_for_event
from scrubjay.model.job import JobEvent
from scrubjay.storage.database import Database
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs

POLL_SECONDS = 0.5


async def follow(
    database: Database, signals: JobSignals, job_id: str, after: int = 0, poll_seconds: float = POLL_SECONDS
) -> AsyncIterator[JobEvent]:
    """Every event later than `after`, in order and without gaps, until the job has finished."""
    async with signals.wake_up(events_channel(job_id)) as signalled:
        while True:
            async with database.reading() as connection:
                job = await Jobs(connection).find_by_id(job_id)
                events = await JobEvents(connection).after(job_id, after)
            for event in events:
                yield event
                after = event.sequence
            # The state was read before the events, so a finished job has no later ones.
            if not events and (job is None or job.is_finished):
                return
            if not events:
                await wait_for_event(signalled, poll_seconds)
