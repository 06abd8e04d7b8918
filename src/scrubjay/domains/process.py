"""The second step: originals of lists, pages and web pages → what is embedded. Libraries' files stay as they are."""

import asyncio
import csv
import io
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scrubjay.domains.folders import EMBEDDED, FAILED, ORIGINALS, SourceFolder
from scrubjay.domains.maps import FILES_MAP, Row, read_map, write_map
from scrubjay.domains.orders import CrawlScope, DomainCrawlMode
from scrubjay.domains.remote import TITLE_MARK
from scrubjay.errors import ExtractionFailed
from scrubjay.queue.context import JobContext
from scrubjay.sources.sharepoint.canvas import canvas_to_html, clean_html, write_page


@dataclass(slots=True)
class SourceProcessing:
    context: JobContext
    folder: SourceFolder
    dry_run: bool

    async def run(self, mode: DomainCrawlMode) -> Mapping[str, int]:
        rows, problem = await asyncio.to_thread(read_map, self.folder.path, FILES_MAP)
        if problem is not None:
            await self.context.log(problem, level="warning")
        if rows is None:
            await self.context.log(f"Source '{self.folder.source_id}' has no files_map.csv; download it first.")
            return {"processed": 0, "failed": 0}
        work = [row for row in rows if self._is_due(row, mode)]
        counts = {"processed": len(work), "failed": 0}
        if self.dry_run:
            return counts
        for number, row in enumerate(work, 1):
            await self.context.checkpoint()
            failed = await asyncio.to_thread(self._process, row)
            if failed:
                counts["failed"] += 1
                counts["processed"] -= 1
                await self.context.log(row["processing_error"], level="warning")
            await self.context.progress(number, len(work), f"Processing '{row['file_relative_path']}'...")
        await asyncio.to_thread(write_map, self.folder.path, FILES_MAP, rows)
        return counts

    def _is_due(self, row: Row, mode: DomainCrawlMode) -> bool:
        found = self.folder.find(row["file_relative_path"])
        if found is None:
            return False
        stage, local = found
        if mode is DomainCrawlMode.FULL or stage == ORIGINALS:
            return (self.folder.stage(ORIGINALS) / self.folder.original_of(local)).is_file()
        return stage == EMBEDDED and not (self.folder.stage(stage) / local).is_file()

    def _process(self, row: Row) -> bool:
        """Make the file that is embedded, and write into the row where it is; whether that failed."""
        before = self.folder.file(row["file_relative_path"])
        found = self.folder.find(row["file_relative_path"])
        if found is None:
            return True
        original = self.folder.original_of(found[1])
        source = self.folder.stage(ORIGINALS) / original
        processed = self.folder.processed_of(original)
        target = self.folder.stage(EMBEDDED) / processed
        try:
            text = convert(self.folder.kind, source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8", "replace")
        except (ExtractionFailed, OSError, ValueError, RecursionError, csv.Error) as error:
            failed = self.folder.stage(FAILED) / original
            failed.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, failed)
            target.unlink(missing_ok=True)
            row["file_relative_path"] = self.folder.written(FAILED, original)
            row["processing_error"] = f"{original} cannot be processed: {error}"
            return True
        shutil.copystat(source, target)
        if before is not None and before not in (source, target):
            before.unlink(missing_ok=True)  # it had failed before
        row["file_relative_path"] = self.folder.written(EMBEDDED, processed)
        row["processing_error"] = ""
        return False


def convert(kind: CrawlScope, path: Path) -> str:
    """An original as the text that is embedded."""
    text = path.read_text("utf-8", "replace")
    if kind is CrawlScope.LISTS:
        return list_to_markdown(path.stem, text)
    if kind is CrawlScope.SITEPAGES:
        return _page_to_html(path.stem, text)
    return text


def list_to_markdown(title: str, text: str) -> str:
    """A list's export: a heading for the list, one for each item, and a line for each field that says something."""
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    if not rows:
        raise ExtractionFailed("The export is empty.", error_type="empty_page")
    columns = rows[0]
    naming = columns.index("Title") if "Title" in columns else 0
    lines = [f"# {title}", ""]
    for cells in rows[1:]:
        named = dict(zip(columns, cells, strict=False))
        name = " ".join((cells[naming] if len(cells) > naming else "").split()) or f"Item {named.get('Id', '')}".strip()
        lines += [f"### {name}", ""]
        lines += [
            f"- {column}: {' '.join(value.split())}"
            for column, value in named.items()
            if column not in ("Id", "Title") and value.strip()
        ]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _page_to_html(name: str, text: str) -> str:
    title = name
    if text.startswith(TITLE_MARK):
        head, _, text = text.partition("\n")
        title = head.removeprefix(TITLE_MARK).removesuffix(" -->") or name
    stripped = text.strip()
    is_canvas = stripped.startswith("[") or "data-sp-canvascontrol" in stripped
    body = clean_html(canvas_to_html(text) if is_canvas else text)
    if not body.strip():
        raise ExtractionFailed("The page has no text.", error_type="empty_page")
    return write_page(title, body)
