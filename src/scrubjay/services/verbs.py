"""Short actions that can also run as a job, so that what they do is logged: the same call, told step by step.

A verb takes who asks, its parameters, and whom to tell what it does. The job kind `action` runs one by its name.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scrubjay.errors import Conflict, Forbidden, InvalidRequest, JobFailedForGood, NotFound
from scrubjay.model.tenant import Principal, Scope
from scrubjay.queue.context import JobContext
from scrubjay.queue.kinds import JobKind
from scrubjay.services.access import require

ACTION_KIND = "action"
Tell = Callable[[str], Awaitable[None]]
Call = Callable[[Principal, Mapping[str, Any], Tell], Awaitable[Any]]


async def silently(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Verb:
    call: Call
    scope: Scope = Scope.WRITE
    repeatable: bool = False  # doing it again after it was cut off is doing it once


class Verbs:
    def __init__(self, load: Callable[[], Mapping[str, Verb]]) -> None:
        self._load = load

    @cached_property
    def _verbs(self) -> Mapping[str, Verb]:
        return self._load()

    @property
    def kinds(self) -> tuple[JobKind, ...]:
        return (JobKind(name=ACTION_KIND, handler=self._work, max_retries=0, is_waited_for=True),)

    async def run(self, principal: Principal, name: str, values: Mapping[str, Any], tell: Tell = silently) -> Any:
        verb = self._verbs[name]
        require(principal, verb.scope)
        return await verb.call(principal, values, tell)

    def payload(self, principal: Principal, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """What a job needs to do it, for somebody who may."""
        require(principal, self._verbs[name].scope)
        scopes = sorted(str(scope) for scope in principal.scopes)
        return {"verb": name, "values": dict(values), "scopes": scopes}

    async def _work(self, context: JobContext) -> Mapping[str, Any]:
        name = str(context.payload.get("verb"))
        verb = self._verbs.get(name)
        if verb is None:
            raise JobFailedForGood(f"There is no action called '{name}'.")
        if context.state.get("begun") and not verb.repeatable:
            raise JobFailedForGood(
                "This action was cut off while it was under way; look at what it did before you repeat it."
            )

        async def tell(text: str) -> None:
            await context.log(text)
            if verb.repeatable:  # anything else is not left half done
                await context.checkpoint()

        await context.checkpoint({"begun": True})
        who = Principal(
            tenant_id=context.job.tenant_id,
            key_id=context.job.submitted_by or "",
            scopes=frozenset(Scope(scope) for scope in context.payload.get("scopes", ())),
        )
        try:
            data = await self.run(who, name, context.payload.get("values") or {}, tell)
        except (InvalidRequest, NotFound, Conflict, Forbidden) as error:
            raise JobFailedForGood(error.message) from error
        return {"ok": True, "error": "", "data": data}
