"""`scrubjay plan run`: run a plan now, watch it, and say what came of it."""

import asyncio
import signal
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live

from scrubjay.cli.context import admin, console, print_json, run, working
from scrubjay.cli.document_options import Json
from scrubjay.cli.plan_options import PlanName, find_plan
from scrubjay.cli.plan_view import operation_facts, show_result, show_run
from scrubjay.errors import Conflict
from scrubjay.model.job import Job, JobRequest, JobState
from scrubjay.model.plan import ENDED_STATES, Operation, OperationState

if TYPE_CHECKING:
    from scrubjay.bootstrap import Scrubjay
    from scrubjay.model.tenant import Principal

LOOK_SECONDS = 0.25
INTERRUPTED = 130


def run_plan(
    plan: PlanName,
    confirm_deletions: Annotated[
        bool, typer.Option("--confirm-deletions", help="Delete what is missing, however much that is.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Watch the run, or leave it to a server.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only the result.")] = False,
    as_json: Json = False,
) -> None:
    """Run a plan now, or join the run that is under way. Exits with 0 when everything was taken in.

    Stop with Ctrl-C: what was taken in stays, and the next run finds the rest.
    """
    watch = _Watch(live=not (quiet or as_json))

    async def main() -> Operation:
        # Begun before this process works: nothing else can begin it in between.
        async with admin() as (jay, who):
            operation = await _begin(jay, who, plan, confirm_deletions)
        return await watch.until_over(operation) if wait else operation

    operation = run(main)
    if as_json:
        print_json(operation_facts(operation))
    elif wait:
        show_result(operation)
    else:
        console.print(operation.id, soft_wrap=True, highlight=False)
        console.print("It runs as soon as a server or worker does; `scrubjay ops` tells how it goes.")
    if wait and operation.state is not OperationState.SUCCESS:
        raise typer.Exit(INTERRUPTED if watch.is_interrupted else 1)


async def _begin(jay: "Scrubjay", who: "Principal", name: str, confirm_deletions: bool) -> Operation:
    """A new run, or the one that is under way unless that was begun differently."""
    plan = await find_plan(jay, who, name)
    try:
        return await jay.plans.start(who, plan.id, confirm_deletions=confirm_deletions)
    except Conflict:
        plan = await jay.plans.get(who, plan.id)
        if confirm_deletions or plan.operation_id is None:
            raise
        return await jay.operations.get(who, plan.id, plan.operation_id)


class _Watch:
    """Looks at a run until it is over, and stops it at Ctrl-C."""

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._interrupts = 0

    @property
    def is_interrupted(self) -> bool:
        return self._interrupts > 0

    async def until_over(self, operation: Operation) -> Operation:
        loop = asyncio.get_running_loop()
        async with working() as (jay, who):
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            loop.add_signal_handler(signal.SIGTERM, self._interrupt)
            await self._look(jay, who, operation)
            return await jay.operations.get(who, operation.plan_id, operation.id)

    def _interrupt(self) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            # The second time is meant: the run is safe in the database, and goes on when somebody works there.
            sys.stderr.write("\nStopped at once; the run goes on when a server or worker runs.\n")
            sys.stderr.flush()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)

    async def _look(self, jay: "Scrubjay", who: "Principal", operation: Operation) -> None:
        """Until the run's job is over, too: it must not be begun again by whoever works here next."""
        asked = False
        job = await self._job(jay, who, operation)
        if job.state is JobState.PAUSED:
            job = await jay.jobs.make_request(who, job.id, JobRequest.RESUME)
        live = Live(show_run(operation, job), console=console, refresh_per_second=4, transient=True)
        with live if self._live else nullcontext():
            while not job.is_finished:
                live.update(show_run(operation, job, stopping=asked))
                if self._interrupts and not asked:
                    asked = True
                    await jay.plans.stop(who, operation.plan_id)
                await asyncio.sleep(LOOK_SECONDS)
                operation = await jay.operations.get(who, operation.plan_id, operation.id)
                job = await self._job(jay, who, operation)
        if operation.state not in ENDED_STATES:
            await jay.plans.stop(who, operation.plan_id)  # nobody carries it any more; this ends it

    @staticmethod
    async def _job(jay: "Scrubjay", who: "Principal", operation: Operation) -> Job:
        return await jay.jobs.get(who, operation.job_id or "")
