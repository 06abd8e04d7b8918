"""Cuts a document into chunks along its structure. Step 8 of a page's journey begins here.

Units (`blocks.py`) are counted in the embedding model's tokens and packed until a chunk is full. A heading starts
a chunk rather than ending one, and a chunk is always one span of the text: `text[start:end]` is what it says.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import re2

from scrubjay.documents.blocks import Unit, split_sentences, split_units
from scrubjay.errors import InvalidRequest
from scrubjay.model.chunking import ChunkingOptions, ChunkStrategy
from scrubjay.model.content import ChunkContentType

MAJOR_LEVEL = 2  # headings down to this level start a chunk as soon as the one before is large enough
WHOLE_LIST_FACTOR = 4  # a list kept in one piece may be this many chunks long
_SLICE_CHARACTERS = 4000
_HEADER_CELL = re.compile(r"\s*\|\s*")


class Tokenizer(Protocol):
    """The embedding model's own: where each token of a text begins."""

    max_tokens: int

    def token_starts(self, texts: Sequence[str]) -> list[list[int]]: ...


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A chunk to be: a span of the text, its place in the structure, and what is embedded before it."""

    start: int
    end: int
    token_count: int
    section: str | None = None
    kind: ChunkContentType = ChunkContentType.PROSE
    context: str | None = None


def cut(text: str, options: ChunkingOptions, tokenizer: Tokenizer) -> list[ChunkSpan]:
    """The chunks of a text, in order. Text without anything to read has none."""
    size = min(options.chunk_size, tokenizer.max_tokens)
    limits = _Limits(size, min(options.overlap, size // 2), min(options.min_size, size // 2))
    spans = _STRATEGIES[options.strategy](text, options, limits, tokenizer)
    if options.context_prefix is None:
        return spans
    return [
        replace(span, context=f"{options.context_prefix}\n{span.context}" if span.context else options.context_prefix)
        for span in spans
    ]


@dataclass(frozen=True, slots=True)
class _Limits:
    size: int
    overlap: int
    least: int


@dataclass(frozen=True, slots=True)
class _Counted:
    unit: Unit
    tokens: int


def _by_structure(text: str, options: ChunkingOptions, limits: _Limits, tokenizer: Tokenizer) -> list[ChunkSpan]:
    return _pack(_count(text, split_units(text), tokenizer, limits.size), limits)


def _by_sentence(text: str, options: ChunkingOptions, limits: _Limits, tokenizer: Tokenizer) -> list[ChunkSpan]:
    units = []
    for unit in split_units(text):
        for start, end in split_sentences(text, unit.start, unit.end):
            units.append(replace(unit, start=start, end=end, is_heading=False, block=0))
    return _pack(_count(text, units, tokenizer, limits.size), limits)


def _by_regex(text: str, options: ChunkingOptions, limits: _Limits, tokenizer: Tokenizer) -> list[ChunkSpan]:
    """Between the matches of a pattern; what is too long is cut at sentences. RE2 knows no endless search."""
    pattern = compile_pattern(options.pattern or "")
    spans: list[ChunkSpan] = []
    begin = 0
    for start, end in [*(match.span() for match in pattern.finditer(text)), (len(text), len(text))]:
        if end == start and start < len(text):
            continue
        piece = text[begin:start]
        units = [replace(unit, start=unit.start + begin, end=unit.end + begin) for unit in split_units(piece)]
        spans += _pack(_count(text, units, tokenizer, limits.size), replace(limits, overlap=0, least=limits.size))
        begin = end
    return spans


def compile_pattern(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        message = f"chunking.pattern: this pattern cannot be used ({reason})."
        raise InvalidRequest(message, field="chunking.pattern") from error


def _by_fixed(text: str, options: ChunkingOptions, limits: _Limits, tokenizer: Tokenizer) -> list[ChunkSpan]:
    """Windows of so many tokens, whatever stands in them."""
    starts = list(_all_starts(text, tokenizer))
    spans: list[ChunkSpan] = []
    units = split_units(text)
    firsts = [unit.start for unit in units]
    for at in range(0, len(starts), limits.size - limits.overlap):
        following = at + limits.size
        begin, end = starts[at], starts[following] if following < len(starts) else len(text)
        for trimmed in _trim(text, begin, end):
            unit = units[max(0, bisect_left(firsts, trimmed[0] + 1) - 1)]
            spans.append(ChunkSpan(*trimmed, min(limits.size, len(starts) - at), unit.section, unit.kind))
        if following >= len(starts):
            break
    return spans


def _with_table_rows(text: str, options: ChunkingOptions, limits: _Limits, tokenizer: Tokenizer) -> list[ChunkSpan]:
    counted = _count(text, split_units(text), tokenizer, limits.size)
    spans: list[ChunkSpan] = []
    for is_table, run in _runs(counted, lambda unit: unit.kind is ChunkContentType.TABLE):
        spans += _row_groups(run, options.row_group_size, limits) if is_table else _pack(run, limits)
    return spans


def _row_groups(rows: Sequence[_Counted], size: int, limits: _Limits) -> list[ChunkSpan]:
    """The header with the first rows, then so many rows at a time with the header as their context."""
    data = next((number for number, row in enumerate(rows) if row.unit.table_header), len(rows))
    groups: list[list[_Counted]] = [list(rows[: data + size])]
    for at in range(data + size, len(rows), size):
        groups.append(list(rows[at : at + size]))
    spans = []
    for group in groups:
        spans += _pack(group, replace(limits, overlap=0, least=limits.size))
    return spans


def _with_whole_lists(text: str, options: ChunkingOptions, limits: _Limits, tokenizer: Tokenizer) -> list[ChunkSpan]:
    counted = _count(text, split_units(text), tokenizer, limits.size)
    roomy = replace(limits, size=min(limits.size * WHOLE_LIST_FACTOR, tokenizer.max_tokens), overlap=0)
    spans: list[ChunkSpan] = []
    for is_list, run in _runs(counted, lambda unit: unit.kind is ChunkContentType.LIST):
        spans += _pack(run, roomy if is_list else limits)
    return spans


_STRATEGIES: dict[ChunkStrategy, Callable[[str, ChunkingOptions, _Limits, Tokenizer], list[ChunkSpan]]] = {
    ChunkStrategy.STRUCTURE: _by_structure,
    ChunkStrategy.FIXED: _by_fixed,
    ChunkStrategy.SENTENCE: _by_sentence,
    ChunkStrategy.REGEX: _by_regex,
    ChunkStrategy.TABLE_ROWS: _with_table_rows,
    ChunkStrategy.WHOLE_LIST: _with_whole_lists,
}


def _runs(counted: Sequence[_Counted], belongs: Callable[[Unit], bool]) -> Iterator[tuple[bool, Sequence[_Counted]]]:
    """Stretches of units that belong to one block of a kind, and what lies between them."""
    start = 0
    for at in range(1, len(counted) + 1):
        if at < len(counted):
            before, here = counted[at - 1].unit, counted[at].unit
            same = belongs(before) == belongs(here) and (not belongs(here) or before.block == here.block)
            if same:
                continue
        yield belongs(counted[start].unit), counted[start:at]
        start = at


def _pack(counted: Sequence[_Counted], limits: _Limits) -> list[ChunkSpan]:
    """Fill chunks with units, as full as they get, each beginning with the end of the one before."""
    groups: list[_Group] = []
    group, tokens = _Group(0, 0, 0), 0
    for at, item in enumerate(counted):
        full = tokens + item.tokens > limits.size
        fresh = item.unit.is_heading and item.unit.level <= MAJOR_LEVEL and tokens >= limits.least
        if at > group.own and (full or fresh):
            until = _without_headings(counted, group.own, at)
            groups.append(replace(group, end=until))
            begin = _overlapped(counted, groups[-1], at, limits)
            group, tokens = _Group(begin, until, until), sum(each.tokens for each in counted[begin:at])
        tokens += item.tokens
    if group.own < len(counted):
        groups.append(replace(group, end=len(counted)))
    return [
        _span(counted[each.begin : each.end], counted[each.own].unit) for each in _join_small(counted, groups, limits)
    ]


@dataclass(frozen=True, slots=True)
class _Group:
    """The units of a chunk: what it repeats of the one before, and its own."""

    begin: int
    own: int
    end: int


def _without_headings(counted: Sequence[_Counted], first: int, until: int) -> int:
    """Where a chunk ends if the headings at its end are left to the next one."""
    end = until
    while end > first and counted[end - 1].unit.is_heading:
        end -= 1
    return end if end > first else until


def _join_small(counted: Sequence[_Counted], groups: list[_Group], limits: _Limits) -> list[_Group]:
    """A last chunk that is too small to stand alone belongs to the one before, if that has room."""
    if len(groups) < 2:
        return groups
    before, last = groups[-2], groups[-1]
    small = sum(each.tokens for each in counted[last.own : last.end]) < limits.least
    if small and sum(each.tokens for each in counted[before.begin : last.end]) <= limits.size:
        return [*groups[:-2], replace(before, end=last.end)]
    return groups


def _overlapped(counted: Sequence[_Counted], before: _Group, at: int, limits: _Limits) -> int:
    """Where a chunk begins that repeats the end of the one before: never across a heading, and never all of it.

    It leaves room for the unit that did not fit any more.
    """
    first = before.end
    if not limits.overlap or counted[first].unit.is_heading:
        return first
    room = min(limits.overlap, limits.size - sum(each.tokens for each in counted[first : at + 1]))
    while first > before.begin + 1:
        unit, tokens = counted[first - 1].unit, counted[first - 1].tokens
        if tokens > room or unit.is_heading or unit.section != counted[before.end].unit.section:
            break
        room -= tokens
        first -= 1
    return first


def _span(chosen: Sequence[_Counted], own: Unit) -> ChunkSpan:
    """`own` is the first unit that is not repeated from the chunk before."""
    units = [item.unit for item in chosen]
    weights: dict[ChunkContentType, int] = {}
    for unit in units:
        if not unit.is_heading:
            weights[unit.kind] = weights.get(unit.kind, 0) + unit.end - unit.start
    return ChunkSpan(
        start=units[0].start,
        end=units[-1].end,
        token_count=max(1, sum(item.tokens for item in chosen)),
        section=next((unit.section for unit in units if not unit.is_heading), units[0].section),
        kind=max(weights, key=lambda kind: weights[kind]) if weights else ChunkContentType.PROSE,
        context=None if own.table_header is None else _HEADER_CELL.sub(" | ", own.table_header).strip(" |"),
    )


def _count(text: str, units: Sequence[Unit], tokenizer: Tokenizer, most: int) -> list[_Counted]:
    """How many tokens each unit has, counted in stretches of text so that the model sees words in place.

    A unit with more tokens than fit into a chunk is cut between tokens.
    """
    counted: list[_Counted] = []
    for batch in _slices(units):
        base = batch[0].start
        [starts] = tokenizer.token_starts([text[base : batch[-1].end]])
        begin = 0
        for unit in batch:
            # What stands before a unit counts with it: in a chunk it stands there too.
            end = bisect_left(starts, unit.end - base, begin)
            if end - begin > most:
                counted += _cut_unit(text, unit, [base + start for start in starts[begin:end]], most)
            else:
                counted.append(_Counted(unit, max(1, end - begin)))
            begin = end
    return counted


def _cut_unit(text: str, unit: Unit, starts: Sequence[int], most: int) -> Iterator[_Counted]:
    edges = [unit.start, *sorted({start for start in starts[most::most] if start > unit.start}), unit.end]
    for begin, end in pairwise(edges):
        for start, finish in _trim(text, begin, end):
            yield _Counted(replace(unit, start=start, end=finish), most)


def _slices(units: Sequence[Unit]) -> Iterator[Sequence[Unit]]:
    first = 0
    for at in range(1, len(units) + 1):
        if at == len(units) or units[at].end - units[first].start > _SLICE_CHARACTERS:
            yield units[first:at]
            first = at


def _all_starts(text: str, tokenizer: Tokenizer) -> Iterator[int]:
    for batch in _slices(split_units(text)):
        base = batch[0].start
        [starts] = tokenizer.token_starts([text[base : batch[-1].end]])
        yield from sorted({base + start for start in starts})


def _trim(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    stripped = text[start:end].strip()
    if stripped:
        begin = start + len(text[start:end]) - len(text[start:end].lstrip())
        yield begin, begin + len(stripped)
