"""`scrubjay doctor`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from scrubjay.cli.context import cell, console, print_json, run, searching

if TYPE_CHECKING:
    from scrubjay.services.health import Finding


def examine(
    repair: Annotated[
        bool, typer.Option("--repair", help="Put right what the index has otherwise than the documents.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at every part and say what is wrong and what to do. Exits with 1 when something is."""

    async def main() -> "list[Finding]":
        async with searching() as (jay, _):
            await jay.indexer.drain()  # what is only late is no difference
            findings = await jay.health.examine(repair=repair)
            if repair:
                await jay.indexer.drain()
            return findings

    findings = run(main)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        table = Table("", "part", Column("found", overflow="fold"), "what to do", box=None, header_style="dim")
        for finding in findings:
            mark = "[green]✓[/green]" if finding.is_well else "[red]✗[/red]"
            table.add_row(mark, finding.name, cell(finding.detail), cell(finding.advice))
        console.print(table)
    if not all(finding.is_well for finding in findings):
        raise typer.Exit(1)
