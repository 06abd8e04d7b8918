"""Markdown as units that should not be cut: sentences, list items, table rows, lines of code, headings.

Every unit is a span of the text; together they hold everything but the white space between them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from scrubjay.model.content import ChunkContentType

MAX_UNIT_CHARACTERS = 2000
MAX_SECTION_CHARACTERS = 500

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_SENTENCE_END = re.compile(r"(?:[.!?…][\"'”’)\]]*[ \t\n]+(?=[^a-z\s])|[。！？]+|\n)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


class Line(NamedTuple):
    start: int
    end: int  # without the line break
    text: str


@dataclass(frozen=True, slots=True)
class Unit:
    start: int
    end: int
    kind: ChunkContentType
    section: str | None
    block: int  # units of one block have one number
    is_heading: bool = False
    level: int = 0
    table_header: str | None = None


@dataclass(slots=True)
class _Headings:
    """The headings above the current place."""

    stack: list[tuple[int, str]]

    def enter(self, level: int, title: str) -> None:
        while self.stack and self.stack[-1][0] >= level:
            self.stack.pop()
        if title:
            self.stack.append((level, title))

    @property
    def path(self) -> str | None:
        return " > ".join(title for _, title in self.stack)[:MAX_SECTION_CHARACTERS] or None


def split_units(text: str) -> list[Unit]:
    """The whole text as units, in order."""
    return list(_Splitter(text).run())


def split_sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sentences of a span; lines end sentences too."""
    begin = start
    for match in _SENTENCE_END.finditer(text, start, end):
        yield from _trimmed(text, begin, match.end())
        begin = match.end()
    yield from _trimmed(text, begin, end)


class _Splitter:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = list(_lines(text))
        self._at = 0
        self._block = 0
        self._headings = _Headings([])

    def run(self) -> Iterator[Unit]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._block += 1
            if not line.text.strip():
                self._at += 1
            elif fence := _FENCE.match(line.text):
                yield from self._code(fence.group(1))
            elif heading := _HEADING.match(line.text):
                yield from self._heading(line, heading)
            elif line.text.lstrip().startswith("|"):
                yield from self._table()
            elif _LIST_ITEM.match(line.text):
                yield from self._list()
            else:
                yield from self._paragraph()

    def _heading(self, line: Line, match: re.Match[str]) -> Iterator[Unit]:
        level = len(match.group(1))
        title = _LINK.sub(r"\1", match.group(2)).strip("*_` ")
        self._headings.enter(level, title)
        self._at += 1
        for start, end in _pieces(self._text, line.start, line.end):
            yield self._unit(start, end, ChunkContentType.PROSE, is_heading=True, level=level)

    def _code(self, fence: str) -> Iterator[Unit]:
        first = self._at
        self._at += 1
        while self._at < len(self._lines):
            closing = self._lines[self._at].text.strip()
            self._at += 1
            if closing.startswith(fence) and not closing.strip(fence[0]):
                break
        yield from self._line_units(first, ChunkContentType.CODE)

    def _table(self) -> Iterator[Unit]:
        first = self._at
        while self._at < len(self._lines) and self._lines[self._at].text.lstrip().startswith("|"):
            self._at += 1
        header = self._lines[first].text.strip()
        for number, line in enumerate(self._lines[first : self._at]):
            for start, end in _pieces(self._text, line.start, line.end):
                # The header and the line under it need no header themselves.
                yield self._unit(start, end, ChunkContentType.TABLE, table_header=header if number > 1 else None)

    def _list(self) -> Iterator[Unit]:
        first = self._at
        self._at += 1
        while self._at < len(self._lines):
            text = self._lines[self._at].text
            if not text.strip():
                # A list goes on over a blank line when an item or something indented follows.
                following = self._lines[self._at + 1].text if self._at + 1 < len(self._lines) else ""
                if not (_LIST_ITEM.match(following) or following.startswith(("  ", "\t"))):
                    break
            elif not (_LIST_ITEM.match(text) or text.startswith(("  ", "\t"))):
                break
            self._at += 1
        yield from self._line_units(first, ChunkContentType.LIST)

    def _line_units(self, first: int, kind: ChunkContentType) -> Iterator[Unit]:
        for line in self._lines[first : self._at]:
            for start, end in _pieces(self._text, line.start, line.end):
                yield self._unit(start, end, kind)

    def _paragraph(self) -> Iterator[Unit]:
        first = self._at
        while self._at < len(self._lines) and self._goes_on(self._lines[self._at].text):
            self._at += 1
        self._at = max(self._at, first + 1)
        begin, finish = self._lines[first].start, self._lines[self._at - 1].end
        for start, end in split_sentences(self._text, begin, finish):
            for piece in _pieces(self._text, start, end):
                yield self._unit(*piece, ChunkContentType.PROSE)

    @staticmethod
    def _goes_on(text: str) -> bool:
        starts_another = _FENCE.match(text) or _HEADING.match(text) or text.lstrip().startswith("|")
        return bool(text.strip()) and not starts_another and not _LIST_ITEM.match(text)

    def _unit(
        self,
        start: int,
        end: int,
        kind: ChunkContentType,
        *,
        is_heading: bool = False,
        level: int = 0,
        table_header: str | None = None,
    ) -> Unit:
        return Unit(start, end, kind, self._headings.path, self._block, is_heading, level, table_header)


def _lines(text: str) -> Iterator[Line]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield Line(start, end, text[start:end])
        start = end + 1


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A span that is too long for one unit, cut between words where there are any."""
    while end - start > MAX_UNIT_CHARACTERS:
        limit = start + MAX_UNIT_CHARACTERS
        cut = text.rfind(" ", start + MAX_UNIT_CHARACTERS // 2, limit) + 1 or limit
        yield from _trimmed(text, start, cut)
        start = cut
    yield from _trimmed(text, start, end)
