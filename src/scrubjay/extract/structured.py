"""The strategy `structured`: named fields of a page by CSS selectors, with its JSON-LD and microdata beside them."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from scrubjay.errors import InvalidRequest
from scrubjay.extract.html import extract_html
from scrubjay.extract.links import resolve_href
from scrubjay.extract.tree import PageTree, collapse, parse_html, text_of
from scrubjay.model.extraction import Extraction, ExtractOptions

MAX_VALUES = 1_000
MAX_ITEMS = 500
_MAX_TEXT = 10_000
_MAX_DEPTH = 20
MAX_MICRODATA_CHARACTERS = 2_000_000
_PROPERTY_CHARACTERS = 20  # what a property takes up besides its text
_ADDRESSES = {"href", "src", "action", "poster", "data-src"}
# Where microdata keeps a value that is not text, by element.
_VALUE_ATTRIBUTES = {
    "meta": "content",
    "a": "href",
    "area": "href",
    "link": "href",
    "img": "src",
    "audio": "src",
    "video": "src",
    "source": "src",
    "iframe": "src",
    "embed": "src",
    "object": "data",
    "data": "value",
    "meter": "value",
    "time": "datetime",
}


def extract_structured(text: str, url: str, options: ExtractOptions) -> Extraction:
    """The page's Markdown as ever, and in `fields` what was asked for. A field's selector may end in `@name` for an
    attribute, and its name in `[]` for every match; without fields, JSON-LD and microdata are the result."""
    selectors = {name: _selector(name, expression) for name, expression in options.fields.items()}
    extraction = extract_html(text, url=url, options=options)
    page = parse_html(text, most=options.limits.characters)
    fields: dict[str, Any] = {}
    if page is not None:
        for name, (selector, attribute) in selectors.items():
            values = [_value(element, attribute, url) for element in page.root.css(selector)[:MAX_VALUES]]
            found = [value for value in values if value]
            fields[name.removesuffix("[]")] = found if name.endswith("[]") else next(iter(found), None)
        if not selectors:
            fields = {"json_ld": extraction.metadata.get("json_ld", []), "microdata": read_microdata(page, url)}
    return replace(extraction, method="structured", fields=fields)


def _selector(name: str, expression: str) -> tuple[str, str | None]:
    css, _, attribute = expression.rpartition("@") if "@" in expression else (expression, "", "")
    css = css.strip() or "*"
    if not _is_selector(css):
        raise InvalidRequest(f"The selector of '{name}' cannot be read: {css[:200]}", field=f"fields.{name}")
    return css, attribute.strip().lower() or None


@lru_cache(maxsize=256)
def _is_selector(css: str) -> bool:
    try:
        LexborHTMLParser("<p>").css(css)
    except (SelectolaxError, UnicodeEncodeError):
        return False
    return True


def _value(element: LexborNode, attribute: str | None, url: str) -> str | None:
    if attribute is None:
        return collapse(text_of(element))[:_MAX_TEXT] or None
    value = element.attributes.get(attribute)
    if value is None:
        return None
    return resolve_href(value, url) or value[:_MAX_TEXT] if attribute in _ADDRESSES else value[:_MAX_TEXT]


def read_microdata(page: PageTree, url: str) -> list[dict[str, Any]]:
    """The page's top-level items, each with its type and properties."""
    items = []
    room = _Room()
    for element in page.root.css("[itemscope]:not([itemprop])"):
        items.append(_item(element, url, 0, room))
        if len(items) >= MAX_ITEMS or room.characters < 0:
            break
    return items


class _Room:
    """What a page's microdata may still take up. Properties repeat the text of those inside them, and every further
    name of one repeats all of it: a few KB can become more than fits anywhere."""

    def __init__(self) -> None:
        self.characters = MAX_MICRODATA_CHARACTERS


def _item(scope: LexborNode, url: str, depth: int, room: _Room) -> dict[str, Any]:
    item: dict[str, Any] = {}
    kind = (scope.attributes.get("itemtype") or "").strip()
    room.characters -= len(kind)
    if kind:
        item["@type"] = kind.removeprefix("https://schema.org/").removeprefix("http://schema.org/")
    for element in _properties(scope):
        attributes = element.attributes
        names = (attributes.get("itemprop") or "").split()
        before = room.characters
        room.characters -= _PROPERTY_CHARACTERS
        nested = "itemscope" in attributes and depth < _MAX_DEPTH
        value = _item(element, url, depth + 1, room) if nested else _property_value(element, url)
        room.characters -= len(value) if isinstance(value, str) else 0
        room.characters -= (before - room.characters) * (len(names) - 1)
        if room.characters < 0:
            break
        for name in names:
            known = item.get(name)
            if known is None:
                item[name] = value
            elif isinstance(known, list):
                known.append(value)
            else:
                item[name] = [known, value]
    return item


def _properties(scope: LexborNode) -> Iterator[LexborNode]:
    """Elements with `itemprop` that belong to this item and not to one inside it."""
    waiting = [scope.first_child]
    while waiting:
        element = waiting.pop()
        if element is None:
            continue
        waiting.append(element.next)
        if not element.is_element_node:
            continue
        attributes = element.attributes
        if "itemprop" in attributes:
            yield element
        if "itemscope" not in attributes:
            waiting.append(element.first_child)


def _property_value(element: LexborNode, url: str) -> str:
    attribute = _VALUE_ATTRIBUTES.get(element.tag or "")
    value = element.attributes.get(attribute or "content")
    if value is None:
        return collapse(text_of(element))[:_MAX_TEXT]
    if attribute in _ADDRESSES:
        return resolve_href(value, url) or value[:_MAX_TEXT]
    return value[:_MAX_TEXT]
