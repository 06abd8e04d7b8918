"""What was added, changed or is missing: a sorted listing beside the ledger. Step 6 of a page's journey.

Both come in the order of the keys' hashes, so that neither is ever in memory as a whole. Where the fingerprints are
the same, nothing changed, and nothing more is read; where they differ, the precedence of spec 000 §5.2.3 decides.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scrubjay.model.plan import Change, Fate, LedgerEntry
from scrubjay.model.source import SourceItem
from scrubjay.plans.listing import FINGERPRINT, HASH, Row, item_of
from scrubjay.storage.ledger import LedgerState

NEW_AT_ONCE = 1000
PRESENT, RETIRED = Fate.PRESENT.value, Fate.RETIRED.value

Recall = Callable[[Collection[str]], Awaitable[Mapping[str, LedgerEntry]]]


@dataclass(slots=True)
class Findings:
    """What a part of the ledger and the listing has to say."""

    changes: list[tuple[Change, SourceItem]] = field(default_factory=list)
    missing: list[LedgerState] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)  # were missing, and are there again as they were
    unchanged: list[str] = field(default_factory=list)
    unreadable: int = 0  # known keys that could not be read this time
    known: int = 0  # keys of the ledger that have documents
    doubtful: list[tuple[Row, LedgerState]] = field(default_factory=list)  # other fingerprints; not yet decided


def is_changed(item: SourceItem, known: LedgerEntry) -> bool:
    """By the precedence of spec 000 §5.2.3; where both know what the text says, that decides alone."""
    if item.text_sha256 is not None and known.text_sha256 is not None:
        return item.text_sha256 != known.text_sha256
    if item.content_length != known.content_length:
        return True
    told = (
        (item.etag, known.etag),
        (item.sha256, known.content_sha256),
        (item.sha1, known.content_sha1),
        (item.md5, known.content_md5),
        (item.last_modified_at, known.last_modified_at),
    )
    return any(now is not None and before is not None and now != before for now, before in told)


def change_of(item: SourceItem, known: LedgerEntry | None) -> Change | None:
    """What one item is beside what the ledger has of it; nothing when it did not change."""
    if known is None or known.fate in (Fate.RETIRED, Fate.FAILED):
        return Change.ADDED
    if known.fingerprint == item.fingerprint or not is_changed(item, known):
        return None
    return Change.CHANGED


async def compare(
    rows: Iterator[Row], pages: AsyncIterator[Sequence[LedgerState]], recall: Recall
) -> AsyncIterator[Findings]:
    """The differences, a page of the ledger at a time. `recall` gives entries of the ledger as a whole."""
    row = next(rows, None)
    async for page in pages:
        found = Findings()
        same: list[str] = []
        for known in page:
            key_hash, fate, _, fingerprint = known
            while row is not None and row[HASH] < key_hash:
                _note_new(found, row)
                row = next(rows, None)
            if row is None or row[HASH] != key_hash:
                if fate != RETIRED:
                    found.known += 1
                    found.missing.append(known)
                continue
            if fingerprint == row[FINGERPRINT] and fate == PRESENT:
                same.append(key_hash)  # most of them: written out, to be quick
            else:
                _note_known(found, row, known)
            row = next(rows, None)
        found.known += len(same)
        found.unchanged += same
        await _decide(found, recall)
        yield found
    found = Findings()
    while row is not None:
        _note_new(found, row)
        if len(found.changes) >= NEW_AT_ONCE:
            yield found
            found = Findings()
        row = next(rows, None)
    yield found


def _note_new(found: Findings, row: Row) -> None:
    if row[FINGERPRINT] is not None:  # None: it could not be read
        found.changes.append((Change.ADDED, item_of(row)))


def _note_known(found: Findings, row: Row, known: LedgerState) -> None:
    _, fate, _, fingerprint = known
    found.known += fate != RETIRED
    if row[FINGERPRINT] is None:
        found.unreadable += 1
    elif fate == RETIRED:
        found.changes.append((Change.ADDED, item_of(row)))
    elif row[FINGERPRINT] == fingerprint:
        _note_same(found, row, known)
    else:
        found.doubtful.append((row, known))


def _note_same(found: Findings, row: Row, known: LedgerState) -> None:
    key_hash, fate, *_ = known
    if fate == Fate.FAILED:
        found.changes.append((Change.ADDED, item_of(row)))  # tried again, although it is as it was
        return
    found.unchanged.append(key_hash)
    if fate == Fate.MISSING:
        found.returned.append(key_hash)


async def _decide(found: Findings, recall: Recall) -> None:
    if not found.doubtful:
        return
    entries = await recall({row[HASH] for row, _ in found.doubtful})
    for row, known in found.doubtful:
        item = item_of(row)
        if is_changed(item, entries[row[HASH]]):
            found.changes.append((Change.CHANGED, item))
        else:
            _note_same(found, row, known)
    found.doubtful = []
