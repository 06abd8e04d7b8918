"""`scrubjay plan`: sources that are looked at again and again; `plan run` is in `plan_run.py`."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column
from rich.text import Text

from scrubjay.cli import plan_run
from scrubjay.cli.context import (
    admin,
    cell,
    console,
    id_column,
    plain_table,
    print_json,
    report_removal,
    run,
    run_as_admin,
    searching,
    working,
)
from scrubjay.cli.document_options import Json
from scrubjay.cli.model_options import with_options
from scrubjay.cli.plan_options import PLAN_OPTIONS, PlanName, all_plans, find_plan
from scrubjay.cli.plan_values import Draft, guess_type, values_of
from scrubjay.cli.plan_view import (
    describe_next,
    describe_schedule,
    last_run,
    plan_facts,
    show_rows,
    show_settings,
    source_of,
)
from scrubjay.errors import InvalidRequest
from scrubjay.model.plan import Plan, PlanState, RepositoryType

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.plan import PlanValues
    from scrubjay.model.source import Connectivity
    from scrubjay.model.tenant import Principal

app = typer.Typer(
    help="Make plans: sources that are looked at again and again, so that only what changed is taken in.",
    no_args_is_help=True,
)
NAME_LENGTH = 255
PLAN_COLUMNS = (
    *(Column(each) for each in ("name", "type", "state", "source", "runs", "last run", "next run")),
    Column("documents", justify="right"),
    id_column(),
)
SHOWN_FIRST = ("id", "name", "repository_type", "source", "state", "runs", "last run", "next run", "documents")
SHOWN_GROUPS = ("repository_settings", "ingestion_settings", "filter", "deletion")
SHOWN_LAST = (
    "process_additions", "process_updates", "process_deletions", "max_drain_tasks", "max_failed_share",
    "retention_days", "last_complete_at", "probably_stale", "created_at", "updated_at",
)  # fmt: skip

app.command("run")(plan_run.run_plan)
app.command("keep")(plan_run.keep_plan)


@app.command("add")
@with_options(*PLAN_OPTIONS)
def add(
    source: Annotated[str, typer.Argument(help="A web site's or feed's address, a folder, or s3://bucket/prefix.")],
    repository_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            help="Web, Feed, File, AmazonS3, or what a plugin brings. Default: Web, unless it is a path or s3://…",
        ),
    ] = None,
    *,
    options: dict[str, Any],
    as_json: Json = False,
) -> None:
    """Make a plan; it is not run yet. Prints its id, and when it runs.

    Secrets are read from standard input or the environment, never from the command line.
    """
    from scrubjay.model.plan import PlanValues
    from scrubjay.sources.registry import connector_type

    try:
        kind = connector_type(repository_type or guess_type(source))
    except InvalidRequest as error:
        raise InvalidRequest(f"--type: {error.message}") from error
    draft = Draft(kind, options, source)

    async def main(jay: "Scrubjay", who: "Principal") -> tuple[Plan, dict[str, Any]]:
        values = draft.values(PlanValues(name="", repository_settings={}))
        shown = source_of(kind.name, values.repository_settings)
        named = replace(values, name=values.name or (shown.partition("://")[2].rstrip("/") or shown)[:NAME_LENGTH])
        values = await _completed(jay, who, draft, named, before=None)
        with draft.explaining():
            plan = await jay.plans.create(who, values)
        return plan, await plan_facts(jay, who, plan)

    plan, facts = run_as_admin(main)
    if as_json:
        print_json(facts)
    else:
        console.print(plan.id, soft_wrap=True, highlight=False)
        console.print(Text(_when(plan)))


@app.command("edit")
@with_options(*PLAN_OPTIONS)
def edit(
    plan: PlanName,
    source: Annotated[str | None, typer.Option(help="Another address, folder or bucket.", show_default=False)] = None,
    *,
    options: dict[str, Any],
    as_json: Json = False,
) -> None:
    """Change a plan: what is not given stays as it is. A run that is under way ends as it began."""
    from scrubjay.sources.registry import connector_type

    async def main(jay: "Scrubjay", who: "Principal") -> tuple[Plan, dict[str, Any]]:
        before = await find_plan(jay, who, plan)
        kind = connector_type(before.repository_type)
        draft = Draft(kind, options, source)
        values = draft.values(values_of(before, kind))
        values = await _completed(jay, who, draft, values, before=before)
        with draft.explaining():
            changed = await jay.plans.update(who, before.id, values)
        return changed, await plan_facts(jay, who, changed)

    changed, facts = run_as_admin(main)
    if as_json:
        print_json(facts)
    else:
        console.print(Text(f"Changed. {_when(changed)}"))


async def _completed(
    jay: "Scrubjay", who: "Principal", draft: Draft, values: "PlanValues", before: Plan | None
) -> "PlanValues":
    """The same with what only an open Scrubjay knows: may the folder be read, and which collection is that?"""
    path = values.repository_settings.get("path")
    is_new = before is None or before.repository_settings.get("path") != path
    if draft.kind.name == RepositoryType.FILE and path and is_new:
        from scrubjay.sources.filesystem import FileConnector, FileSettings

        wanted = FileSettings.model_validate(values.repository_settings)
        found = await FileConnector(path, wanted, jay.settings).check()
        if not found.works:
            raise InvalidRequest(found.message)
    collection = draft.options.get("collection")
    if not collection:
        return values
    known = await jay.collections.find_or_create(who, collection)
    return replace(values, ingestion_settings=values.ingestion_settings.model_copy(update={"collection_id": known.id}))


def _when(plan: Plan) -> str:
    if plan.state is PlanState.RUNNING:
        return "It is running now."
    by_hand = f"`scrubjay plan run {plan.id}` runs it now."
    if plan.next_crawl_at is None or not plan.is_active:
        return f"It does not run by itself; {by_hand}"
    next_run = describe_next(plan)
    when = "as soon as a server or worker runs" if next_run == "due" else f"next {next_run}"
    return f"It runs {describe_schedule(plan)}, {when}; {by_hand}"


@app.command("ls")
def list_plans(
    every: Annotated[bool, typer.Option("--all", help="List one-off crawls, too.")] = False, as_json: Json = False
) -> None:
    """List plans, newest first."""

    async def main(jay: "Scrubjay", who: "Principal") -> list[tuple[Plan, dict[str, Any]]]:
        return [(plan, await plan_facts(jay, who, plan)) for plan in await all_plans(jay, who, with_one_off=every)]

    found = run_as_admin(main)
    if as_json:
        print_json([facts for _, facts in found])
    elif not found:
        console.print("No plans yet; `scrubjay plan add SOURCE` makes one.")
    else:
        show_rows(PLAN_COLUMNS, [_row(plan, facts) for plan, facts in found])


def _row(plan: Plan, facts: dict[str, Any]) -> list[Text]:
    return [
        Text(cell(plan.name).plain, style="bold"),
        cell(plan.repository_type),
        Text(str(plan.state), style="yellow" if plan.state is PlanState.RUNNING else ""),
        Text(cell(facts["source"]).plain, style="cyan"),
        Text(facts["runs"]),
        last_run(facts),
        Text(describe_next(plan)),
        Text(f"{facts['documents']:,}"),
        Text(plan.id),
    ]


@app.command("show")
def show(plan: PlanName, as_json: Json = False) -> None:
    """Print everything about a plan; secrets as `(set)`."""

    async def main(jay: "Scrubjay", who: "Principal") -> tuple[Plan, dict[str, Any]]:
        found = await find_plan(jay, who, plan)
        facts = await plan_facts(jay, who, found)
        return found, {**facts, "probably_stale": round(await jay.plans.staleness(who, found.id), 3)}

    found, facts = run_as_admin(main)
    if as_json:
        print_json(facts)
        return
    told = {**facts, "last run": last_run(facts).plain, "next run": describe_next(found)}
    console.print(show_settings("plan", {each: told[each] for each in SHOWN_FIRST}))
    for group in SHOWN_GROUPS:
        console.print(show_settings(group.replace("_", " "), facts[group]))
    told["probably_stale"] = f"{facts['probably_stale']:.0%} of its documents"
    console.print(show_settings("runs", {each: told[each] for each in SHOWN_LAST}))
    if facts["last_operation"] and facts["last_operation"]["status_message"]:
        console.print(cell(facts["last_operation"]["status_message"]), soft_wrap=True)


@app.command("stop")
def stop(plan: PlanName, as_json: Json = False) -> None:
    """Stop the run that is under way. What it has taken in stays."""

    async def main(jay: "Scrubjay", who: "Principal") -> tuple[Plan, Plan, dict[str, Any]]:
        before = await find_plan(jay, who, plan)
        after = await jay.plans.stop(who, before.id)
        return before, after, await plan_facts(jay, who, after)

    before, after, facts = run_as_admin(main)
    if as_json:
        print_json(facts)
    elif after.state is PlanState.RUNNING:
        console.print("Asked to stop; it does at its next checkpoint.")
    else:
        console.print("Stopped." if before.state is PlanState.RUNNING else "It was not running.")


@app.command("rm")
def remove(
    plan: PlanName,
    with_documents: Annotated[
        bool, typer.Option("--with-documents", help="Its documents as well, for good, with all their versions.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a plan, what it knows of its source, and its runs. Its documents stay, except with --with-documents."""

    async def main() -> str | None:
        # What is removed should be gone from the index when this ends, so that one has to be at hand.
        async with searching() if with_documents else admin() as (jay, who):
            found = await find_plan(jay, who, plan)
            count = await jay.plans.counts(who, found.id)
            documents = f"{count:,} document{'' if count == 1 else 's'}"
            question = f"Remove the plan '{cell(found.name).plain}' {f'and its {documents}' if with_documents else ''}"
            if not yes and not typer.confirm(question.strip() + "?", err=True):
                return None
            await jay.plans.delete(who, found.id, with_documents=with_documents)
            if with_documents:
                await jay.indexer.drain()
            return found.id

    report_removal(run(main), as_json=as_json)


