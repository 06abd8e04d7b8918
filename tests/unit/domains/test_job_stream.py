"""The event log in specification 002's words: framing, states, results."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.acceptance.actions.asking import read_events

from scrubjay.domains.job_stream import StreamState, describe_job, render, result_of, stream_state
from scrubjay.model.job import Job, JobEvent, JobState
from scrubjay.model.numbered_job import NumberedJob, job_number

MOMENT = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)
JOB = Job(tenant_id="t", kind="k", state=JobState.RUNNING, event_count=5, created_at=MOMENT, started_at=MOMENT)
NUMBERED = NumberedJob(
    number=2,
    tenant_id="t",
    job_id=JOB.id,
    endpoint="/v2/crawler/crawl?domain_id=TEST01&format=stream",
    folder="crawler",
    action="crawl",
    created_at=MOMENT,
)


def event(type_: str, sequence: int = 3, **payload: Any) -> JobEvent:
    return JobEvent(job_id=JOB.id, sequence=sequence, type=type_, payload=payload, at=MOMENT)


def text_of(each: JobEvent, job: Job = JOB) -> str:
    return render(NUMBERED, job, each).decode()


def test_the_first_event_is_the_start_with_the_jobs_metadata() -> None:
    (started,) = read_events(text_of(event("job.submitted", 1)))
    assert started.name == "start_json"
    assert started.values["job_id"] == "jb_2"
    assert started.values["start_utc"] == "2024-01-15T10:30:00.000000Z"
    assert started.values["state"] == "running"


def test_the_start_is_the_same_whatever_became_of_the_job() -> None:
    ended = replace(JOB, state=JobState.COMPLETED, finished_at=MOMENT, result={"x": 1})
    assert text_of(event("job.submitted", 1)) == text_of(event("job.submitted", 1), ended)


def test_a_line_of_the_log_is_framed_as_specified() -> None:
    assert (
        text_of(event("job.log", message="[ 2 / 4 ] Processing...")) == "event: log\ndata: [ 2 / 4 ] Processing...\n\n"
    )
    assert text_of(event("job.log", message="a\nb\r\nc\rd")) == "event: log\ndata: a\ndata: b\ndata: c\ndata: d\n\n"


@given(st.text())
def test_no_text_can_break_out_of_its_frame(text: str) -> None:
    message = text.encode(errors="replace").decode()
    (read,) = read_events(text_of(event("job.log", message=message)))
    assert read.name == "log"
    assert read.data == message.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize(
    ("state", "shown", "result"),
    [
        (JobState.COMPLETED, "completed", {"ok": True, "error": "", "data": {"files": 3}}),
        (JobState.FAILED, "failed", {"ok": False, "error": "It broke.", "data": {"files": 3}}),
        (JobState.CANCELLED, "cancelled", {"ok": False, "error": "Cancelled.", "data": {"files": 3}}),
    ],
)
def test_the_last_event_of_a_finished_job_is_its_end(state: JobState, shown: str, result: dict[str, Any]) -> None:
    ended = replace(JOB, state=state, result={"files": 3}, error="It broke.", finished_at=MOMENT)
    (read,) = read_events(text_of(event(f"job.{state}", 5), ended))
    assert (read.name, read.values["state"], read.values["result"]) == ("end_json", shown, result)
    assert read.values["end_utc"] == "2024-01-15T10:30:00.000000Z"


def test_an_end_in_the_middle_of_a_log_is_a_line() -> None:
    ended = replace(JOB, state=JobState.COMPLETED, finished_at=MOMENT)
    assert text_of(event("job.failed", 3, error="It broke."), ended) == "event: log\ndata: Failed: It broke.\n\n"


def test_the_result_that_a_failed_handler_stored_is_the_result_of_the_job() -> None:
    own = {"ok": False, "error": "one source failed", "data": {"embed": {"added": 3}}}
    assert result_of(replace(JOB, state=JobState.FAILED, error="one source", result=own)) == own


def test_the_file_of_a_failed_job_has_the_ending_that_the_specification_gives_finished_jobs() -> None:
    assert [state.file_ending for state in StreamState] == ["running", "paused", "completed", "completed", "cancelled"]


def test_what_says_nothing_is_left_out() -> None:
    for each in (event("job.started", run=1), event("job.progress", current=1, total=2), event("article.processed")):
        assert text_of(each) == ""
    assert text_of(event("job.started", run=2)) == "event: log\ndata: Run 2 begins.\n\n"
    assert text_of(event("job.progress", current=1, total=2, message="x")) == "event: log\ndata: [ 1 / 2 ] x\n\n"


def test_every_state_has_a_name_at_this_door() -> None:
    assert {str(stream_state(replace(JOB, state=state))) for state in JobState} == set(StreamState)
    assert describe_job(NUMBERED, replace(JOB, state=JobState.PENDING))["state"] == "running"


@pytest.mark.parametrize(
    "text", ["", "jb_", "jb_0", "jb_01", "jb_-1", "JB_1", "jb_1 ", "jb_1\n", "jb_١", "jb_" + "9" * 19]
)
def test_only_plain_numbers_are_numbers_of_jobs(text: str) -> None:
    assert job_number(text) is None
    assert job_number("jb_42") == 42
