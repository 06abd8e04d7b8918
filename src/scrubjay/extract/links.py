"""The links of a page: addresses as they would be fetched, with their words and, when asked, those around them.

They are not brought into normal form here: a site that writes `/a/` would answer `/a` with a redirect.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import cast

from lxml import etree

from scrubjay.crawl.urls import MAX_URL_LENGTH, parse_url
from scrubjay.errors import UrlInvalid
from scrubjay.model.extraction import Anchor

MAX_ANCHORS = 5_000
MAX_ANCHOR_TEXT = 300
CONTEXT_CHARACTERS = 200
_BLOCK_CHARACTERS = 600
_MAX_PLAIN = MAX_URL_LENGTH // 2
_MAX_PLAIN_ORIGIN = 253
_INLINE = frozenset({"span", "b", "strong", "em", "i", "u", "small", "font", "sup", "sub", "code", "mark", "abbr"})

_string = cast("Callable[[etree._Element], str]", etree.XPath("string()", smart_strings=False))
# An address of these letters only, without dot segments, is already what a WHATWG parser would make of it, and that
# parser is what costs the most here. A test compares the two ways.
_LETTERS = r"A-Za-z0-9_~/.:@!$&()*+,;="
_SIMPLE_PATH = re.compile(rf"/(?!/)[{_LETTERS}-]*+(?:\?[{_LETTERS}?-]*+)?")  # most are, and it is quickly seen
_PLAIN_PATH = re.compile(
    rf"/(?!/)(?:[{_LETTERS}-]++|%(?!2[eE])[0-9A-Fa-f]{{2}})*+(?:\?(?:[{_LETTERS}?-]++|%[0-9A-Fa-f]{{2}})*+)?"
)
_PLAIN_ORIGIN = re.compile(r"https?://(?:(?!xn--)[a-z0-9-]{1,63}\.)+(?!xn--)[a-z][a-z0-9-]{0,62}")
_SKIPPED = ("#", "javascript:", "mailto:", "tel:", "data:", "sms:", "whatsapp:", "about:", "blob:", "file:")


def read_anchors(root: etree._Element, url: str, *, contexts: bool = False) -> tuple[Anchor, ...]:
    """The page's links in order; addresses that cannot be fetched are left out."""
    base = _base_of(root, url)
    origin = _origin_of(base)
    surroundings: dict[etree._Element, str] = {}
    anchors = []
    for element in islice(root.iter("a", "area", "link"), 4 * MAX_ANCHORS):
        href = element.get("href")
        if not href:
            continue
        rel = element.get("rel")
        if element.tag == "link" and (rel is None or "next" not in rel.lower().split()):
            continue
        address = _resolve(href, base, origin)
        if address is None:
            continue
        text = _words_of(element)
        context = _context_of(element, text, surroundings) if contexts else ""
        anchors.append(Anchor(address, text, context, rel is not None and "nofollow" in rel.lower()))
        if len(anchors) >= MAX_ANCHORS:
            break
    return tuple(anchors)


def collapse(text: str) -> str:
    return " ".join(text.split())


def text_of(element: etree._Element) -> str:
    """All the text in an element. Most have no more than one other in them: to look takes less time than an XPath."""
    inner = len(element)
    if not inner:
        return element.text or ""
    if inner == 1:
        child = element[0]
        if not len(child) and isinstance(child.tag, str):  # a comment has none, and its text is not the page's
            return f"{element.text or ''}{child.text or ''}{child.tail or ''}"
    return _string(element)


def resolve_href(href: str, base: str) -> str | None:
    """The whole of an address as a page writes it, without its fragment, or None when it cannot be fetched."""
    return _resolve(href, base, _origin_of(base))


def _base_of(root: etree._Element, url: str) -> str:
    head = next(root.iterchildren("head"), None)
    element = next(head.iterchildren("base"), None) if head is not None else None
    href = element.get("href") if element is not None else None
    if not href:
        return url
    try:
        return parse_url(href.strip(), url).text
    except UrlInvalid:
        return url


@lru_cache(maxsize=1024)
def _origin_of(url: str) -> str:
    """`https://host` without a slash, or nothing for an address that has none."""
    slash = url.find("/", 8)
    if slash > 0 and len(url) < _MAX_PLAIN and _has_plain_origin(url[:slash]):
        return url[:slash]
    try:
        text = parse_url(url).text
    except UrlInvalid:
        return ""
    return text[: text.index("/", text.index("//") + 2)]


