"""Files become Markdown: PDF and Office through kreuzberg, feeds through feedparser, text formats by themselves."""

import csv
import io
import itertools
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import feedparser
from lxml import etree

from scrubjay.errors import ExtractionFailed
from scrubjay.extract.archives import check_archive
from scrubjay.extract.blocks import cut_blocks
from scrubjay.extract.decoding import decode_html
from scrubjay.extract.links import resolve_href
from scrubjay.extract.media import OFFICE_TYPES, ZIP_KINDS, Media
from scrubjay.extract.tree import collapse, parse_html
from scrubjay.model.extraction import Anchor, Extraction, ExtractLimits, ExtractOptions, name_cuts

_MAX_PRETTY_CHARACTERS = 5_000_000
_MAX_TABLE_COLUMNS = 1_000
_MAX_TITLE = 200

_MARKDOWN_LINK = re.compile(r"\[([^\]\n]{0,300})\]\(\s*<?([^\s)>]{1,2048})")
_BARE_LINK = re.compile(r"https?://[^\s<>\"'`)\]]{3,2048}")
_FENCES = re.compile(r"`{3,}")
_HEADING = re.compile(r"^(#{1,6})[ \t]++(\S.*)$", re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---[ \t\r]*+\n(.{0,8000}?)\n---\s*\n", re.DOTALL)
_FRONT_MATTER_TITLE = re.compile(r"^title:\s*[\"']?(.+?)[\"']?\s*$", re.MULTILINE)


def extract_file(
    data: bytes, media: Media, *, url: str, content_type: str | None, options: ExtractOptions
) -> Extraction:
    """The content of a file that is not a web page."""
    kind = check_archive(data) if media.kind == "zip" else media.kind
    limits = options.limits
    if kind in OFFICE_TYPES:
        return _extract_office(data, kind, url, limits)
    if kind in ("xml", "feed"):
        return _read_xml(data, url, limits) if kind == "xml" else _read_feed(data, url, limits)
    reader = _TEXT_READERS.get(kind or "")
    if reader is None:
        raise ExtractionFailed(f"There is no text to read in {media.mime}.", error_type="unsupported_type", url=url)
    text = decode_html(data, content_type)
    extraction = reader(text[: limits.characters], url, limits)
    return _add_cut(extraction, "characters") if len(text) > limits.characters else extraction


def _add_cut(extraction: Extraction, limit: str) -> Extraction:
    metadata = {**extraction.metadata, "truncated": True}
    return replace(extraction, metadata=metadata, cuts=(*extraction.cuts, limit))


def _extract_office(data: bytes, kind: str, url: str, limits: ExtractLimits) -> Extraction:
    # Imported here: its library of 30 MB is only loaded by a process that meets such a file.
    import kreuzberg

    if kind in ZIP_KINDS:
        check_archive(data)
    config = kreuzberg.ExtractionConfig(use_cache=False, output_format="markdown")
    try:
        result = kreuzberg.extract_bytes_sync(data, OFFICE_TYPES[kind], config)
    except (kreuzberg.KreuzbergError, OSError, RuntimeError, ValueError) as error:
        # Not all of what it finds wrong with a file is told by its own errors.
        raise _office_failure(str(error), kind, url) from error
    except BaseException as error:
        # A panic in its Rust code is not an Exception; anything else that is none must go on.
        if type(error).__name__ == "PanicException":
            raise _office_failure(str(error), kind, url) from error
        raise
    markdown = result.content[: limits.characters].strip()
    metadata = _office_metadata(dict(result.metadata))
    metadata["headings"] = _headings(markdown)
    title = metadata.pop("title", None) or _first_heading(markdown)
    given = [(str(item.get("url") or item.get("uri") or ""), item.get("label")) for item in result.uris or ()]
    anchors, more_links = _anchors(itertools.chain(given, _markdown_links(markdown)), url, limits)
    return Extraction(
        markdown=markdown,
        method="kreuzberg",
        title=title,
        metadata={name: value for name, value in metadata.items() if value},
        anchors=anchors,
        cuts=name_cuts(links=more_links, characters=len(result.content) > limits.characters),
    )


def _office_failure(message: str, kind: str, url: str) -> ExtractionFailed:
    if "password" in message.lower() or "encrypt" in message.lower():
        return ExtractionFailed(f"The {kind} file is encrypted.", error_type="encrypted", url=url)
    return ExtractionFailed(f"The {kind} file is broken: {message[:300]}", error_type="broken_file", url=url)


def _office_metadata(found: dict[str, Any]) -> dict[str, Any]:
    core = found.get("core_properties")
    properties = {**(core if isinstance(core, dict) else {}), **{key: value for key, value in found.items() if value}}
    authors = properties.get("authors") or properties.get("creator") or properties.get("author")
    keywords = properties.get("keywords")
    if isinstance(keywords, str):
        keywords = [word.strip() for word in re.split(r"[,;]", keywords) if word.strip()]
    return {
        "title": _text(properties.get("title")),
        "author": ", ".join(map(str, authors)) if isinstance(authors, list) else _text(authors),
        "description": _text(properties.get("description") or properties.get("subject")),
        "keywords": keywords,
        "language": _text(properties.get("language")),
        "published_at": _text(properties.get("created_at") or properties.get("created")),
        "modified_at": _text(properties.get("modified_at") or properties.get("modified")),
        "page_count": properties.get("page_count") or properties.get("slide_count") or properties.get("sheet_count"),
    }


def _text(value: Any) -> str | None:
    return collapse(value)[:2000] or None if isinstance(value, str) else None


def _read_plain(text: str, url: str, limits: ExtractLimits) -> Extraction:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    title = first if 0 < len(first) <= _MAX_TITLE else None
    anchors, more_links = _bare_anchors(text, url, limits)
    return Extraction(
        markdown=text.strip(), method="text", title=title, anchors=anchors, cuts=name_cuts(links=more_links)
    )


def _read_markdown(text: str, url: str, limits: ExtractLimits) -> Extraction:
    title = None
    matter = _FRONT_MATTER.match(text)
    if matter:
        named = _FRONT_MATTER_TITLE.search(matter.group(1))
        title = named.group(1)[:_MAX_TITLE] if named else None
        text = text[matter.end() :]
    headings = _headings(text)
    metadata = {"headings": headings} if headings else {}
    anchors, more_links = _anchors(_markdown_links(text), url, limits)
    return Extraction(
        markdown=text.strip(),
        method="markdown",
        title=title or _first_heading(text),
        metadata=metadata,
        anchors=anchors,
        cuts=name_cuts(links=more_links),
    )


def _headings(markdown: str) -> list[tuple[int, str]]:
    found = itertools.islice(_HEADING.finditer(markdown), 200)
    return [(len(match.group(1)), _heading_text(match.group(2))) for match in found]


def _heading_text(line: str) -> str:
    """Without the number signs that may close a heading."""
    return line.rstrip().rstrip("#").rstrip() or line.rstrip()


def _first_heading(markdown: str) -> str | None:
    match = _HEADING.search(markdown)
    return _heading_text(match.group(2))[:_MAX_TITLE] if match else None


def _markdown_links(text: str) -> Iterator[tuple[str, str | None]]:
    for match in _MARKDOWN_LINK.finditer(text):
        yield match.group(2), match.group(1)
    for match in _BARE_LINK.finditer(text):
        yield match.group(), None


def _bare_anchors(text: str, url: str, limits: ExtractLimits) -> tuple[tuple[Anchor, ...], bool]:
    return _anchors(((match.group(), None) for match in _BARE_LINK.finditer(text)), url, limits)


def _anchors(
    found: Iterable[tuple[str, str | None]], url: str, limits: ExtractLimits
) -> tuple[tuple[Anchor, ...], bool]:
    """The links of a file, each URL once, and whether there are more than the limit."""
    known: dict[str, Anchor] = {}
    for href, words in found:
        address = resolve_href(href.rstrip(".,;:!?"), url)
        if address and (address not in known or (words and not known[address].text)):
            if address not in known and len(known) >= limits.links:
                return tuple(known.values()), True
            known[address] = Anchor(address, collapse(words or "")[:300])
    return tuple(known.values()), False


def _read_csv(text: str, url: str, limits: ExtractLimits) -> Extraction:
    return _read_table(text, _delimiter(text), url, limits)


def _read_tsv(text: str, url: str, limits: ExtractLimits) -> Extraction:
    return _read_table(text, "\t", url, limits)


def _delimiter(text: str) -> str:
    """The separator that the first lines have most of; csv.Sniffer takes minutes for some inputs."""
    head = "\n".join(text[:20_000].splitlines()[:20])
    return max(",;\t|", key=head.count)


def _read_table(text: str, delimiter: str, url: str, limits: ExtractLimits) -> Extraction:
    rows: list[list[str]] = []
    total, is_cut = 0, False
    try:
        for row in csv.reader(io.StringIO(text.replace("\0", ""), newline=""), delimiter=delimiter):
            total += 1
            if not any(cell.strip() for cell in row):
                continue
            is_cut = is_cut or len(rows) >= limits.blocks or len(row) > _MAX_TABLE_COLUMNS
            if len(rows) < limits.blocks:
                rows.append([_cell(cell) for cell in row[:_MAX_TABLE_COLUMNS]])
    except csv.Error as error:
        if not rows:
            raise ExtractionFailed(f"The table cannot be read: {error}.", error_type="broken_file", url=url) from error
    width = max((len(row) for row in rows), default=0)
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in rows]
    if lines:
        lines.insert(1, "|" + " --- |" * width)
    metadata: dict[str, Any] = {"row_count": total, "column_count": width}
    anchors, more_links = _bare_anchors(text, url, limits)
    cuts = name_cuts(links=more_links)
    table = Extraction(markdown="\n".join(lines), method="csv", metadata=metadata, anchors=anchors, cuts=cuts)
    return _add_cut(table, "blocks") if is_cut else table


