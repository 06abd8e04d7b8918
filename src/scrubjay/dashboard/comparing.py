"""Two versions of a document side by side: lines that belong together in one row, with the changed words marked."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup, escape

from scrubjay.services.documents import DocumentDiff

MAX_WORDS = 400  # of a line whose words are compared; longer ones are shown whole
MAX_ROWS = 2000
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Row:
    """A line before and after; nothing where there is none."""

    kind: str  # same, changed, removed, added, gap
    before: Markup | None = None
    after: Markup | None = None
    before_number: int | None = None
    after_number: int | None = None


def side_by_side(diff: DocumentDiff) -> tuple[list[Row], bool]:
    """The rows, and whether those are all."""
    rows: list[Row] = []
    for hunk in diff.hunks:
        rows += _hunk_rows(str(hunk["header"]), hunk["lines"])
        if len(rows) > MAX_ROWS:
            return rows[:MAX_ROWS], False
    return rows, True


def _hunk_rows(header: str, lines: Sequence[Mapping[str, str]]) -> Iterator[Row]:
    old, new = (int(part) for part in re.findall(r"[-+](\d+)", header)[:2])
    yield Row("gap")
    for is_same, group in groupby(lines, key=lambda line: line["kind"] == "same"):
        if is_same:
            for line in group:
                yield Row("same", escape(line["text"]), escape(line["text"]), old, new)
                old, new = old + 1, new + 1
            continue
        differing = list(group)
        removed = [line["text"] for line in differing if line["kind"] == "removed"]
        added = [line["text"] for line in differing if line["kind"] == "added"]
        yield from _pairs(removed, added, old, new)
        old, new = old + len(removed), new + len(added)


def _pairs(removed: Sequence[str], added: Sequence[str], old: int, new: int) -> Iterator[Row]:
    for index in range(max(len(removed), len(added))):
        before = removed[index] if index < len(removed) else None
        after = added[index] if index < len(added) else None
        if before is not None and after is not None:
            yield Row("changed", *mark_words(before, after), old + index, new + index)
        elif before is not None:
            yield Row("removed", escape(before), None, old + index)
        elif after is not None:
            yield Row("added", None, escape(after), None, new + index)


def mark_words(before: str, after: str) -> tuple[Markup, Markup]:
    """Both lines, with what only one of them has marked."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    if len(old) > MAX_WORDS or len(new) > MAX_WORDS:
        return escape(before), escape(after)
    left, right = Markup(""), Markup("")
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone, come = "".join(old[a:b]), "".join(new[c:d])
        if tag == "equal":
            left, right = left + escape(gone), right + escape(come)
            continue
        left += Markup("<del>{}</del>").format(gone) if gone else Markup("")
        right += Markup("<ins>{}</ins>").format(come) if come else Markup("")
    return left, right
