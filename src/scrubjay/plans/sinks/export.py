"""The export of a plan: its present documents as Markdown files, JSON lines or a WARC, updated after each run.

An export is derived data: a run that was killed while it wrote one writes it again, and the result is the same.
"""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import AfterValidator, ValidationError

from scrubjay.crawler.page_store import unpack_details
from scrubjay.documents.texts import TextStore
from scrubjay.errors import BlobCorrupt, BlobMissing, InvalidRequest
from scrubjay.model.content import Document
from scrubjay.model.plan import ExportFormat, Frozen, Plan
from scrubjay.plans.sinks.export_files import appearing, free_path, front_matter, warc_record
from scrubjay.queue.context import JobContext
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database
from scrubjay.storage.documents import Documents
from scrubjay.storage.ledger import HeldDocument, Ledger
from scrubjay.telemetry import get_logger

MANIFEST = "manifest.jsonl"
FILES = {ExportFormat.JSONL: "documents.jsonl", ExportFormat.WARC: "documents.warc.gz"}
READ_AT_ONCE = 32
# Every file is written here first. There is one such name, so that a killed run leaves one draft at most.
_DRAFT = ".part"

log = get_logger(__name__)


def _check_path(text: str) -> str:
    path = Path(text)
    if path.is_absolute() or ".." in path.parts or "\0" in text or path.suffix != ".md":
        raise ValueError("it is not a Markdown file below the folder of the export")
    return text


class ExportedFile(Frozen):
    """A line of the manifest: a Markdown file, and the document version in it."""

    url: str
    path: Annotated[str, AfterValidator(_check_path)]
    document_id: str
    version: int  # 0 while the file is being written
    content_sha256: str


@dataclass(frozen=True, slots=True)
class PlanExports:
    folder: Path
    database: Database
    blobs: BlobStore
    texts: TextStore

    def remove_plan(self, plan_id: str) -> None:
        if (self.folder / plan_id).is_dir():
            shutil.rmtree(self.folder / plan_id)

    async def write(self, context: JobContext, plan: Plan) -> str | None:
        """Make the export equal to the plan's documents; returns a sentence if it cannot have all of them.

        Raises OSError when the file system refuses. The next run then writes what is missing.
        """
        chosen, folder, missing = plan.ingestion_settings.export, self.folder / plan.id, 0
        if chosen is ExportFormat.NONE:
            return None
        async with self.database.reading() as connection:
            held = await Ledger(connection).documents(plan.id)
        if chosen is ExportFormat.MARKDOWN:
            await self._write_markdown(context, plan, folder, held)
        else:
            documents = self._read(context, plan, [each.id for each in held])
            with appearing(folder / FILES[chosen], folder / _DRAFT) as file:
                if chosen is ExportFormat.JSONL:
                    await _write_jsonl(documents, file)
                else:
                    missing = await self._write_warc(plan, documents, file)
                await asyncio.to_thread(_sync, file)
            await self._write_markdown(context, plan, folder, ())  # the plan may have had another format
        for name in {MANIFEST, *FILES.values()} - {FILES.get(chosen, MANIFEST)}:
            (folder / name).unlink(missing_ok=True)
        (folder / _DRAFT).unlink(missing_ok=True)
        return f"Documents without a kept original, left out of the WARC: {missing:,}." if missing else None

    async def _write_markdown(
        self, context: JobContext, plan: Plan, folder: Path, held: Sequence[HeldDocument]
    ) -> None:
        """Write the files of new and changed documents, and remove those of documents that left.

        The manifest names each file before it exists, so that what a killed run wrote can be removed by the next one.
        """
        before = await asyncio.to_thread(read_manifest, folder)
        files = choose_files(held, before)
        known = {file.document_id: file for file in before}
        due = [file for file in files.values() if known.get(file.document_id) != file]
        left = {file.path for file in before} - {file.path for file in files.values()}
        if not due and not left:
            return
        planned = [file.model_copy(update={"version": 0}) for file in due]
        await asyncio.to_thread(_write_manifest, folder, [*before, *planned])
        await asyncio.to_thread(_remove_files, folder, left)
        unread = {file.document_id for file in due}
        async for document, text in self._read(context, plan, sorted(unread)):
            file = files[document.id].model_copy(
                update={"version": document.version, "content_sha256": document.content_sha256}
            )
            content = front_matter(_record(document)) + text + "\n"
            await asyncio.to_thread(_write_file, folder, file.path, content)
            files[document.id] = file
            unread.remove(document.id)
        # Deleted since the list of documents was read.
        await asyncio.to_thread(_remove_files, folder, [files.pop(document_id).path for document_id in unread])
        await asyncio.to_thread(_write_manifest, folder, files.values())

    async def _write_warc(self, plan: Plan, documents: AsyncIterator[tuple[Document, str]], file: IO[bytes]) -> int:
        """Write the originals; returns how many documents have none."""
        from warcio.warcwriter import WARCWriter

        writer, missing = WARCWriter(file, gzip=True), 0
        writer.write_record(
            writer.create_warcinfo_record("documents.warc", {"software": "Scrubjay", "format": "WARC/1.1"})
        )
        async for document, _ in documents:
            body = await self._original(document)
            if body is None:
                missing += 1
                continue
            headers = await self._headers(plan, document)
            record = warc_record(writer, document.url, body, document.crawled_at, headers, None)
            await asyncio.to_thread(writer.write_record, record)
        return missing

    async def _original(self, document: Document) -> bytes | None:
        if document.original_sha256 is None:
            return None
        try:
            return await self.blobs.get(document.original_sha256)
        except (BlobMissing, BlobCorrupt, InvalidRequest) as error:  # lost, damaged, or too large to be read at once
            log.warning("original not exported", document_id=document.id, reason=error.message)
            return None

    async def _headers(self, plan: Plan, document: Document) -> dict[str, str]:
        """The HTTP headers that the original came with; only its content type where they are not known."""
        async with self.database.reading() as connection:
            pages = await CrawledPages(connection).by_hashes(plan.id, [document.url_hash])
        for page in pages:
            if page.body_sha256 == document.original_sha256:
                return dict(unpack_details(page.details).get("headers") or {})
        return {"Content-Type": document.content_type} if document.content_type else {}

    async def _read(
        self, context: JobContext, plan: Plan, document_ids: Sequence[str]
    ) -> AsyncIterator[tuple[Document, str]]:
        """Documents with their texts, some at a time; those that were deleted meanwhile are left out."""
        for start in range(0, len(document_ids), READ_AT_ONCE):
            await context.checkpoint()
            context.require_hold()
            batch = document_ids[start : start + READ_AT_ONCE]
            async with self.database.reading() as connection:
                found = await Documents(connection).by_ids(batch)
            documents = [found[each] for each in batch if each in found]
            present = [(each, each.content_sha256 or "") for each in documents if each.deleted_at is None]
            texts = await self.texts.read_many(plan.tenant_id, {digest for _, digest in present})
            for document, digest in present:
                if digest in texts:
                    yield document, texts[digest]