def _cell(text: str) -> str:
    return collapse(text).replace("|", "\\|")


def _read_json(text: str, url: str, limits: ExtractLimits) -> Extraction:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExtractionFailed("The JSON is broken or nested too deeply.", error_type="broken_file", url=url) from error
    title = None
    if isinstance(value, dict):
        title = next((_text(value[name]) for name in ("title", "name") if _text(value.get(name))), None)
    return _fenced(_pretty(value) or text.strip(), "json", title, url, limits)


def _pretty(value: Any) -> str | None:
    """With indents, unless they would make far more of it: a few KB, nested deeply, can become hundreds of MB."""
    pieces: list[str] = []
    size = 0
    try:
        for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
            pieces.append(piece)
            size += len(piece)
            if size > _MAX_PRETTY_CHARACTERS:
                return None
    except RecursionError:
        return None
    return "".join(pieces)


def _read_json_lines(text: str, url: str, limits: ExtractLimits) -> Extraction:
    return _fenced(text.strip(), "json", None, url, limits)


def _fenced(text: str, language: str, title: str | None, url: str, limits: ExtractLimits) -> Extraction:
    fence = "`" * max((len(run) + 1 for run in _FENCES.findall(text)), default=3)
    anchors, more_links = _bare_anchors(text, url, limits)
    return Extraction(
        markdown=f"{fence}{language}\n{text}\n{fence}",
        method=language,
        title=title,
        anchors=anchors,
        cuts=name_cuts(links=more_links),
    )


