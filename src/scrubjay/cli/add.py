"""`scrubjay add`: files and pages become documents."""

import asyncio
import mimetypes
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from scrubjay.cli.context import cell, console, print_json, printable, run, working
from scrubjay.cli.document_options import CollectionName, Json, TagNames, document_facts
from scrubjay.errors import InvalidRequest, ScrubjayError
from scrubjay.model.content import Document, DocumentSource, DocumentStatus
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.destination import Destination

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal
    from scrubjay.services.documents import Upload

STDIN = "-"
LOOK_SECONDS = 0.1
WAIT_SECONDS = 120.0
BATCH_FILES = 25
BATCH_BYTES = 16 * 1024 * 1024
FAILED = (DocumentStatus.FAILED, DocumentStatus.TYPE_DETECTION_FAILED)


def add(
    sources: Annotated[
        list[str],
        typer.Argument(help="Files, folders, addresses of pages, or - for standard input.", metavar="FILE|URL…"),
    ],
    collection: CollectionName = None,
    tag: TagNames = None,
    title: Annotated[str | None, typer.Option(help="A title, for one file or standard input.")] = None,
    as_json: Json = False,
) -> None:
    """Make files and pages findable: text, Markdown, HTML, PDF, DOCX, XLSX, PPTX.

    The same file or address again is a new version of the same document, if it changed.
    """
    targets = list(_expand(sources))
    if not targets:
        raise InvalidRequest("There are no files in it; what begins with a dot is left out.")
    if title is not None and len(targets) > 1:
        raise InvalidRequest("--title is for one file or page; without it, each has its own.")
    try:
        added = run(lambda: _add_all(targets, collection, tuple(tag or ()), title, quiet=as_json))
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped. What is still Pending in `scrubjay ls` is read by whatever works here next.\n")
        raise
    if as_json:
        print_json([each.facts for each in added])
    if not all(each.is_well for each in added):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Added:
    """What became of a file or page: a document, or the reason why there is none."""

    target: str
    document: Document | None = None
    error: str | None = None

    @property
    def reason(self) -> str | None:
        if self.document is not None and self.document.status in FAILED:
            return self.document.error or "It failed."
        return self.error

    @property
    def is_well(self) -> bool:
        return self.reason is None

    @property
    def facts(self) -> dict[str, Any]:
        known = document_facts(self.document) if self.document is not None else {}
        return {"input": self.target, **known, "error": self.reason}

    @property
    def line(self) -> Text:
        document = self.document
        if self.reason is not None or document is None:
            return Text.assemble(("✗ ", "red"), cell(self.target), ": ", cell(self.reason))
        state = "" if document.is_found else f" ({document.status}; it is found when that is done)"
        facts = f"  {document.id}, version {document.version}{state}"
        return Text.assemble(("✓ ", "green"), cell(document.title or self.target), (facts, "dim"))


def _expand(sources: list[str]) -> Iterator[str]:
    for source in sources:
        path = Path(source)
        if source == STDIN or _is_page(source):
            yield source
        elif path.is_dir():
            yield from (str(each) for each in sorted(path.rglob("*")) if each.is_file() and not _is_hidden(path, each))
        elif path.is_file():
            yield source
        else:
            raise InvalidRequest(f"There is no file or folder '{source[:300]}'.")


def _is_page(target: str) -> bool:
    return target.startswith(("http://", "https://"))


