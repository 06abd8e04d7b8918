"""What commands share: the settings, a console, and an open Scrubjay as the admin of the data folder."""

import asyncio
import gc
import json
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from scrubjay.errors import HomeInUse, Unavailable
from scrubjay.model.ids import ID_LENGTH
from scrubjay.settings import Settings, load_settings
from scrubjay.storage.home import find_server
from scrubjay.telemetry import configure_logging

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal

T = TypeVar("T")

GC_THRESHOLD = 20_000  # allocations between two looks at the youngest objects

LOOK_SECONDS = 0.1
TELL_SECONDS = 1.0
PATIENCE_SECONDS = 15.0  # for another command, by one that should answer soon

home: Path | None = None
console = Console()


def settings(**overrides: Any) -> Settings:
    loaded = load_settings(home=home, **overrides)
    configure_logging(loaded.log_level, loaded.log_format)
    return loaded


def quiet_settings() -> Settings:
    """For commands whose output is what was asked for: only warnings are logged unless more is wanted."""
    loaded = load_settings(home=home)
    configure_logging("warning" if loaded.log_level == "info" else loaded.log_level, loaded.log_format)
    return loaded


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    import uvloop

    # Nothing that is loaded by now is ever garbage, and a crawl makes objects by the thousand that are not either.
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 50)
    return uvloop.run(main())


def _say_where_from() -> None:
    """For the audit log, of whatever this command does from here on."""
    from scrubjay.services.acts import COMMAND_LINE, asked_from

    asked_from.set((COMMAND_LINE, None))


@asynccontextmanager
async def admin() -> "AsyncIterator[tuple[Scrubjay, Principal]]":
    """Scrubjay, and who the command line is: the admin key of the data folder."""
    quiet = quiet_settings()
    # After the settings: what is wrong with them should be told at once.
    from scrubjay.app import open_scrubjay

    async with open_scrubjay(quiet) as jay:
        _say_where_from()
        yield jay, await jay.access.open_as_admin(quiet.home)


def run_as_admin(main: "Callable[[Scrubjay, Principal], Coroutine[Any, Any, T]]") -> T:
    """Run this with an open Scrubjay and the admin key of the data folder."""

    async def opened() -> T:
        async with admin() as (jay, who):
            return await main(jay, who)

    return run(opened)


@asynccontextmanager
async def working() -> "AsyncIterator[tuple[Scrubjay, Principal]]":
    """An open Scrubjay that does the work itself, or, when a server already runs in this folder, leaves it to that."""
    quiet = load_settings(home=home)
    configure_logging("error" if quiet.log_level == "info" else quiet.log_level, quiet.log_format)
    async with _own_or_shared(quiet, own_home(quiet, working=True)) as opened:
        yield opened


@asynccontextmanager
async def searching() -> "AsyncIterator[tuple[Scrubjay, Principal]]":
    """An open Scrubjay that has the index, unless a server in this folder has it."""
    quiet = quiet_settings()
    async with _own_or_shared(quiet, own_home(quiet, patience_seconds=PATIENCE_SECONDS)) as opened:
        yield opened


@asynccontextmanager
async def _own_or_shared(
    quiet: Settings, owning: "AbstractAsyncContextManager[Scrubjay | None]"
) -> "AsyncIterator[tuple[Scrubjay, Principal]]":
    from scrubjay.app import open_scrubjay

    async with AsyncExitStack() as stack:
        jay = await stack.enter_async_context(owning)
        if jay is None:
            jay = await stack.enter_async_context(open_scrubjay(quiet))
        _say_where_from()
        yield jay, await jay.access.open_as_admin(quiet.home)


@asynccontextmanager
async def own_home(
    quiet: Settings, *, working: bool = False, keeping_time: bool = False, patience_seconds: float = math.inf
) -> "AsyncIterator[Scrubjay | None]":
    """A Scrubjay that has the data folder to itself, or None when a server has it.

    Another command has it only for a while, and is waited for; who comes second finds nothing half done.
    """
    from scrubjay.app import open_scrubjay

    started, told = time.monotonic(), False
    async with AsyncExitStack() as stack:
        while True:
            try:
                opening = open_scrubjay(quiet, working=working, searching=not working, keeping_time=keeping_time)
                jay = await stack.enter_async_context(opening)
            except HomeInUse as error:
                if find_server(quiet.home) is not None:
                    jay = None
                    break
                waited = time.monotonic() - started
                if waited > patience_seconds:
                    raise Unavailable(
                        "Another command works in this data folder; try again when it is done."
                    ) from error
                if waited > TELL_SECONDS and not told:
                    sys.stderr.write("Another command works in this data folder; waiting until it is done.\n")
                    told = True
                await asyncio.sleep(LOOK_SECONDS)
            else:
                break
        yield jay


def print_indented(text: Text, spaces: int) -> None:
    """Wrapped, and every line of it indented."""
    margin = Text(" " * spaces)
    for line in text.wrap(console, max(20, console.width - spaces)):
        line.rstrip()
        console.print(margin + line, soft_wrap=True)


def local_time(moment: datetime) -> str:
    """As the clock on the wall shows it, which is also how options read times."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def plain_table(*columns: Column | str) -> Table:
    """Columns without lines between them."""
    return Table(*columns, box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")


def id_column() -> Column:
    """Ids are for copying: they are never cut off, however narrow the terminal is."""
    return Column("id", no_wrap=True, min_width=ID_LENGTH)


def cell(text: str | None) -> Text:
    """Text that others wrote, as it is: without markup, and without codes that steer a terminal."""
    return Text(
        "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text or "")
    )


def report_removal(removed_id: str | None, *, as_json: bool) -> None:
    """Print that an item was removed; exits with 1 when the user declined."""
    if removed_id is None:
        raise typer.Exit(1)
    if as_json:
        print_json({"id": removed_id, "removed": True})
    else:
        console.print("Removed.")


def print_json(value: Any) -> None:
    console.print_json(printable(json.dumps(value, default=_jsonable, ensure_ascii=False)))


def _jsonable(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def print_markdown(markdown: str) -> None:
    """What a page or file says: to a terminal line by line as `cell` leaves it, elsewhere as it is."""
    if sys.stdout.isatty():
        markdown = "\n".join(cell(line).plain for line in markdown.expandtabs().split("\n"))
    sys.stdout.write(printable(markdown) + "\n")


def printable(text: str) -> str:
    """Text that can be written: what pages say may hold halves of characters."""
    return text.encode("utf-8", "replace").decode()
