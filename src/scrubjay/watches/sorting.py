"""What of a listing is new, what changed, and what is only remembered.

An entry is known by its id, or by its address, or by what it says: feeds change any of the three without news.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scrubjay.model.watching import Watch, WatchItem, WatchKind
from scrubjay.storage.watches import WatchItems
from scrubjay.watches.fingerprint import TELLING_CHARACTERS
from scrubjay.watches.sources import Entry, WatchListing

MAX_NEWS = 200  # of one poll; what is more waits for the next
TOO_OLD = timedelta(days=90)  # what was published earlier is not news, wherever it turns up
REBASE_AFTER = timedelta(days=1)
_BELIEVED_SHARE = 0.5
_FEWEST_CHANGES = 20


@dataclass(slots=True)
class Sorting:
    old: list[Entry] = field(default_factory=list)  # remembered, and nothing else
    new: list[Entry] = field(default_factory=list)
    updated: list[tuple[WatchItem, Entry]] = field(default_factory=list)
    debounced: int = 0
    left_over: int = 0
    rebased: list[tuple[str, str | None]] = field(default_factory=list)  # key and hash: believed without a look
    problems: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether the source need not say all this again."""
        return not self.debounced and not self.left_over


async def sort_entries(
    items: WatchItems, watch: Watch, listing: WatchListing, *, now: datetime, debounce: timedelta
) -> Sorting:
    sorting = Sorting()
    known = await _known(items, watch, listing.entries)
    changed: list[tuple[WatchItem, Entry]] = []
    for entry in listing.entries:
        item = known.find(entry)
        if item is None:
            (sorting.new if _is_news(watch, entry, now) else sorting.old).append(entry)
        elif entry.entry_hash is not None and entry.entry_hash != item.entry_hash:
            changed.append((item, entry))
    if watch.kind is WatchKind.SITEMAP and _is_unbelievable(changed, len(known.by_key)):
        _rebase(sorting, watch, changed, now)
    else:
        for item, entry in changed:
            if item.news_at is not None and now - item.news_at < debounce:
                sorting.debounced += 1
            else:
                sorting.updated.append((item, entry))
    _limit(sorting)
    return sorting


@dataclass(slots=True)
class _Known:
    by_key: dict[str, WatchItem]
    by_url: dict[str, WatchItem]
    by_entry: dict[str, WatchItem]

    def find(self, entry: Entry) -> WatchItem | None:
        item = self.by_key.get(entry.key_hash) or self.by_url.get(entry.url_hash)
        if item is not None or entry.entry_hash is None:
            return item
        same = self.by_entry.get(entry.entry_hash)
        return same if same is not None and _is_same(same, entry) else None


def _is_same(item: WatchItem, entry: Entry) -> bool:
    """Same words under another id and address: the same, if they are more than a heading that comes every day."""
    if item.published_at is not None and item.published_at == entry.published_at:
        return True
    return len(entry.title or "") + len(entry.text) >= TELLING_CHARACTERS


async def _known(items: WatchItems, watch: Watch, entries: Sequence[Entry]) -> _Known:
    said = {entry.entry_hash for entry in entries if entry.entry_hash} if watch.kind is WatchKind.FEED else set()
    found = await items.known(
        watch.id, {entry.key_hash for entry in entries}, {entry.url_hash for entry in entries}, said
    )
    return _Known(
        {item.key_hash: item for item in found},
        {item.url_hash: item for item in found},
        {item.entry_hash: item for item in found if item.entry_hash} if said else {},
    )


def _is_news(watch: Watch, entry: Entry, now: datetime) -> bool:
    published = entry.published_at
    if published is not None and published < now - TOO_OLD:
        return False
    if watch.catch_up or not (watch.last_success_at is None or entry.is_old):
        return True
    if watch.kind is WatchKind.PAGE:
        return False
    return published is not None and published > watch.created_at


def _is_unbelievable(changed: Sequence[object], known: int) -> bool:
    """A sitemap whose pages all changed at once was only written anew."""
    return len(changed) >= _FEWEST_CHANGES and len(changed) > known * _BELIEVED_SHARE


def _rebase(sorting: Sorting, watch: Watch, changed: Sequence[tuple[WatchItem, Entry]], now: datetime) -> None:
    sorting.problems.append(f"{len(changed):,} pages claim to have changed at once, which is not believed.")
    last = watch.memory.get("rebased_at")
    # One that lies every time would cost as many writes every time.
    if last is None or datetime.fromisoformat(last) < now - REBASE_AFTER:
        sorting.rebased = [(item.key_hash, entry.entry_hash) for item, entry in changed]


def _limit(sorting: Sorting) -> None:
    """The newest first, and no more than can be dealt with."""

    def age(entry: Entry) -> float:
        return float("-inf") if entry.published_at is None else -entry.published_at.timestamp()

    sorting.new.sort(key=age)
    sorting.updated.sort(key=lambda each: age(each[1]))
    room = max(0, MAX_NEWS - len(sorting.new))
    sorting.left_over = max(0, len(sorting.new) - MAX_NEWS) + max(0, len(sorting.updated) - room)
    del sorting.new[MAX_NEWS:]
    del sorting.updated[room:]
    if sorting.left_over:
        sorting.problems.append(f"{sorting.left_over:,} more entries are looked at at the next polls.")
