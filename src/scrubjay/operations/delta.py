"""What was added, changed or is missing: a sorted listing beside the ledger. Step 6 of a page's journey.

Both come in the order of the keys' hashes, so that neither is ever in memory as a whole. What did not change is only
counted.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from scrubjay.model.plan import Change, Fate
from scrubjay.operations.listing import (
    ETAG,
    HASH,
    LENGTH,
    MD5,
    MODIFIED,
    SHA1,
    SHA256,
    TEXT,
    UNREADABLE,
    Row,
)
from scrubjay.storage.ledger import LedgerState

_HAS_DOCUMENT = frozenset({Fate.PRESENT, Fate.FAILED, Fate.MISSING})


@dataclass(slots=True)
class Findings:
    """What a part of the ledger and the listing has to say."""

    changes: list[tuple[Change, Row]] = field(default_factory=list)
    missing: list[LedgerState] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)  # were missing, and are there again as they were
    unchanged: list[str] = field(default_factory=list)
    unreadable: int = 0
    known: int = 0  # keys of the ledger that have documents


def is_changed(row: Row, known: LedgerState) -> bool:
    """By the precedence of spec 000 §5.2.3; where both know what the text says, that decides alone."""
    if row[TEXT] is not None and known.text_sha256 is not None:
        return row[TEXT] != known.text_sha256
    if row[LENGTH] != known.content_length:
        return True
    for place, before in (
        (ETAG, known.etag),
        (SHA256, known.content_sha256),
        (SHA1, known.content_sha1),
        (MD5, known.content_md5),
    ):
        if before is not None and row[place] is not None and row[place] != before:
            return True
    modified, before_modified = row[MODIFIED], known.last_modified_at
    return modified is not None and before_modified is not None and modified != before_modified.isoformat()


async def compare(rows: Iterator[Row], pages: AsyncIterator[Sequence[LedgerState]]) -> AsyncIterator[Findings]:
    """The differences, a page of the ledger at a time."""
    row = next(rows, None)
    async for page in pages:
        found = Findings()
        for known in page:
            while row is not None and row[HASH] < known.key_hash:
                _note_new(found, row)
                row = next(rows, None)
            if row is not None and row[HASH] == known.key_hash:
                _note_known(found, row, known)
                row = next(rows, None)
            elif known.fate in _HAS_DOCUMENT:
                found.known += 1
                found.missing.append(known)
        yield found
    found = Findings()
    while row is not None:
        _note_new(found, row)
        if len(found.changes) >= 1000:
            yield found
            found = Findings()
        row = next(rows, None)
    yield found


def _note_new(found: Findings, row: Row) -> None:
    if row[UNREADABLE] is None:
        found.changes.append((Change.ADDED, row))
    else:
        found.unreadable += 1


def _note_known(found: Findings, row: Row, known: LedgerState) -> None:
    fate = known.fate
    if fate in _HAS_DOCUMENT:
        found.known += 1
    if row[UNREADABLE] is not None:
        found.unreadable += 1
    elif fate is Fate.RETIRED:
        found.changes.append((Change.ADDED, row))
    elif is_changed(row, known):
        found.changes.append((Change.CHANGED, row))
    elif fate is Fate.FAILED:
        found.changes.append((Change.ADDED, row))  # tried again, although it is as it was
    else:
        found.unchanged.append(known.key_hash)
        if fate is Fate.MISSING:
            found.returned.append(known.key_hash)
