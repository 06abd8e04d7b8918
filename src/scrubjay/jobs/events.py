"""Following a job's event log live, from any point and from any process."""

from collections.abc import AsyncIterator

from scrubjay.jobs.signals import JobSignals, events_channel, wait_for_event
from scrubjay.model.job import JobEvent
from scrubjay.storage.database import Database
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs

POLL_SECONDS = 0.5
EVENT_TYPES = {
    "job.submitted": "It was put in the queue.",
    "job.started": "A worker began a run of it.",
    "job.progress": "How far it is: `current`, `total`, `message`, and what the handler adds.",
    "job.log": "A line that the handler logged: `level`, `message`.",
    "job.pause_requested": "Somebody asked for it to pause.",
    "job.resume_requested": "Somebody let it go on.",
    "job.cancel_requested": "Somebody asked for it to end.",
    "job.retry_requested": "Somebody queued it again after it had failed or was cancelled.",
    "job.paused": "It stopped at a checkpoint and waits to be resumed.",
    "job.handed_back": "Its worker shut down; another run goes on from the last checkpoint.",
    "job.recovered": "Its worker died; it is in the queue again.",
    "job.retrying": "A run failed with `error`; another follows after a pause.",
    "job.completed": "The handler returned; the job has its result.",
    "job.failed": "It failed with `error`, and no try is left.",
    "job.cancelled": "It ended because somebody asked for it.",
    "diagnostic.step": "A diagnostic job took a step.",
}


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
