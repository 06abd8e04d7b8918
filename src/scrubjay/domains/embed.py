"""The third step: local storage → vector store, with `vectorstore_map.csv`.

Every file in the store has the name of its source as an attribute. A file of the source that the map does not know was
left by a crash, and is removed, so that nothing is embedded twice. A local store keeps one document per URL: a changed
file is the next version of its document.
"""

import asyncio
import mimetypes
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from scrubjay.domains.definition import DomainSource
from scrubjay.domains.folders import EMBEDDED, FAILED, FOLDER_OF, ORIGINALS, SOURCE_TYPE_OF, SourceFolder
from scrubjay.domains.maps import (
    FILES_MAP,
    SHAREPOINT_MAP,
    VECTORSTORE_MAP,
    Row,
    by_path,
    is_same_file,
    moment_columns,
    read_map,
    write_map,
)
from scrubjay.domains.orders import DomainCrawlMode
from scrubjay.domains.remote import local_paths
from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.openai.protocol import Backend, Item, NewFile, StoreFile
from scrubjay.openai.verbs import all_store_files
from scrubjay.queue.context import JobContext

AT_ONCE = 4
FILES_PER_BATCH = 50
PIECE = 1024 * 1024
WRITE_SECONDS = 5.0
POLL_SECONDS = 0.5
SOURCE_ATTRIBUTE = "scrubjay_source"
_MAX_ATTRIBUTE = 500
_NOT_EMBEDDED: Row = {
    "openai_file_id": "", "vector_store_id": "", "uploaded_utc": "", "uploaded_timestamp": "", "embedded_utc": "",
    "embedded_timestamp": "",
}  # fmt: skip


