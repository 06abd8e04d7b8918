"""Bytes of a sitemap to its entries: XML sitemaps and indexes, RSS and Atom feeds, lists of addresses, gzipped or not.

Parsed by expat as a stream, without a tree, so that no content makes it take more than its own size of memory.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from xml.parsers import expat

from scrubjay.errors import UrlInvalid
from scrubjay.model.urls import MAX_URL_LENGTH, parse_url

MAX_SITEMAP_BYTES = 50 * 1024 * 1024  # both limits are those of sitemaps.org
MAX_SITEMAP_URLS = 50_000
_CHUNK_BYTES = 64 * 1024
_LONGEST_TEXT = 2 * MAX_URL_LENGTH
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_BARE_AMPERSAND = re.compile(rb"&(?!#?\w{1,30};)")
_LONGEST_REFERENCE = 32
_ROOTS = {"urlset": "url", "sitemapindex": "sitemap", "rss": "item", "RDF": "item", "feed": "entry"}
_FIELDS = frozenset(
    {"loc", "lastmod", "changefreq", "priority", "link", "guid", "pubDate", "date", "updated", "published"}
)
_FREQUENCIES = frozenset({"always", "hourly", "daily", "weekly", "monthly", "yearly", "never"})


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    url: str
    lastmod: datetime | None = None
    changefreq: str | None = None
    priority: float | None = None
    sitemap: str | None = None  # where it was listed


@dataclass(frozen=True, slots=True)
class SitemapProblem:
    url: str
    error_type: str
    message: str


@dataclass(slots=True)
class ParsedSitemap:
    """What one file had in it. A problem in its middle leaves what came before it."""

    entries: list[SitemapEntry] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    problems: list[SitemapProblem] = field(default_factory=list)


class _Stop(Exception):
    """Nothing more is read from this file."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


def parse_sitemap(source: bytes | Path, url: str, *, truncated: bool = False) -> ParsedSitemap:
    """Everything that a file lists, and at most one problem about its content and one about its addresses."""
    parsed = _parse(source, url, mend=False)
    if any(problem.error_type == "bad_xml" for problem in parsed.problems):
        # The mistake that sites make most: `?a=1&b=2` as it is. Not mended at once, because in CDATA it is right.
        mended = _parse(source, url, mend=True)
        if len(mended.entries) + len(mended.children) > len(parsed.entries) + len(parsed.children):
            parsed = mended
    if truncated:
        kept = [problem for problem in parsed.problems if problem.error_type == "invalid_url"]
        parsed.problems = [*kept, SitemapProblem(url, "too_large", _too_large().args[0])]
    return parsed


def _parse(source: bytes | Path, url: str, *, mend: bool) -> ParsedSitemap:
    reading = _SitemapHandler(url)
    try:
        chunks = _limit(_unpack(_chunks(source)))
        first = next(chunks, b"")
        if _looks_like_xml(first):
            reading.read_xml(_mend(first, chunks) if mend else _chain(first, chunks))
        else:
            reading.read_lines(_chain(first, chunks))
    except _Stop as stop:
        reading.note(stop.error_type, str(stop))
    except expat.ExpatError as error:
        reading.note("bad_xml", f"This is not well-formed XML: {error}.")
    except zlib.error as error:
        reading.note("bad_encoding", f"The gzip content is broken: {error}.")
    return reading.finish()


