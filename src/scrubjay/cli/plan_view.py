"""How plans and their runs look in a terminal, and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from scrubjay.cli.context import cell, console, local_time, plain_table, print_indented
from scrubjay.cli.crawl_view import show_crawl
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job
from scrubjay.model.plan import (
    IntervalType,
    Operation,
    OperationState,
    Plan,
    PlanState,
    RepositoryType,
    ScheduleSettings,
)

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal

HIDDEN = "(set)"
STATE_STYLES = {OperationState.SUCCESS: "green", OperationState.FAILED: "red"}
_AHEAD = 3  # cells of a row that stand in its first line, where it has several
_INDENT = 2
_UNLIMITED = 10_000
_SINGULAR = {
    IntervalType.MINUTES: "minute",
    IntervalType.HOURS: "hour",
    IntervalType.DAYS: "day",
    IntervalType.WEEKS: "week",
}
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_COUNTS = {
    "enumerated": "objects_enumerated",
    "added": "objects_added",
    "changed": "objects_updated",
    "removed": "objects_deleted",
    "unchanged": "objects_unchanged",
    "failed": "objects_failed",
    "withheld": "objects_withheld",
}


async def plan_facts(jay: "Scrubjay", who: "Principal", plan: Plan) -> dict[str, Any]:
    """Everything about a plan but its secrets."""
    facts = asdict(plan)
    for name in ("ingestion_settings", "schedule", "filter", "deletion"):
        facts[name] = getattr(plan, name).model_dump(mode="json")
    runs = await jay.operations.page(who, plan.id, limit=1)
    return {
        **facts,
        "source": source_of(plan.repository_type, plan.repository_settings),
        "repository_settings": shown_settings(plan),
        "runs": describe_schedule(plan),
        "documents": await jay.plans.counts(who, plan.id),
        "last_operation": operation_facts(runs.items[0]) if runs.items else None,
    }


def source_of(repository_type: str, settings: Mapping[str, Any]) -> str:
    """Where a plan's content comes from, in one line."""
    from scrubjay.sources.registry import connector_types

    if repository_type == RepositoryType.S3:
        return f"s3://{settings.get('bucket') or ''}/{settings.get('prefix') or ''}"
    kind = connector_types().get(repository_type)
    return str(settings.get(kind.required[0]) or "") if kind is not None and kind.required else ""


def shown_settings(plan: Plan) -> dict[str, Any]:
    """The source's settings with their defaults; of a kind that is not installed, it is unknown what is secret."""
    from scrubjay.sources.registry import connector_types

    given = plan.repository_settings
    kind = connector_types().get(plan.repository_type)
    if kind is None:
        return dict.fromkeys(given, HIDDEN)
    defaults = {
        name: known.get_default(call_default_factory=True)
        for name, known in kind.settings.model_fields.items()
        if not known.is_required()
    }
    return {**defaults, **{name: HIDDEN if name in kind.secrets else value for name, value in given.items()}}


def operation_facts(operation: Operation) -> dict[str, Any]:
    return asdict(operation) | {"seconds": seconds_of(operation)}


def seconds_of(operation: Operation) -> float | None:
    if operation.started_at is None:
        return None
    return round(((operation.finished_at or utc_now()) - operation.started_at).total_seconds(), 3)


def describe_schedule(plan: Plan) -> str:
    words = _schedule(plan.schedule)
    return words if plan.is_active else f"by hand ({words} is off)"


def _schedule(schedule: ScheduleSettings) -> str:
    if schedule.requests_per_day is not None:
        words = f"within {schedule.requests_per_day:,} requests a day"
    elif schedule.cron is not None:
        words = f"by cron {schedule.cron} (UTC)"
    elif schedule.interval_type is IntervalType.ONE_TIME:
        return "once"
    else:
        unit, number = _SINGULAR[schedule.interval_type], schedule.interval_value
        words = f"every {unit}" if number == 1 else f"every {number:,} {unit}s"
    late = schedule.jitter_seconds
    return f"{words}, up to {describe_seconds(late)} later" if late else words


def describe_next(plan: Plan) -> str:
    """When a plan runs next, as people say it."""
    if plan.state is PlanState.RUNNING:
        return "running now"
    if plan.next_crawl_at is None or not plan.is_active:
        return "not by itself"
    return "due" if plan.next_crawl_at <= utc_now() else relative(plan.next_crawl_at)


