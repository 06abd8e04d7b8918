"""`scrubjay jobs`: look at jobs and steer them."""

import json
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from scrubjay.cli import jobs_top
from scrubjay.cli.context import admin, cell, console, id_column, print_json, run, run_as_admin
from scrubjay.cli.document_options import Json
from scrubjay.errors import InvalidRequest
from scrubjay.model.job import Job, JobEvent, JobPriority, JobRequest, JobState
from scrubjay.plans.report import ItemOutcome
from scrubjay.services.reports import RunItems, problem_outcomes

app = typer.Typer(help="Look at jobs, steer them and follow their events.", no_args_is_help=True)
JobId = Annotated[str, typer.Argument(help="The job's id (job_…), as `scrubjay jobs ls` shows it.")]


def _facts(job: Job) -> dict[str, object]:
    return {
        "id": job.id, "kind": job.kind, "state": str(job.state), "requested": job.requested,
        "priority": job.priority.label, "progress": dict(job.progress), "result": job.result, "error": job.error,
        "retry_count": job.retry_count, "max_retries": job.max_retries, "created_at": job.created_at,
        "started_at": job.started_at, "finished_at": job.finished_at,
    }  # fmt: skip


def _progress(job: Job) -> str:
    current, total = job.progress.get("current"), job.progress.get("total")
    if current is None:
        return ""
    return f"{current} of {total}" if total else str(current)


@app.command("ls")
def list_jobs(
    state: Annotated[JobState | None, typer.Option(help="Only jobs in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of jobs.")] = 50,
    as_json: Json = False,
) -> None:
    """List jobs, newest first."""
    page = run_as_admin(lambda jay, who: jay.jobs.page(who, state=state, limit=limit))
    if as_json:
        print_json([_facts(job) for job in page.items])
        return
    table = Table(id_column(), "kind", "state", "progress", "created", "error")
    for job in page.items:
        asked = f" ({job.requested} requested)" if job.requested else ""
        table.add_row(
            job.id,
            cell(job.kind),
            f"{job.state}{asked}",
            cell(_progress(job)),
            f"{job.created_at:%Y-%m-%d %H:%M:%S}",
            cell(job.error),
        )
    console.print(table)
    if page.has_more:
        console.print(f"{page.total - len(page.items)} more; see --limit.")


app.command("top")(jobs_top.top)


@app.command("show")
def show(job_id: JobId) -> None:
    """Print everything about a job as JSON."""
    print_json(_facts(run_as_admin(lambda jay, who: jay.jobs.get(who, job_id))))


@app.command("submit")
def submit(
    kind: Annotated[str, typer.Argument(help="The kind of job, for example diagnostic.steps.")],
    payload: Annotated[str, typer.Option(help="A JSON object for the job's handler.")] = "{}",
    priority: Annotated[str, typer.Option(help="high, normal or low.")] = "normal",
) -> None:
    """Queue a job and print its id."""
    try:
        parsed, chosen = json.loads(payload), JobPriority[priority.upper()]
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"--payload is not JSON: {error}.") from error
    except KeyError as error:
        raise InvalidRequest("--priority must be high, normal or low.") from error
    if not isinstance(parsed, dict):
        raise InvalidRequest("--payload must be a JSON object.")
    job = run_as_admin(lambda jay, who: jay.jobs.submit(who, kind, parsed, priority=chosen))
    console.print(job.id, highlight=False)


def _ask(job_id: str, request: JobRequest, force: bool = False) -> None:
    job = run_as_admin(lambda jay, who: jay.jobs.make_request(who, job_id, request, force=force))
    waiting = f"; {job.requested} requested, obeyed at its next checkpoint" if job.requested else ""
    console.print(f"{job.state}{waiting}.", highlight=False)


@app.command("pause")
def pause(job_id: JobId) -> None:
    """Ask a job to pause at its next checkpoint."""
    _ask(job_id, JobRequest.PAUSE)


@app.command("resume")
def resume(job_id: JobId) -> None:
    """Resume a paused job."""
    _ask(job_id, JobRequest.RESUME)


@app.command("cancel")
def cancel(
    job_id: JobId,
    force: Annotated[bool, typer.Option("--force", help="End it now, even if its worker no longer answers.")] = False,
) -> None:
    """Ask a job to end at its next checkpoint."""
    _ask(job_id, JobRequest.CANCEL, force)


@app.command("retry")
def retry(job_id: JobId) -> None:
    """Queue a failed or cancelled job again; it continues from its last checkpoint."""
    _ask(job_id, JobRequest.RETRY)


@app.command("report")
def report(
    job_id: JobId,
    outcome: Annotated[
        list[ItemOutcome] | None, typer.Option(help="Only items of this outcome; repeatable. Default: problems.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List all items, also those that were taken in.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry", help="Crawl what failed, was denied or was cut again, as a new job.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of items.")] = 100,
    offset: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Items to skip.")] = 0,
    as_json: Json = False,
) -> None:
    """List what became of every address of a crawl, with reasons and next steps.

    (Example: `scrubjay jobs report job_0001k7 --outcome failed`)
    """
    outcomes = tuple(outcome or ()) or (() if every else problem_outcomes())

    async def main() -> RunItems | Job:
        async with admin() as (jay, who):
            found = await jay.reports.of_job(who, job_id, outcomes=outcomes, limit=limit, offset=offset)
            return await jay.reports.retry(who, found.operation.id) if retry_failed else found

    found = run(main)
    if isinstance(found, Job):
        console.print(found.id, soft_wrap=True, highlight=False)
    elif as_json:
        items = [item.record() for item in found.items]
        print_json({**found.report.dump(), "items": items, "total": found.total})
    else:
        _show_report(found)


def _show_report(found: RunItems) -> None:
    report = found.report
    console.print(f"{report.summary()}.", highlight=False)
    for problem in report.problems:
        console.print(cell(f"Not complete: {problem}"))
    if not found.items:
        return
    for item in found.items:
        reason = f" ({item.reason})" if item.reason else ""
        console.print(Text.assemble((f"{item.outcome:<8} ", "bold"), cell(item.key), reason), soft_wrap=True)
        if item.message:
            console.print(Text.assemble("         ", cell(item.message)), soft_wrap=True)
        if item.next_step:
            console.print(Text(f"         {item.next_step}", style="dim"), soft_wrap=True)
    if found.has_more:
        console.print(f"{found.total - found.offset - len(found.items):,} more; see --limit and --offset.")


@app.command("events")
def events(
    job_id: JobId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more until the job has finished.")] = False,
    after: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Start after this event number.")] = 0,
    as_json: Json = False,
) -> None:
    """Print a job's event log, one event a line."""

    def show_event(event: JobEvent) -> None:
        if as_json:
            facts = {"sequence": event.sequence, "type": event.type, "at": event.at, "payload": dict(event.payload)}
            typer.echo(json.dumps(facts, default=str))
        else:
            typer.echo(
                f"{event.sequence:>5}  {event.at:%H:%M:%S.%f}  {event.type:<22} {json.dumps(dict(event.payload))}"
            )

    async def main() -> None:
        async with admin() as (jay, who):
            if follow:
                async for event in jay.jobs.follow(who, job_id, after=after):
                    show_event(event)
            else:
                for event in await jay.jobs.events(who, job_id, after=after, limit=10_000):
                    show_event(event)

    run(main)
