"""Enumeration files are read a section and a page at a time, and exactly as they were written."""

import json
from pathlib import Path

import pytest

from scrubjay.plans.enumeration_reading import read_enumeration

TRICKY = 'https://example.com/"Deleted": [ {ü🦜}\\'


def write(path: Path, sections: dict[str, list[str]]) -> Path:
    """As `EnumerationFiles` writes: an entry a line."""
    lines = ["{"]
    for name, keys in sections.items():
        entries = ",".join("\n    " + json.dumps({"Key": key, "ContentLength": 3}, ensure_ascii=False) for key in keys)
        lines.append(f'  "{name}": [{entries}' + ("\n  ]," if keys else "],"))
    lines.append('  "Statistics": {"TotalBytes": 9, "AddedBytes": 3}\n}\n')
    path.write_text("\n".join(lines), encoding="utf-8")
    json.loads(path.read_text(encoding="utf-8"))  # it is one
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    keys = [f"https://example.com/{number}" for number in range(7)]
    sections = {"AllFiles": [*keys, TRICKY], "Added": keys[:1], "Changed": [], "Deleted": [TRICKY], "Unchanged": keys}
    return write(tmp_path / "run.json", sections)


def test_every_section_is_counted_whichever_is_shown(file: Path) -> None:
    found = read_enumeration(file, "Added")
    assert found.counts == {"AllFiles": 8, "Added": 1, "Changed": 0, "Deleted": 1, "Unchanged": 7}
    assert found.sizes == {"AllFiles": 9, "Added": 3}
    assert [entry["Key"] for entry in found.shown.entries] == ["https://example.com/0"]


def test_a_section_is_paged(file: Path) -> None:
    found = read_enumeration(file, "AllFiles", offset=3, limit=2).shown
    assert [entry["Key"][-1] for entry in found.entries] == ["3", "4"]
    assert found.total == 8
    assert read_enumeration(file, "AllFiles", offset=8, limit=2).shown.entries == []


def test_only_keys_that_contain_what_is_asked_for_are_found(file: Path) -> None:
    assert read_enumeration(file, "AllFiles", contains="COM/3").shown.total == 1
    assert read_enumeration(file, "AllFiles", contains="contentlength").shown.total == 0
    (entry,) = read_enumeration(file, "AllFiles", contains="Ü🦜").shown.entries
    assert entry["Key"] == TRICKY


def test_a_key_that_looks_like_a_section_begins_none(file: Path) -> None:
    assert [entry["Key"] for entry in read_enumeration(file, "Deleted").shown.entries] == [TRICKY]


def test_a_section_that_is_not_there_is_empty(file: Path) -> None:
    assert read_enumeration(file, "Nothing").shown.total == 0
