"""The file of a backup: a tar in a zstd stream, so that every tool can look into it.

manifest.json           what made it, of which schema, when
blobs/<sha256>          bodies
tables/<name>.jsonl     a row per line
storage/…, enumerations/…  files that are content themselves
keys/secret.key, keys/admin.key
end.json                how many of each there are: without it, the file is not whole
"""

import io
import json
import os
import re
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

import zstandard

from scrubjay.errors import ConfigurationError, Conflict, InvalidRequest

FORMAT = 1
MANIFEST = "manifest.json"
END = "end.json"
LEVEL = 3
MAX_NOTE_BYTES = 1_000_000
_NAME = re.compile(r"manifest\.json|end\.json|blobs/[0-9a-f]{64}|tables/[a-z_]{1,64}\.jsonl|keys/(?:secret|admin)\.key")
_FOLDERS = ("storage", "enumerations")


class Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class ArchiveWriter:
    """Adds members one after the other; the file is there under its name when it is whole."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.members = 0

    def add(self, name: str, size: int, content: Readable) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = size, 0o600, int(time.time())
        self._tar.addfile(entry, content)
        self.members += 1

    def add_note(self, name: str, facts: dict[str, Any]) -> None:
        data = json.dumps(facts, indent=1).encode()
        self.add(name, len(data), io.BytesIO(data))


@contextmanager
def write_archive(path: Path) -> Iterator[ArchiveWriter]:
    """A new archive that only its owner can read: it holds keys. Nothing is left of one that was not finished."""
    if path.exists():
        raise Conflict(f"{path} exists already; name a file that does not.")
    if not path.parent.is_dir():
        raise ConfigurationError(f"The folder {path.parent} does not exist.")
    draft = path.with_name(f".{path.name}.partial")
    draft.unlink(missing_ok=True)
    packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    try:
        with open(draft, "xb", opener=_private) as file:
            with packer.stream_writer(file, closefd=False) as packed, tarfile.open(mode="w|", fileobj=packed) as tar:
                yield ArchiveWriter(tar)
            file.flush()
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read_archive(path: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    """Each member's name, content and size, in order. A name that a backup does not have ends the reading."""
    try:
        with (
            path.open("rb") as file,
            zstandard.ZstdDecompressor().stream_reader(file) as packed,
            tarfile.open(mode="r|", fileobj=packed) as tar,
        ):
            for entry in tar:
                content = tar.extractfile(entry) if entry.isreg() and is_member(entry.name) else None
                if content is None:
                    raise InvalidRequest(f"{path.name} is not a backup: it has {entry.name!r} in it.")
                yield entry.name, content, entry.size
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise InvalidRequest(f"{path.name} is no backup of Scrubjay, or it is damaged ({error}).") from error


def is_member(name: str) -> bool:
    """Whether a backup can have a member of this name: no other is ever written to a disk."""
    if _NAME.fullmatch(name):
        return True
    parts = PurePosixPath(name).parts
    return (
        len(parts) > 1
        and parts[0] in _FOLDERS
        and not any(part in ("..", ".") or "\0" in part or "\\" in part for part in parts)
        and str(PurePosixPath(*parts)) == name
    )


def read_note(content: IO[bytes], size: int) -> dict[str, Any]:
    if size > MAX_NOTE_BYTES:
        raise InvalidRequest("This is not a backup: its manifest is too large.")
    try:
        facts = json.loads(content.read())
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        raise InvalidRequest("This is not a backup: its manifest cannot be read.")
    return facts


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
