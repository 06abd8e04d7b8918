"""Actions that are verbs of `services/verbs.py`: they answer at once, or run as a job for `format=stream`."""

from typing import Any

from scrubjay.api.actions.declaration import Action, Call, Param
from scrubjay.model.tenant import Scope
from scrubjay.services.action_jobs import JobOrder
from scrubjay.services.verbs import ACTION_KIND


def by_verb(
    name: str, *, object_param: str, params: tuple[Param, ...] = (), scope: Scope = Scope.WRITE, about: str = ""
) -> Action:
    """`object_param` names what the job is about, in its file's name."""

    def values_of(call: Call) -> dict[str, Any]:
        return {**call.values, "target_id": call.target_id}

    async def run(call: Call) -> Any:
        return await call.jay.verbs.run(call.who, name, values_of(call))

    async def start(call: Call) -> dict[str, Any]:
        # What is wrong with the request is said before there is a job.
        await call.jay.verbs.run(call.who, name, {**values_of(call), "dry_run": True})
        subject = call.target_id or call.values.get(object_param)
        return await call.jay.action_jobs.start(
            call.who,
            JobOrder(
                kind=ACTION_KIND,
                payload=call.jay.verbs.payload(call.who, name, values_of(call)),
                endpoint=call.endpoint,
                object_id=None if subject is None else str(subject),
            ),
        )

    return Action(run=run, start=start, params=params, scope=scope, about=about, changes=True)
