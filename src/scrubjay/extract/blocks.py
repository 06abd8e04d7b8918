"""Cuts a parsed page into blocks: the runs of text between block-level tags, and the containers they stand in."""

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
_Attributes = list[tuple[str, str]]


@dataclass(slots=True)
class Block:
    """A run of text inside one container; `owners` are the elements that its parts stand in."""

    node: int
    text: str
    parts: list[str]
    owners: list[etree._Element]
    link_chars: int
    lead: str = ""  # the class of the inline element that it starts with


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
    body = root.find("body")
    start = root if body is None else body
    cutter = _Cutter()
    cutter.visit_container(start, str(start.tag), 0, False, 0)
    return cutter.tree


class _Cutter:
    """One walk over the tree; the open block is what `parts` has gathered since the last cut. What is done for every
    element is written out in place: calls would take longer than the work."""

    __slots__ = ("containers", "link_chars", "owners", "parts", "room", "tree")

    def __init__(self) -> None:
        self.tree = BlockTree()
        self.parts: list[str] = []
        self.owners: list[etree._Element] = []
        self.link_chars = 0
        self.room = MAX_PARTS
        self.containers = 0

    def visit_container(self, element: etree._Element, tag: str, parent: int, linked: bool, depth: int) -> None:
        """A block-level element; one without text is forgotten, as what was opened inside of it is by then."""
        tree = self.tree
        blocks = tree.blocks
        self.containers += 1
        if self.containers > MAX_NODES:
            return
        node = len(tree.tags)
        first = len(blocks)
        tree.elements.append(element)
        tree.tags.append(tag)
        tree.attributes.append("")
        tree.parents.append(parent)
        tree.first_block.append(first)
        tree.last_block.append(0)
        if tag == "pre":
            self._add(_verbatim_text(element), element, linked)
        elif depth < MAX_DEPTH:
            self._visit(element, node, linked, depth)
        else:
            self._add(_text_of(element), element, linked)
        if self.parts:
            self._cut(node)
        last = len(blocks)
        if last > first or node == 0:
            tree.last_block[node] = last
            tree.attributes[node] = _describe(element)
        else:
            for column in (tree.elements, tree.tags, tree.attributes, tree.parents, tree.first_block, tree.last_block):
                column.pop()

    def _visit(self, element: etree._Element, node: int, linked: bool, depth: int) -> None:  # noqa: C901
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
                    self._cut(node)
                self.visit_container(child, tag, node, linked, depth + 1)
            elif kind == _INLINE:
                if len(child):
                    self._visit_inline(child, tag, node, linked, depth)
                else:
                    text = child.text
                    if text and (self.parts or not text.isspace()):
                        self.parts.append(text)
                        self.owners.append(child)
                        if linked or tag == "a":
                            self.link_chars += len(text)
            elif kind != _SKIP:
                self._visit_special(child, kind, node, linked, depth)
            text = child.tail
            if text and (self.parts or not text.isspace()):
                self.parts.append(text)
                self.owners.append(element)
                if linked:
                    self.link_chars += len(text)

    def _visit_inline(self, child: etree._Element, tag: str, node: int, linked: bool, depth: int) -> None:
        linked = linked or tag == "a"
        if depth < MAX_DEPTH:
            self._visit(child, node, linked, depth + 1)
        else:
            self._add(_text_of(child), child, linked)

    def _visit_special(self, child: etree._Element, kind: int, node: int, linked: bool, depth: int) -> None:
        if kind >= _VERBATIM:
            if self.parts:
                self._cut(node)
            tag = "pre" if kind == _VERBATIM else str(child.tag)
            if kind == _VERBATIM or next(child.iter(*_CONTENT_TAGS[tag]), None) is not None:
                self.visit_container(child, tag, node, linked, depth + 1)
        elif not self.parts:
            return
        elif kind == _IMAGE:
            self._add(" ", child, False)
        elif self.parts[-1] == "\n" and self.owners[-1].tag == "br":
            self._cut(node)
        else:
            self._add("\n", child, False)

    def _add(self, text: str, owner: etree._Element, linked: bool) -> None:
        if self.parts or not text.isspace():
            self.parts.append(text)
            self.owners.append(owner)
            if linked:
                self.link_chars += len(text)

    def _cut(self, node: int) -> None:
        parts, owners, tree = self.parts, self.owners, self.tree
        text = " ".join((parts[0] if len(parts) == 1 else "".join(parts)).split())
        self.room -= len(parts)
        if text and self.room > 0 and len(tree.blocks) < MAX_BLOCKS:
            first = owners[0]
            lead = "" if first is tree.elements[node] else first.get("class") or ""
            tree.blocks.append(Block(node, text, parts, owners, self.link_chars, lead))
        self.parts = []
        self.owners = []
        self.link_chars = 0


def _describe(element: etree._Element) -> str:
    """The attributes that tell what an element is for, as one string."""
    found = ""
    for name, value in cast(_Attributes, element.items()):
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
