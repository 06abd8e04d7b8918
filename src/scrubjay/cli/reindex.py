"""`scrubjay reindex`: rebuild the index, or chunk documents again."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scrubjay.cli.context import console, run, working
from scrubjay.cli.document_options import find_document
from scrubjay.model.job import Job, JobState

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal

LOOK_SECONDS = 0.2


def reindex(
    names: Annotated[
        list[str] | None, typer.Argument(help="Ids or addresses of documents to chunk again. Default: the whole index.")
    ] = None,
) -> None:
    """Rebuild the search index with the embedder of the settings.

    The old index serves until the new one is complete. Texts that the embedder has seen are not embedded again.
    """
    job = run(lambda: _reindex(names or []))
    if job.state is not JobState.COMPLETED:
        console.print(f"Not done: {job.error or job.state}", style="red", highlight=False)
        raise typer.Exit(1)
    facts = job.result or {}
    count = facts.get("documents", len(facts.get("results", ())))
    console.print(f"Done: {count:,} document{'' if count == 1 else 's'}.", highlight=False)


async def _reindex(names: list[str]) -> Job:
    async with working() as (jay, who):
        job = await _submit(jay, who, names)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("reindexing", total=None)
            while not job.is_finished:
                await asyncio.sleep(LOOK_SECONDS)
                job = await jay.jobs.get(who, job.id)
                facts = job.progress
                progress.update(task, completed=facts.get("current") or 0, total=facts.get("total"))
    return job


async def _submit(jay: "Scrubjay", who: "Principal", names: list[str]) -> Job:
    if not names:
        return await jay.documents.rebuild(who)
    documents = [await find_document(jay, who, name) for name in names]
    return await jay.documents.reindex(who, [document.id for document in documents])
