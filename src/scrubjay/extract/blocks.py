"""Cuts a parsed page into blocks: the runs of text between block-level tags, and the containers they stand in."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from scrubjay.extract.tree import TAG_NAMES, TAG_NUMBERS, PageTree
from scrubjay.model.extraction import DEFAULT_LIMITS

MAX_DEPTH = 240  # deeper subtrees are read as one run of text
_NODES_PER_BLOCK = 5  # the limits of containers and of text nodes grow with that of blocks
_PARTS_PER_BLOCK = 25

_TEXT, _INLINE, _MARK, _SKIP, _BREAK, _IMAGE, _VERBATIM, _FRAME = range(1, 9)
_INLINE_TAGS = """
abbr acronym bdi bdo big data dfn font ins label mark math mi mn mo nobr picture q rb rp rt ruby small span sub sup time
u var wbr
"""
MARK_TAGS = "a b cite code del em i kbd s samp strike strong tt"
_SKIPPED_TAGS = """
area audio base canvas datalist embed frame head iframe input link map meta meter object option param progress script
select source style svg template textarea title track video -comment
"""
_KINDS: dict[int, int] = {}
for _tags, _kind in (
    ("-text", _TEXT), (_INLINE_TAGS, _INLINE), (MARK_TAGS, _MARK), (_SKIPPED_TAGS, _SKIP), ("br", _BREAK),
    ("img", _IMAGE), ("pre listing xmp", _VERBATIM), ("nav footer", _FRAME),
):  # fmt: skip
    _KINDS |= {TAG_NUMBERS[_tag]: _kind for _tag in _tags.split()}
_UNNUMBERED_KINDS = {"annotation": _SKIP} | dict.fromkeys(("mrow", "msub", "msup"), _INLINE)
_LINK = TAG_NUMBERS["a"]
_NO_SPANS = (None,)
# A menu or footer with one of these in it was never closed, or is none.
_CONTENT_TAGS = {
    "nav": {TAG_NUMBERS[tag] for tag in ("p", "h1", "article", "main")},
    "footer": {TAG_NUMBERS[tag] for tag in ("h1", "article", "main")},
}

_TELLING_ATTRIBUTES = frozenset(("id", "role", "itemprop", "data-testid", "data-component"))
_HIDING_ATTRIBUTES = frozenset(("hidden", "style", "aria-hidden"))


class InlineElement:
    """An inline element that leaves a mark on the text in it: a link, emphasis, code, a line break, an image."""

    __slots__ = ("around", "element", "tag")

    def __init__(self, tag: str, element: LexborNode, around: "InlineElement | None") -> None:
        self.tag = tag
        self.element = element
        self.around = around


@dataclass(slots=True)
class Block:
    """A run of text inside one container; `spans` are what its parts stand in, `link` is what the container does."""

    node: int
    text: str
    words: int
    parts: list[str]
    spans: Sequence[InlineElement | None]
    link_chars: int
    link: LexborNode | None


@dataclass(slots=True)
class BlockTree:
    """Containers in document order as parallel lists, and the blocks in them; a subtree is a range of blocks."""

    elements: list[LexborNode] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)  # class, id, role and the like, as one string
    parents: list[int] = field(default_factory=list)
    first_block: list[int] = field(default_factory=list)
    last_block: list[int] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    is_cut: bool = False  # the page has more than the limit allows


def cut_blocks(page: PageTree, *, most: int = DEFAULT_LIMITS.blocks) -> BlockTree:
    """The first `most` blocks of a page's body (or of the whole tree when it has none)."""
    start = page.body
    cutter = _Cutter(start, most)
    cutter.visit(start.first_child, None, None, 0)
    cutter.finish()
    return cutter.tree


