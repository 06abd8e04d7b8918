"""Cuts a parsed page into blocks: the runs of text between block-level tags, and the containers they stand in."""

from dataclasses import dataclass, field

from lxml import etree

MAX_DEPTH = 240  # deeper subtrees are read as one run of text
MAX_NODES = 60_000
MAX_BLOCKS = 12_000
MAX_PARTS = 300_000

_INLINE, _SKIP, _BREAK, _IMAGE, _VERBATIM = range(1, 6)
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


_TELLING_ATTRIBUTES = ("id", "role", "itemprop", "data-testid", "data-component")


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
    cutter = _Cutter()
    cutter.run(root if body is None else body)
    return cutter.tree


class _Cutter:
    """One walk over the tree; the open block is what `parts` has gathered since the last cut."""

    def __init__(self) -> None:
        self.tree = BlockTree()
        self.parts: list[str] = []
        self.owners: list[etree._Element] = []
        self.link_chars = 0
        self.room = MAX_PARTS

    def run(self, start: etree._Element) -> None:
        node = self._open(start, str(start.tag), 0)
        self._visit(start, node, False, 0)
        self._close(node)

    def _open(self, element: etree._Element, tag: str, parent: int) -> int:
        tree = self.tree
        node = len(tree.tags)
        tree.elements.append(element)
        tree.tags.append(tag)
        tree.attributes.append("")
        tree.parents.append(parent)
        tree.first_block.append(len(tree.blocks))
        tree.last_block.append(0)
        return node

    def _close(self, node: int) -> None:
        """A container without text is forgotten: what was opened inside of it is gone already."""
        if self.parts:
            self._cut(node)
        tree = self.tree
        last = len(tree.blocks)
        if last > tree.first_block[node] or node == 0:
            tree.last_block[node] = last
            tree.attributes[node] = _describe(tree.elements[node])
        else:
            for column in (tree.elements, tree.tags, tree.attributes, tree.parents, tree.first_block, tree.last_block):
                column.pop()

    def _cut(self, node: int) -> None:
        parts = self.parts
        text = " ".join((parts[0] if len(parts) == 1 else "".join(parts)).split())
        self.room -= len(parts)
        if text and len(self.tree.blocks) < MAX_BLOCKS and self.room > 0:
            first = self.owners[0]
            lead = "" if first is self.tree.elements[node] else first.get("class") or ""
            self.tree.blocks.append(Block(node, text, parts, self.owners, self.link_chars, lead))
        self.parts = []
        self.owners = []
        self.link_chars = 0

    def _visit(self, element: etree._Element, node: int, linked: bool, depth: int) -> None:
        text = element.text
        if text and (self.parts or not text.isspace()):
            self.parts.append(text)
            self.owners.append(element)
            if linked:
                self.link_chars += len(text)
        for child in element:
            tag = child.tag
            kind = _KINDS.get(tag)
            if kind is None:
                self._enter(child, tag, node, linked, depth)
            elif kind == _INLINE:
                if depth < MAX_DEPTH:
                    self._visit(child, node, linked or tag == "a", depth + 1)
                else:
                    self._add("".join(child.itertext()), child, linked)
            elif kind != _SKIP:
                self._enter_special(child, kind, node, linked)
            text = child.tail
            if text and (self.parts or not text.isspace()):
                self.parts.append(text)
                self.owners.append(element)
                if linked:
                    self.link_chars += len(text)

    def _add(self, text: str, owner: etree._Element, linked: bool) -> None:
        if self.parts or not text.isspace():
            self.parts.append(text)
            self.owners.append(owner)
            if linked:
                self.link_chars += len(text)

    def _enter(self, child: etree._Element, tag: object, node: int, linked: bool, depth: int) -> None:
        if self.parts:
            self._cut(node)
        if not isinstance(tag, str) or len(self.tree.tags) >= MAX_NODES:
            return
        inner = self._open(child, tag, node)
        if depth < MAX_DEPTH:
            self._visit(child, inner, linked, depth + 1)
        else:
            self._add("".join(child.itertext()), child, linked)
        self._close(inner)

    def _enter_special(self, child: etree._Element, kind: int, node: int, linked: bool) -> None:
        if kind == _VERBATIM:
            if self.parts:
                self._cut(node)
            inner = self._open(child, "pre", node)
            self._add(_verbatim_text(child), child, linked)
            self._close(inner)
        elif not self.parts:
            return
        elif kind == _IMAGE:
            self._add(" ", child, False)
        elif self.parts[-1] == "\n" and self.owners[-1].tag == "br":
            self._cut(node)
        else:
            self._add("\n", child, False)


def _describe(element: etree._Element) -> str:
    """The attributes that tell what an element is for, as one string."""
    get = element.get
    found = get("class") or ""
    for name in _TELLING_ATTRIBUTES:
        value = get(name)
        if value:
            found += " " + value
    style = get("style")
    if (style and "none" in style) or get("hidden") is not None or get("aria-hidden") == "true":
        found += " scrubjay-hidden"
    return found


def _verbatim_text(element: etree._Element) -> str:
    for line_break in element.iter("br"):
        line_break.tail = "\n" + (line_break.tail or "")
    return "".join(element.itertext())