def _read_xml(data: bytes, url: str, limits: ExtractLimits) -> Extraction:
    """Each element with text as a line. Entities are never expanded, and nothing outside the file is read."""
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        # A broken file is still worth reading, unless it plays with entities.
        recover=b"<!ENTITY" not in data,
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise ExtractionFailed(f"The XML cannot be read: {error}.", error_type="broken_file", url=url) from error
    if root is None:
        raise ExtractionFailed("The XML is empty.", error_type="broken_file", url=url)
    name = _local_name(root)
    if name in ("rss", "feed", "RDF"):
        return _read_feed(data, url, limits)
    lines = list(itertools.islice(_xml_lines(root), limits.blocks + 1))
    cut_lines, lines = len(lines) > limits.blocks, lines[: limits.blocks]
    text = "\n".join(lines)
    title = next((line.partition(": ")[2] for line in lines if line.startswith("- title: ")), None)
    anchors, more_links = _bare_anchors(text, url, limits)
    return Extraction(
        markdown=text,
        method="xml",
        title=title,
        metadata={"root_element": name},
        anchors=anchors,
        cuts=name_cuts(links=more_links, blocks=cut_lines),
    )


def _local_name(element: etree._Element) -> str:
    # Not by QName, which refuses some names that a recovering parser lets through.
    return str(element.tag).rpartition("}")[2]