class _Cutter:
    """One walk over the tree; the open block is what `parts` has gathered since the last cut. What is done for every
    element is written out in place: calls would take longer than the work. Containers get a number when a block is cut
    in them, because many have no text."""

    __slots__ = (
        "containers",
        "link",
        "link_chars",
        "most",
        "most_containers",
        "nodes",
        "open",
        "parts",
        "room",
        "spans",
        "tree",
    )

    def __init__(self, start: LexborNode, most: int) -> None:
        self.tree = BlockTree()
        self.parts: list[str] = []
        self.spans: list[InlineElement | None] = []
        self.link_chars = 0
        self.link: LexborNode | None = None  # around the container whose content is being read
        self.most = most
        self.most_containers = _NODES_PER_BLOCK * most
        self.room = _PARTS_PER_BLOCK * most
        self.containers = 0
        self.open: list[tuple[LexborNode, str]] = [(start, start.tag or "")]
        self.nodes: list[int] = []  # the numbers of the open containers that have one: the outer ones
        self._number_containers()

    def visit(self, child: LexborNode | None, link: LexborNode | None, span: InlineElement | None, depth: int) -> None:  # noqa: C901
        """A child of a container or of an inline element, and all those behind it; they stand in a link and a span, or
        in none."""
        kind_of, name_of = _KINDS.get, TAG_NAMES.get
        while child is not None:
            number = child.tag_id
            kind = kind_of(number)
            if kind == _TEXT:
                text = child.text_content
                if text and (self.parts or not text.isspace()):
                    self.parts.append(text)
                    self.spans.append(span)
                    if link is not None:
                        self.link_chars += len(text)
            elif kind is None:
                name = name_of(number)
                if name is None:
                    self._visit_unnumbered(child, link, span, depth)
                else:
                    if self.parts:
                        self._cut()
                    first = child.first_child
                    if first is not None:
                        text = first.text_content
                        if text is None or first.next is not None:
                            self._visit_container(child, name, first, link, depth + 1)
                        elif not text.isspace():
                            self._visit_leaf(child, name, text, link)
            elif kind == _INLINE:
                first = child.first_child
                if first is not None:
                    if depth < MAX_DEPTH:
                        self.visit(first, link, span, depth + 1)
                    else:
                        self._add(child.text_lexbor(), span, link)
            elif kind == _MARK:
                first = child.first_child
                if first is not None:
                    inner_link = child if number == _LINK else link
                    if depth < MAX_DEPTH:
                        self.visit(first, inner_link, InlineElement(TAG_NAMES[number], child, span), depth + 1)
                    else:
                        self._add(child.text_lexbor(), span, inner_link)
            elif kind != _SKIP:
                self._visit_special(child, kind, link, span, depth)
            child = child.next

    def finish(self) -> None:
        if self.parts:
            self._cut()
        self.tree.last_block[0] = len(self.tree.blocks)
        self.tree.attributes = list(map(_describe, self.tree.elements))

    def _visit_unnumbered(
        self, element: LexborNode, link: LexborNode | None, span: InlineElement | None, depth: int
    ) -> None:
        """An element that only its name tells from others: one of a site's own, or of a formula."""
        name = element.tag or ""
        kind = _UNNUMBERED_KINDS.get(name)
        if kind is None:
            if self.parts:
                self._cut()
            first = element.first_child
            if first is not None:
                self._visit_container(element, name, first, link, depth + 1)
        elif kind == _INLINE and depth < MAX_DEPTH:
            self.visit(element.first_child, link, span, depth + 1)

    def _visit_container(
        self, element: LexborNode, tag: str, first: LexborNode, link: LexborNode | None, depth: int
    ) -> None:
        """A block-level element that has others in it."""
        self.containers += 1
        if self.containers > self.most_containers:
            self.tree.is_cut = True
            return
        self.open.append((element, tag))
        around, self.link = self.link, link
        if tag == "pre":
            self._add(_verbatim_text(element), None, link)
        elif depth < MAX_DEPTH:
            self.visit(first, link, None, depth)
        else:
            self._add(element.text_lexbor(), None, link)
        if self.parts:
            self._cut()
        self.link = around
        self.open.pop()
        if len(self.nodes) > len(self.open):
            self.tree.last_block[self.nodes.pop()] = len(self.tree.blocks)

    def _visit_leaf(self, element: LexborNode, tag: str, text: str, link: LexborNode | None) -> None:
        """A block-level element with nothing but text in it."""
        tree, blocks = self.tree, self.tree.blocks
        self.room -= 1
        if self.room <= 0 or len(blocks) >= self.most:
            tree.is_cut = True
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
        linked = len(text) if link is not None else 0
        blocks.append(Block(node, " ".join(words), len(words), [text], _NO_SPANS, linked, link))

    def _visit_special(
        self, child: LexborNode, kind: int, link: LexborNode | None, span: InlineElement | None, depth: int
    ) -> None:
        if kind >= _VERBATIM:
            if self.parts:
                self._cut()
            tag = "pre" if kind == _VERBATIM else TAG_NAMES[child.tag_id]
            first = child.first_child
            if first is not None and (kind == _VERBATIM or _has_any(child, _CONTENT_TAGS[tag])):
                self._visit_container(child, tag, first, link, depth + 1)
        elif not self.parts:
            return
        elif kind == _IMAGE:
            self._add(" ", InlineElement("img", child, span), None)
        elif self.parts[-1] == "\n" and (last := self.spans[-1]) is not None and last.tag == "br":
            self._cut()
        else:
            self._add("\n", InlineElement("br", child, span), None)

    def _add(self, text: str, span: InlineElement | None, link: LexborNode | None) -> None:
        if self.parts or not text.isspace():
            self.parts.append(text)
            self.spans.append(span)
            if link is not None:
                self.link_chars += len(text)

    def _cut(self) -> None:
        parts, tree = self.parts, self.tree
        words = (parts[0] if len(parts) == 1 else "".join(parts)).split()
        self.room -= len(parts)
        if not words:
            pass
        elif self.room <= 0 or len(tree.blocks) >= self.most:
            tree.is_cut = True
        else:
            if len(self.nodes) < len(self.open):
                self._number_containers()
            tree.blocks.append(
                Block(self.nodes[-1], " ".join(words), len(words), parts, self.spans, self.link_chars, self.link)
            )
        self.parts = []
        self.spans = []
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


def _has_any(element: LexborNode, tags: set[int]) -> bool:
    return any(inner.tag_id in tags for inner in element.traverse())


def _describe(element: LexborNode) -> str:
    """The attributes that tell what an element is for, as one string."""
    found = ""
    for name, value in element.attributes.items():
        if name == "hidden":
            found += " scrubjay-hidden"
        elif not value:
            continue
        elif name == "class":
            found = f"{value} {found}" if found else value
        elif name in _TELLING_ATTRIBUTES:
            found = f"{found} {value}"
        elif name in _HIDING_ATTRIBUTES and ("none" in value or value == "true"):
            found += " scrubjay-hidden"
    return found


def _verbatim_text(element: LexborNode) -> str:
    pieces = []
    for node in element.traverse(include_text=True):
        text = node.text_content
        if text is not None:
            pieces.append(text)
        elif node.tag == "br":
            pieces.append("\n")
    return "".join(pieces)
