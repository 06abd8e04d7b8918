"""What is sent says ids as `/api/v1` does, and nothing that is only ours."""

import json
from datetime import UTC, datetime

from scrubjay.model.content import OutboxEvent
from scrubjay.model.ids import new_id, uuid_from_id
from scrubjay.model.job import Job, JobState
from scrubjay.queue.endings import MAX_RESULT_CHARACTERS, ending
from scrubjay.queue.kinds import JobKind, JobKinds
from scrubjay.services.diagnostics import take_steps
from scrubjay.webhooks.bodies import data_of, make_body

NOW = datetime(2026, 11, 17, 12, 0, 0, 1000, tzinfo=UTC)
KINDS = JobKinds(JobKind(name="loud", handler=take_steps), JobKind(name="quiet", handler=take_steps, notifies=False))


def test_ids_are_uuids_wherever_they_are_and_a_plan_is_a_source() -> None:
    plan, documents = new_id("cplan"), [new_id("adoc"), new_id("adoc")]
    payload = {"plan_id": plan, "document_ids": documents, "inner": {"job_id": "theirs-1"}, "webhook": {"id": "w"}}
    event = OutboxEvent(tenant_id="t", topic="plan.changed", payload=payload)
    body = json.loads(make_body(event.id, "plan.changed", NOW, data_of(event)))
    assert body == {
        "id": str(uuid_from_id(event.id)),
        "event": "plan.changed",
        "created_at": "2026-11-17T12:00:00.001000+00:00",
        "data": {
            "document_ids": [str(uuid_from_id(each)) for each in documents],
            "inner": {"job_id": "theirs-1"},
            "source_id": str(uuid_from_id(plan)),
        },
    }


def test_a_jobs_end_is_told_but_for_cancelled_ones_and_quiet_kinds() -> None:
    loud, quiet = Job(tenant_id="t", kind="loud"), Job(tenant_id="t", kind="quiet")
    told = ending(KINDS, loud, {"state": JobState.COMPLETED, "result": {"a": 1}, "finished_at": NOW})
    assert told is not None
    assert (told.topic, told.payload["result"], told.payload["completed_at"]) == (
        "job.completed", {"a": 1}, NOW.isoformat(),
    )  # fmt: skip
    assert ending(KINDS, loud, {"state": JobState.FAILED, "error": "no"}) is not None
    assert ending(KINDS, Job(tenant_id="t", kind="of another process"), {"state": JobState.FAILED}) is not None
    for state in (JobState.CANCELLED, JobState.PAUSED, JobState.PENDING):
        assert ending(KINDS, loud, {"state": state}) is None
    assert ending(KINDS, quiet, {"state": JobState.COMPLETED}) is None


def test_a_result_that_is_too_large_is_left_out_and_says_so() -> None:
    job, large = Job(tenant_id="t", kind="loud"), {"urls": ["x" * MAX_RESULT_CHARACTERS]}
    told = ending(KINDS, job, {"state": JobState.COMPLETED, "result": large})
    assert told is not None
    assert (told.payload["result"], told.payload["result_omitted"]) == (None, True)