def _xml_lines(root: etree._Element) -> Iterator[str]:
    for element in root.iter(etree.Element):
        if isinstance(element.tag, str):
            text = collapse(f"{element.text or ''} {' '.join(child.tail or '' for child in element)}")
            if text:
                yield f"- {_local_name(element)}: {text}"


def _read_feed(data: bytes, url: str, limits: ExtractLimits) -> Extraction:
    if b"<!ENTITY" in data:
        raise ExtractionFailed("The feed declares entities of its own.", error_type="broken_file", url=url)
    try:
        # As a stream: text would be taken for an address or the name of a file.
        feed = feedparser.parse(io.BytesIO(data), response_headers={"content-location": url})
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        # It trips over some broken feeds in ways of its own.
        raise ExtractionFailed("The feed cannot be read.", error_type="broken_file", url=url) from error
    if not feed.entries and not feed.feed.get("title"):
        raise ExtractionFailed("The feed cannot be read.", error_type="broken_file", url=url)
    title = _text(feed.feed.get("title"))
    parts = [f"# {title}" if title else "", _plain_text(feed.feed.get("subtitle"))]
    links: list[tuple[str, str | None]] = []
    for entry in feed.entries[: limits.blocks]:
        heading, link = _text(entry.get("title")) or "Untitled", entry.get("link") or ""
        parts.append(f"## [{heading}]({link})" if link else f"## {heading}")
        parts.append(" · ".join(part for part in (_iso(entry.get("published_parsed")), entry.get("author")) if part))
        contents = entry.get("content") or [{}]
        parts.append(_plain_text(contents[0].get("value") or entry.get("summary")))
        links.append((link, heading))
    metadata = {
        "description": _text(feed.feed.get("subtitle")),
        "language": _text(feed.feed.get("language")),
        "author": _text(feed.feed.get("author")),
        # By the plain dictionary's way: its own would give the published date for it, with a warning.
        "modified_at": _iso(dict.get(feed.feed, "updated_parsed")),
        "entry_count": len(feed.entries),
    }
    anchors, more_links = _anchors(((link, words) for link, words in links if link), url, limits)
    return Extraction(
        markdown="\n\n".join(part for part in parts if part),
        method="feedparser",
        title=title,
        metadata={name: value for name, value in metadata.items() if value},
        anchors=anchors,
        cuts=name_cuts(links=more_links, blocks=len(feed.entries) > limits.blocks),
    )


def _iso(moment: time.struct_time | None) -> str | None:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", moment) if moment else None


def _plain_text(markup: str | None) -> str:
    """The words of an entry, paragraph by paragraph."""
    if not markup or "<" not in markup:
        return collapse(markup or "")
    page = parse_html(markup)
    return "\n\n".join(block.text for block in cut_blocks(page).blocks) if page is not None else ""


_TEXT_READERS: dict[str, Callable[[str, str, ExtractLimits], Extraction]] = {
    "text": _read_plain,
    "markdown": _read_markdown,
    "csv": _read_csv,
    "tsv": _read_tsv,
    "json": _read_json,
    "jsonl": _read_json_lines,
}
