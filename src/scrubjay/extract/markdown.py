"""Writes chosen blocks of a page as Markdown: headings, lists, quotes, tables, code, links."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from selectolax.lexbor import LexborNode

from scrubjay.extract.blocks import Block, BlockTree
from scrubjay.extract.inline import escape_start, render_inline
from scrubjay.extract.tree import TAG_NUMBERS
from scrubjay.model.extraction import MarkdownBlock

_MARKS = bytes(code for code in range(128) if not chr(code).isalnum())
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source|highlight|brush|sourceCode)[-:]\s*([\w+#.-]+)")
_NO_LANGUAGE = frozenset(("none", "plaintext", "text", "source", "plain", "notranslate", "default", "wrapper"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_PLACING = frozenset((*_HEADINGS, "li", "blockquote", "pre", "table", "dt", "dd"))
_CELLS = (TAG_NUMBERS["td"], TAG_NUMBERS["th"])
_MAX_CELL_CHARACTERS = 240
_MAX_COLSPAN = 40
_MAX_TABLE_CELLS = 100_000  # with the empty ones that fill up short rows; a larger table is written cell by cell
_MAX_LIST_DEPTH = 8


def fingerprint(text: str) -> int:
    """64 bits of a text's letters: the same for two texts that differ only in marks, case and spaces."""
    letters = text.lower().encode("utf-8", "replace").translate(None, _MARKS)
    return int.from_bytes(blake2b(letters, digest_size=8).digest(), "big")


def render_markdown(tree: BlockTree, chosen: Sequence[int], base: str) -> tuple[MarkdownBlock, ...]:
    """The chosen blocks (indices in document order) as pieces whose gaps and texts make up the Markdown."""
    pieces = _Writer(tree, base).write(chosen)
    return tuple(
        MarkdownBlock(text, fingerprint(text), "" if number == 0 else gap) for number, (text, gap) in enumerate(pieces)
    )


class _Place(NamedTuple):
    """What a container's ancestors make of the text in it."""

    heading: int = 0
    quote: int = 0  # the outermost blockquote's number, 0 for none
    items: tuple[tuple[int, str], ...] = ()  # the list items around it: (number of the container, marker)
    table: int = 0
    code: bool = False
    term: str = ""  # dt or dd


@dataclass(slots=True)
class _Piece:
    text: str
    gap: str
    quote: int


