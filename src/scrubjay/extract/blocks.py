"""Cuts a parsed page into blocks: the runs of text between block-level tags, and the containers they stand in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from lxml import etree

MAX_DEPTH = 240  # deeper subtrees are read as one run of text
MAX_NODES = 60_000
MAX_BLOCKS = 12_000
MAX_PARTS = 300_000

_INLINE, _SKIP, _BREAK, _IMAGE, _VERBATIM, _FRAME = range(1, 7)
_INLINE_TAGS = """
a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark math mi mn mo mrow msub msup nobr
picture q rb rp rt ruby s samp small span strike strong sub sup time tt u var wbr
"""
_SKIPPED_TAGS = """
annotation area audio base canvas datalist embed frame head iframe input link map meta meter object option param
progress script select source style svg template textarea title track video
"""
_KINDS: dict[object, int] = dict.fromkeys(_INLINE_TAGS.split(), _INLINE)
_KINDS |= dict.fromkeys(_SKIPPED_TAGS.split(), _SKIP)
_KINDS |= {"br": _BREAK, "img": _IMAGE, "pre": _VERBATIM, "listing": _VERBATIM, "xmp": _VERBATIM}
_KINDS |= {"nav": _FRAME, "footer": _FRAME}
# A menu or footer with one of these in it was never closed, or is none.
_CONTENT_TAGS = {"nav": ("p", "h1", "article", "main"), "footer": ("h1", "article", "main")}


_TELLING_ATTRIBUTES = frozenset(("id", "role", "itemprop", "data-testid", "data-component"))
_HIDING_ATTRIBUTES = frozenset(("hidden", "style", "aria-hidden"))

_string = etree.XPath("string()", smart_strings=False)
_attributes_of = cast("Callable[[etree._Element], list[tuple[str, str]]]", etree._Element.items)


@dataclass(slots=True)
class Block:
    """A run of text inside one container; `owners` are the elements that its parts stand in."""

    node: int
    text: str
    words: int
    parts: list[str]
    owners: list[etree._Element]
    link_chars: int


@dataclass(slots=True)
class BlockTree:
    """Containers in document order as parallel lists, and the blocks in them; a subtree is a range of blocks."""

    elements: list[etree._Element] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)  # class, id, role and the like, as one string
    parents: list[int] = field(default_factory=list)
    first_block: list[int] = field(default_factory=list)
    last_block: list[int] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


def cut_blocks(root: etree._Element) -> BlockTree:
    """The blocks of a page's body (or of the whole tree when it has none)."""
    body = next(root.iterchildren("body"), None)
    start = root if body is None else body
    cutter = _Cutter(start)
    cutter.visit(start, False, 0)
    cutter.finish()
    return cutter.tree


