"""`scrubjay backup` and `scrubjay restore`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from scrubjay.cli.context import admin, console, quiet_settings, run
from scrubjay.model.clock import utc_now

if TYPE_CHECKING:
    from scrubjay.services.health import Finding
    from scrubjay.settings import Settings
    from scrubjay.storage.backups.restore import Inspected
    from scrubjay.storage.backups.take import Taken


def backup(
    file: Annotated[
        Path | None, typer.Argument(help="Where to write it. Default: scrubjay-<date>-<time>.tar.zst here.")
    ] = None,
    without_keys: Annotated[
        bool, typer.Option("--without-keys", help="Leave the data folder's keys out; keep them elsewhere.")
    ] = False,
) -> None:
    """Save everything that cannot be rebuilt to one file, while Scrubjay keeps running.

    Rows of every table, bodies, the files of domains and enumerations, and the data folder's keys: keep the file as
    safe as those. The search index is not in it, because `scrubjay restore` rebuilds it.
    """
    path = (file or Path(f"scrubjay-{utc_now():%Y%m%d-%H%M%S}.tar.zst")).absolute()

    async def main() -> "Taken":
        async with admin() as (jay, who):
            with _progress() as tell:
                return await jay.backups.take(who, path, with_keys=not without_keys, tell=tell)

    taken = run(main)
    kept = f"{taken.rows:,} rows, {taken.bodies:,} bodies, {taken.files:,} files"
    size = f"{path.stat().st_size / 1e6:,.1f} MB"
    console.print(f"Saved {kept} in {path} ({size}).", soft_wrap=True, highlight=False)
    if not taken.has_keys:
        console.print("The key that opens its secrets is not in it; keep SCRUBJAY_SECRET_KEY or secret.key elsewhere.")
    if taken.missing_bodies:
        console.print(
            f"{len(taken.missing_bodies):,} bodies are named by rows but are not in the blob store; the first is "
            f"{taken.missing_bodies[0]}. Run `scrubjay doctor`.",
            style="yellow",
            highlight=False,
        )


def restore(file: Annotated[Path, typer.Argument(help="The file that `scrubjay backup` wrote.")]) -> None:
    """Restore a backup to an empty data folder or database, rebuild the index, and check the result.

    Nothing that exists is written over. The kind of database may be another one than the backup was taken from.
    """
    chosen, path = quiet_settings(), file.absolute()
    if not path.is_file():
        raise typer.BadParameter(f"There is no file {path}.", param_hint="FILE")

    async def main() -> "tuple[Inspected, list[Finding]]":
        with _progress() as tell:
            return await _restore(chosen, path, tell)

    found, findings = run(main)
    rows = sum(found.tables.values())
    console.print(
        f"Restored {rows:,} rows, {found.bodies:,} bodies and {found.files:,} files, as of "
        f"{found.manifest['created_at'][:19]} UTC.",
        highlight=False,
    )
    for finding in findings:
        if not finding.is_well:
            console.print(f"{finding.name}: {finding.detail} {finding.advice}", style="red", highlight=False)
    if not all(finding.is_well for finding in findings):
        raise typer.Exit(1)


async def _restore(
    chosen: "Settings", path: Path, tell: Callable[[str, int], None]
) -> "tuple[Inspected, list[Finding]]":
    from scrubjay.app import open_scrubjay, restore_backup

    found = await restore_backup(chosen, path, tell)
    tell("making the index", 0)
    async with open_scrubjay(chosen, searching=True) as jay:
        await jay.indexer.drain()
        await jay.health.examine(repair=True)
        await jay.indexer.drain()
        return found, await jay.health.examine()


@contextmanager
def _progress() -> Iterator[Callable[[str, int], None]]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)

        def tell(what: str, count: int) -> None:
            progress.update(task, description=f"{what}: {count:,}" if count else what)

        yield tell
