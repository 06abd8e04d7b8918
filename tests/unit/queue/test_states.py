"""What each request does in each state of a job, how long a retry waits, and when cron expressions fire."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise, product

import pytest

from scrubjay.errors import Conflict, InvalidRequest
from scrubjay.model.job import (
    FINISHED_STATES,
    REACTIONS,
    Job,
    JobPriority,
    JobRequest,
    JobState,
    Reaction,
    react,
)
from scrubjay.queue.control import backoff
from scrubjay.queue.schedule import next_match, validate_cron

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

# One line per state, one column per request; None is a Conflict.
PAUSE, RESUME, CANCEL, RETRY = JobRequest.PAUSE, JobRequest.RESUME, JobRequest.CANCEL, JobRequest.RETRY
TABLE: dict[JobState, dict[JobRequest, Reaction | None]] = {
    JobState.PENDING: {PAUSE: Reaction.PAUSE_NOW, RESUME: None, CANCEL: Reaction.CANCEL_NOW, RETRY: None},
    JobState.RUNNING: {PAUSE: Reaction.RECORD, RESUME: None, CANCEL: Reaction.RECORD, RETRY: None},
    JobState.PAUSED: {PAUSE: Reaction.NOTHING, RESUME: Reaction.ENQUEUE, CANCEL: Reaction.CANCEL_NOW, RETRY: None},
    JobState.COMPLETED: {PAUSE: None, RESUME: None, CANCEL: None, RETRY: None},
    JobState.FAILED: {PAUSE: None, RESUME: None, CANCEL: None, RETRY: Reaction.ENQUEUE},
    JobState.CANCELLED: {PAUSE: None, RESUME: None, CANCEL: Reaction.NOTHING, RETRY: Reaction.ENQUEUE},
}
ALLOWED = [(state, request, done) for state, row in TABLE.items() for request, done in row.items() if done]
REFUSED = [(state, request) for state, row in TABLE.items() for request, done in row.items() if done is None]


def job(state: JobState, requested: JobRequest | None = None) -> Job:
    return Job(id="job_1", tenant_id="ten_1", kind="test", state=state, requested=requested)


def test_the_table_names_every_state_and_every_request() -> None:
    assert {(state, request) for state, row in TABLE.items() for request in row} == set(product(JobState, JobRequest))


def test_reactions_has_exactly_the_pairs_that_are_allowed() -> None:
    assert {(state, request): done for state, request, done in ALLOWED} == REACTIONS


def test_every_reaction_is_what_some_request_does() -> None:
    # Taking back a pause depends on what was recorded, not on the state alone, so it is not in the table.
    assert set(Reaction) == {*REACTIONS.values(), Reaction.FORGET}


@pytest.mark.parametrize(("state", "request_", "expected"), ALLOWED)
def test_a_request_does_in_a_state_what_the_table_says(
    state: JobState, request_: JobRequest, expected: Reaction
) -> None:
    assert react(job(state), request_) is expected


@pytest.mark.parametrize(("state", "request_"), REFUSED)
def test_a_request_that_makes_no_sense_is_a_conflict_in_words(state: JobState, request_: JobRequest) -> None:
    with pytest.raises(Conflict) as refusal:
        react(job(state), request_)
    assert refusal.value.message == f"Cannot {request_.value} {state.value} job 'job_1'."
    assert refusal.value.details == {"state": state.value}


def test_resuming_a_running_job_reads_as_a_sentence() -> None:
    with pytest.raises(Conflict, match=r"^Cannot resume running job 'job_1'\.$"):
        react(job(JobState.RUNNING), JobRequest.RESUME)


def test_resuming_takes_back_a_pause_that_is_not_yet_obeyed() -> None:
    assert react(job(JobState.RUNNING, JobRequest.PAUSE), JobRequest.RESUME) is Reaction.FORGET


def test_resuming_does_not_take_back_a_cancel() -> None:
    with pytest.raises(Conflict):
        react(job(JobState.RUNNING, JobRequest.CANCEL), JobRequest.RESUME)


@pytest.mark.parametrize("state", JobState)
def test_a_job_is_finished_when_nothing_but_a_retry_can_move_it(state: JobState) -> None:
    moves = {request for request, done in TABLE[state].items() if done not in (None, Reaction.NOTHING)}
    assert job(state).is_finished is (moves <= {JobRequest.RETRY})
    assert job(state).is_finished is (state in FINISHED_STATES)


def test_priorities_sort_from_high_to_low() -> None:
    assert [priority.label for priority in sorted(JobPriority)] == ["high", "normal", "low"]


@pytest.mark.parametrize(
    ("retry", "seconds"),
    [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 64), (8, 128), (9, 256), (10, 300), (11, 300), (500, 300)],
)
def test_each_retry_waits_twice_as_long_up_to_five_minutes(retry: int, seconds: int) -> None:
    assert backoff(retry) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("cron", "after", "tick"),
    [
        ("* * * * *", "2026-03-01T12:00:30", "2026-03-01T12:01:00"),
        ("* * * * *", "2026-03-01T12:00:00", "2026-03-01T12:01:00"),  # a tick that was taken is not taken twice
        ("30 2 * * *", "2026-03-01T12:00:00", "2026-03-02T02:30:00"),
        ("0 0 1 * *", "2026-03-01T12:00:00", "2026-04-01T00:00:00"),
        ("0 9 * * 1-5", "2026-03-06T09:00:00", "2026-03-09T09:00:00"),  # Friday to Monday
        ("0 0 29 2 *", "2026-03-01T12:00:00", "2028-02-29T00:00:00"),
        ("*/15 * * * *", "2026-03-28T23:59:59", "2026-03-29T00:00:00"),
    ],
)
def test_a_cron_expression_fires_at_the_next_match_in_utc(cron: str, after: str, tick: str) -> None:
    moment = datetime.fromisoformat(after).replace(tzinfo=UTC)
    assert next_match(cron, moment) == datetime.fromisoformat(tick).replace(tzinfo=UTC)


def test_a_cron_expression_ignores_daylight_saving_time() -> None:
    moment, ticks = datetime(2026, 3, 28, 2, 30, tzinfo=UTC), []
    for _ in range(3):  # the clocks of Europe change on the 29th
        moment = next_match("30 2 * * *", moment)
        ticks.append(moment)
    assert [tick - before for before, tick in pairwise(ticks)] == [timedelta(days=1)] * 2


def test_a_cron_expression_that_was_missed_for_days_fires_at_the_next_match() -> None:
    now = NOON + timedelta(days=5)
    assert next_match("0 3 * * *", now) == datetime(2026, 3, 7, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize("cron", ["* * * * *", "*/5 0-6 1,15 * 1-5", "0 3 * * sun"])
def test_a_cron_expression_of_five_fields_is_accepted_as_it_is(cron: str) -> None:
    assert validate_cron(cron) == cron


@pytest.mark.parametrize(
    "cron",
    ["", "* * * *", "* * * * * *", "61 * * * *", "* 24 * * *", "* * 32 * *", "* * * 13 *", "* * * * 9", "@daily", "x"],
)
def test_a_cron_expression_that_is_none_is_refused_by_field(cron: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a cron expression of five fields") as refusal:
        validate_cron(cron)
    assert f"'{cron}'" in refusal.value.message
    assert refusal.value.details == {"field": "cron"}


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 31 4,6,9,11 *"])
def test_a_cron_expression_that_never_fires_is_refused_by_field(cron: str) -> None:
    for refuse in (lambda: validate_cron(cron), lambda: next_match(cron, NOON)):
        with pytest.raises(InvalidRequest, match="never fires") as refusal:
            refuse()
        assert refusal.value.details == {"field": "cron"}
