"""The text of one block as Markdown: links, emphasis, inline code, images, and what must be escaped."""

import re
from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from scrubjay.extract.blocks import Block, InlineElement
from scrubjay.extract.links import resolve_href

_MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*", "cite": "*", "del": "~~", "s": "~~", "strike": "~~"}
_CODE = frozenset(("code", "kbd", "samp", "tt"))
_BREAKING = frozenset(("br", "img"))
_SPECIAL = re.compile(r"[\\`*<_~\]]")
_ESCAPED = re.compile(
    r"\\(?=[!-/:-@\[-`{-~])|`|\*(?=\S)|(?<=\S)\*|(?<!\w)_(?=\w)|(?<=\w)_(?!\w)|<(?=[A-Za-z/!?])|~~|\](?=[(\[])"
)
_BLOCK_START = re.compile(r"(#{1,6}(?=\s)|>|[-+*](?=\s)|(?:=+|-{2,})\s*$|`{3}|~{3}|\|)|(\d{1,9})([.)])(?=\s)", re.M)
_BLANKS = re.compile(r"[ \t\r\f\v\u00a0]*\n[ \t\r\f\v\u00a0]*")
_SPACES = re.compile(r"[^\S\n]{2,}|[^\S\n ]")
_PERMALINKS = frozenset(("¶", "#", "§", "🔗"))


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


def render_inline(block: Block, base: str, linked: set[int], *, heading: bool = False) -> str:
    """The block's text with its marks. `linked` remembers the links around whole blocks that were written already."""
    spans = block.spans
    marked = spans[0] is not None if len(spans) == 1 else any(spans)
    text = _Inline(base, heading).render(block) if marked else escape(block.text)
    if block.link is not None and block.link_chars and "](" not in text:
        text = _link_around(block.link, text, base, linked)
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


def _link_around(element: LexborNode, text: str, base: str, linked: set[int]) -> str:
    if element.mem_id in linked or not text or "\n" in text:
        return text
    linked.add(element.mem_id)
    return _link(text, element.attributes.get("href"), base)


def _link(text: str, href: str | None, base: str) -> str:
    address = resolve_href(href, base) if href else None
    if not address:
        return text
    address = address.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
    return f"[{text}]({address})"


@dataclass(slots=True)
class _Open:
    """A span that is being written."""

    span: InlineElement
    parts: list[str] = field(default_factory=list)


_Path = list[InlineElement]  # the spans around a part that make a mark, outermost first


class _Inline:
    """Opens and closes spans as what the text stands in changes."""

    def __init__(self, base: str, heading: bool) -> None:
        self.base = base
        self.heading = heading
        self.outside: _Path = []
        self.paths: dict[InlineElement, _Path] = {}
        self.written: list[str] = []
        self.opened: list[_Open] = []

    def render(self, block: Block) -> str:
        paths = list(map(self._path, block.spans))
        if len(paths) == 1:
            text = block.text if paths[0] and paths[0][-1].tag in _CODE else escape(block.text)
            for around in reversed(paths[0]):
                text = self._wrap(text, around)
            return text
        if max(map(len, paths)) <= 1:
            return _tidy("".join(self._render_flat(block, paths)))
        here: _Path = []
        code = False
        for part, span, path in zip(block.parts, block.spans, paths, strict=True):
            if path is not here:
                self._move_to(path)
                here, code = path, bool(path) and path[-1].tag in _CODE
            (self.opened[-1].parts if self.opened else self.written).append(self._write(part, span, code))
        self._move_to([])
        return _tidy("".join(self.written))

    def _render_flat(self, block: Block, paths: list[_Path]) -> list[str]:
        """The usual case, without marks inside of marks: each run of one path is wrapped once."""
        written: list[str] = []
        inner: list[str] = []
        here, code = self.outside, False
        for part, span, path in zip(block.parts, block.spans, paths, strict=True):
            if path is not here:
                if inner:
                    written.append(self._close("".join(inner), here[0]))
                    inner = []
                here, code = path, bool(path) and path[0].tag in _CODE
            # A plain piece of text, which most are, is as it should be.
            if code or "\n" in part or (span is not None and span.tag in _BREAKING) or _SPECIAL.search(part):
                part = self._write(part, span, code)
            (inner if path else written).append(part)
        if inner:
            written.append(self._close("".join(inner), here[0]))
        return written

    def _write(self, part: str, span: InlineElement | None, code: bool) -> str:
        if span is not None and span.tag in _BREAKING:
            return "\n" if span.tag == "br" else _image(span.element, self.base)
        if "\n" in part:
            part = _on_one_line(part)
        return part if code else escape(part)

    def _path(self, span: InlineElement | None) -> _Path:
        if span is None:
            return self.outside
        known = self.paths.get(span)
        if known is None:
            known = self._path(span.around)
            if span.tag not in _BREAKING and not self._repeats(span, known):
                known = [*known, span]
            self.paths[span] = known
        return known

    def _repeats(self, span: InlineElement, around: _Path) -> bool:
        mark = _MARKS.get(span.tag)
        if mark == "**" and self.heading:
            return True
        return bool(around) and any(
            other.tag in _CODE or (other.tag == "a" and span.tag == "a") or _MARKS.get(other.tag, "") == mark
            for other in around
        )

    def _move_to(self, path: _Path) -> None:
        opened = self.opened
        shared = 0
        while shared < len(path) and shared < len(opened) and opened[shared].span is path[shared]:
            shared += 1
        while len(opened) > shared:
            closed = opened.pop()
            outer = opened[-1].parts if opened else self.written
            outer.append(self._close("".join(closed.parts), closed.span))
        opened.extend(_Open(span) for span in path[shared:])

    def _close(self, inner: str, span: InlineElement) -> str:
        """A span's text between its marks; the blanks at its ends belong outside of them."""
        core = inner.strip()
        if not core:
            return inner
        if len(core) == len(inner):
            return self._wrap(core, span)
        before = inner[: len(inner) - len(inner.lstrip())]
        return before + self._wrap(core, span) + inner[len(inner.rstrip()) :]

    def _wrap(self, text: str, span: InlineElement) -> str:
        if span.tag == "a":
            if text in _PERMALINKS:
                return ""
            return _link(text.replace("\n", " "), span.element.attributes.get("href"), self.base)
        if span.tag in _CODE:
            return f"`` {text} ``" if "`" in text else f"`{text}`"
        mark = _MARKS[span.tag]
        return text if "\n" in text else mark + text + mark


def _image(element: LexborNode, base: str) -> str:
    attributes = element.attributes
    alt = " ".join((attributes.get("alt") or "").split())
    source = attributes.get("src") or attributes.get("data-src")
    address = resolve_href(source, base) if alt and source else None
    return f" ![{escape(alt)}]({address}) " if address else " "