def relative(moment: datetime | None) -> str:
    if moment is None:
        return ""
    away: timedelta = moment - utc_now()
    words = describe_seconds(abs(away.total_seconds()))
    return f"in {words}" if away > timedelta() else f"{words} ago"


def describe_seconds(seconds: float) -> str:
    """In the largest unit of which there are two, or one exactly: 90 minutes, 1 hour, 36 hours."""
    whole = round(seconds)
    for unit, size in _UNITS:
        if whole >= 2 * size or whole == size:
            return f"{round(whole / size):,} {unit}{'' if round(whole / size) == 1 else 's'}"
    return "0 seconds"


def describe_took(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds < 100 else describe_seconds(seconds)


def last_run(facts: Mapping[str, Any]) -> Text:
    """The result of the last run, and when it was; the run itself may be too old to be remembered."""
    operation = facts["last_operation"]
    if operation is None and facts["last_crawl_finish_at"] is None:
        return Text("never", style="dim")
    if operation is None:
        state = OperationState.SUCCESS if facts["last_crawl_success"] else OperationState.FAILED
        return Text(f"{state} {relative(facts['last_crawl_finish_at'])}", style=STATE_STYLES[state])
    state = operation["state"]
    when = operation["finished_at"] or operation["started_at"] or operation["created_at"]
    return Text(f"{state} {relative(when)}", style=STATE_STYLES.get(state, "yellow"))


def show_rows(columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> None:
    """A table. Where the terminal is too narrow for it, each row by itself: its first cells, and the rest below."""
    table = plain_table(*columns)
    for row in rows:
        table.add_row(*row)
    if console.measure(table, options=console.options.update(max_width=_UNLIMITED)).maximum <= console.width:
        console.print(table)
        return
    for row in rows:
        console.print(Text("  ").join(row[:_AHEAD]), soft_wrap=True)
        named = zip(columns[_AHEAD:], row[_AHEAD:], strict=True)
        parts = [Text.assemble((f"{column.header} ", "dim"), value) for column, value in named if value]
        print_indented(Text(", ").join(parts), _INDENT)


def show_settings(title: str, settings: Mapping[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row(Text(title, style="bold"))
    for name, value in settings.items():
        table.add_row(Text(f"  {name}"), cell(_said(value)))
    return table


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{local_time(value)} ({relative(value)})"
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value) or "–"
    return "–" if value is None or value == "" else str(value)


def show_run(operation: Operation, job: Job, *, stopping: bool = False) -> RenderableType:
    """A run under way: a site is crawled with all its numbers, then objects are taken in one by one."""
    facts = job.progress
    if operation.state is not OperationState.RETRIEVING:
        crawl = show_crawl(job, stopping=stopping)
        title = Text("listing the source", style="bold")
        return Group(title, crawl) if "pages_per_second" in facts or stopping else title
    current, total = (
        (facts.get("current", 0), facts.get("total") or 0) if facts.get("message") == "retrieving" else (0, 0)
    )
    line = Table.grid(padding=(0, 2))
    line.add_row(
        Text("retrieving", style="bold"),
        ProgressBar(total=max(total, 1), completed=current, width=30),
        Text(f"{current:,} of {total:,}" if total else ""),
        Text("stopping" if stopping else "", style="yellow"),
    )
    return line


def show_result(operation: Operation) -> None:
    """What came of a run."""
    table = Table.grid(padding=(0, 2))
    style = STATE_STYLES.get(operation.state, "yellow")
    table.add_row(Text("result", style="bold"), Text(str(operation.state), style=style))
    always = ("added", "changed", "removed", "unchanged", "failed")
    for name, count in counts_of(operation).items():
        if name in always or (count and name == "withheld"):
            table.add_row(Text(name, style="bold"), Text(f"{count:,}"))
    table.add_row(Text("time", style="bold"), Text(describe_took(seconds_of(operation))))
    console.print(table)
    if operation.status_message:
        console.print(Text(cell(operation.status_message).plain, style=style), soft_wrap=True)


def counts_of(operation: Operation) -> dict[str, int]:
    """What a run found and did, in the words of the command line."""
    return {name: int(getattr(operation, field)) for name, field in _COUNTS.items()}
