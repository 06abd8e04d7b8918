"""Folders of this machine as a source: those that the operator opened with SCRUBJAY_FILE_ROOTS, and nothing outside."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from scrubjay.errors import FetchFailed, InvalidRequest
from scrubjay.model.clock import utc_now
from scrubjay.model.plan import Plan
from scrubjay.model.source import Connectivity, SourceContent, SourceItem, hash_key
from scrubjay.queue.context import JobContext
from scrubjay.settings import Settings
from scrubjay.sources.file_types import guess_content_type
from scrubjay.sources.filesystem_walk import Bounds, Seen, Walk, key_of, parts_of
from scrubjay.sources.protocol import ConnectorType, Tools

MAX_BYTES = 1024 * 1024 * 1024
BATCH_STEPS = 500
BATCH_SECONDS = 0.1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ERROR_TYPES = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_a_folder",
    errno.EACCES: "forbidden",
    errno.EPERM: "forbidden",
    errno.ELOOP: "forbidden",
}


class FileSettings(BaseModel):
    """Which folder is read, and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Annotated[str, Field(max_length=4096)] | None = None
    recursive: bool = True
    follow_symlinks: bool = False  # to files inside the folder; nothing leads out of it
    max_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES)] = 50 * 1024 * 1024

    @field_validator("path")
    @classmethod
    def _check_path(cls, value: str | None) -> str | None:
        if value is not None and (not value.startswith("/") or "\0" in value):
            raise ValueError("path must be absolute")
        return value


class FileConnector:
    def __init__(self, path: str, wanted: FileSettings, settings: Settings) -> None:
        self._path = path
        self._wanted = wanted
        self._settings = settings
        self._problems: list[str] = []

    @property
    def problems(self) -> list[str]:
        return self._problems

    async def check(self) -> Connectivity:
        try:
            folder = await asyncio.to_thread(self._look_inside)
        except FetchFailed as error:
            return Connectivity(False, error.message)
        return Connectivity(True, f"The folder {folder} can be read.")

    async def enumerate(self, context: JobContext, limit: int | None = None) -> AsyncIterator[SourceItem]:
        self._problems = []
        bounds = await asyncio.to_thread(self._find_bounds)
        walk = Walk(bounds, self._wanted.recursive, self._wanted.follow_symlinks)
        self._problems = walk.problems
        try:
            count, more = 0, True
            while more and (limit is None or count < limit):
                await context.checkpoint()
                files, more = await self._take(walk)
                for file in files[: None if limit is None else limit - count]:
                    count += 1
                    yield _item_of(file)
        finally:
            # In a thread: one that was given up may still be reading, and is waited for.
            await asyncio.to_thread(walk.close)
        if walk.links_left_out:
            await context.log(f"{walk.links_left_out} links were left out: only what is in the folder itself is read.")

    async def _take(self, walk: Walk) -> tuple[list[Seen], bool]:
        try:
            return await asyncio.to_thread(walk.take, BATCH_STEPS, BATCH_SECONDS)
        except OSError as error:
            raise self._folder_failure(error) from error

    async def read(self, item: SourceItem) -> SourceContent:
        bounds = await asyncio.to_thread(self._find_bounds)
        try:
            data = await asyncio.to_thread(self._read_file, bounds, parts_of(item.key))
        except OSError as error:
            reason = error.strerror or str(error)
            raise FetchFailed(f"'{item.key}' cannot be read: {reason}.", error_type=_error_type(error)) from error
        parts = parts_of(item.key)
        return SourceContent(
            url=bounds.folder.joinpath(*parts).as_uri(),
            data=data,
            filename=key_of(parts[-1:]),
            content_type=guess_content_type(parts[-1]),
            size_bytes=len(data),
            crawled_at=utc_now(),
        )

    async def close(self) -> None:
        """Nothing is kept open."""

    def _find_bounds(self) -> Bounds:
        """The plan's folder, if it is inside one that the operator allows; links on the way to it are followed."""
        try:
            folder = Path(self._path).resolve()
            roots = [root.resolve() for root in self._settings.file_roots]
        except (OSError, RuntimeError) as error:
            raise FetchFailed(f"The folder {self._path} cannot be found.", error_type="not_found") from error
        for root in roots:
            if folder.is_relative_to(root):
                return Bounds(root, folder, self._settings.home)
        raise FetchFailed(
            f"The folder {self._path} may not be read: the setting SCRUBJAY_FILE_ROOTS names no folder that it is in.",
            error_type="forbidden",
        )

    def _look_inside(self) -> Path:
        bounds = self._find_bounds()
        try:
            with bounds.open_folder() as folder, os.scandir(folder) as entries:
                next(entries, None)
        except OSError as error:
            raise self._folder_failure(error) from error
        return bounds.folder

    def _folder_failure(self, error: OSError) -> FetchFailed:
        message = f"The folder {self._path} cannot be read: {error.strerror or error}."
        return FetchFailed(message, error_type=_error_type(error))

    def _read_file(self, bounds: Bounds, parts: tuple[str, ...]) -> bytes:
        most = self._wanted.max_bytes
        if self._wanted.follow_symlinks:
            parts = bounds.resolve_link(parts)
        with bounds.open_folder() as folder, open(bounds.open_file(folder, parts), "rb") as file:  # noqa: PTH123 - a descriptor
            if os.fstat(file.fileno()).st_size > most or len(data := file.read(most + 1)) > most:
                raise FetchFailed(f"The file is larger than {most:,} bytes.", error_type="too_large")
            return data


def _item_of(file: Seen) -> SourceItem:
    key = key_of(file.parts)
    return SourceItem(
        key=key,
        key_hash=hash_key(key),
        content_type=guess_content_type(file.parts[-1]),
        content_length=file.size,
        last_modified_at=_moment(file.modified_ns),
    )


def _moment(nanoseconds: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:  # file systems keep dates that calendars do not
        return None


def _error_type(error: OSError) -> str:
    return _ERROR_TYPES.get(error.errno or 0, "unreadable")


def _open(plan: Plan, tools: Tools) -> FileConnector:
    wanted = FileSettings.model_validate(plan.repository_settings)
    if wanted.path is None:
        raise InvalidRequest("The plan has no path.", field="path")
    return FileConnector(wanted.path, wanted, tools.crawler.settings)


FILE = ConnectorType(name="File", settings=FileSettings, required=("path",), open=_open)
