"""`scrubjay doctor`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from scrubjay.cli.context import admin, cell, console, print_json, run

if TYPE_CHECKING:
    from scrubjay.services.health import Finding


def examine(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Look at every part and say what is wrong and what to do. Exits with 1 when something is."""

    async def main() -> "list[Finding]":
        async with admin() as (jay, _):
            return await jay.health.examine()

    findings = run(main)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        table = Table("", "part", "found", "what to do")
        for finding in findings:
            mark = "[green]✓[/green]" if finding.is_well else "[red]✗[/red]"
            table.add_row(mark, finding.name, cell(finding.detail), cell(finding.advice))
        console.print(table)
    if not all(finding.is_well for finding in findings):
        raise typer.Exit(1)