class _Writer:
    def __init__(self, tree: BlockTree, base: str) -> None:
        self.tree = tree
        self.base = base
        self.places: dict[int, _Place] = {0: _Place()}
        self.opened: set[int] = set()  # list items whose marker has been written
        self.linked: set[int] = set()  # links around whole blocks that have been written
        self.numbers: dict[int, dict[int, int]] = {}  # per ordered list, of its items
        self.pieces: list[_Piece] = []
        self.last_list = -1

    def write(self, chosen: Sequence[int]) -> Iterable[tuple[str, str]]:
        position = 0
        while position < len(chosen):
            block = self.tree.blocks[chosen[position]]
            place = self._place(block.node)
            end = position + 1
            if place.table:
                while end < len(chosen) and self._place(self.tree.blocks[chosen[end]].node).table == place.table:
                    end += 1
                cells = [self.tree.blocks[number] for number in chosen[position:end]]
                if not self._write_table(cells, place):
                    for cell in cells:
                        self._write_block(cell, self._place(cell.node))
            else:
                self._write_block(block, place)
            position = end
        return [(piece.text, piece.gap) for piece in self.pieces]

    def _place(self, node: int) -> _Place:
        known = self.places.get(node)
        if known is not None:
            return known
        trail = []
        while node not in self.places:
            trail.append(node)
            node = self.tree.parents[node]
        place = self.places[node]
        for inner in reversed(trail):
            place = self.places[inner] = self._inside(place, inner)
        return place

    def _inside(self, place: _Place, node: int) -> _Place:
        tag = self.tree.tags[node]
        if tag not in _PLACING:
            return place
        if tag in _HEADINGS:
            return place._replace(heading=_HEADINGS[tag])
        if tag == "li":
            items = (*place.items, (node, self._marker(node)))[-_MAX_LIST_DEPTH:]
            return place._replace(items=items, term="")
        if tag == "blockquote":
            return place if place.quote else place._replace(quote=node)
        if tag == "pre":
            return place._replace(code=True)
        if tag == "table":
            return place._replace(table=node)
        return place._replace(term=tag)  # dt or dd

    def _marker(self, node: int) -> str:
        parent = self.tree.parents[node]
        if self.tree.tags[parent] != "ol":
            return "- "
        if parent not in self.numbers:
            self.numbers[parent] = _number_items(self.tree.elements[parent])
        return f"{self.numbers[parent].get(self.tree.elements[node].mem_id, 1)}. "

    def _write_block(self, block: Block, place: _Place) -> None:
        if place.code:
            text = _fence(block, self.tree)
        else:
            text = render_inline(block, self.base, self.linked, heading=bool(place.heading))
            if place.heading:
                text = "#" * place.heading + " " + text.replace("\n", " ")
            elif text:
                text = escape_start(text)
        if not text.strip("# "):
            return
        gap = "\n\n"
        if place.term == "dd":
            text, gap = ": " + text.replace("\n", "\n  "), "\n"
        if place.items:
            text, gap = self._as_item(text, place)
        else:
            self.last_list = -1
        self._append(text, gap, place.quote)

    def _as_item(self, text: str, place: _Place) -> tuple[str, str]:
        """Inside a list: with a marker when it opens its item, else indented under it."""
        *outer, (node, marker) = place.items
        indent = sum(len(mark) for item, mark in outer if item in self.opened)
        first = node not in self.opened
        if first:
            self.opened.add(node)
            outermost = self.tree.parents[place.items[0][0]]
            follows = self.last_list == outermost
            self.last_list = outermost
            lines = text.replace("\n", "\n" + " " * (indent + len(marker)))
            return " " * indent + marker + lines, "\n" if follows else "\n\n"
        indent += len(marker)
        return " " * indent + text.replace("\n", "\n" + " " * indent), "\n\n"

    def _append(self, text: str, gap: str, quote: int) -> None:
        if "\n" in text:
            text = "\n".join([line.rstrip() for line in text.split("\n")])
        if quote:
            text = "\n".join(("> " + line).rstrip() for line in text.split("\n"))
            last = self.pieces[-1] if self.pieces else None
            if last and last.quote == quote:
                last.text += ("\n>\n" if gap == "\n\n" else "\n") + text
                return
        self.pieces.append(_Piece(text, gap, quote))

    def _write_table(self, blocks: list[Block], place: _Place) -> bool:
        """Whether the blocks made a simple table; a layout made with tables stays a run of blocks."""
        cells = [self._cell_of(block.node, place.table) for block in blocks]
        captions = 0
        while captions < len(cells) and not cells[captions][1]:
            captions += 1
        rows = dict.fromkeys(row for row, _ in cells[captions:])
        if len(rows) < 2:
            return False
        size = 0
        for block, (_, cell) in zip(blocks[captions:], cells[captions:], strict=True):
            where = self.places[block.node]
            if where.code or where.heading or not cell or len(block.text) > 4 * _MAX_CELL_CHARACTERS:
                return False
            size += len(block.text)
        if size > _MAX_CELL_CHARACTERS * len({cell for _, cell in cells[captions:]}):
            return False
        lines = self._table_lines(list(rows), [cell for _, cell in cells[captions:]], blocks[captions:])
        if lines is None:
            return False
        for block in blocks[:captions]:
            self._write_block(block, place)
        self.last_list = -1
        self._append("\n".join(lines), "\n\n", place.quote)
        return True

    def _cell_of(self, node: int, table: int) -> tuple[int, int]:
        """The row and the cell of a table that a container is in, or is; 0 where there is none."""
        tags, parents = self.tree.tags, self.tree.parents
        cell = 0
        while node != table:
            tag = tags[node]
            if tag == "tr":
                return node, cell
            if tag in ("td", "th"):
                cell = cell or node
            node = parents[node]
        return 0, cell

    def _table_lines(self, rows: list[int], cells: list[int], blocks: list[Block]) -> list[str] | None:
        elements = self.tree.elements
        written: dict[int, str] = {}
        for number, block in zip(cells, blocks, strict=True):
            cell = elements[number].mem_id
            text = render_inline(block, self.base, self.linked).replace("\n", " ").replace("|", "\\|")
            written[cell] = f"{written[cell]} {text}" if cell in written else text
        table = []
        for row in rows:
            line: list[str] = []
            for element in elements[row].iter():
                if element.tag_id not in _CELLS:
                    continue
                columns = min(_number(element.attributes.get("colspan"), 1), _MAX_COLSPAN)
                line += [written.get(element.mem_id, ""), *[""] * (columns - 1)]
            table.append(line)
        width = max(map(len, table))
        if width * len(table) > _MAX_TABLE_CELLS:
            return None
        used = [column for column in range(width) if any(line[column : column + 1] != [""] for line in table)]
        if width < 2 or len(used) < 2:
            return None
        padded = [line + [""] * (width - len(line)) for line in table]
        lines = ["| " + " | ".join(line) + " |" for line in padded]
        return [lines[0], "|" + " --- |" * width, *lines[1:]]


def _children_of(element: LexborNode, *tags: str) -> Iterator[LexborNode]:
    return (child for child in element.iter() if child.tag in tags)


def _number_items(ordered: LexborNode) -> dict[int, int]:
    number = _number(ordered.attributes.get("start"), 1) - 1
    numbers = {}
    for item in _children_of(ordered, "li"):
        number = _number(item.attributes.get("value"), number + 1)
        numbers[item.mem_id] = number
    return numbers


def _number(value: str | None, otherwise: int) -> int:
    return int(value) if value and value.isdecimal() and len(value) < 6 else otherwise


def _fence(block: Block, tree: BlockTree) -> str:
    text = "".join(block.parts).replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ")
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    text = "\n".join(lines)
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}{_language_of(tree.elements[block.node])}\n{text}\n{ticks}"


def _language_of(element: LexborNode) -> str:
    """The language that a code block's class, or that of the element right around or in it, names."""
    parent = element.parent
    above = parent.parent if parent is not None else None
    for candidate in (element, *_children_of(element, "code"), parent, above):
        attributes = candidate.attributes if candidate is not None else {}
        named = attributes.get("data-lang") or attributes.get("data-language")
        found = _LANGUAGE.search(attributes.get("class") or "")
        language = (named or (found.group(1) if found else "")).lower().strip()
        if language and language not in _NO_LANGUAGE and re.fullmatch(r"[\w+#.-]{1,20}", language):
            return language
    return ""
