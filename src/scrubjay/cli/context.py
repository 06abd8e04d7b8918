"""What commands share: the settings, a console, and an open Scrubjay as the admin of the data folder."""

import gc
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.table import Column
from rich.text import Text

from scrubjay.model.ids import ID_LENGTH
from scrubjay.settings import Settings, load_settings
from scrubjay.telemetry import configure_logging

if TYPE_CHECKING:
    from scrubjay.bootstrap import Scrubjay
    from scrubjay.model.tenant import Principal

T = TypeVar("T")

GC_THRESHOLD = 20_000  # allocations between two looks at the youngest objects

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


@asynccontextmanager
async def admin() -> "AsyncIterator[tuple[Scrubjay, Principal]]":
    """Scrubjay, and who the command line is: the admin key of the data folder."""
    quiet = quiet_settings()
    # After the settings: what is wrong with them should be told at once.
    from scrubjay.bootstrap import open_scrubjay

    async with open_scrubjay(quiet) as jay:
        yield jay, await jay.access.open_as_admin(quiet.home)


def id_column() -> Column:
    """Ids are for copying: they are never cut off, however narrow the terminal is."""
    return Column("id", no_wrap=True, min_width=ID_LENGTH)


def cell(text: str | None) -> Text:
    """Text that others wrote, as it is: without markup, and without codes that steer a terminal."""
    return Text(
        "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text or "")
    )


def print_json(value: Any) -> None:
    console.print_json(printable(json.dumps(value, default=str, ensure_ascii=False)))


def print_markdown(markdown: str) -> None:
    """What a page or file says: to a terminal line by line as `cell` leaves it, elsewhere as it is."""
    if sys.stdout.isatty():
        markdown = "\n".join(cell(line).plain for line in markdown.expandtabs().split("\n"))
    sys.stdout.write(printable(markdown) + "\n")


def printable(text: str) -> str:
    """Text that can be written: what pages say may hold halves of characters."""
    return text.encode("utf-8", "replace").decode()
