"""`scrubjay jobs top`: what is running, waiting and just finished, live."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from scrubjay.cli.context import cell, console, id_column, run_as_admin
from scrubjay.model.clock import utc_now
from scrubjay.model.job import FINISHED_STATES, Job, JobState

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal

WIDE = 120  # characters, for the columns that can be done without
JUST_NOW = timedelta(minutes=5)
STYLES = {
    JobState.RUNNING: "green",
    JobState.PAUSED: "yellow",
    JobState.FAILED: "red",
    JobState.CANCELLED: "dim",
    JobState.COMPLETED: "dim",
}


def top(
    every: Annotated[float, typer.Option("--every", min=0.2, max=60, help="Seconds between two looks.")] = 1.0,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of jobs.")] = 20,
    once: Annotated[bool, typer.Option("--once", help="Look once and leave.")] = False,
) -> None:
    """Watch jobs live: how far each is, how fast, what failed, and where. Ctrl-C leaves the view; the jobs continue."""

    async def main(jay: "Scrubjay", who: "Principal") -> None:
        if once or not console.is_terminal:
            console.print(await _view(jay, who, limit))
            return
        with Live(await _view(jay, who, limit), console=console, auto_refresh=False, screen=True) as live:
            while True:
                await asyncio.sleep(every)
                live.update(await _view(jay, who, limit), refresh=True)

    run_as_admin(main)


async def _view(jay: "Scrubjay", who: "Principal", limit: int) -> Group:
    counts = await jay.jobs.counts(who)
    head = Text("  ".join(f"{name} {count:,}" for name, count in counts.items() if count) or "No jobs yet.")
    wide = console.width >= WIDE
    columns = [
        id_column(),
        Column("state", no_wrap=True),
        Column("done", justify="right", no_wrap=True),
        Column("a second", justify="right", no_wrap=True),
        Column("failed", justify="right", no_wrap=True),
        Column("time", justify="right", no_wrap=True),
    ]
    if wide:
        columns += [Column("", min_width=16), Column("kind"), Column("where", no_wrap=True, overflow="ellipsis")]
    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for job in await _jobs(jay, who, limit):
        table.add_row(*_cells(job)[: len(columns)])
    return Group(head, Text(), table)


async def _jobs(jay: "Scrubjay", who: "Principal", limit: int) -> list[Job]:
    """Those that run, then those that rest or wait, then those that have just finished."""
    found: list[Job] = []
    for state in (JobState.RUNNING, JobState.PAUSED, JobState.PENDING):
        found += (await jay.jobs.page(who, state=state, limit=limit)).items
    recent = (await jay.jobs.page(who, limit=limit)).items
    since = utc_now() - JUST_NOW
    found += [job for job in recent if job.state in FINISHED_STATES and job.finished_at and job.finished_at > since]
    return found[:limit]


def _cells(job: Job) -> list[RenderableType]:
    progress = job.progress
    current, total = progress.get("current"), progress.get("total")
    rate = progress.get("pages_per_second") if job.state is JobState.RUNNING else None
    return [
        job.id,
        Text(str(job.state), style=STYLES.get(job.state, "")),
        "" if current is None else f"{current:,}" + (f"/{total:,}" if total else ""),
        "" if rate is None else f"{rate:.1f}",
        f"{progress['failed']:,}" if progress.get("failed") else "",
        _elapsed(job),
        ProgressBar(total=total, completed=current or 0, width=16) if total else "",
        cell(job.kind),
        cell(_where(job)),
    ]


def _elapsed(job: Job) -> str:
    if job.started_at is None:
        return ""
    seconds = int(((job.finished_at or utc_now()) - job.started_at).total_seconds())
    return str(timedelta(seconds=max(0, seconds)))


def _where(job: Job) -> str:
    """The busiest hosts, or where it starts; of a job that failed, why."""
    if job.error:
        return job.error
    hosts = list(job.progress.get("hosts") or {})
    starts = (job.payload.get("spec") or {}).get("start_urls") or ()
    return ", ".join([*(hosts or starts)][:3]) or str(job.progress.get("message") or "")
