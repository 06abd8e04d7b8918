"""Jobs: durable pieces of background work, their states, and which request is allowed in which state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

from scrubjay.errors import Conflict
from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id


class JobState(StrEnum):
    PENDING = "pending"  # waits for a worker, or for its next try
    RUNNING = "running"  # a worker holds it
    PAUSED = "paused"  # stopped at a checkpoint; goes on from there when resumed
    COMPLETED = "completed"  # the handler returned
    FAILED = "failed"  # the handler failed and no try is left
    CANCELLED = "cancelled"  # somebody asked for it to end


FINISHED_STATES = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})


class JobPriority(IntEnum):
    HIGH = 0
    NORMAL = 1
    LOW = 2

    @property
    def label(self) -> str:
        return self.name.lower()


class JobRequest(StrEnum):
    """What somebody asks of a job. A running job obeys at its next checkpoint."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"


class Reaction(StrEnum):
    """What a request does in a given state."""

    PAUSE_NOW = "pause_now"
    CANCEL_NOW = "cancel_now"
    RECORD = "record"  # leave word for the worker that runs the job
    FORGET = "forget"  # take back a recorded pause
    ENQUEUE = "enqueue"  # put it back in the queue
    NOTHING = "nothing"  # it is already so


REACTIONS: Mapping[tuple[JobState, JobRequest], Reaction] = {
    (JobState.PENDING, JobRequest.PAUSE): Reaction.PAUSE_NOW,
    (JobState.PENDING, JobRequest.CANCEL): Reaction.CANCEL_NOW,
    (JobState.RUNNING, JobRequest.PAUSE): Reaction.RECORD,
    (JobState.RUNNING, JobRequest.CANCEL): Reaction.RECORD,
    (JobState.PAUSED, JobRequest.PAUSE): Reaction.NOTHING,
    (JobState.PAUSED, JobRequest.RESUME): Reaction.ENQUEUE,
    (JobState.PAUSED, JobRequest.CANCEL): Reaction.CANCEL_NOW,
    (JobState.FAILED, JobRequest.RETRY): Reaction.ENQUEUE,
    (JobState.CANCELLED, JobRequest.CANCEL): Reaction.NOTHING,
    (JobState.CANCELLED, JobRequest.RETRY): Reaction.ENQUEUE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    id: str = field(default_factory=lambda: new_id("job"))
    tenant_id: str
    kind: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    state: JobState = JobState.PENDING
    priority: JobPriority = JobPriority.NORMAL
    requested: JobRequest | None = None  # recorded for the worker; obeyed at a checkpoint
    progress: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Mapping[str, Any] | None = None  # what the handler must remember between checkpoints
    result: Mapping[str, Any] | None = None
    error: str | None = None
    retry_count: int = 0
    max_retries: int = 3
    crashes: int = 0  # workers that died on it in a row without reaching a checkpoint
    run: int = 0  # counts every hand-over; a run with an old number may not write any more
    worker_id: str | None = None
    unique_key: str | None = None  # at most one job with this key, ever
    submitted_by: str | None = None
    parent_id: str | None = None  # the job that it is a part of; what is asked of that one is asked of it
    event_count: int = 0
    due_at: datetime = field(default_factory=utc_now)
    created_at: datetime = field(default_factory=utc_now)
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED_STATES


def react(job: Job, request: JobRequest) -> Reaction:
    """What `request` does to `job` now; a Conflict in words where it makes no sense."""
    if job.state is JobState.RUNNING and request is JobRequest.RESUME and job.requested is JobRequest.PAUSE:
        return Reaction.FORGET
    reaction = REACTIONS.get((job.state, request))
    if reaction is None:
        raise Conflict(f"Cannot {request} {job.state} job '{job.id}'.", state=str(job.state))
    return reaction


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    job_id: str
    sequence: int  # 1, 2, 3 … within the job, without gaps
    type: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=utc_now)

    @property
    def may_be_last(self) -> bool:
        """Whether the job may have finished with it; a retry can still make it go on."""
        return self.type in _LAST_EVENTS or self.payload.get("state") in FINISHED_STATES


_LAST_EVENTS = frozenset(f"job.{state}" for state in FINISHED_STATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """An event with its place in the log of all jobs; places grow, and some stay empty."""

    id: int
    tenant_id: str
    event: JobEvent
    is_of_part: bool = False  # a part's own; whoever follows all jobs hears it from the whole


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """How long a job's log is, and whether it may still grow."""

    event_count: int
    is_finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process that runs jobs. Silence longer than a setting means that it is gone."""

    id: str = field(default_factory=lambda: new_id("wrk"))
    host: str
    pid: int
    concurrency: int
    version: str = ""  # of Scrubjay
    started_at: datetime = field(default_factory=utc_now)
    heartbeat_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJobs:
    """A worker and the jobs that it runs."""

    worker: Worker
    jobs: Sequence[Job]
