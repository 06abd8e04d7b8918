"""The strategy `structured`: named fields of a page by CSS selectors, with its JSON-LD and microdata beside them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from lxml import etree
from lxml.cssselect import CSSSelector, SelectorError, SelectorSyntaxError

from scrubjay.errors import InvalidRequest
from scrubjay.extract.html import extract_html, parse_html
from scrubjay.extract.links import collapse, resolve_href, text_of
from scrubjay.model.extraction import Extraction, ExtractOptions

_Select = Callable[[etree._Element], list[etree._Element]]

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
    root = parse_html(text)
    fields: dict[str, Any] = {}
    if root is not None:
        for name, (select, attribute) in selectors.items():
            values = [_value(element, attribute, url) for element in select(root)[:MAX_VALUES]]
            found = [value for value in values if value]
            fields[name.removesuffix("[]")] = found if name.endswith("[]") else next(iter(found), None)
        if not selectors:
            fields = {"json_ld": extraction.metadata.get("json_ld", []), "microdata": read_microdata(root, url)}
    return replace(extraction, method="structured", fields=fields)


def _selector(name: str, expression: str) -> tuple[_Select, str | None]:
    css, _, attribute = expression.rpartition("@") if "@" in expression else (expression, "", "")
    try:
        return _compile(css.strip() or "*"), attribute.strip().lower() or None
    except (SelectorError, SelectorSyntaxError) as error:
        raise InvalidRequest(f"The selector of '{name}' cannot be read: {error}.", field=f"fields.{name}") from None


@lru_cache(maxsize=256)
def _compile(css: str) -> _Select:
    return cast(_Select, CSSSelector(css, translator="html"))


def _value(element: etree._Element, attribute: str | None, url: str) -> str | None:
    if attribute is None:
        return collapse(text_of(element))[:_MAX_TEXT] or None
    value = element.get(attribute)
    if value is None:
        return None
    return resolve_href(value, url) or value[:_MAX_TEXT] if attribute in _ADDRESSES else value[:_MAX_TEXT]


def read_microdata(root: etree._Element, url: str) -> list[dict[str, Any]]:
    """The page's top-level items, each with its type and properties."""
    items = []
    room = _Room()
    for element in root.iter(etree.Element):
        if element.get("itemscope") is not None and element.get("itemprop") is None:
            items.append(_item(element, url, 0, room))
            if len(items) >= MAX_ITEMS or room.characters < 0:
                break
    return items


class _Room:
    """What a page's microdata may still take up. Properties repeat the text of those inside them, and every further
    name of one repeats all of it: a few KB can become more than fits anywhere."""

    def __init__(self) -> None:
        self.characters = MAX_MICRODATA_CHARACTERS


def _item(scope: etree._Element, url: str, depth: int, room: _Room) -> dict[str, Any]:
    item: dict[str, Any] = {}
    kind = (scope.get("itemtype") or "").strip()
    room.characters -= len(kind)
    if kind:
        item["@type"] = kind.removeprefix("https://schema.org/").removeprefix("http://schema.org/")
    for element in _properties(scope):
        names = (element.get("itemprop") or "").split()
        before = room.characters
        room.characters -= _PROPERTY_CHARACTERS
        nested = element.get("itemscope") is not None and depth < _MAX_DEPTH
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


def _properties(scope: etree._Element) -> Iterator[etree._Element]:
    """Elements with `itemprop` that belong to this item and not to one inside it."""
    waiting = list(reversed(scope))
    while waiting:
        element = waiting.pop()
        if not isinstance(element.tag, str):
            continue
        if element.get("itemprop") is not None:
            yield element
        if element.get("itemscope") is None:
            waiting.extend(reversed(element))


def _property_value(element: etree._Element, url: str) -> str:
    attribute = _VALUE_ATTRIBUTES.get(str(element.tag))
    value = element.get(attribute) if attribute else element.get("content")
    if value is None:
        return collapse(text_of(element))[:_MAX_TEXT]
    if attribute in _ADDRESSES:
        return resolve_href(value, url) or value[:_MAX_TEXT]
    return value[:_MAX_TEXT]
