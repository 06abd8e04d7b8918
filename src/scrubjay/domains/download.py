"""The first step of a domain's crawl: sources → local storage, with `sharepoint_map.csv` and `files_map.csv`.

What a crash leaves behind is put right by the next run: a file that is in no map is fetched again, and files on disk
that no map knows are removed. Nothing is removed before the source was listed to its end.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scrubjay.domains.folders import EMBEDDED, ORIGINALS, SourceFolder
from scrubjay.domains.maps import (
    FILES_MAP,
    SHAREPOINT_MAP,
    Row,
    by_path,
    is_same_file,
    moment_columns,
    read_map,
    write_map,
)
from scrubjay.domains.orders import CrawlMode
from scrubjay.domains.remote import RemoteFile
from scrubjay.errors import ExtractionFailed, FetchFailed, UrlBlocked
from scrubjay.jobs.context import JobContext
from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_uuid

AT_ONCE = 4
WRITE_SECONDS = 5.0  # between two versions of a map while files come in
PART = ".part-"  # what is not whole yet


@dataclass(slots=True)
class Difference:
    """What a listing says against the map: what is new, what changed, and what is gone."""

    added: list[RemoteFile] = field(default_factory=list)
    changed: list[tuple[RemoteFile, Row]] = field(default_factory=list)
    unchanged: list[Row] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        names = ("added", "changed", "unchanged", "removed")
        return {name: len(getattr(self, name)) for name in names}


@dataclass(slots=True)
class SourceDownload:
    """One source of one run."""

    context: JobContext
    folder: SourceFolder
    dry_run: bool
    _written_at: float = 0.0

    async def run(self, remotes: Sequence[RemoteFile], mode: CrawlMode) -> Mapping[str, int]:
        rows, problem = await asyncio.to_thread(read_map, self.folder.path, FILES_MAP)
        if problem is not None:
            await self.context.log(problem, level="warning")
        if mode is CrawlMode.FULL or rows is None:
            if mode is CrawlMode.INCREMENTAL:
                await self.context.log("There is no files_map.csv to compare with; everything is downloaded.")
            rows = []
        difference = await asyncio.to_thread(self._compare, remotes, rows)
        counts = Counter(difference.counts())
        if self.dry_run:
            return dict(counts)
        await asyncio.to_thread(write_map, self.folder.path, SHAREPOINT_MAP, [remote.row for remote in remotes])
        kept = {row["file_relative_path"]: row for row in difference.unchanged}
        await self._forget([*difference.removed, *(row for _, row in difference.changed)], kept)
        work = [*difference.added, *(remote for remote, _ in difference.changed)]
        failed = await self._download(work, kept)
        await asyncio.to_thread(self._sweep, remotes, kept)
        counts["failed"] = failed
        return dict(counts)

    def _compare(self, remotes: Sequence[RemoteFile], rows: Sequence[Row]) -> Difference:
        known, difference = by_path(rows), Difference()
        for remote in remotes:
            found = [known.pop(name) for name in self.folder.candidates(remote.local) if name in known]
            row = found[0] if found else None
            path = None if row is None else self.folder.file(row["file_relative_path"])
            if row is None or path is None or not path.is_file():
                difference.added.append(remote)
            elif is_same_file(row, remote.row):
                difference.unchanged.append(row)
            else:
                difference.changed.append((remote, row))
        difference.removed = list(known.values())
        return difference

    async def _forget(self, rows: Sequence[Row], kept: Mapping[str, Row]) -> None:
        """Delete files that are gone or about to be replaced, and then the rows that spoke of them."""
        for row in rows:
            path = self.folder.file(row["file_relative_path"])
            if path is not None:
                await asyncio.to_thread(path.unlink, missing_ok=True)
        await self._write(kept)

    async def _download(self, work: Sequence[RemoteFile], kept: dict[str, Row]) -> int:
        """Fetch files, some at a time; one that fails is a row without a path."""
        failures: list[Row] = []
        for start in range(0, len(work), AT_ONCE):
            await self.context.checkpoint()
            batch = work[start : start + AT_ONCE]
            for remote, row in zip(batch, await asyncio.gather(*map(self._fetch, batch)), strict=True):
                if row["file_relative_path"]:
                    kept[row["file_relative_path"]] = row
                else:
                    failures.append(row)
                    await self.context.log(f"{remote.row['filename']}: {row['sharepoint_error']}", level="warning")
            done = min(start + AT_ONCE, len(work))
            await self.context.progress(done, len(work), f"Downloading '{batch[-1].row['filename']}'...")
            if time.monotonic() - self._written_at > WRITE_SECONDS:
                await self._write(kept, failures)
        await self._write(kept, failures)
        return len(failures)

    async def _write(self, kept: Mapping[str, Row], failures: Sequence[Row] = ()) -> None:
        await asyncio.to_thread(write_map, self.folder.path, FILES_MAP, [*kept.values(), *failures])
        self._written_at = time.monotonic()

    async def _fetch(self, remote: RemoteFile) -> Row:
        stage = ORIGINALS if self.folder.has_originals else EMBEDDED
        target = self.folder.stage(stage) / remote.local
        part = target.with_name(f"{PART}{new_uuid()}")
        row = {name: remote.row[name] for name in ("file_size", "last_modified_utc", "last_modified_timestamp")}
        row |= {"file_relative_path": "", "sharepoint_error": "", "processing_error": ""}
        try:
            await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
            await remote.fetch(part)
            moment = remote.modified_at.timestamp()
            await asyncio.to_thread(_put_in_place, part, target, moment)
        except (FetchFailed, ExtractionFailed, UrlBlocked) as error:
            return row | {"sharepoint_error": error.message} | moment_columns("downloaded", utc_now())
        except OSError as error:
            said = f"It cannot be kept on disk: {error.strerror or error}."
            return row | {"sharepoint_error": said} | moment_columns("downloaded", utc_now())
        finally:
            await asyncio.to_thread(part.unlink, missing_ok=True)
        return (
            row
            | {"file_relative_path": self.folder.written(stage, remote.local)}
            | moment_columns("downloaded", utc_now())
        )

    def _sweep(self, remotes: Sequence[RemoteFile], kept: Mapping[str, Row]) -> None:
        """Nothing stays on disk that the source does not have, or that no row speaks of."""
        wanted = {path for row in kept.values() if (path := self.folder.file(row["file_relative_path"])) is not None}
        if self.folder.has_originals:
            wanted |= {self.folder.stage(ORIGINALS) / remote.local for remote in remotes}
        self.folder.sweep(wanted)


def _put_in_place(part: Path, target: Path, moment: float) -> None:
    os.utime(part, (moment, moment))
    part.replace(target)
