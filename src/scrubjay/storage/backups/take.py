"""Takes a backup while everything goes on.

Bodies never change and are written before the row that names them. So: the bodies that are there, then all rows as of
one moment, then the bodies that came in between. A body that is in the rows and was deleted in that time was not yet
there the first time and not any more the second, which almost never happens; then the rows are read again.
"""

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scrubjay import __version__
from scrubjay.errors import BlobMissing, ConfigurationError
from scrubjay.model.clock import utc_now
from scrubjay.settings import Settings
from scrubjay.storage.backups.archive import END, FORMAT, MANIFEST, ArchiveWriter, write_archive
from scrubjay.storage.backups.rows import kept_tables, named_bodies, read_lines, read_snapshot
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.database import Database
from scrubjay.storage.home import ADMIN_KEY_FILE
from scrubjay.storage.schema import current_revision
from scrubjay.storage.secrets import KEY_FILE, SecretBox

Tell = Callable[[str, int], None]  # what is being saved, and how many of it so far

_SPOOL_BYTES = 16 * 1024 * 1024
_ATTEMPTS = 3


@dataclass
class Taken:
    """What a backup holds."""

    tables: dict[str, int] = field(default_factory=dict)
    bodies: int = 0
    files: int = 0
    missing_bodies: list[str] = field(default_factory=list)  # named by rows, and nowhere
    has_keys: bool = False

    @property
    def rows(self) -> int:
        return sum(self.tables.values())


@dataclass
class _Table:
    name: str
    lines: "tempfile.SpooledTemporaryFile[bytes]"
    count: int = 0


class BackupTaker:
    def __init__(self, settings: Settings, database: Database, blobs: BlobStore, secrets: SecretBox) -> None:
        self._settings = settings
        self._database = database
        self._blobs = blobs
        self._secrets = secrets

    async def take(self, path: Path, *, with_keys: bool = True, tell: Tell = lambda what, count: None) -> Taken:
        """Write a backup to a new file."""
        if self._database.dialect == "mssql":
            raise ConfigurationError("Backups of SQL Server are made with its own tools.")
        taken, saved = Taken(), set[str]()
        with write_archive(path) as archive:
            archive.add_note(MANIFEST, await self._describe())
            await self._save_bodies(archive, saved, tell)
            named = await self._save_rows(archive, taken, saved, tell)
            await self._save_bodies(archive, saved, tell)
            taken.missing_bodies = sorted(named - saved)
            taken.bodies = len(saved)
            for name, folder in self._folders:
                taken.files += await self._save_folder(archive, name, folder, tell)
            if with_keys:
                taken.has_keys = await asyncio.to_thread(self._save_keys, archive)
            archive.add_note(END, {"tables": taken.tables, "bodies": taken.bodies, "files": taken.files})
        return taken

    @property
    def _folders(self) -> tuple[tuple[str, Path], ...]:
        settings = self._settings
        return ("storage", settings.resolved_storage_folder), ("enumerations", settings.resolved_enumeration_folder)

    async def _describe(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": __version__,
            "schema": await current_revision(self._database),
            "created_at": utc_now().isoformat(),
            "secret_key_id": self._secrets.key_id,
        }

    async def _save_bodies(self, archive: ArchiveWriter, saved: set[str], tell: Tell) -> None:
        async for digest in self._blobs.list():
            if digest in saved:
                continue
            try:
                await self._save_body(archive, digest)
            except BlobMissing:
                continue  # deleted since it was listed
            saved.add(digest)
            tell("bodies", len(saved))

    async def _save_body(self, archive: ArchiveWriter, digest: str) -> None:
        with _spool() as spool:
            async for piece in self._blobs.stream(digest):
                spool.write(piece)
            await asyncio.to_thread(_add_spooled, archive, f"blobs/{digest}", spool)

    async def _save_rows(self, archive: ArchiveWriter, taken: Taken, saved: set[str], tell: Tell) -> set[str]:
        """Of one moment; the bodies that they name are returned."""
        attempts = 0
        while True:
            attempts += 1
            with ExitStack() as spools:
                tables, named = await self._read_rows(spools, tell)
                gone = [digest for digest in named - saved if not await self._blobs.exists(digest)]
                if gone and attempts < _ATTEMPTS:
                    continue
                for table in tables:
                    await asyncio.to_thread(_add_spooled, archive, f"tables/{table.name}.jsonl", table.lines)
                    taken.tables[table.name] = table.count
                return named

    async def _read_rows(self, spools: ExitStack, tell: Tell) -> tuple[list[_Table], set[str]]:
        tables, named = list[_Table](), set[str]()
        async with self._database.reading() as connection:
            await read_snapshot(connection)
            for table in kept_tables():
                kept = _Table(table.name, spools.enter_context(_spool()))
                tables.append(kept)
                async for line, row in read_lines(connection, table):
                    kept.lines.write(line)
                    kept.count += 1
                    named.update(named_bodies(table, row))
                tell(f"rows of {table.name}", kept.count)
        return tables, named

    async def _save_folder(self, archive: ArchiveWriter, name: str, folder: Path, tell: Tell) -> int:
        count = 0
        for path in await asyncio.to_thread(_files_in, folder):
            if await asyncio.to_thread(_add_file, archive, f"{name}/{path.relative_to(folder).as_posix()}", path):
                count += 1
                tell(f"files in {name}", count)
        return count

    def _save_keys(self, archive: ArchiveWriter) -> bool:
        """The keys in the data folder. One that comes from the environment stays there."""
        names = [ADMIN_KEY_FILE, *([KEY_FILE] if self._settings.secret_key is None else [])]
        found = [self._settings.home / name for name in names if (self._settings.home / name).is_file()]
        for path in found:
            _add_file(archive, f"keys/{path.name}", path)
        return KEY_FILE in {path.name for path in found}


def _spool() -> "tempfile.SpooledTemporaryFile[bytes]":
    return tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)


def _add_spooled(archive: ArchiveWriter, name: str, spool: "tempfile.SpooledTemporaryFile[bytes]") -> None:
    size = spool.tell()
    spool.seek(0)
    archive.add(name, size, spool)


def _files_in(folder: Path) -> list[Path]:
    return (
        sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        if folder.is_dir()
        else []
    )


def _add_file(archive: ArchiveWriter, name: str, path: Path) -> bool:
    """As it is at this moment, although it may be written to; False for one that is gone by now."""
    with _spool() as copy:
        try:
            with path.open("rb") as file:
                while piece := file.read(1024 * 1024):
                    copy.write(piece)
        except FileNotFoundError:
            return False
        _add_spooled(archive, name, copy)
    return True
