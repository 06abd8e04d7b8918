"""All commands, mounted on one Typer application."""

from pathlib import Path
from typing import Annotated

import typer

from scrubjay.cli import (
    add,
    audit,
    backup,
    changes,
    collections,
    context,
    crawl,
    demo,
    discover,
    doctor,
    documents,
    extract,
    fetch,
    jobs,
    keys,
    mcp,
    migrate,
    operations,
    plan,
    reindex,
    robots,
    search,
    serve,
    tags,
    version,
    watch,
    webhooks,
    worker,
)

app = typer.Typer(
    name="scrubjay",
    help="Crawls what keeps changing, remembers exactly what changed, and answers searches over it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def choose_home(
    home: Annotated[
        Path | None,
        typer.Option(
            help="The data folder. Default: SCRUBJAY_HOME, then scrubjay.toml, then ./.scrubjay", show_default=False
        ),
    ] = None,
) -> None:
    context.home = home


app.command("demo")(demo.demo)
app.command("crawl")(crawl.crawl)
app.command("add")(add.add)
app.command("search", cls=search.QueryCommand)(search.search)
app.command("ls")(documents.list_documents)
app.command("show")(documents.show)
app.command("diff")(documents.diff)
app.command("rm")(documents.remove)
app.command("undelete")(documents.restore)
app.add_typer(plan.app, name="plan")
app.command("ops")(operations.list_operations)
app.command("changes")(changes.list_changes)
app.command("events")(jobs.events)
app.add_typer(watch.app, name="watch")
app.add_typer(collections.app, name="collections")
app.add_typer(tags.app, name="tags")
app.add_typer(webhooks.app, name="webhooks")
app.command("reindex")(reindex.reindex)
app.command("fetch")(fetch.fetch)
app.add_typer(extract.app, name="extract")
app.command("discover")(discover.discover)
app.command("robots")(robots.ask_robots)
app.command("serve")(serve.serve)
app.command("worker")(worker.work)
app.command("mcp")(mcp.serve_models)
app.add_typer(keys.app, name="keys")
app.add_typer(jobs.app, name="jobs")
app.command("migrate")(migrate.migrate)
app.command("audit")(audit.list_acts)
app.command("doctor")(doctor.examine)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("version")(version.show_version)