@app.command("enumerate")
def enumerate_source(
    plan: PlanName,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Maximum number of objects.")] = 100,
    skip: Annotated[int, typer.Option(min=0, max=10_000, help="Number of objects to skip at the beginning.")] = 0,
    as_json: Json = False,
) -> None:
    """List what the source has, as a run would see it before the plan's filter; nothing is taken in."""

    async def main() -> list[dict[str, Any]]:
        async with working() as (jay, who):
            found = await find_plan(jay, who, plan)
            return await jay.plans.look(who, found.id, limit=limit, skip=skip)

    objects = run(main)
    if as_json:
        print_json(objects)
        return
    table = plain_table(Column("key", overflow="fold"), "type", Column("size", justify="right"), "modified")
    for each in objects:
        size = each.get("ContentLength")
        table.add_row(
            cell(each["Key"]),
            cell("folder" if each.get("IsFolder") else each.get("ContentType")),
            "" if size is None else f"{size:,}",
            (each.get("LastModifiedUtc") or "")[:19].replace("T", " "),
        )
    console.print(table if objects else "The source has nothing.")


@app.command("check")
def check(plan: PlanName, as_json: Json = False) -> None:
    """See whether the source can be reached; exits with 1 if it cannot."""

    async def main(jay: "Scrubjay", who: "Principal") -> "Connectivity":
        return await jay.plans.check(who, (await find_plan(jay, who, plan)).id)

    found = run_as_admin(main)
    if as_json:
        print_json(asdict(found))
    else:
        console.print(Text(cell(found.message).plain, style="green" if found.works else "red"), soft_wrap=True)
    raise typer.Exit(0 if found.works else 1)
