"""A listing in the order of its keys' hashes, however long it is: what is too much for memory waits in files."""

import asyncio
import heapq
import marshal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import IO, Final

from scrubjay.model.source import SourceItem

IN_MEMORY = 100_000
BLOCK = 2_000

# hash, key, content type, length, ETag, SHA-256, SHA-1, MD5, modified (ISO), SHA-256 of the text, why unreadable
Row = tuple[
    str, str, str | None, int | None, str | None, str | None, str | None, str | None, str | None, str | None, str | None
]
HASH: Final = 0
LENGTH: Final = 3
ETAG: Final = 4
SHA256: Final = 5
SHA1: Final = 6
MD5: Final = 7
MODIFIED: Final = 8
TEXT: Final = 9
UNREADABLE: Final = 10
by_hash = itemgetter(HASH)


class SortedListing:
    """Takes items in any order, gives rows in one; a key that comes twice counts once."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._rows: list[Row] = []
        self._files: list[IO[bytes]] = []
        self._stack = ExitStack()
        self.count = 0

    async def add(self, item: SourceItem) -> None:
        self._rows.append(_row(item))
        self.count += 1
        if len(self._rows) >= IN_MEMORY:
            rows, self._rows = self._rows, []
            file = self._stack.enter_context(tempfile.TemporaryFile(dir=self._folder))  # noqa: SIM115 - it is
            self._files.append(file)
            await asyncio.to_thread(_write, file, rows)

    def rows(self) -> Iterator[Row]:
        self._rows.sort(key=by_hash)
        last = ""
        for row in heapq.merge(*(_read(file) for file in self._files), iter(self._rows), key=by_hash):
            if row[HASH] != last:
                last = row[HASH]
                yield row

    def close(self) -> None:
        self._stack.close()


def _row(item: SourceItem) -> Row:
    modified = item.last_modified_at
    return (
        item.key_hash, item.key, item.content_type, item.content_length, item.etag, item.sha256, item.sha1, item.md5,
        None if modified is None else modified.isoformat(), item.text_sha256, item.unreadable,
    )  # fmt: skip


def item_of(row: Row) -> SourceItem:
    key_hash, key, content_type, length, etag, sha256, sha1, md5, modified, text, unreadable = row
    return SourceItem(
        key_hash=key_hash, key=key, content_type=content_type, content_length=length, etag=etag, sha256=sha256,
        sha1=sha1, md5=md5, last_modified_at=None if modified is None else datetime.fromisoformat(modified),
        text_sha256=text, unreadable=unreadable,
    )  # fmt: skip


def _write(file: IO[bytes], rows: list[Row]) -> None:
    rows.sort(key=by_hash)
    for start in range(0, len(rows), BLOCK):
        marshal.dump(rows[start : start + BLOCK], file)
    file.seek(0)


def _read(file: IO[bytes]) -> Iterator[Row]:
    file.seek(0)
    while True:
        try:
            block = marshal.load(file)  # noqa: S302 - a file without a name, that this process wrote
        except EOFError:
            return
        yield from block
