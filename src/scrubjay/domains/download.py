"""The first step of a domain's crawl: each source is a run of a plan that fills a folder.

The run lists the source, compares it with the ledger, and fetches what is new or changed (`plans/run.py`). This is its
sink: it writes files, `sharepoint_map.csv` and `files_map.csv`. What a crash leaves behind is put right at the end: the
maps are written from the run's list of changes, and files that no row names are removed. A file that somebody deleted,
or whose row is gone, is forgotten in the ledger, and so is fetched again.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from scrubjay.domains.definition import DomainSource
from scrubjay.domains.folders import EMBEDDED, ORIGINALS, SourceFolder
from scrubjay.domains.maps import FILES_MAP, SHAREPOINT_MAP, Row, moment_columns, read_map, write_map
from scrubjay.domains.orders import CrawlScope, DomainCrawlMode
from scrubjay.domains.remote import ListedRow, Remote, local_paths
from scrubjay.errors import ExtractionFailed, FetchFailed, Unavailable, UrlBlocked
from scrubjay.model.clock import utc_now
from scrubjay.model.content import IngestOutcome
from scrubjay.model.ids import new_uuid
from scrubjay.model.plan import Change, OperationItem, WorkState
from scrubjay.model.source import hash_key
from scrubjay.plans.retrieval import Settled
from scrubjay.queue.context import JobContext
from scrubjay.sources.sharepoint.items import read_moment
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.operation_items import OperationItems

AT_ONCE = 4
PART = ".part-"  # what is not whole yet


@dataclass(slots=True)
class SourceDownload:
    """One source of one run. Implements `plans.retrieval.FolderSink`."""

    context: JobContext
    folder: SourceFolder
    source: DomainSource
    remote: Remote
    plan_id: str
    mode: DomainCrawlMode
    _places: dict[str, tuple[Row, str]] = field(default_factory=dict)  # row and local path, by address

    async def listed(self, *, is_complete: bool) -> None:
        rows = await self.remote.rows(is_complete=is_complete)
        await self.context.log(f"Source '{self.source.source_id}' has {len(rows):,} files.")
        lost = await self.lost(rows)
        async with self.context.transaction() as connection:
            await Ledger(connection).forget(self.plan_id, lost)
        await asyncio.to_thread(write_map, self.folder.path, SHAREPOINT_MAP, [each.row for each in rows])
        self._set_places([each.row for each in rows])

    async def lost(self, rows: Sequence[ListedRow]) -> set[str]:
        """Keys of what is fetched whatever the ledger says: its file or its row is gone, or everything is asked for."""
        if self.mode is DomainCrawlMode.FULL:
            return {self.key_hash(each.row) for each in rows if each.is_seen}
        known = await self._read_files_map()
        if known is None:
            await self.context.log("There is no files_map.csv to compare with; everything is downloaded.")
        return await asyncio.to_thread(self._without_file, [each.row for each in rows], known or {})

    def _without_file(self, rows: Sequence[Row], known: dict[str, Row]) -> set[str]:
        found: set[str] = set()
        for row, local in zip(rows, local_paths(self.folder.kind, self.source, rows), strict=True):
            path = self.folder.file(known[local]["file_relative_path"]) if local in known else None
            if path is None or not path.is_file():
                found.add(self.key_hash(row))
        return found

    def key_hash(self, row: Row) -> str:
        is_page = self.folder.kind is CrawlScope.WEB
        return row["sharepoint_unique_file_id"] if is_page else hash_key(row["raw_url"])

    async def take_in(self, batch: Sequence[OperationItem]) -> Sequence[Settled]:
        places = await self._all_places()
        settled: list[Settled] = []
        for start in range(0, len(batch), AT_ONCE):
            await self.context.checkpoint()
            part = batch[start : start + AT_ONCE]
            settled += await asyncio.gather(*(self._take(item, places.get(item.key)) for item in part))
        return settled

    async def _take(self, item: OperationItem, place: tuple[Row, str] | None) -> Settled:
        if place is None:
            return Settled(item, error=f"'{SHAREPOINT_MAP}' was changed by somebody.", reason="source_unreadable")
        row, local = place
        target = self.folder.stage(self._stage) / local
        part = target.with_name(f"{PART}{new_uuid()}")
        try:
            await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
            await self.remote.fetch(row, part)
            moment = read_moment(row["last_modified_utc"]).timestamp()
            await asyncio.to_thread(_put_in_place, part, target, moment)
        except (FetchFailed, ExtractionFailed, UrlBlocked, Unavailable) as error:
            reason = str(getattr(error, "error_type", "source_unreadable"))
            await self.context.log(f"{row['filename']}: {error.message}", level="warning")
            return Settled(item, error=error.message, reason=reason)
        except OSError as error:
            said = f"It cannot be kept on disk: {error.strerror or error}."
            await self.context.log(f"{row['filename']}: {said}", level="warning")
            return Settled(item, error=said, reason="unwritable")
        finally:
            await asyncio.to_thread(part.unlink, missing_ok=True)
        is_new = item.change is Change.ADDED
        return Settled(item, outcome=IngestOutcome.ADDED if is_new else IngestOutcome.CHANGED)

    @property
    def _stage(self) -> str:
        return ORIGINALS if self.folder.has_originals else EMBEDDED

    async def finish(self, operation_id: str) -> None:
        """Write `files_map.csv`, and let nothing stay on disk that the source does not have or that no row names."""
        places = await self._all_places()
        known = await self._read_files_map() or {}
        done, failed = await self._settled(operation_id)
        rows = await asyncio.to_thread(self._file_rows, list(places.values()), known, done, failed)
        await asyncio.to_thread(write_map, self.folder.path, FILES_MAP, rows)
        wanted = {path for row in rows if (path := self.folder.file(row["file_relative_path"])) is not None}
        if self.folder.has_originals:
            wanted |= {self.folder.stage(ORIGINALS) / local for _, local in places.values()}
        await asyncio.to_thread(self.folder.sweep, wanted)

    def _file_rows(
        self, places: Sequence[tuple[Row, str]], known: dict[str, Row], done: set[str], failed: dict[str, str]
    ) -> list[Row]:
        rows: list[Row] = []
        for row, local in places:
            key_hash = self.key_hash(row)
            kept = known.get(local)
            if kept is not None and not self._is_file(kept):
                kept = None
            if key_hash in done:
                kept = self._new_row(row, local)
            elif key_hash in failed:
                # What was fetched before stays, and its row says that it is no longer the newest.
                kept = {**(kept or self._blank_row(row)), "sharepoint_error": failed[key_hash]}
            if kept is not None:
                rows.append(kept)
        return rows

    def _is_file(self, row: Row) -> bool:
        path = self.folder.file(row["file_relative_path"])
        return path is not None and path.is_file()

    def _new_row(self, row: Row, local: str) -> Row:
        path = self.folder.stage(self._stage) / local
        fetched_at = datetime.fromtimestamp(path.stat().st_ctime, UTC)
        return {
            **self._blank_row(row),
            "file_relative_path": self.folder.written(self._stage, local),
            **moment_columns("downloaded", fetched_at),
        }

    def _blank_row(self, row: Row) -> Row:
        told = {name: row[name] for name in ("file_size", "last_modified_utc", "last_modified_timestamp")}
        empty = {"file_relative_path": "", "sharepoint_error": "", "processing_error": ""}
        return {**told, **empty, **moment_columns("downloaded", utc_now())}

    async def _settled(self, operation_id: str) -> tuple[set[str], dict[str, str]]:
        """What the run fetched, and what it could not fetch and why; by the hashes of their keys."""
        done: set[str] = set()
        failed: dict[str, str] = {}
        after = ""
        while True:
            async with self.context.transaction() as connection:
                items = await OperationItems(connection).listing(operation_id, after=after)
            if not items:
                return done, failed
            for item in items:
                if item.state is WorkState.DONE and item.change is not Change.DELETED:
                    done.add(item.key_hash)
                elif item.state is WorkState.FAILED:
                    failed[item.key_hash] = item.error or item.reason or ""
            after = items[-1].key_hash

    async def _read_files_map(self) -> dict[str, Row] | None:
        """The rows of `files_map.csv` by local path; nothing when there is none that can be read."""
        rows, problem = await asyncio.to_thread(read_map, self.folder.path, FILES_MAP)
        if problem is not None:
            await self.context.log(problem, level="warning")
        if rows is None:
            return None
        found = ((self.folder.local_of(row["file_relative_path"]), row) for row in rows)
        return {local: row for local, row in found if local is not None}

    async def _all_places(self) -> dict[str, tuple[Row, str]]:
        """Where everything goes; read from `sharepoint_map.csv` when another process listed the source."""
        if not self._places:
            rows, _ = await asyncio.to_thread(read_map, self.folder.path, SHAREPOINT_MAP)
            self._set_places(rows or [])
        return self._places

    def _set_places(self, rows: Sequence[Row]) -> None:
        locals_ = local_paths(self.folder.kind, self.source, rows)
        self._places = {row["raw_url"]: (row, local) for row, local in zip(rows, locals_, strict=True)}


def _put_in_place(part: Path, target: Path, moment: float) -> None:
    os.utime(part, (moment, moment))
    part.replace(target)
