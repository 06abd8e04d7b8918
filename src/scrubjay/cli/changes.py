"""`scrubjay changes`: what was added, changed and removed in a plan's documents."""

import json
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scrubjay.cli.context import cell, console, local_time, printable, run_as_admin
from scrubjay.cli.documents import STYLES
from scrubjay.cli.plan_options import PlanName, find_plan
from scrubjay.cli.plan_values import read_duration
from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.clock import utc_now

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal
    from scrubjay.services.operations import DocumentChange

MARKS = {"added": "+", "changed": "~", "removed": "-"}
MARK_STYLES = {"added": "green", "changed": "yellow", "removed": "red"}


def list_changes(
    plan: PlanName,
    since: Annotated[
        str | None, typer.Option(help="Only later than a moment or so long ago: 2026-05-01, 2026-05-01T12:00, 7d.")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show what changed in what changed.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000_000, help="Maximum number of changes, newest first.")
    ] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """List what was added (+), changed (~) and removed (-) in a plan's documents, oldest first."""
    moment = None if since is None else _read_moment(since)

    async def main(jay: "Scrubjay", who: "Principal") -> int:
        found = await find_plan(jay, who, plan)
        newest: deque[DocumentChange] = deque(maxlen=limit)
        total = 0
        async for change in jay.operations.changes(who, found.id, since=moment):
            newest.append(change)
            total += 1
        if total > limit and not as_json:
            console.print(f"{total - limit:,} earlier ones; see --limit.", highlight=False)
        for change in newest:
            facts = _facts(change)
            if diff and change.kind == "changed":
                facts["diff"] = await _diff(jay, who, change)
            _show(facts, as_json=as_json)
        return total

    if not run_as_admin(main) and not as_json:
        console.print("Nothing changed." if since else "Nothing has been taken in yet.")


def _read_moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.astimezone()
    except (ValueError, OverflowError):
        pass
    try:
        return utc_now() - read_duration(text, "--since")
    except (InvalidRequest, OverflowError) as error:
        raise InvalidRequest(
            "--since must be a date, a time or how long ago, as 2026-05-01, 2026-05-01T12:00 or 7d."
        ) from error


def _facts(change: "DocumentChange") -> dict[str, Any]:
    document = change.document
    return {
        "change": str(change.kind),
        "at": change.at.isoformat(),
        "title": document.title or document.filename,
        "url": document.url,
        "document_id": document.id,
        "version": change.version,
        "operation_id": change.operation_id,
    }


async def _diff(jay: "Scrubjay", who: "Principal", change: "DocumentChange") -> str | None:
    """What changed since the version before; nothing when that version is no longer kept."""
    try:
        found = await jay.documents.diff(
            who, change.document.id, from_version=change.version - 1, to_version=change.version
        )
    except NotFound:
        return None
    return found.unified


def _show(facts: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(printable(json.dumps(facts, ensure_ascii=False)))
        return
    at = local_time(datetime.fromisoformat(facts["at"]))
    line = Text.assemble(
        (f"{MARKS[facts['change']]} ", MARK_STYLES[facts["change"]]),
        (f"{at}  ", "dim"),
        (f"{cell(facts['title']).plain}  ", "bold"),
        (cell(facts["url"]).plain, "cyan"),
    )
    console.print(line, soft_wrap=True)
    for each in (facts.get("diff") or "").splitlines()[2:]:  # the first two say which versions
        console.print(Text(f"    {cell(each).plain}", style=STYLES.get(each[:1], "")), soft_wrap=True)
