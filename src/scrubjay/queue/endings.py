"""The end of a job as the outbox tells it: committed with the end itself, delivered to whoever listens."""

import json
from collections.abc import Mapping
from typing import Any

from scrubjay.model.content import OutboxEvent
from scrubjay.model.job import Job, JobState
from scrubjay.queue.kinds import JobKinds

MAX_RESULT_CHARACTERS = 64 * 1024  # a larger result is to be asked for
_TOLD_STATES = (JobState.COMPLETED, JobState.FAILED)  # not cancelled: whoever did that knows
_PASSED_ON = ("plan_id", "webhook")  # of a payload: what listeners choose by, and whom this job alone tells


def ending(kinds: JobKinds, job: Job, changes: Mapping[str, Any]) -> OutboxEvent | None:
    """What to tell when a job changes so; None when it has not ended, or nobody asked for such a job by itself."""
    if changes["state"] not in _TOLD_STATES or not kinds.notifies(job.kind):
        return None
    started, finished = job.started_at, changes.get("finished_at")
    payload: dict[str, Any] = {
        "job_id": job.id,
        "kind": job.kind,
        "status": str(changes["state"]),
        "error": changes.get("error"),
        "started_at": None if started is None else started.isoformat(),
        "completed_at": None if finished is None else finished.isoformat(),
        **_bounded(changes.get("result")),
        **{name: job.payload[name] for name in _PASSED_ON if name in job.payload},
    }
    return OutboxEvent(tenant_id=job.tenant_id, topic=f"job.{changes['state']}", payload=payload)


def _bounded(result: Mapping[str, Any] | None) -> dict[str, Any]:
    if result is not None and len(json.dumps(result)) > MAX_RESULT_CHARACTERS:
        return {"result": None, "result_omitted": True}
    return {"result": result}
