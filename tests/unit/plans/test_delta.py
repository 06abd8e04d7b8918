"""The delta: which items are new, changed, missing, back again, or to be tried again."""

import random
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scrubjay.model.plan import Change, Fate, LedgerEntry
from scrubjay.model.source import ItemProblem, SourceItem, hash_key
from scrubjay.plans import listing as listing_module
from scrubjay.plans.delta import compare, is_changed
from scrubjay.plans.listing import SortedListing
from scrubjay.storage.ledger import LedgerState

NOON = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)
VALIDATORS: dict[str, Any] = {
    "content_length": 10, "etag": '"a"', "sha256": "2" * 64, "sha1": "1" * 40, "md5": "5" * 32,
    "last_modified_at": NOON,
}  # fmt: skip
LEDGER_NAMES = {"sha256": "content_sha256", "sha1": "content_sha1", "md5": "content_md5"}


def item(key: str = "key", **values: Any) -> SourceItem:
    return SourceItem(key=key, key_hash=hash_key(key), **{**VALIDATORS, **values})


def entry(key: str = "key", fate: Fate = Fate.PRESENT, missing_runs: int = 0, **values: Any) -> LedgerEntry:
    known = item(key, **values)
    facts = {**VALIDATORS, **values}
    return LedgerEntry(
        tenant_id="ten",
        plan_id="plan",
        key_hash=known.key_hash,
        key=key,
        fate=fate,
        missing_runs=missing_runs,
        fingerprint=known.fingerprint,
        **{LEDGER_NAMES.get(name, name): value for name, value in facts.items()},
    )


@pytest.mark.parametrize(
    "change",
    [
        {"content_length": 11},
        {"etag": '"b"'},
        {"sha256": "3" * 64},
        {"sha1": "4" * 40},
        {"md5": "6" * 32},
        {"last_modified_at": NOON + timedelta(microseconds=1)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_validator_that_both_have_and_that_differs_is_a_change(change: dict[str, Any]) -> None:
    assert is_changed(item(**change), entry())
    assert not is_changed(item(), entry())


@pytest.mark.parametrize("lacking", ["etag", "sha256", "sha1", "md5", "last_modified_at"])
def test_a_validator_that_one_side_lacks_says_nothing(lacking: str) -> None:
    assert not is_changed(item(**{lacking: None}), entry())
    assert not is_changed(item(), entry(**{lacking: None}))


def test_where_both_know_what_the_text_says_that_alone_decides() -> None:
    known = entry(text_sha256="7" * 64)
    assert not is_changed(item(text_sha256="7" * 64, content_length=99, etag='"other"'), known)
    assert is_changed(item(text_sha256="8" * 64), known)


def test_the_same_validators_have_the_same_fingerprint_and_others_another() -> None:
    assert item().fingerprint == item().fingerprint
    prints = {item(**{name: None}).fingerprint for name in VALIDATORS}
    assert len(prints | {item().fingerprint}) == len(VALIDATORS) + 1


async def find(items: Sequence[SourceItem], entries: Sequence[LedgerEntry]) -> dict[str, list[str]]:
    """What the delta says, by kind; the ledger comes in pages of two."""
    by_hash = {each.key_hash: each for each in entries}
    states: list[LedgerState] = [
        (each.key_hash, each.fate.value, each.missing_runs, each.fingerprint)
        for each in sorted(entries, key=lambda each: each.key_hash)
    ]

    async def pages() -> AsyncIterator[Sequence[LedgerState]]:
        for start in range(0, len(states), 2):
            yield states[start : start + 2]

    async def recall(hashes: Collection[str]) -> Mapping[str, LedgerEntry]:
        return {each: by_hash[each] for each in hashes}

    listing = SortedListing()
    for each in items:
        if listing.add(each):
            await listing.spill()
    names = {hash_key(each.key): each.key for each in (*items, *entries)}
    said: dict[str, list[str]] = {}
    async for found in compare(listing.rows(), pages(), recall):
        for change, changed in found.changes:
            said.setdefault(change.value, []).append(changed.key)
            assert changed == next(each for each in items if each.key == changed.key)
        said.setdefault("missing", []).extend(names[each[0]] for each in found.missing)
        said.setdefault("unchanged", []).extend(names[each] for each in found.unchanged)
        said.setdefault("returned", []).extend(names[each] for each in found.returned)
        said.setdefault("unreadable", []).extend("?" * found.unreadable)
    listing.close()
    return {kind: sorted(keys) for kind, keys in said.items() if keys}


async def test_every_kind_of_difference_is_told_apart() -> None:
    unread = ItemProblem("http_503", "HTTP status 503.")
    items = [
        item("new"), item("same"), item("other", etag='"b"'), item("failed before"), item("was retired"),
        item("came back"), item("fewer validators", sha1=None), item("not readable", problem=unread),
        item("never seen and not readable", problem=unread),
    ]  # fmt: skip
    entries = [
        entry("same"), entry("other"), entry("failed before", Fate.FAILED), entry("was retired", Fate.RETIRED),
        entry("came back", Fate.MISSING, 1), entry("fewer validators"), entry("not readable"), entry("gone"),
        entry("long gone", Fate.RETIRED), entry("still missing", Fate.MISSING, 2),
    ]  # fmt: skip

    assert await find(items, entries) == {
        Change.ADDED: ["failed before", "new", "was retired"],
        Change.CHANGED: ["other"],
        "unchanged": ["came back", "fewer validators", "same"],
        "returned": ["came back"],
        "missing": ["gone", "still missing"],
        "unreadable": ["?"],
    }


async def test_an_empty_listing_misses_everything_and_an_empty_ledger_knows_nothing() -> None:
    assert await find([], [entry("a"), entry("b")]) == {"missing": ["a", "b"]}
    assert await find([item("a"), item("b")], []) == {Change.ADDED: ["a", "b"]}
    assert await find([], []) == {}


async def test_a_listing_too_long_for_memory_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing_module, "IN_MEMORY", 7)
    chance = random.Random(3)
    keys = [f"key {number}" for number in range(200)]
    items = [item(key, etag=f'"{chance.randrange(2)}"') for key in keys[20:]]
    twice = chance.sample(items, len(items)) + items[:30]
    entries = [entry(key, etag='"0"') for key in keys[:150]]

    said = await find(twice, entries)

    changed = sorted(each.key for each in items if each.etag == '"1"' and each.key in keys[:150])
    assert said[Change.CHANGED] == changed
    assert said["missing"] == sorted(keys[:20])
    assert said[Change.ADDED] == sorted(keys[150:])