def read_manifest(folder: Path) -> list[ExportedFile]:
    """The lines of the manifest. After a killed run, a document can have several; the last one counts."""
    path, files = folder / MANIFEST, []
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            files.append(ExportedFile.model_validate_json(line))
        except ValidationError as error:
            log.warning("manifest line ignored", path=str(path), line=number, reason=error.errors()[0]["msg"])
    return files


def choose_files(held: Sequence[HeldDocument], before: Iterable[ExportedFile]) -> dict[str, ExportedFile]:
    """Document id → the file that it has in the export. Its path stays as long as its URL does."""
    known = {(file.document_id, file.url): file.path for file in before}
    kept = {each.id: known[each.id, each.url] for each in held if (each.id, each.url) in known}
    taken = {path.casefold() for path in kept.values()}
    files = {}
    for each in held:
        path = kept.get(each.id) or free_path(each.url, taken).as_posix()
        files[each.id] = ExportedFile(
            url=each.url, path=path, document_id=each.id, version=each.version, content_sha256=each.content_sha256
        )
    return files


def _write_manifest(folder: Path, files: Iterable[ExportedFile]) -> None:
    _write_file(folder, MANIFEST, "".join(file.model_dump_json() + "\n" for file in files))


def _write_file(folder: Path, path: str, text: str) -> None:
    with appearing(folder / path, folder / _DRAFT) as file:
        file.write(text.encode("utf-8", "replace"))
        _sync(file)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _remove_files(folder: Path, paths: Iterable[str]) -> None:
    """Remove files, and folders that are empty then."""
    for path in paths:
        target = folder / path
        target.unlink(missing_ok=True)
        parent = target.parent
        while parent != folder and parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()
            parent = parent.parent


async def _write_jsonl(documents: AsyncIterator[tuple[Document, str]], file: IO[bytes]) -> None:
    async for document, text in documents:
        line = json.dumps({**_record(document), "markdown": text}, ensure_ascii=False, default=str) + "\n"
        await asyncio.to_thread(file.write, line.encode("utf-8", "replace"))


def _record(document: Document) -> dict[str, Any]:
    return {
        "url": document.url,
        "title": document.title,
        "document_id": document.id,
        "version": document.version,
        "crawled_at": document.crawled_at.isoformat(),
        "content_type": document.content_type,
        "content_sha256": document.content_sha256,
        "extraction_method": document.details.get("extraction_method"),
        "metadata": document.details,
    }
