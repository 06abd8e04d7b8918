"""A listing in the order of its keys' hashes, however long it is: what is too much for memory waits in a file.

Hashes are spread evenly, so that a long listing is sorted in parts that each begin with the same two digits.
"""

import asyncio
import marshal
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import IO, Final

from scrubjay.model.source import SourceItem

IN_MEMORY = 50_000
PREFIX = 2
PARTS = tuple(f"{number:02x}" for number in range(256))

# The hash of a key, its fingerprint (nothing for what cannot be read), and all of the item, packed: of most items
# nobody wants to know more than the first two.
Row = tuple[str, str | None, bytes]
HASH: Final = 0
FINGERPRINT: Final = 1
PACKED: Final = 2
_by_hash = itemgetter(HASH)


class SortedListing:
    """Takes items in any order, gives rows in one; a key that comes twice counts once."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._rows: list[Row] = []
        self._file: IO[bytes] | None = None
        self._places: dict[str, list[int]] = {part: [] for part in PARTS}  # where a part's rows are in the file
        self.count = 0

    def add(self, item: SourceItem) -> bool:
        """Take an item; true when there are so many that they should be `spilled`."""
        self._rows.append(_row(item))
        self.count += 1
        return len(self._rows) >= IN_MEMORY

    async def spill(self) -> None:
        """Put what is in memory into the file."""
        rows, self._rows = self._rows, []
        await asyncio.to_thread(self._write, rows)

    def _write(self, rows: list[Row]) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by `close`
        parts: dict[str, list[Row]] = {part: [] for part in PARTS}
        for row in rows:
            parts[row[HASH][:PREFIX]].append(row)
        for part, own in parts.items():
            if own:
                self._places[part].append(self._file.tell())
                marshal.dump(own, self._file)

    def rows(self) -> Iterator[Row]:
        last = ""
        for part in self._parts():
            part.sort(key=_by_hash)
            for row in part:
                if row[HASH] != last:
                    last = row[HASH]
                    yield row

    def _parts(self) -> Iterator[list[Row]]:
        if self._file is None:
            yield self._rows
            return
        self._write(self._rows)
        self._rows = []
        for places in self._places.values():
            part: list[Row] = []
            for place in places:
                self._file.seek(place)
                part += marshal.load(self._file)  # noqa: S302 - a file without a name, that this process wrote
            yield part

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _row(item: SourceItem) -> Row:
    modified = item.last_modified_at
    packed = marshal.dumps(
        (
            item.key, item.content_type, item.content_length, item.etag, item.sha256, item.sha1, item.md5,
            None if modified is None else modified.timestamp(), item.text_sha256,
        )
    )  # fmt: skip
    return item.key_hash, None if item.problem is not None else item.fingerprint, packed


def item_of(row: Row) -> SourceItem:
    packed = marshal.loads(row[PACKED])  # noqa: S302 - what this process packed
    key, content_type, length, etag, sha256, sha1, md5, modified, text = packed
    return SourceItem(
        key_hash=row[HASH], key=key, content_type=content_type, content_length=length, etag=etag, sha256=sha256,
        sha1=sha1, md5=md5, last_modified_at=None if modified is None else datetime.fromtimestamp(modified, UTC),
        text_sha256=text,
    )  # fmt: skip