class _SitemapHandler:
    """The state of reading one file: expat calls it for every start, text and end."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._parsed = ParsedSitemap()
        self._invalid = 0
        self._path: list[str] = []
        self._entry_tag = ""
        self._fields: dict[str, str] = {}
        self._text: list[str] | None = None
        self._text_size = 0

    def note(self, error_type: str, message: str) -> None:
        self._parsed.problems.append(SitemapProblem(self._url, error_type, message))

    def finish(self) -> ParsedSitemap:
        if self._invalid:
            self.note("invalid_url", f"{self._invalid} of its addresses cannot be fetched.")
        return self._parsed

    def read_lines(self, chunks: Iterator[bytes]) -> None:
        rest = b""
        seen_any = False
        for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                seen_any |= self._add_line(line)
            if len(rest) > _LONGEST_TEXT:
                raise _not_a_sitemap()
        seen_any |= self._add_line(rest)
        if not seen_any:
            raise _not_a_sitemap()

    def _add_line(self, line: bytes) -> bool:
        text = line.strip(b"\xef\xbb\xbf \t\r\x00").decode("utf-8", "replace")
        if not text:
            return False
        if not text.startswith(("http://", "https://")):
            raise _not_a_sitemap()
        self._add(text, {})
        return True

    def read_xml(self, chunks: Iterator[bytes]) -> None:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = _refuse_entities
        for chunk in chunks:
            parser.Parse(chunk, False)
        parser.Parse(b"", True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(":")[2]
        if not self._path:
            if tag not in _ROOTS:
                raise _not_a_sitemap()
            self._entry_tag = _ROOTS[tag]
        inside = bool(self._path) and self._path[-1] == self._entry_tag
        self._path.append(tag)
        if tag == self._entry_tag:
            self._fields = {}
        elif inside and tag in _FIELDS:
            self._text, self._text_size = [], 0
            if tag == "link" and "href" in attributes:
                self._take_atom_link(attributes)
            elif tag == "guid" and attributes.get("isPermaLink") == "false":
                self._text = None

    def _take_atom_link(self, attributes: dict[str, str]) -> None:
        if attributes.get("rel", "alternate") == "alternate":
            self._fields.setdefault("link", attributes["href"])
        self._text = None

    def _characters(self, data: str) -> None:
        if self._text is not None and self._text_size <= _LONGEST_TEXT:
            self._text.append(data)
            self._text_size += len(data)

    def _end(self, name: str) -> None:
        tag = self._path.pop()
        if self._text is not None and tag in _FIELDS:
            self._fields.setdefault(tag, "".join(self._text).strip())
            self._text = None
        elif tag == self._entry_tag:
            fields, self._fields = self._fields, {}
            address = fields.get("loc") or fields.get("link") or fields.get("guid")
            if address:
                self._add(address, fields)

    def _add(self, address: str, fields: dict[str, str]) -> None:
        if len(self._parsed.entries) + len(self._parsed.children) >= MAX_SITEMAP_URLS:
            raise _Stop("too_many_urls", f"Only the first {MAX_SITEMAP_URLS:,} addresses of this sitemap were taken.")
        try:
            url = parse_url(address, self._url).text
        except UrlInvalid:
            self._invalid += 1
            return
        if self._entry_tag == "sitemap":
            self._parsed.children.append(url)
            return
        when = next(
            (fields[name] for name in ("lastmod", "updated", "pubDate", "published", "date") if name in fields), ""
        )
        frequency = fields.get("changefreq", "").lower()
        self._parsed.entries.append(
            SitemapEntry(
                url=url,
                lastmod=parse_lastmod(when) if when else None,
                changefreq=frequency if frequency in _FREQUENCIES else None,
                priority=_priority(fields.get("priority")),
                sitemap=self._url,
            )
        )


def parse_lastmod(text: str) -> datetime | None:
    """W3C dates in all their lengths, and the dates of RSS; UTC when they do not say."""
    padded = f"{text}-01-01"[:10] if re.fullmatch(r"\d{4}(-\d\d)?", text) else text
    try:
        when = datetime.fromisoformat(padded)
    except ValueError:
        try:
            when = parsedate_to_datetime(text)
        except ValueError:
            return None
    try:
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except OverflowError:
        return None


def _priority(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value <= 1 else None


def _refuse_entities(*_: object) -> None:
    raise _Stop("xml_entities", "The sitemap declares XML entities, which no sitemap needs.")


def _not_a_sitemap() -> _Stop:
    return _Stop("not_a_sitemap", "This is neither a sitemap nor a feed nor a list of addresses.")


def _too_large() -> _Stop:
    return _Stop("too_large", f"Only the first {MAX_SITEMAP_BYTES:,} bytes of this sitemap were read.")


def _looks_like_xml(start: bytes) -> bool:
    return start.startswith(_BYTE_ORDER_MARKS[1:]) or start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def _chunks(source: bytes | Path) -> Iterator[bytes]:
    if isinstance(source, bytes):
        for start in range(0, len(source), _CHUNK_BYTES):
            yield source[start : start + _CHUNK_BYTES]
        return
    with source.open("rb") as opened:
        while chunk := opened.read(_CHUNK_BYTES):
            yield chunk


def _unpack(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Gzip by its first two bytes: neither the name nor the content type says it reliably."""
    first = next(chunks, b"")
    if not first.startswith(_GZIP_MAGIC):
        # Some sites print blank lines before the XML declaration, which must come first.
        yield from _chain(first.lstrip(b" \t\r\n"), chunks)
        return
    decoder = zlib.decompressobj(31)
    for chunk in _chain(first, chunks):
        data = chunk
        while data:
            yield decoder.decompress(data, _CHUNK_BYTES)
            data = decoder.unconsumed_tail
            if decoder.eof:
                data = decoder.unused_data
                if not data.startswith(_GZIP_MAGIC):
                    return
                decoder = zlib.decompressobj(31)
    if not decoder.eof:
        raise _Stop("bad_encoding", "The gzip content ends too early.")


def _limit(chunks: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_SITEMAP_BYTES:
            raise _too_large()
        if chunk:
            yield chunk


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _mend(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """Bare ampersands escaped; one near a chunk's end waits for the next chunk to tell what it is."""
    held = b""
    for chunk in _chain(first, rest):
        data = held + chunk
        start = data.rfind(b"&", max(0, len(data) - _LONGEST_REFERENCE))
        data, held = (data, b"") if start < 0 else (data[:start], data[start:])
        yield _BARE_AMPERSAND.sub(b"&amp;", data)
    yield _BARE_AMPERSAND.sub(b"&amp;", held)
