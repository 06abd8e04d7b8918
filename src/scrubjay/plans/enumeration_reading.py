"""Reading enumeration files for people: one section of one, some entries at a time, however long it is.

The files are written one entry a line (`enumeration_file.py`), so nothing but the entries that are shown is parsed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

_OPENING = '": ['
_STATISTICS = '  "Statistics": '


@dataclass(frozen=True, slots=True)
class Section:
    """Some entries of a section, and how many there are that match."""

    entries: Sequence[Mapping[str, Any]]
    total: int


@dataclass(frozen=True, slots=True)
class Enumeration:
    """How much each section of a file has, and a part of the one that was asked for."""

    counts: Mapping[str, int]
    sizes: Mapping[str, int] = field(default_factory=dict)  # in bytes, where the file says so
    shown: Section = field(default_factory=lambda: Section((), 0))


def read_enumeration(path: Path, section: str, *, contains: str = "", offset: int = 0, limit: int = 50) -> Enumeration:
    """One pass over the file: count every section, keep the entries that are asked for."""
    counts: dict[str, int] = {}
    statistics: Mapping[str, int] = {}
    found: list[Mapping[str, Any]] = []
    matching = 0
    wanted = contains.casefold()
    with path.open(encoding="utf-8") as file:
        for name, line in _lines(file):
            if name is None:
                statistics = json.loads(line)
                continue
            counts.setdefault(name, 0)
            if not line:
                continue
            counts[name] += 1
            if name == section and _matches(line, wanted):
                if offset <= matching < offset + limit:
                    found.append(json.loads(line))
                matching += 1
    return Enumeration(counts, _sizes(counts, statistics), Section(found, matching))


def _lines(file: TextIO) -> Iterator[tuple[str | None, str]]:
    """The name of the section of each entry, and the entry; first nothing of each section, and last the statistics."""
    section = ""
    for line in file:
        if line.startswith("    {"):
            yield section, line.strip().rstrip(",")
        elif line.startswith(_STATISTICS):
            yield None, line.removeprefix(_STATISTICS)
        elif line.startswith('  "') and _OPENING in line:
            section = line.split('"', 2)[1]
            yield section, ""


def _matches(line: str, wanted: str) -> bool:
    """Whether the key of an entry contains what is wanted."""
    if not wanted:
        return True
    return wanted in str(json.loads(line).get("Key", "")).casefold()


def _sizes(counts: Mapping[str, int], statistics: Mapping[str, int]) -> dict[str, int]:
    names = {name: "Total" if name == "AllFiles" else name for name in counts}
    return {name: statistics[f"{said}Bytes"] for name, said in names.items() if f"{said}Bytes" in statistics}