@dataclass(slots=True)
class SourceEmbedding:
    """One source of one run."""

    context: JobContext
    backend: Backend
    folder: SourceFolder
    source: DomainSource
    store_id: str
    dry_run: bool
    _rows: dict[str, Row] = field(default_factory=dict)  # of vectorstore_map.csv, by path
    _written_at: float = 0.0

    @property
    def _tenant_id(self) -> str:
        return self.context.job.tenant_id

    @property
    def _name(self) -> str:
        return f"{self.folder.domain_id}/{FOLDER_OF[self.folder.kind]}/{self.folder.source_id}"

    async def run(self, mode: DomainCrawlMode) -> Mapping[str, int]:
        files = await self._read(FILES_MAP)
        if files is None:
            await self.context.log(f"Source '{self.folder.source_id}' has no files_map.csv; download it first.")
            return {"added": 0, "changed": 0, "removed": 0, "unchanged": 0, "failed": 0}
        stored = {str(item["id"]): item for item in await all_store_files(self.backend, self._tenant_id, self.store_id)}
        self._rows = by_path(await self._read(VECTORSTORE_MAP) or [])
        orphans = self._clean_up(stored)
        wanted = {row["file_relative_path"]: row for row in files if self._is_ready(row)}
        added, changed, removed = self._compare(wanted, self._pending(files), mode)
        counts = {
            "added": len(added),
            "changed": len(changed),
            "removed": len(removed),
            "unchanged": len(wanted) - len(added) - len(changed),
            "failed": 0,
        }
        if self.dry_run:
            return counts
        for file_id in orphans:
            await self._take_out(file_id, globally=True)
        await self._remove(removed)
        uploaded = await self._add([*added, *changed], wanted, await self._facts())
        counts["failed"] = await self._settle(uploaded, files)
        return counts

    async def _read(self, name: str) -> list[Row] | None:
        rows, problem = await asyncio.to_thread(read_map, self.folder.path, name)
        if problem is not None:
            await self.context.log(problem, level="warning")
        return rows

    def _clean_up(self, stored: Mapping[str, Item]) -> list[str]:
        """Forget rows whose file is in the store no more; returns files of this source that no row speaks of."""
        for path, row in list(self._rows.items()):
            elsewhere = row["vector_store_id"] not in ("", self.store_id)
            if elsewhere or (row["openai_file_id"] and row["openai_file_id"] not in stored):
                del self._rows[path]
        known = {row["openai_file_id"] for row in self._rows.values()}
        return [
            file_id
            for file_id, item in stored.items()
            if (item.get("attributes") or {}).get(SOURCE_ATTRIBUTE) == self._name and file_id not in known
        ]

    def _is_ready(self, row: Row) -> bool:
        found = self.folder.find(row["file_relative_path"])
        return found is not None and found[0] == EMBEDDED and (self.folder.stage(EMBEDDED) / found[1]).is_file()

    def _pending(self, files: Sequence[Row]) -> set[str]:
        """What will be there once it is processed: its vectors stay until then."""
        found = [self.folder.find(row["file_relative_path"]) for row in files]
        return {
            self.folder.written(EMBEDDED, self.folder.processed_of(each[1]))
            for each in found
            if each is not None and each[0] == ORIGINALS
        }

    def _compare(
        self, wanted: Mapping[str, Row], pending: set[str], mode: DomainCrawlMode
    ) -> tuple[list[str], list[str], list[str]]:
        known = {path: row for path, row in self._rows.items() if row["openai_file_id"]}
        added = [path for path in wanted if path not in known]
        both = [path for path in wanted if path in known]
        changed = [path for path in both if mode is DomainCrawlMode.FULL or not is_same_file(wanted[path], known[path])]
        removed = [path for path in self._rows if path not in wanted and path not in pending and not self._failed(path)]
        return added, changed, removed

    def _failed(self, path: str) -> bool:
        """Whether it is a file that could not be embedded and is still there: its row tells why."""
        found, file = self.folder.find(path), self.folder.file(path)
        return found is not None and found[0] == FAILED and file is not None and file.is_file()

    async def _facts(self) -> Mapping[str, Row]:
        """What SharePoint says of each file, by the path that it is embedded from."""
        rows = await self._read(SHAREPOINT_MAP) or []
        return dict(zip(embedded_paths(self.folder, self.source, rows), rows, strict=True))

    async def _remove(self, paths: Sequence[str]) -> None:
        for number, path in enumerate(paths, 1):
            await self.context.checkpoint()
            row = self._rows.pop(path, None)
            if row is not None and row["openai_file_id"]:
                await self._take_out(row["openai_file_id"], globally=False)
            await self.context.progress(number, len(paths), f"Removing '{path}' from the vector store...")
        await self._write()

    async def _take_out(self, file_id: str, *, globally: bool) -> None:
        """Remove a file from the store, or delete it everywhere."""
        try:
            if globally:
                await self.backend.delete_file(self._tenant_id, file_id)
            else:
                await self.backend.remove_from_store(self._tenant_id, self.store_id, file_id)
        except NotFound:
            return  # an earlier run removed it, or its newer content replaced it

    async def _add(self, paths: Sequence[str], wanted: Mapping[str, Row], facts: Mapping[str, Row]) -> list[str]:
        uploaded: list[str] = []
        try:
            for start in range(0, len(paths), FILES_PER_BATCH):
                batch = paths[start : start + FILES_PER_BATCH]
                rows: dict[str, Row] = {}
                for part in (batch[at : at + AT_ONCE] for at in range(0, len(batch), AT_ONCE)):
                    await self.context.checkpoint()
                    made = await asyncio.gather(
                        *(self._upload(path, wanted[path], facts.get(path, {})) for path in part)
                    )
                    rows |= zip(part, made, strict=True)
                    done = start + len(rows)
                    await self.context.progress(done, len(paths), f"Embedding '{part[-1]}'...")
                await self._add_batch(rows)
                uploaded += batch
                if time.monotonic() - self._written_at > WRITE_SECONDS:
                    await self._write()
        finally:
            await self._write()
        return uploaded

    async def _upload(self, path: str, file_row: Row, fact: Mapping[str, str]) -> Row:
        """Upload a file; returns its row of the map, with the error if the upload failed."""
        target = self.folder.file(path)
        if target is None:
            raise InvalidRequest(f"'{path}' is no file of this source.")
        row: Row = {**fact, **file_row, **_NOT_EMBEDDED, "file_relative_path": path, "embedding_error": ""}
        row.setdefault("filename", target.name)
        row.setdefault("file_type", target.suffix.removeprefix(".").lower())
        kind = mimetypes.guess_type(target.name)[0]
        try:
            new = NewFile(filename=target.name, content=_pieces(target), content_type=kind)
            file = await self.backend.create_file(self._tenant_id, new)
        except (InvalidRequest, OSError) as error:  # of this file; an unreachable backend raises other errors
            row["embedding_error"] = str(error)
            return row
        row["openai_file_id"], row["vector_store_id"] = str(file["id"]), self.store_id
        return row | moment_columns("uploaded", _moment(file))

    async def _add_batch(self, rows: Mapping[str, Row]) -> None:
        """Add uploaded files to the store in one request, then remove the files with their older content."""
        files = {path: self._store_file(path, row) for path, row in rows.items() if row["openai_file_id"]}
        try:
            if files:
                batch = await self.backend.create_batch(self._tenant_id, self.store_id, list(files.values()))
                for path in files:
                    rows[path].update(moment_columns("embedded", _moment(batch)))
        except InvalidRequest:  # one file is refused, and the whole batch with it
            for path, file in files.items():
                await self._add_one(rows[path], file)
        replaced = [self._rows[path]["openai_file_id"] for path in rows if path in self._rows]
        self._rows |= rows
        for file_id in filter(None, replaced):
            await self._take_out(file_id, globally=False)

    async def _add_one(self, row: Row, file: StoreFile) -> None:
        try:
            added = await self.backend.add_to_store(self._tenant_id, self.store_id, file)
        except InvalidRequest as error:
            row.update(_NOT_EMBEDDED, embedding_error=str(error))
        else:
            row.update(moment_columns("embedded", _moment(added)))

    def _store_file(self, path: str, row: Row) -> StoreFile:
        before = self._rows.get(path)
        return StoreFile(
            file_id=row["openai_file_id"],
            attributes=self._attributes(path, row),
            url=row.get("url") or None,
            replaces=(before or {}).get("openai_file_id") or None,
            is_extracted=self.folder.has_originals and path.endswith(".md"),
        )

    def _attributes(self, path: str, row: Mapping[str, str]) -> dict[str, str | float | bool]:
        facts: dict[str, str] = {
            SOURCE_ATTRIBUTE: self._name,
            "domain_id": self.folder.domain_id,
            "source_id": self.folder.source_id,
            "source_type": SOURCE_TYPE_OF[self.folder.kind],
            "filename": row.get("filename", ""),
            "file_relative_path": path,
            "url": row.get("url", ""),
            "last_modified_utc": row.get("last_modified_utc", ""),
        }
        return {name: value[:_MAX_ATTRIBUTE] for name, value in facts.items() if value}

    async def _settle(self, uploaded: Sequence[str], files: Sequence[Row]) -> int:
        """Wait until the store has read everything; what it could not read goes to the failed files, with why."""
        stored = await self._wait()
        failed: dict[str, str] = {}
        for path in uploaded:
            row = self._rows[path]
            item = stored.get(row["openai_file_id"])
            if row["openai_file_id"] and item is not None and item.get("status") == "completed":
                continue
            error = (item or {}).get("last_error") or {}
            failed[path] = row["embedding_error"] or str(error.get("message") or "It was not embedded.")
        for path, reason in failed.items():
            await self._fail(path, reason, files)
        if failed:
            await asyncio.to_thread(write_map, self.folder.path, FILES_MAP, files)
        await self._write()
        return len(failed)

    async def _wait(self) -> Mapping[str, Item]:
        while True:
            await self.context.checkpoint()
            items = await all_store_files(self.backend, self._tenant_id, self.store_id)
            busy = sum(item.get("status") == "in_progress" for item in items)
            if not busy:
                await self.context.progress(len(items), len(items), "The vector store has read everything.")
                return {str(item["id"]): item for item in items}
            await self.context.progress(len(items) - busy, len(items), "Waiting for the vector store...")
            await asyncio.sleep(POLL_SECONDS)

    async def _fail(self, path: str, reason: str, files: Sequence[Row]) -> None:
        row = self._rows.pop(path)
        if row["openai_file_id"]:
            await self._take_out(row["openai_file_id"], globally=True)
        found = self.folder.find(path)
        if found is None:
            return
        failed = self.folder.written(FAILED, found[1])
        await asyncio.to_thread(_move, self.folder.stage(EMBEDDED) / found[1], self.folder.stage(FAILED) / found[1])
        for each in files:
            if each["file_relative_path"] == path:
                each["file_relative_path"] = failed
        self._rows[failed] = {**row, **_NOT_EMBEDDED, "file_relative_path": failed, "embedding_error": reason}
        await self.context.log(f"'{path}' cannot be embedded: {reason}", level="warning")

    async def _write(self) -> None:
        await asyncio.to_thread(write_map, self.folder.path, VECTORSTORE_MAP, list(self._rows.values()))
        self._written_at = time.monotonic()


def embedded_paths(folder: SourceFolder, source: DomainSource, rows: Sequence[Row]) -> list[str]:
    """From where the files that SharePoint lists are embedded, as map files write it."""
    local = local_paths(folder.kind, source, rows)
    processed = map(folder.processed_of, local) if folder.has_originals else local
    return [folder.written(EMBEDDED, path) for path in processed]


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece
    finally:
        file.close()


def _moment(item: Item) -> datetime:
    return datetime.fromtimestamp(int(item.get("created_at") or 0), UTC)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.exists():
        shutil.move(source, target)