class _Cutter:
    """One walk over the tree; the open block is what `parts` has gathered since the last cut. What is done for every
    element is written out in place: calls would take longer than the work. Containers get a number when a block is cut
    in them, because many have no text."""

    __slots__ = ("containers", "link_chars", "nodes", "open", "owners", "parts", "room", "tree")

    def __init__(self, start: etree._Element) -> None:
        self.tree = BlockTree()
        self.parts: list[str] = []
        self.owners: list[etree._Element] = []
        self.link_chars = 0
        self.room = MAX_PARTS
        self.containers = 0
        self.open: list[tuple[etree._Element, str]] = [(start, str(start.tag))]
        self.nodes: list[int] = []  # the numbers of the open containers that have one: the outer ones
        self._number_containers()

    def visit(self, element: etree._Element, linked: bool, depth: int) -> None:  # noqa: C901
        """The content of a container or of an inline element."""
        text = element.text
        if text and (self.parts or not text.isspace()):
            self.parts.append(text)
            self.owners.append(element)
            if linked:
                self.link_chars += len(text)
        kind_of = _KINDS.get
        for child in element:
            tag = child.tag
            kind = kind_of(tag)
            if kind is None:
                if self.parts:
                    self._cut()
                if len(child):
                    self._visit_container(child, tag, linked, depth + 1)
                else:
                    text = child.text
                    if text and not text.isspace():
                        self._visit_leaf(child, tag, text, linked)
            elif kind == _INLINE:
                if len(child):
                    if depth < MAX_DEPTH:
                        self.visit(child, linked or tag == "a", depth + 1)
                    else:
                        self._add(_text_of(child), child, linked or tag == "a")
                else:
                    text = child.text
                    if text and (self.parts or not text.isspace()):
                        self.parts.append(text)
                        self.owners.append(child)
                        if linked or tag == "a":
                            self.link_chars += len(text)
            elif kind != _SKIP:
                self._visit_special(child, kind, linked, depth)
            text = child.tail
            if text and (self.parts or not text.isspace()):
                self.parts.append(text)
                self.owners.append(element)
                if linked:
                    self.link_chars += len(text)

    def finish(self) -> None:
        if self.parts:
            self._cut()
        self.tree.last_block[0] = len(self.tree.blocks)
        self.tree.attributes = list(map(_describe, self.tree.elements))

    def _visit_container(self, element: etree._Element, tag: str, linked: bool, depth: int) -> None:
        """A block-level element that has others in it."""
        self.containers += 1
        if self.containers > MAX_NODES:
            return
        self.open.append((element, tag))
        if tag == "pre":
            self._add(_verbatim_text(element), element, linked)
        elif depth < MAX_DEPTH:
            self.visit(element, linked, depth)
        else:
            self._add(_text_of(element), element, linked)
        if self.parts:
            self._cut()
        self.open.pop()
        if len(self.nodes) > len(self.open):
            self.tree.last_block[self.nodes.pop()] = len(self.tree.blocks)

    def _visit_leaf(self, element: etree._Element, tag: str, text: str, linked: bool) -> None:
        """A block-level element with nothing but text in it."""
        tree, blocks = self.tree, self.tree.blocks
        self.room -= 1
        if self.room <= 0 or len(blocks) >= MAX_BLOCKS:
            return
        if len(self.nodes) < len(self.open):
            self._number_containers()
        node, first = len(tree.tags), len(blocks)
        tree.elements.append(element)
        tree.tags.append(tag)
        tree.parents.append(self.nodes[-1])
        tree.first_block.append(first)
        tree.last_block.append(first + 1)
        words = text.split()
        blocks.append(Block(node, " ".join(words), len(words), [text], [element], len(text) if linked else 0))

    def _visit_special(self, child: etree._Element, kind: int, linked: bool, depth: int) -> None:
        if kind >= _VERBATIM:
            if self.parts:
                self._cut()
            tag = "pre" if kind == _VERBATIM else str(child.tag)
            if kind == _VERBATIM or next(child.iter(*_CONTENT_TAGS[tag]), None) is not None:
                self._visit_container(child, tag, linked, depth + 1)
        elif not self.parts:
            return
        elif kind == _IMAGE:
            self._add(" ", child, False)
        elif self.parts[-1] == "\n" and self.owners[-1].tag == "br":
            self._cut()
        else:
            self._add("\n", child, False)

    def _add(self, text: str, owner: etree._Element, linked: bool) -> None:
        if self.parts or not text.isspace():
            self.parts.append(text)
            self.owners.append(owner)
            if linked:
                self.link_chars += len(text)

    def _cut(self) -> None:
        parts, owners, tree = self.parts, self.owners, self.tree
        words = (parts[0] if len(parts) == 1 else "".join(parts)).split()
        self.room -= len(parts)
        if words and self.room > 0 and len(tree.blocks) < MAX_BLOCKS:
            if len(self.nodes) < len(self.open):
                self._number_containers()
            tree.blocks.append(Block(self.nodes[-1], " ".join(words), len(words), parts, owners, self.link_chars))
        self.parts = []
        self.owners = []
        self.link_chars = 0

    def _number_containers(self) -> None:
        tree, nodes = self.tree, self.nodes
        parent = nodes[-1] if nodes else 0
        first = len(tree.blocks)
        for element, tag in self.open[len(nodes) :]:
            node = len(tree.tags)
            tree.elements.append(element)
            tree.tags.append(tag)
            tree.parents.append(parent)
            tree.first_block.append(first)
            tree.last_block.append(first)
            nodes.append(node)
            parent = node


def _describe(element: etree._Element) -> str:
    """The attributes that tell what an element is for, as one string."""
    found = ""
    for name, value in _attributes_of(element):
        if name == "class":
            found = f"{value} {found}" if found else value
        elif name in _TELLING_ATTRIBUTES:
            found = f"{found} {value}"
        elif name in _HIDING_ATTRIBUTES and (name == "hidden" or "none" in value or value == "true"):
            found += " scrubjay-hidden"
    return found


def _text_of(element: etree._Element) -> str:
    return str(_string(element))


def _verbatim_text(element: etree._Element) -> str:
    for line_break in element.iter("br"):
        line_break.tail = "\n" + (line_break.tail or "")
    return _text_of(element)
