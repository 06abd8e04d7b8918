"""All commands, by name. A call of one imports that one alone: most of the time that a command takes is its imports."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from scrubjay.cli import context

# In the order in which `scrubjay --help` lists them: the module, and what it calls the command or group.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("demo", "demo"),
    "crawl": ("crawl", "crawl"),
    "add": ("add", "add"),
    "search": ("search", "search"),
    "ls": ("documents", "list_documents"),
    "show": ("documents", "show"),
    "diff": ("documents", "diff"),
    "rm": ("documents", "remove"),
    "undelete": ("documents", "restore"),
    "plan": ("plan", "app"),
    "ops": ("operations", "list_operations"),
    "changes": ("changes", "list_changes"),
    "events": ("jobs", "events"),
    "watch": ("watch", "app"),
    "collections": ("collections", "app"),
    "tags": ("tags", "app"),
    "webhooks": ("webhooks", "app"),
    "reindex": ("reindex", "reindex"),
    "fetch": ("fetch", "fetch"),
    "extract": ("extract", "app"),
    "discover": ("discover", "discover"),
    "robots": ("robots", "ask_robots"),
    "serve": ("serve", "serve"),
    "worker": ("worker", "work"),
    "workers": ("workers", "list_workers"),
    "mcp": ("mcp", "serve_models"),
    "keys": ("keys", "app"),
    "jobs": ("jobs", "app"),
    "migrate": ("migrate", "migrate"),
    "audit": ("audit", "list_acts"),
    "doctor": ("doctor", "examine"),
    "backup": ("backup", "backup"),
    "restore": ("backup", "restore"),
    "version": ("version", "show_version"),
}


def make_app(names: Sequence[str] = tuple(COMMANDS)) -> typer.Typer:
    """The command line with these commands."""
    app = typer.Typer(
        name="scrubjay",
        help="Crawls what keeps changing, remembers exactly what changed, and answers searches over it.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(choose_home)
    for name in names:
        room, called = COMMANDS[name]
        module = import_module(f"scrubjay.cli.{room}")
        command = getattr(module, called)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, cls=getattr(module, "COMMAND_CLASS", None))(command)
    return app


def find_names(arguments: Sequence[str]) -> Sequence[str]:
    """The command that is called; all of them when it is none that there is, so that they can be told."""
    waiting = list(arguments)
    while waiting and waiting[0].partition("=")[0] == "--home":
        del waiting[: 1 if "=" in waiting[0] else 2]
    return waiting[:1] if waiting and waiting[0] in COMMANDS else tuple(COMMANDS)


def choose_home(
    home: Annotated[
        Path | None,
        typer.Option(
            help="The data folder. Default: SCRUBJAY_HOME, then scrubjay.toml, then ./.scrubjay", show_default=False
        ),
    ] = None,
) -> None:
    context.home = home
