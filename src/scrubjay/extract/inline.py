"""The text of one block as Markdown: links, emphasis, inline code, images, and what must be escaped."""

import re
from dataclasses import dataclass, field

from lxml import etree

from scrubjay.extract.blocks import Block, BlockTree
from scrubjay.extract.links import resolve_href

_MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*", "cite": "*", "del": "~~", "s": "~~", "strike": "~~"}
_CODE = frozenset(("code", "kbd", "samp", "tt"))
_BREAKING = frozenset(("br", "img"))
_FORMATS = frozenset((*_MARKS, *_CODE, "a"))
_SPECIAL = re.compile(r"[\\`*<_~\]]")
_ESCAPED = re.compile(
    r"\\(?=[!-/:-@\[-`{-~])|`|\*(?=\S)|(?<=\S)\*|(?<!\w)_(?=\w)|(?<=\w)_(?!\w)|<(?=[A-Za-z/!?])|~~|\](?=[(\[])"
)
_BLOCK_START = re.compile(r"(#{1,6}(?=\s)|>|[-+*](?=\s)|(?:=+|-{2,})\s*$|`{3}|~{3}|\|)|(\d{1,9})([.)])(?=\s)", re.M)
_BLANKS = re.compile(r"[ \t\r\f\v\u00a0]*\n[ \t\r\f\v\u00a0]*")
_SPACES = re.compile(r"[^\S\n]{2,}|[^\S\n ]")
_PERMALINKS = frozenset(("¶", "#", "§", "🔗"))
_MAX_ABOVE = 6


def escape(text: str) -> str:
    """Text that Markdown would read as marks, escaped; everything else as it is."""
    return _ESCAPED.sub(lambda found: "\\" + found.group(), text) if _SPECIAL.search(text) else text


def escape_start(text: str) -> str:
    """A paragraph's lines that would start a heading, list, quote or rule, escaped."""
    if text[0] not in "#>-+*=`~|0123456789" and "\n" not in text:
        return text
    return "\n".join(_escape_line(line) for line in text.split("\n"))


def _escape_line(line: str) -> str:
    found = _BLOCK_START.match(line)
    if not found or line.startswith(("**", "```", "*")):
        return line
    return f"{found[2]}\\{line[len(found[2]) :]}" if found[2] else "\\" + line


def render_inline(
    block: Block, tree: BlockTree, base: str, linked: set[etree._Element], *, heading: bool = False
) -> str:
    """The block's text with its marks. `linked` remembers the links around whole blocks that were written already."""
    container = tree.elements[block.node]
    if block.owners.count(container) == len(block.owners):
        text = escape(block.text)
    else:
        text = _Inline(container, base, heading).render(block)
    if block.link_chars and "](" not in text:
        text = _link_around(container, text, base, linked)
    return text


def _on_one_line(part: str) -> str:
    """Runs of blanks become one; the ends keep theirs, because other text stands beside them."""
    words = " ".join(part.split())
    if not words:
        return " "
    before = " " if part[0].isspace() else ""
    return f"{before}{words} " if part[-1].isspace() else before + words


def _tidy(text: str) -> str:
    """Without doubled blanks, and without blanks around line breaks. Most texts have none, which is quickly seen."""
    if "  " in text or not text.isprintable():
        text = _SPACES.sub(" ", text)
        if "\n" in text:
            text = _BLANKS.sub("\n", text)
    return text.strip()


def _link_around(container: etree._Element, text: str, base: str, linked: set[etree._Element]) -> str:
    element: etree._Element | None = container.getparent()
    for _ in range(_MAX_ABOVE):
        if element is None or element.tag == "body":
            return text
        if element.tag == "a":
            break
        element = element.getparent()
    if element is None or element.tag != "a" or element in linked or not text or "\n" in text:
        return text
    linked.add(element)
    return _link(text, element.get("href"), base)


def _link(text: str, href: str | None, base: str) -> str:
    address = resolve_href(href, base) if href else None
    if not address:
        return text
    address = address.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
    return f"[{text}]({address})"


@dataclass(slots=True)
class _Span:
    element: etree._Element
    parts: list[str] = field(default_factory=list)