def _is_hidden(folder: Path, path: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


async def _add_all(
    targets: list[str], collection: str | None, tags: tuple[str, ...], title: str | None, *, quiet: bool
) -> list[_Added]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    async with working() as (jay, who):
        collection_id = None
        if collection is not None:
            collection_id = (await jay.collections.find_or_create(who, collection)).id
        adding = _Adding(jay, who, collection_id, tags, title)
        added: list[_Added] = []
        hidden = quiet or not console.is_terminal or len(targets) == 1
        with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
            task = progress.add_task("adding", total=len(targets))
            async for each in adding.add_all(targets):
                added.append(each)
                _tell(each, quiet=quiet)
                progress.advance(task)
    return added


def _tell(added: _Added, *, quiet: bool) -> None:
    if added.is_well:
        if not quiet:
            console.print(added.line, soft_wrap=True)
    elif not quiet and console.is_terminal:
        console.print(added.line, soft_wrap=True)
    else:
        sys.stderr.write(printable(f"scrubjay: {cell(added.target).plain}: {cell(added.reason).plain}\n"))


class _Adding:
    def __init__(
        self, jay: "Scrubjay", who: "Principal", collection_id: str | None, tags: tuple[str, ...], title: str | None
    ) -> None:
        self._jay = jay
        self._who = who
        self._collection_id = collection_id
        self._tags = tags
        self._title = title

    async def add_all(self, targets: Sequence[str]) -> AsyncIterator[_Added]:
        """Each in its turn; files in batches, which takes a fraction of the time."""
        waiting: list[tuple[str, Upload]] = []
        for target in targets:
            try:
                if _is_page(target):
                    async for each in self._add_files(waiting):
                        yield each
                    waiting = []
                    yield _Added(target, await self._add_page(target))
                else:
                    waiting.append((target, await asyncio.to_thread(self._read, target)))
            except ScrubjayError as error:
                yield _Added(target, error=error.message)
            except OSError as error:
                yield _Added(target, error=error.strerror or str(error))
            if len(waiting) >= BATCH_FILES or sum(len(upload.data) for _, upload in waiting) >= BATCH_BYTES:
                async for each in self._add_files(waiting):
                    yield each
                waiting = []
        async for each in self._add_files(waiting):
            yield each

    async def _add_files(self, batch: Sequence[tuple[str, "Upload"]]) -> AsyncIterator[_Added]:
        if batch:
            uploads = [upload for _, upload in batch]
            outcomes = await self._jay.documents.add_each(self._who, uploads, wait_seconds=WAIT_SECONDS)
            for (target, _), outcome in zip(batch, outcomes, strict=True):
                yield _Added(target, outcome.document, outcome.error)

    def _read(self, target: str) -> "Upload":
        """A file as it is. Of one that is too long, not more than shows that it is."""
        from scrubjay.services.documents import MAX_BYTES, Upload

        filename, url = None, None
        if target == STDIN:
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            path = Path(target).absolute()
            with path.open("rb") as file:
                data, filename, url = file.read(MAX_BYTES + 1), path.name, path.as_uri()
        if not data:
            raise InvalidRequest("There is nothing in it.")
        guessed = mimetypes.guess_type(filename or "text.md")[0]
        return Upload(
            data=data,
            source=DocumentSource.UPLOAD,
            url=url,
            filename=filename,
            content_type="text/markdown" if (filename or "").endswith(".md") else guessed,
            title=self._title,
            collection_id=self._collection_id,
            tags=self._tags,
        )

    async def _add_page(self, url: str) -> Document:
        spec = read_spec({"start_urls": [url], "max_depth": 0, "max_pages": 1, "use_sitemaps": False})
        destination = Destination.to(self._collection_id, self._tags)
        job = await self._jay.crawls.start(self._who, spec, destination=destination)
        while not job.is_finished:
            await asyncio.sleep(LOOK_SECONDS)
            job = await self._jay.jobs.get(self._who, job.id)
        if job.error is not None:
            raise InvalidRequest(job.error)
        document = None
        async for page in self._jay.crawls.pages(self._who, job.id):
            if page.error_type is not None:
                raise InvalidRequest(page.error or page.error_type)
            document = await self._find(page.url) or document
        if document is None:
            raise InvalidRequest(f"It did not become a document; `scrubjay jobs events {job.id}` tells why.")
        return await self._wait_until_found(document)

    async def _find(self, url: str) -> Document | None:
        from scrubjay.services.documents import DocumentQuery

        found = await self._jay.documents.page(self._who, DocumentQuery(url=url))
        return next((each for each in found.items if each.collection_id == self._collection_id), None)

    async def _wait_until_found(self, document: Document) -> Document:
        deadline = time.monotonic() + WAIT_SECONDS
        while document.index_due_at is not None and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
            document = await self._jay.documents.get(self._who, document.id)
        return document
