"""`scrubjay jobs`: look at jobs and steer them."""

import json
from typing import Annotated

import typer
from rich.table import Table

from scrubjay.cli import jobs_top
from scrubjay.cli.context import admin, cell, console, id_column, print_json, run
from scrubjay.errors import InvalidRequest
from scrubjay.model.job import Job, JobEvent, JobPriority, JobRequest, JobState
from scrubjay.model.page import Page

app = typer.Typer(help="Look at jobs, steer them and follow their events.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
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
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many jobs.")] = 50,
    as_json: Json = False,
) -> None:
    """List jobs, newest first."""

    async def main() -> Page[Job]:
        async with admin() as (jay, who):
            return await jay.jobs.page(who, state=state, limit=limit)

    page = run(main)
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

    async def main() -> Job:
        async with admin() as (jay, who):
            return await jay.jobs.get(who, job_id)

    print_json(_facts(run(main)))


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

    async def main() -> str:
        async with admin() as (jay, who):
            return (await jay.jobs.submit(who, kind, parsed, priority=chosen)).id

    console.print(run(main), highlight=False)


def _ask(job_id: str, request: JobRequest, force: bool = False) -> None:
    async def main() -> Job:
        async with admin() as (jay, who):
            return await jay.jobs.make_request(who, job_id, request, force=force)

    job = run(main)
    waiting = f"; {job.requested} requested, obeyed at its next checkpoint" if job.requested else ""
    console.print(f"{job.state}{waiting}.", highlight=False)


@app.command("pause")
def pause(job_id: JobId) -> None:
    """Ask a job to pause at its next checkpoint."""
    _ask(job_id, JobRequest.PAUSE)


@app.command("resume")
def resume(job_id: JobId) -> None:
    """Let a paused job go on."""
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
    """Queue a failed or cancelled job again; it goes on from its last checkpoint."""
    _ask(job_id, JobRequest.RETRY)


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
