"""How a crawl looks in a terminal: while it runs, and when it is over."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from scrubjay.cli.context import cell, console
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job, JobState
from scrubjay.plans.report import RunReport
from scrubjay.services.reports import RunItems

SHOWN_HOSTS = 6
SHOWN_ERRORS = 8


def show_crawl(job: Job, *, stopping: bool = False) -> RenderableType:
    facts: Mapping[str, Any] = job.progress
    current, total = facts.get("current", 0), facts.get("total") or 0
    line = Table.grid(padding=(0, 2))
    elapsed = (utc_now() - job.started_at).total_seconds() if job.started_at else 0.0
    line.add_row(
        ProgressBar(total=max(total, 1), completed=current, width=30),
        Text(f"{current:,} pages"),
        Text(f"{facts.get('pages_per_second', 0):,.1f}/s"),
        Text(f"{facts.get('queued', 0):,} in queue"),
        Text(f"{facts.get('failed', 0):,} failed", style="red" if facts.get("failed") else ""),
        Text(_clock(elapsed)),
    )
    parts: list[RenderableType] = [line]
    hosts = facts.get("hosts") or {}
    waiting = facts.get("waiting") or {}
    if len(hosts) > 1 or facts.get("failed") or waiting:
        parts.append(_hosts_table(hosts, waiting))
    if facts.get("errors"):
        parts.append(_errors_line(facts["errors"]))
    if stopping:
        parts.append(Text("stopping at the next checkpoint; Ctrl-C again stops at once", style="yellow"))
    elif job.state is JobState.PENDING:
        again = cell(f" again after: {job.error}" if job.error else "")
        parts.append(Text.assemble("waiting to start", again, style="dim"))
    return Group(*parts)


def _hosts_table(hosts: Mapping[str, Any], waiting: Mapping[str, float]) -> Table:
    table = Table.grid(padding=(0, 2))
    for host, numbers in list(hosts.items())[:SHOWN_HOSTS]:
        note = f"left alone for {waiting[host]:.0f} s" if host in waiting else ""
        failed = numbers.get("failed", 0)
        table.add_row(
            Text("  "),
            cell(host),
            Text(f"{numbers.get('pages', 0):,} pages"),
            Text(f"{failed:,} failed" if failed else "", style="red"),
            Text(note, style="yellow"),
        )
    return table


def _errors_line(errors: Mapping[str, int]) -> Text:
    most = sorted(errors.items(), key=lambda entry: -entry[1])[:SHOWN_ERRORS]
    return Text("  " + "  ".join(f"{name} {count:,}" for name, count in most), style="dim")


def show_summary(job: Job) -> None:
    facts: Mapping[str, Any] = job.result or job.progress
    table = Table.grid(padding=(0, 2))
    for name, value in _summary_rows(facts):
        table.add_row(Text(name, style="bold"), Text(value))
    console.print(table)
    if facts.get("errors"):
        console.print(_errors_line(facts["errors"]))
    if job.error:
        console.print(Text.assemble("The crawl failed: ", cell(job.error), style="red"))
    elif job.state is JobState.PAUSED:
        console.print(Text("Stopped. Run the same command with --resume to continue."))


PARTLY_FAILED, NOTHING_READ = 3, 4


def exit_code(result: Mapping[str, Any] | None) -> int:
    """0 when everything that exists was read, 3 when something failed or was refused, 4 when nothing was read."""
    report = RunReport.load((result or {}).get("report"))
    if report is None or not (report.got or report.unwanted):
        return NOTHING_READ
    return PARTLY_FAILED if report.lost else 0


def show_problems(job: Job, found: RunItems | None) -> None:
    """The first addresses that were not taken in, with the reason and the next step."""
    if found is None or not found.items:
        return
    for item in found.items:
        line = Text.assemble(f"  {item.outcome} ", cell(item.key), ": ", cell(item.message or item.reason or ""))
        console.print(line, style="dim")
    first = next((item.next_step for item in found.items if item.next_step), None)
    if first:
        console.print(Text(f"  Next step: {first}"))
    if found.total > len(found.items):
        console.print(Text(f"  {found.total - len(found.items):,} more: scrubjay jobs report {job.id}"))


def _summary_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    seconds = facts.get("seconds") or 0.0
    fetched = facts.get("fetched", facts.get("current", 0))
    rate = f" ({fetched / seconds:,.1f} a second)" if seconds else ""
    rows = [
        ("pages", f"{facts.get('pages', 0):,}"),
        ("unchanged", f"{facts.get('unchanged', 0):,}"),
        ("duplicates", f"{facts.get('duplicates', 0):,}"),
        ("redirects", f"{facts.get('redirects', 0):,}"),
        ("failed", f"{facts.get('failed', 0):,}"),
        ("skipped", f"{facts.get('skipped', 0):,}"),
        ("left in queue", f"{facts.get('left_in_queue', 0):,}"),
        ("limits hit", ", ".join((facts.get("report") or {}).get("limits") or ()) or "0"),
        ("received", _size(facts.get("bytes", 0))),
    ]
    documents = facts.get("documents") or {}
    rows += [(f"documents {name}", f"{documents.get(name, 0):,}") for name in ("added", "changed", "removed", "failed")]
    always = ("pages", "failed", "received")
    shown = [(name, value) for name, value in rows if name in always or value != "0"]
    return [*shown, ("time", f"{_clock(seconds)}{rate}")]


def _size(count: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1000
    raise AssertionError("the last unit takes everything")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if seconds >= 10 else f"{seconds:.1f} s"
