"""`scrubjay ops`: the runs of a plan."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column
from rich.text import Text

from scrubjay.cli.context import admin, cell, console, local_time, print_json, run
from scrubjay.cli.document_options import Json
from scrubjay.cli.plan_options import PlanName, find_plan
from scrubjay.cli.plan_view import STATE_STYLES, counts_of, describe_took, operation_facts, seconds_of, show_rows
from scrubjay.model.page import Page
from scrubjay.model.plan import Operation

if TYPE_CHECKING:
    from scrubjay.services.operations import RunStatistics

COUNTED = ("enumerated", "added", "changed", "removed", "failed", "withheld")
COLUMNS = (
    *(Column(each) for each in ("state", "when", "took")),
    *(Column(each, justify="right") for each in COUNTED),
    Column("message"),
)


def list_operations(
    plan: PlanName,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of runs.")] = 20,
    as_json: Json = False,
) -> None:
    """List the runs of a plan, newest first, and what they amount to."""

    async def main() -> "tuple[Page[Operation], RunStatistics]":
        async with admin() as (jay, who):
            found = await find_plan(jay, who, plan)
            page = await jay.operations.page(who, found.id, limit=limit)
            return page, await jay.operations.statistics(who, found.id)

    page, statistics = run(main)
    if as_json:
        runs = [operation_facts(each) for each in page.items]
        print_json({"operations": runs, "total": page.total, "statistics": asdict(statistics)})
        return
    if not page.items:
        console.print("No runs yet; `scrubjay plan run` begins one.")
        return
    show_rows(COLUMNS, [_row(each) for each in page.items])
    if page.has_more:
        console.print(f"{page.total - len(page.items):,} more; see --limit.", highlight=False)
    mean = describe_took(statistics.runtime_ms.mean / 1000)
    runs_word = "run" if page.total == 1 else "runs"
    console.print(f"{page.total:,} {runs_word}, {statistics.failed_runs:,} failed, {mean} on average.", highlight=False)


def _row(operation: Operation) -> list[Text]:
    counts = counts_of(operation)
    return [
        Text(str(operation.state), style=STATE_STYLES.get(operation.state, "yellow")),
        Text(local_time(operation.started_at or operation.created_at)),
        Text(describe_took(seconds_of(operation))),
        *(Text(f"{counts[name]:,}") for name in COUNTED),
        cell(operation.status_message),
    ]