def _resolve(href: str, base: str, origin: str) -> str | None:
    href = href.strip()
    if href.startswith("/") and href[1:2] != "/":
        return _resolve_rooted(origin, href)
    if href.startswith(("http://", "https://")):
        return _resolve_absolute(href)
    if not href or href.startswith(_SKIPPED):
        return None
    return _resolve_relative(base, href)


@lru_cache(maxsize=16_384)
def _resolve_rooted(origin: str, href: str) -> str | None:
    path = href.partition("#")[0] if "#" in href else href
    if origin and _is_plain(path):
        return origin + path
    return _resolve_slowly(href, origin + "/" if origin else None)


@lru_cache(maxsize=16_384)
def _resolve_absolute(href: str) -> str | None:
    return _as_plain(href.partition("#")[0] if "#" in href else href) or _resolve_slowly(href, None)


def _as_plain(address: str) -> str | None:
    """The address as it would be fetched, if that can be told without a parser."""
    slash = address.find("/", 8)
    if slash < 0:
        return address + "/" if _has_plain_origin(address) else None
    return address if _has_plain_origin(address[:slash]) and _is_plain(address[slash:]) else None


def _is_plain(path: str) -> bool:
    if len(path) >= _MAX_PLAIN or "/." in path:
        return False
    return (_SIMPLE_PATH.fullmatch(path) or _PLAIN_PATH.fullmatch(path)) is not None


@lru_cache(maxsize=4_096)
def _has_plain_origin(origin: str) -> bool:
    return len(origin) <= _MAX_PLAIN_ORIGIN and _PLAIN_ORIGIN.fullmatch(origin) is not None


@lru_cache(maxsize=4_096)
def _resolve_relative(base: str, href: str) -> str | None:
    joined = _join(base, href.partition("#")[0])
    return (_as_plain(joined) if joined else None) or _resolve_slowly(href, base)


def _join(base: str, reference: str) -> str | None:
    """The address of a reference relative to a base, both written plainly; None where that cannot be told."""
    if reference.startswith("//"):
        return base[: base.find(":") + 1] + reference
    page = _page_of(base)
    if page is None or not reference or ":" in reference:
        return None
    if reference.startswith("?"):
        return page + reference
    folder = page[: page.rindex("/") + 1]
    while reference.startswith(("./", "../")):
        dots, _, reference = reference.partition("/")
        if dots == ".." and folder.count("/") > 3:
            folder = folder[: folder.rindex("/", 0, -1) + 1]
    return folder + reference


@lru_cache(maxsize=1024)
def _page_of(base: str) -> str | None:
    """A base up to its query, if it is written plainly."""
    return _as_plain(base.partition("#")[0].partition("?")[0])


def _resolve_slowly(href: str, base: str | None) -> str | None:
    try:
        return parse_url(href, base).text
    except UrlInvalid:
        return None


def _words_of(element: etree._Element) -> str:
    text = " ".join(text_of(element).split())
    if not text:
        text = element.get("title") or element.get("aria-label") or _image_words(element)
    return text if len(text) <= MAX_ANCHOR_TEXT else text[:MAX_ANCHOR_TEXT]


def _image_words(element: etree._Element) -> str:
    if element.tag == "area":
        return collapse(element.get("alt") or "")
    image = element.find(".//img") if len(element) else None
    return collapse(image.get("alt") or "") if image is not None else ""


def _context_of(element: etree._Element, text: str, surroundings: dict[etree._Element, str]) -> str:
    block = element.getparent()
    while block is not None and block.tag in _INLINE:
        block = block.getparent()
    if block is None:
        return ""
    words = surroundings.get(block)
    if words is None:
        words = surroundings[block] = _first_words(block)
    position = words.find(text) if text else -1
    if position < 0:
        # Far into a long block: what stands right before and behind the link.
        before = element.getprevious()
        nearby = (before.tail if before is not None else block.text) or ""
        return collapse(
            f"{nearby[-CONTEXT_CHARACTERS // 2 :]} {text} {(element.tail or '')[: CONTEXT_CHARACTERS // 2]}"
        )
    start = max(0, position + len(text) // 2 - CONTEXT_CHARACTERS // 2)
    return words[start : start + CONTEXT_CHARACTERS].strip()


def _first_words(block: etree._Element) -> str:
    """The beginning of a block's text; bounded, because nested blocks would otherwise be read again and again."""
    pieces: list[str] = []
    length = 0
    for piece in block.itertext():
        pieces.append(str(piece))
        length += len(piece)
        if length > 2 * _BLOCK_CHARACTERS:
            break
    return collapse("".join(pieces))[:_BLOCK_CHARACTERS]
