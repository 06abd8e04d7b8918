"""`scrubjay plan run`: run a plan now, watch it, and say what came of it."""

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live

from scrubjay.cli.context import admin, console, local_time, print_json, run, working
from scrubjay.cli.crawl_view import PARTLY_FAILED, exit_code
from scrubjay.cli.document_options import Json
from scrubjay.cli.interrupts import INTERRUPTED, Interrupts
from scrubjay.cli.plan_options import PlanName, find_plan
from scrubjay.cli.plan_values import read_interval
from scrubjay.cli.plan_view import operation_facts, show_result, show_run
from scrubjay.errors import Conflict
from scrubjay.model.job import Job, JobRequest, JobState
from scrubjay.model.plan import ENDED_STATES, Operation, OperationState, Plan, ScheduleSettings

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal

LOOK_SECONDS = 0.25


def run_plan(
    plan: PlanName,
    confirm_deletions: Annotated[
        bool, typer.Option("--confirm-deletions", help="Delete what is missing, however much that is.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Watch the run, or leave it to a server.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only the result.")] = False,
    as_json: Json = False,
) -> None:
    """Run a plan now, or join the run that is under way.

    Exit codes: 0 everything was taken in, 3 some items failed, 4 nothing was read, 130 interrupted.
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
    if wait:
        raise typer.Exit(INTERRUPTED if watch.interrupts.count else _exit_code(operation))


def _exit_code(operation: Operation) -> int:
    code = exit_code({"report": operation.report})
    return PARTLY_FAILED if code == 0 and operation.state is not OperationState.SUCCESS else code


def keep_plan(
    plan: PlanName,
    every: Annotated[str, typer.Option(help="The interval between two runs, for example 6h or 1d.")] = "1d",
    cron: Annotated[str | None, typer.Option(help="A cron expression instead of an interval.")] = None,
    name: Annotated[str | None, typer.Option(help="Another name for the plan.")] = None,
) -> None:
    """Keep a one-off crawl as a plan that runs on a schedule.

    (Example: `scrubjay plan keep cplan_01k7 --every 6h`)
    """
    schedule = ScheduleSettings(cron=cron) if cron is not None else ScheduleSettings(**read_interval(every))

    async def main() -> Plan:
        async with admin() as (jay, who):
            found = await find_plan(jay, who, plan)
            return await jay.plans.keep(who, found.id, schedule, name)

    kept = run(main)
    due = "none" if kept.next_crawl_at is None else local_time(kept.next_crawl_at)
    console.print(f"Kept as '{kept.name}'; next run: {due}.", highlight=False)


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
        self.interrupts = Interrupts("Stopped at once; the run continues when a server or worker runs.")

    async def until_over(self, operation: Operation) -> Operation:
        async with working() as (jay, who):
            self.interrupts.listen()
            await self._look(jay, who, operation)
            return await jay.operations.get(who, operation.plan_id, operation.id)

    async def _look(self, jay: "Scrubjay", who: "Principal", operation: Operation) -> None:
        """Until the run's job is over, too: the next process here must not start it again."""
        asked = False
        job = await self._job(jay, who, operation)
        if job.state is JobState.PAUSED:
            job = await jay.jobs.make_request(who, job.id, JobRequest.RESUME)
        live = Live(show_run(operation, job), console=console, refresh_per_second=4, transient=True)
        with live if self._live else nullcontext():
            while not job.is_finished:
                live.update(show_run(operation, job, stopping=asked))
                if self.interrupts.count and not asked:
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
