"""The text of SharePoint's pages: canvases of modern ones, the fields of wiki and publishing pages; no page chrome."""

import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrubjay.errors import ExtractionFailed
from scrubjay.extract.blocks import cut_blocks
from scrubjay.extract.markdown import render_markdown
from scrubjay.extract.tree import parse_html

if TYPE_CHECKING:
    from lxml_html_clean import Cleaner

MAX_CHARACTERS = 12_000_000
_ATTRIBUTES = frozenset({"href", "src", "alt", "title", "colspan", "rowspan", "scope", "lang", "start", "type"})
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # XML has no place for them
_ENTRY = re.compile(r"(.*\[\d+\])\.")
_WEB_PART = 3


@dataclass(frozen=True, slots=True)
class _Control:
    """One box of a canvas, with its place: zone, section, control."""

    place: tuple[float, ...]
    html: str


def canvas_to_html(content: str) -> str:
    """The canvas of a modern page (CanvasContent1, as HTML or as JSON) as HTML in reading order, not yet cleaned."""
    text = content.strip()
    if len(text) > MAX_CHARACTERS:
        raise ExtractionFailed("The page's canvas is too large to be read.", error_type="too_large")
    controls = _read_json(text) if text.startswith("[") else _read_html(text)
    placed = sorted(controls, key=lambda control: control.place)
    return "\n".join(control.html for control in placed if control.html.strip())


def clean_html(content: str) -> str:
    """Without scripts, styles, frames, forms and whatever else is no text."""
    if not content.strip():
        return ""
    document = _parse(content)
    _cleaner()(document)
    return _inner(document)


def html_to_markdown(content: str, base_url: str = "") -> str:
    """All text of cleaned HTML: unlike a web page's, none of it is chrome."""
    page = parse_html(f"<html><body>{_printable(content)}</body></html>")
    if page is None:
        return ""
    tree = cut_blocks(page)
    blocks = render_markdown(tree, range(len(tree.blocks)), base_url)
    return "".join(block.gap + block.text for block in blocks).strip()


def write_page(title: str, body: str) -> str:
    """A whole HTML document with the title as its heading."""
    name = html.escape(title)
    heading = f"<h1>{name}</h1>\n" if name else ""
    head = f'<head><meta charset="utf-8"><title>{name}</title></head>'
    return f"<!DOCTYPE html>\n<html>\n{head}\n<body>\n{heading}{body}\n</body>\n</html>\n"


def _read_html(text: str) -> Iterator[_Control]:
    if not text:
        return
    for control in _parse(text).xpath(".//*[@data-sp-canvascontrol]"):
        place = _place_of(_json_of(control.get("data-sp-controldata")))
        texts = control.xpath(".//*[@data-sp-rte]")
        parts = control.xpath(".//*[@data-sp-webpartdata]")
        if texts:
            yield _Control(place, "\n".join(map(_inner, texts)))
        elif parts:
            shown = _show_web_part(_json_of(parts[0].get("data-sp-webpartdata")))
            properties = control.xpath(".//*[@data-sp-htmlproperties]")
            yield _Control(place, shown or "\n".join(map(_inner, properties)))


def _read_json(text: str) -> Iterator[_Control]:
    try:
        controls = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExtractionFailed("The page's canvas cannot be understood.", error_type="bad_canvas") from error
    for control in controls:
        if isinstance(control, Mapping):
            shown = (
                _show_web_part(control.get("webPartData"))
                if control.get("controlType") == _WEB_PART
                else str(control.get("innerHTML") or "")
            )
            yield _Control(_place_of(control), shown)


def _place_of(control: Any) -> tuple[float, ...]:
    position = control.get("position") if isinstance(control, Mapping) else None
    if not isinstance(position, Mapping):
        return ()
    numbers = (position.get(name) for name in ("zoneIndex", "sectionIndex", "controlIndex"))
    return tuple(float(number) if isinstance(number, int | float) else 0.0 for number in numbers)


def _show_web_part(data: Any) -> str:
    """What a web part shows, as SharePoint keeps it for its own search: HTML, texts, and links with their words."""
    processed = data.get("serverProcessedContent") if isinstance(data, Mapping) else None
    if not isinstance(processed, Mapping):
        return ""
    texts, links = _pairs(processed.get("searchablePlainTexts")), _pairs(processed.get("links"))
    pieces = list(_pairs(processed.get("htmlStrings")).values())
    for key, text in texts.items():
        entry = _ENTRY.match(key)
        link = next((url for name, url in links.items() if entry and name.startswith(f"{entry[1]}.")), None)
        words = html.escape(text)
        if key == "title":
            pieces.append(f"<h3>{words}</h3>")
        elif link and key.endswith("title"):
            pieces.append(f'<p><a href="{html.escape(link)}">{words}</a></p>')
        else:
            pieces.append(f"<p>{words}</p>")
    pieces += [f"<p>{html.escape(text)}</p>" for text in _picture_texts(data)]
    return "\n".join(pieces)


def _picture_texts(data: Mapping[str, Any]) -> Iterator[str]:
    properties = data.get("properties")
    if isinstance(properties, Mapping):
        yield from (str(properties[name]) for name in ("altText", "alternateText") if properties.get(name))


def _pairs(value: Any) -> dict[str, str]:
    """SharePoint writes dictionaries as objects, or as lists of keys and values."""
    if isinstance(value, list):
        value = {each.get("Key"): each.get("Value") for each in value if isinstance(each, Mapping)}
    if not isinstance(value, Mapping):
        return {}
    return {str(key): str(text) for key, text in value.items() if isinstance(text, str) and text.strip()}


def _json_of(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None  # a box whose settings are broken still has its text


# lxml's HTML is imported where it is used: it takes a tenth of a second, and few have a SharePoint.
@lru_cache(maxsize=1)
def _cleaner() -> "Cleaner":
    from lxml_html_clean import Cleaner

    return Cleaner(
        style=True, inline_style=True, page_structure=False, safe_attrs_only=True, safe_attrs=_ATTRIBUTES,
        add_nofollow=False,
    )  # fmt: skip


def _parse(content: str) -> Any:
    import lxml.html

    return lxml.html.fragment_fromstring(_printable(content), create_parent="div")


def _inner(element: Any) -> str:
    from lxml import etree

    children = "".join(etree.tostring(child, encoding="unicode", method="html") for child in element)
    return (html.escape(element.text or "", quote=False) + children).strip()


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub(" ", text)
