"""A job's event log as spec 002 tells it: `start_json`, then `log`, `end_json`. Stream and file are equal.

Whatever is written here is made of stored rows alone, so that it comes out the same each time.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from scrubjay.model.job import FINISHED_STATES, Job, JobEvent, JobState
from scrubjay.model.numbered_job import NumberedJob


class StreamState(StrEnum):
    """The states of a job at `/v2`."""

    RUNNING = "running"  # in the queue, or at work
    PAUSED = "paused"
    COMPLETED = "completed"  # finished, and its result is ok
    FAILED = "failed"  # finished, and its result is not ok
    CANCELLED = "cancelled"

    @property
    def file_ending(self) -> str:
        """The ending of the job file. The specification has four endings; `.completed` is its "finished job"."""
        return str(StreamState.COMPLETED if self is StreamState.FAILED else self)


_STATES: Mapping[JobState, StreamState] = {
    JobState.PENDING: StreamState.RUNNING,
    JobState.RUNNING: StreamState.RUNNING,
    JobState.PAUSED: StreamState.PAUSED,
    JobState.COMPLETED: StreamState.COMPLETED,
    JobState.FAILED: StreamState.FAILED,
    JobState.CANCELLED: StreamState.CANCELLED,
}
_SAYINGS: Mapping[str, str] = {
    "job.pause_requested": "Pause requested.",
    "job.resume_requested": "Resume requested.",
    "job.cancel_requested": "Cancel requested.",
    "job.retry_requested": "Another try was requested.",
    "job.paused": "Paused.",
    "job.handed_back": "The worker is shutting down; another one goes on from here.",
    "job.recovered": "The worker died; the job goes on from its last checkpoint.",
    "job.cancelled": "Cancelled.",
}


def stream_state(job: Job) -> StreamState:
    return _STATES[job.state]


def write_utc(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def describe_job(
    numbered: NumberedJob, job: Job, *, state: StreamState | None = None, modified_at: datetime | None = None
) -> dict[str, Any]:
    """The job's metadata, as in `start_json` and in the answers about jobs."""
    started = write_utc(numbered.created_at)
    finished = write_utc(job.finished_at) if state is None else None
    return {
        "job_id": numbered.id,
        "endpoint": numbered.endpoint,
        "state": str(state or stream_state(job)),
        "start_utc": started,
        "end_utc": finished,
        "source_url": numbered.endpoint,
        "monitor_url": f"/v2/jobs/monitor?job_id={quote(numbered.id)}&format=stream",
        "started_utc": started,
        "finished_utc": finished,
        "last_modified_utc": write_utc(modified_at or job.finished_at or job.started_at or job.created_at),
    }


def result_of(job: Job) -> dict[str, Any]:
    """The result of a finished job as `{ok, error, data}`. A handler may store such an object itself."""
    result = dict(job.result or {})
    if job.state is not JobState.CANCELLED and set(result) == {"ok", "error", "data"}:
        return result
    if job.state is JobState.COMPLETED:
        return {"ok": True, "error": "", "data": result}
    error = "Cancelled." if job.state is JobState.CANCELLED else job.error or "The job failed."
    return {"ok": False, "error": error, "data": result}


def is_end(job: Job, event: JobEvent) -> bool:
    """Whether the job ended with this event; one that was retried has endings in the middle of its log."""
    return job.state in FINISHED_STATES and event.sequence == job.event_count


def render(numbered: NumberedJob, job: Job, event: JobEvent) -> bytes:
    """One event, in the framing of Server-Sent Events; nothing for what says nothing to a reader.

    `job` may be older than the event, unless that may be the last one: its end is told from the row.
    """
    if event.sequence == 1:
        facts = describe_job(numbered, job, state=StreamState.RUNNING, modified_at=event.at)
        return _frame("start_json", json.dumps(facts, ensure_ascii=False))
    if event.may_be_last and is_end(job, event):
        facts = describe_job(numbered, job, modified_at=job.finished_at)
        return _frame("end_json", json.dumps({**facts, "result": result_of(job)}, ensure_ascii=False))
    text = describe_event(event)
    return b"" if text is None else _frame("log", text)


def describe_event(event: JobEvent) -> str | None:
    """An event between start and end, in words; None where there is nothing to say."""
    payload = event.payload
    match event.type:
        case "job.log":
            return str(payload.get("message", ""))
        case "job.progress":
            return _progress(payload)
        case "job.started":
            return f"Run {payload['run']} begins." if payload.get("run", 1) != 1 else None
        case "job.retrying" | "job.failed":
            return f"Failed: {payload.get('error') or 'no reason is known'}"
    return _SAYINGS.get(event.type)


def _progress(payload: Mapping[str, Any]) -> str | None:
    message, current, total = payload.get("message"), payload.get("current"), payload.get("total")
    if not message:
        return None
    return f"[ {current} / {total} ] {message}" if total else str(message)


def _frame(name: str, text: str) -> bytes:
    # Every kind of line break would end the line for a reader of the stream, and what follows would be lost.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    data = "".join(f"data: {line}\n" for line in lines)
    return f"event: {name}\n{data}\n".encode()
