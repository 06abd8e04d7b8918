"""Restores a backup into an empty place: another data folder, another machine, another kind of database.

The whole file is looked at first, so that one that is damaged changes nothing.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.errors import ConfigurationError, Conflict, InvalidRequest
from scrubjay.settings import Settings
from scrubjay.storage.backups.archive import END, FORMAT, MANIFEST, read_archive, read_note
from scrubjay.storage.backups.rows import RowWriter, allow_idling, find_rows, go_on_counting, kept_tables
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.database import Database
from scrubjay.storage.generations import GenerationRow
from scrubjay.storage.home import ADMIN_KEY_FILE
from scrubjay.storage.schema import known_revisions
from scrubjay.storage.secrets import KEY_FILE, open_secret_box, read_key_file, read_private_file, write_private_file

Tell = Callable[[str, int], None]

_PIECE = 1024 * 1024
_MAX_KEY_BYTES = 4_096


@dataclass
class Inspected:
    """What a whole backup holds."""

    manifest: dict[str, Any]
    tables: dict[str, int] = field(default_factory=dict)
    bodies: int = 0
    files: int = 0
    keys: dict[str, str] = field(default_factory=dict)


def inspect_backup(path: Path, tell: Tell = lambda what, count: None) -> Inspected:
    """Read a backup to its end, and see that nothing of it is missing or altered."""
    found: Inspected | None = None
    end: dict[str, Any] | None = None
    for name, content, size in read_archive(path):
        if name == MANIFEST:
            found = Inspected(_check_manifest(read_note(content, size)))
            continue
        if found is None:
            raise InvalidRequest(f"{path.name} is not a backup: it does not begin with a manifest.")
        end = _count(name, content, size, found) or end
        tell("looking at the backup", found.bodies + found.files + sum(found.tables.values()))
    if found is None or end is None:
        raise InvalidRequest(f"{path.name} is not whole: it was cut off, or the backup did not end well.")
    if {"tables": found.tables, "bodies": found.bodies, "files": found.files} != end:
        raise InvalidRequest(f"{path.name} does not hold what it says it holds.")
    return found


def _check_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    if manifest.get("format") != FORMAT:
        raise InvalidRequest(f"This backup has the format {manifest.get('format')}, and this version reads {FORMAT}.")
    if manifest.get("schema") != known_revisions()[-1]:
        raise InvalidRequest(
            f"This backup was made by Scrubjay {manifest.get('version')} with schema {manifest.get('schema')}, and "
            f"this version has {known_revisions()[-1]}: restore it with the version that made it, then upgrade."
        )
    return manifest


def _count(name: str, content: IO[bytes], size: int, found: Inspected) -> dict[str, Any] | None:
    folder, _, rest = name.partition("/")
    if name == END:
        return read_note(content, size)
    if folder == "tables":
        found.tables[rest.removesuffix(".jsonl")] = sum(1 for _ in content)
    elif folder == "blobs":
        if _digest(content) != rest:
            raise InvalidRequest(f"The body {rest} in the backup was altered.")
        found.bodies += 1
    elif folder == "keys":
        if size > _MAX_KEY_BYTES:
            raise InvalidRequest(f"The key {rest} in the backup is not one.")
        found.keys[rest] = content.read().decode()
    else:
        found.files += 1
    return None


def _digest(content: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := content.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


def restore_keys(settings: Settings, found: Inspected) -> None:
    """Bring the keys into the data folder, or see that the one that is there opens what was sealed."""
    home, wanted = settings.home, found.manifest.get("secret_key_id")
    kept = found.keys.get(KEY_FILE)
    if settings.secret_key is not None:
        ours = open_secret_box(settings).key_id
    elif (home / KEY_FILE).exists():
        ours = read_key_file(read_private_file(home / KEY_FILE), home / KEY_FILE).key_id
    elif kept is None:
        ours = None
    else:
        write_private_file(home / KEY_FILE, kept)
        ours = wanted
    if ours != wanted:
        here = "none" if ours is None else f"another ({ours})"
        raise ConfigurationError(
            f"What is secret in this backup was sealed with the key {wanted}, and here is {here}; set "
            f"SCRUBJAY_SECRET_KEY to that key, or put it into {home / KEY_FILE}."
        )
    if ADMIN_KEY_FILE in found.keys and not (home / ADMIN_KEY_FILE).exists():
        write_private_file(home / ADMIN_KEY_FILE, found.keys[ADMIN_KEY_FILE])


class BackupRestorer:
    def __init__(self, settings: Settings, database: Database, blobs: BlobStore) -> None:
        self._settings = settings
        self._database = database
        self._blobs = blobs

    async def require_empty(self) -> None:
        """Nothing that is there is ever written over."""
        table = await find_rows(self._database)
        if table is not None:
            raise Conflict(
                f"The database holds something already (in {table}); restore into an empty one, with --home or "
                "SCRUBJAY_DATABASE_URL."
            )
        begun_before = self._mark.exists()
        for folder in self._folders.values():
            if not begun_before and folder.is_dir() and any(folder.iterdir()):
                raise Conflict(f"The folder {folder} is not empty; restore into a new data folder.")

    async def restore(self, path: Path, found: Inspected, tell: Tell = lambda what, count: None) -> None:
        """All rows appear at once, at the end. Until then a mark in the data folder says that files in it are ours, so
        that a restore that was cut off can simply be begun again."""
        tables = {table.name: table for table in kept_tables()}
        unknown = sorted(set(found.tables) - set(tables))
        if unknown:
            raise InvalidRequest(f"The backup has tables that this version does not know: {', '.join(unknown)}.")
        bodies = 0
        self._mark.touch(mode=0o600)
        async with self._database.writing(long=True) as connection:
            await allow_idling(connection)
            members = read_archive(path)
            while (member := await asyncio.to_thread(next, members, None)) is not None:
                name, content, _ = member
                folder, _, rest = name.partition("/")
                if folder == "blobs":
                    await self._blobs.put_stream(_pieces(content))
                    bodies += 1
                    tell("bodies", bodies)
                elif folder == "tables":
                    writer = RowWriter(connection, tables[rest.removesuffix(".jsonl")])
                    await _write_rows(content, writer, tell, rest)
                elif folder in self._folders:
                    await asyncio.to_thread(_write_file, self._folders[folder] / rest, content)
            await go_on_counting(connection, list(tables.values()))
            await _forget_place(connection)
        self._mark.unlink()

    @property
    def _mark(self) -> Path:
        return self._settings.home / "restoring"

    @property
    def _folders(self) -> dict[str, Path]:
        settings = self._settings
        return {"storage": settings.resolved_storage_folder, "enumerations": settings.resolved_enumeration_folder}


async def _write_rows(content: IO[bytes], writer: RowWriter, tell: Tell, name: str) -> None:
    while lines := await asyncio.to_thread(content.readlines, _PIECE):
        for line in lines:
            await writer.add(line)
        tell(f"rows of {name.removesuffix('.jsonl')}", writer.count)
    await writer.flush()


async def _forget_place(connection: AsyncConnection) -> None:
    """The index was on another machine; it is made anew on this one."""
    await connection.execute(update(GenerationRow).values(place=None))


async def _pieces(content: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(content.read, _PIECE):
        yield piece


def _write_file(path: Path, content: IO[bytes]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("wb") as file:
        while piece := content.read(_PIECE):
            file.write(piece)
