"""The links of a page: addresses as they would be fetched, with their words and, when asked, those around them.

They are not brought into normal form here: a site that writes `/a/` would answer `/a` with a redirect.
"""

import re
from functools import lru_cache

from selectolax.lexbor import LexborNode

from scrubjay.errors import UrlInvalid
from scrubjay.extract.tree import PageTree, collapse, text_of
from scrubjay.model.extraction import DEFAULT_LIMITS, Anchor
from scrubjay.model.urls import MAX_URL_LENGTH, parse_url

MAX_ANCHOR_TEXT = 300
CONTEXT_CHARACTERS = 200
_BLOCK_CHARACTERS = 600
_MAX_PLAIN = MAX_URL_LENGTH // 2
_MAX_PLAIN_ORIGIN = 253
_INLINE = frozenset({"span", "b", "strong", "em", "i", "u", "small", "font", "sup", "sub", "code", "mark", "abbr"})

# An address of these letters only, without dot segments, is already what a WHATWG parser would make of it, and that
# parser is what costs the most here. A test compares the two ways.
_LETTERS = r"A-Za-z0-9_~/.:@!$&()*+,;="
_SIMPLE_PATH = re.compile(rf"/(?!/)[{_LETTERS}-]*+(?:\?[{_LETTERS}?-]*+)?")  # most are, and it is quickly seen
_PLAIN_PATH = re.compile(
    rf"/(?!/)(?:[{_LETTERS}-]++|%(?!2[eE])[0-9A-Fa-f]{{2}})*+(?:\?(?:[{_LETTERS}?-]++|%[0-9A-Fa-f]{{2}})*+)?"
)
_PLAIN_ORIGIN = re.compile(r"https?://(?:(?!xn--)[a-z0-9-]{1,63}\.)+(?!xn--)[a-z][a-z0-9-]{0,62}")
_LINKING = frozenset(("a", "area", "link"))
_SKIPPED = ("#", "javascript:", "mailto:", "tel:", "data:", "sms:", "whatsapp:", "about:", "blob:", "file:")


def read_anchors(
    page: PageTree, url: str, *, contexts: bool = False, most: int = DEFAULT_LIMITS.links
) -> tuple[tuple[Anchor, ...], bool]:
    """The page's first `most` links in order, and whether there were more; invalid URLs are left out."""
    base = base_of(page, url)
    origin = _origin_of(base)
    surroundings: dict[int, str] = {}
    anchors: list[Anchor] = []
    for tag, element in page.telling:
        if tag not in _LINKING:
            continue
        attributes = element.attributes
        href = attributes.get("href")
        if not href:
            continue
        rel = attributes.get("rel")
        if tag == "link" and (rel is None or "next" not in rel.lower().split()):
            continue
        address = _resolve(href, base, origin)
        if address is None:
            continue
        if len(anchors) >= most:
            return tuple(anchors), True
        text = _words_of(element, attributes)
        context = _context_of(element, text, surroundings) if contexts else ""
        anchors.append(Anchor(address, text, context, rel is not None and "nofollow" in rel.lower()))
    return tuple(anchors), False


def resolve_href(href: str, base: str) -> str | None:
    """The whole of an address as a page writes it, without its fragment, or None when it cannot be fetched."""
    return _resolve(href, base, _origin_of(base))


def base_of(page: PageTree, url: str) -> str:
    """The address that the page's relative ones start from: its own, unless it names another."""
    element = next(page.find("base"), None)
    href = element.attributes.get("href") if element is not None else None
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


def _words_of(element: LexborNode, attributes: dict[str, str | None]) -> str:
    text = " ".join(text_of(element).split())
    if not text:
        text = attributes.get("title") or attributes.get("aria-label") or _image_words(element, attributes)
    return text if len(text) <= MAX_ANCHOR_TEXT else text[:MAX_ANCHOR_TEXT]


def _image_words(element: LexborNode, attributes: dict[str, str | None]) -> str:
    if "alt" in attributes:  # of an <area>
        return collapse(attributes["alt"] or "")
    image = element.css_first("img") if element.first_child is not None else None
    return collapse(image.attributes.get("alt") or "") if image is not None else ""


def _context_of(element: LexborNode, text: str, surroundings: dict[int, str]) -> str:
    block = element.parent
    while block is not None and block.tag in _INLINE:
        block = block.parent
    if block is None:
        return ""
    words = surroundings.get(block.mem_id)
    if words is None:
        words = surroundings[block.mem_id] = _first_words(block)
    position = words.find(text) if text else -1
    if position < 0:
        # Far into a long block: what stands right before and behind the link.
        before, after = (
            (beside.text_content or "") if beside is not None else "" for beside in (element.prev, element.next)
        )
        return collapse(f"{before[-CONTEXT_CHARACTERS // 2 :]} {text} {after[: CONTEXT_CHARACTERS // 2]}")
    start = max(0, position + len(text) // 2 - CONTEXT_CHARACTERS // 2)
    return words[start : start + CONTEXT_CHARACTERS].strip()


def _first_words(block: LexborNode) -> str:
    """The beginning of a block's text; bounded, because nested blocks would otherwise be read again and again."""
    pieces: list[str] = []
    length = 0
    for node in block.traverse(include_text=True):
        piece = node.text_content
        if piece:
            pieces.append(piece)
            length += len(piece)
            if length > 2 * _BLOCK_CHARACTERS:
                break
    return collapse("".join(pieces))[:_BLOCK_CHARACTERS]
