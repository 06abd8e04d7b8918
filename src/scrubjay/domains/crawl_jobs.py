"""The job kinds of a domain's crawl. Each runs its steps in order; after a crash it resumes at the step it was at."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from scrubjay.domains.orders import (
    CRAWL_KIND,
    DOWNLOAD_KIND,
    EMBED_KIND,
    KIND_OF,
    PROCESS_KIND,
    DomainCrawlOrder,
    DomainSteps,
)
from scrubjay.errors import InvalidRequest, JobFailedForGood, NotFound
from scrubjay.model.job import JobState
from scrubjay.queue.context import JobContext
from scrubjay.queue.kinds import JobKind
from scrubjay.storage.numbered_jobs import NumberedJobs

STEPS_OF: Mapping[str, tuple[str, ...]] = {
    DOWNLOAD_KIND: ("download",),
    PROCESS_KIND: ("process",),
    EMBED_KIND: ("embed",),
    CRAWL_KIND: ("download", "process", "embed"),
}
MAX_ERROR = 2000
Step = Callable[[JobContext, DomainCrawlOrder], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class DomainCrawlJobs:
    load_steps: Callable[[], DomainSteps]

    @property
    def kinds(self) -> tuple[JobKind, ...]:
        return tuple(JobKind(name=name, handler=self.run) for name in STEPS_OF)

    async def run(self, context: JobContext) -> Mapping[str, Any]:
        try:
            order = DomainCrawlOrder.read(context.payload)
        except InvalidRequest as error:
            raise JobFailedForGood(error.message) from error
        await _require_alone(context, order.domain_id)
        names = STEPS_OF[context.job.kind]
        done: dict[str, Any] = dict(context.state.get("done") or {})
        for number, name in enumerate(names, 1):
            if name in done:
                continue
            await context.log(f"[ {number} / {len(names)} ] Step '{name}' of domain '{order.domain_id}'...")
            try:
                done[name] = dict(await self._step(name)(context, order))
            except (NotFound, InvalidRequest) as error:
                # The domain, a source or the vector store went away, or its definition was broken meanwhile.
                raise JobFailedForGood(error.message) from error
            await context.checkpoint({**context.state, "step": name, "done": done})
        errors = [(step, name, why) for step in done for name, why in (done[step].get("errors") or {}).items()]
        message = "; ".join(f"{step}: {name}: {why}" for step, name, why in errors)[:MAX_ERROR]
        data = {"domain_id": order.domain_id, "dry_run": order.dry_run, **done}
        result = {"ok": not errors, "error": message, "data": data}
        if errors:
            async with context.transaction() as connection:
                state = _state_for_retry(context.state, {name for _, name, _ in errors})
                await context.remember(connection, state)
            raise JobFailedForGood(message, result=result)
        return result

    def _step(self, name: str) -> Step:
        does = self.load_steps()
        steps: Mapping[str, Step] = {
            "download": does.download,
            "process": does.process,
            "embed": does.embed,
        }
        return steps[name]


def _state_for_retry(state: Mapping[str, Any], failed: Collection[str]) -> dict[str, Any]:
    """The state from which a retry repeats every step for the sources that failed, and nothing for the others."""
    return {
        step: {name: counts for name, counts in state[step].items() if name not in failed}
        for step in STEPS_OF[CRAWL_KIND]
        if step in state
    }


async def _require_alone(context: JobContext, domain_id: str) -> None:
    """Two crawls of one domain would write the same files. Starting one looks for others; retrying an old one does
    not, so it is looked at here: whoever is at work goes on, and of those that wait, the newest."""
    async with context.transaction() as connection:
        others = await NumberedJobs(connection).unfinished_of(context.job.tenant_id, domain_id, list(KIND_OF))
    for numbered, job in others:
        if job.id != context.job.id and (job.state is JobState.RUNNING or job.created_at > context.job.created_at):
            raise JobFailedForGood(f"'{domain_id}' is in use by job '{numbered.id}'.")
