"""`scrubjay audit`: who did what, the newest first."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from scrubjay.cli.context import cell, console, local_time, print_json, run_as_admin


def list_acts(
    action: Annotated[str | None, typer.Option(help="Only this action, such as key.created.")] = None,
    key: Annotated[str | None, typer.Option(help="Only what the key of this id did (cred_…).")] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1000, help="How many to show.")] = 50,
    offset: Annotated[int, typer.Option(min=0, max=1_000_000, help="How many to pass over.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List administrative acts: keys, sign-ins, deletions, webhooks, proxies, backups."""
    page = run_as_admin(lambda jay, who: jay.audit.page(who, action=action, key_id=key, limit=limit, offset=offset))
    if as_json:
        print_json([asdict(entry) for entry in page.items])
        return
    for entry in page.items:
        console.print(cell(f"{local_time(entry.at)}  {entry.action}  {entry.target_id or ''}".rstrip()), soft_wrap=True)
        by = [entry.key_name, entry.door or "a job", entry.remote_address, _in_words(entry.details)]
        console.print(cell("    " + " · ".join(part for part in by if part)), style="dim", soft_wrap=True)
    if page.total > offset + len(page.items):
        console.print(f"There are more: --offset {offset + len(page.items)}.", highlight=False)


def _in_words(details: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{name.replace('_', ' ')}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in details.items()
    )
