"""`/v2/jobs`: long-running jobs that other endpoints started; look at them, steer them, read their streams."""

from typing import Any

from scrubjay.api.actions.declaration import Action, Button, Call, Param, Resource, Type
from scrubjay.model.job import JobRequest
from scrubjay.model.tenant import Scope
from scrubjay.services.action_jobs import MAX_LISTED

JOB_ID = Param(name="job_id", about="The job, jb_N.", required=True)
_CONTROLS = {"pause": "request a pause", "resume": "let it go on", "cancel": "request its end"}
_CONTROLLED_STATES = {"pause": ("running",), "resume": ("paused",), "cancel": ("running", "paused")}


async def _control(call: Call) -> Any:
    request = JobRequest(call.values["action"])
    return await call.jay.action_jobs.make_request(
        call.who, call.values["job_id"], request, force=call.values.get("force", False)
    )


def _control_button(action: str) -> Button:
    query = {"job_id": "{id}", "action": action, "format": "html"}
    return Button(
        label=action.capitalize(),
        path="jobs/control",
        query=query,
        changes=True,
        scope=Scope.WRITE,
        states=_CONTROLLED_STATES[action],
    )


JOBS = (
    Resource(
        shorthand="L(jhu)G(jh)D(jh)",
        path="jobs",
        about="Manage long-running jobs that are triggered by other endpoints (crawler, inventory)",
        id_param="job_id",
        columns=("job_id", "state", "endpoint", "start_utc", "end_utc"),
        list=Action(
            run=lambda call: call.jay.action_jobs.all(
                call.who, limit=call.values["limit"], offset=call.values["offset"]
            ),
            about="Newest first.",
            params=(
                Param(
                    name="limit",
                    about="How many at most.",
                    type=Type.NUMBER,
                    least=1,
                    most=MAX_LISTED,
                    default=MAX_LISTED,
                ),
                Param(name="offset", about="How many to leave out.", type=Type.NUMBER, default=0),
            ),
        ),
        get=Action(
            run=lambda call: call.jay.action_jobs.get(call.who, call.values["job_id"]),
            about="The job's metadata, as in the start_json event of its stream.",
        ),
        delete=Action(
            run=lambda call: call.jay.action_jobs.delete(call.who, call.values["job_id"], dry_run=call.dry_run),
            scope=Scope.WRITE,
            about="Forget a finished job, with its log and its file.",
        ),
        buttons=(
            Button(label="Monitor", path="jobs/monitor", query={"job_id": "{id}", "format": "html"}),
            Button(label="Stream", path="jobs/monitor", query={"job_id": "{id}", "format": "stream"}),
            Button(
                label="Results",
                path="jobs/results",
                query={"job_id": "{id}", "format": "html"},
                states=("completed", "failed", "cancelled"),
            ),
            *(_control_button(action) for action in _CONTROLS),
        ),
    ),
    Resource(
        # The specification writes L(); what it answers with is in our contract.
        shorthand="L(jh)",
        path="jobs/control",
        about="Pause, resume or cancel a job",
        list=Action(
            run=_control,
            scope=Scope.WRITE,
            changes=True,
            about="A running job obeys at its next checkpoint.",
            params=(
                JOB_ID,
                Param(name="action", about="What to ask of it.", type=Type.CHOICE, choices=_CONTROLS, required=True),
                Param(
                    name="force",
                    about="With action=cancel: end a job that no longer answers.",
                    type=Type.TRUTH,
                    default=False,
                ),
            ),
            examples=tuple(f"job_id={{job_id}}&action={action}" for action in _CONTROLS),
        ),
    ),
    Resource(
        shorthand="L(jhs)",
        path="jobs/monitor",
        about="Monitor long-running jobs",
        list=Action(
            run=lambda call: call.jay.action_jobs.monitor(call.who, call.values["job_id"]),
            follow=lambda call: call.jay.action_jobs.follow(call.who, call.values["job_id"]),
            watch=lambda call: call.jay.action_jobs.tail(call.who, call.values["job_id"]),
            params=(JOB_ID,),
            about="The job's metadata and its last log line; as a stream, everything from its first event.",
        ),
    ),
    Resource(
        shorthand="L(jh)",
        path="jobs/results",
        about="The result of a finished job, as in the end_json event of its stream",
        list=Action(run=lambda call: call.jay.action_jobs.results(call.who, call.values["job_id"]), params=(JOB_ID,)),
    ),
)