class _Inline:
    """Opens and closes spans as the element that the text stands in changes."""

    def __init__(self, container: etree._Element, base: str, heading: bool) -> None:
        self.base = base
        self.heading = heading
        self.paths: dict[etree._Element, list[etree._Element]] = {container: []}
        self.spans = [_Span(container)]

    def render(self, block: Block) -> str:
        if len(block.parts) == 1:
            path = self._path(block.owners[0])
            text = block.text if path and path[-1].tag in _CODE else escape(block.text)
            for element in reversed(path):
                text = self._wrap(text, element)
            return text
        paths = [self._path(owner) for owner in block.owners]
        if not any(paths) and not _BREAKING.intersection([owner.tag for owner in block.owners]):
            return escape(block.text)
        if max(map(len, paths)) == 1:
            return _tidy("".join(self._render_flat(block, paths)))
        here: list[etree._Element] = []
        for part, owner, path in zip(block.parts, block.owners, paths, strict=True):
            if path is not here:
                self._move_to(path)
                here = path
            self.spans[-1].parts.append(self._write(part, owner, self.spans[-1].element.tag in _CODE))
        self._move_to([])
        return _tidy("".join(self.spans[0].parts))

    def _render_flat(self, block: Block, paths: list[list[etree._Element]]) -> list[str]:
        """The usual case, without marks inside of marks: each run of one path is wrapped once."""
        written: list[str] = []
        inner: list[str] = []
        here: list[etree._Element] = []
        for part, owner, path in zip(block.parts, block.owners, paths, strict=True):
            if path is not here:
                if inner:
                    written.append(self._close("".join(inner), here[0]))
                    inner = []
                here = path
            if path:
                inner.append(self._write(part, owner, path[0].tag in _CODE))
            else:
                written.append(self._write(part, owner, False))
        if inner:
            written.append(self._close("".join(inner), here[0]))
        return written

    def _write(self, part: str, owner: etree._Element, code: bool) -> str:
        tag = owner.tag
        if tag == "br":
            return "\n"
        if tag == "img":
            return _image(owner, self.base)
        if "\n" in part:
            part = _on_one_line(part)
        return part if code else escape(part)

    def _path(self, owner: etree._Element) -> list[etree._Element]:
        """The elements around the owner that make a mark, outermost first."""
        known = self.paths.get(owner)
        if known is None:
            above = owner.getparent()
            known = self._path(above) if above is not None else []
            if owner.tag in _FORMATS and not self._repeats(owner, known):
                known = [*known, owner]
            self.paths[owner] = known
        return known

    def _repeats(self, owner: etree._Element, around: list[etree._Element]) -> bool:
        mark = _MARKS.get(str(owner.tag))
        if mark == "**" and self.heading:
            return True
        return any(
            element.tag in _CODE or (element.tag == "a" and owner.tag == "a") or _MARKS.get(str(element.tag), 0) == mark
            for element in around
        )

    def _move_to(self, path: list[etree._Element]) -> None:
        spans = self.spans
        shared = 0
        while shared < len(path) and shared + 1 < len(spans) and spans[shared + 1].element is path[shared]:
            shared += 1
        while len(spans) > shared + 1:
            closed = spans.pop()
            spans[-1].parts.append(self._close("".join(closed.parts), closed.element))
        spans.extend(_Span(element) for element in path[shared:])

    def _close(self, inner: str, element: etree._Element) -> str:
        """A span's text between its marks; the blanks at its ends belong outside of them."""
        core = inner.strip()
        if not core:
            return inner
        if len(core) == len(inner):
            return self._wrap(core, element)
        before = inner[: len(inner) - len(inner.lstrip())]
        return before + self._wrap(core, element) + inner[len(inner.rstrip()) :]

    def _wrap(self, text: str, element: etree._Element) -> str:
        tag = str(element.tag)
        if tag == "a":
            return "" if text in _PERMALINKS else _link(text.replace("\n", " "), element.get("href"), self.base)
        if tag in _CODE:
            return f"`` {text} ``" if "`" in text else f"`{text}`"
        mark = _MARKS[tag]
        return text if "\n" in text else mark + text + mark


def _image(element: etree._Element, base: str) -> str:
    alt = " ".join((element.get("alt") or "").split())
    source = element.get("src") or element.get("data-src")
    address = resolve_href(source, base) if alt and source else None
    return f" ![{escape(alt)}]({address}) " if address else " "
