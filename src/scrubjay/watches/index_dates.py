"""When the files of a sitemap index changed, as the index says: the parser of sitemaps only tells which there are."""

from datetime import datetime
from xml.parsers import expat

from scrubjay.crawler.sitemap_parsing import parse_lastmod
from scrubjay.errors import UrlInvalid
from scrubjay.model.urls import parse_url

_FIELDS = ("loc", "lastmod")
_LONGEST_TEXT = 4096


class _EntityDeclared(Exception):
    """Entities are declared, which no sitemap needs."""


def read_index_dates(data: bytes, url: str) -> dict[str, datetime]:
    """Address of a file → its lastmod. What cannot be read has none, and is then asked for by its validators."""
    reading = _SitemapIndexHandler(url)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reading.start
    parser.EndElementHandler = reading.end
    parser.CharacterDataHandler = reading.characters
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(data.lstrip(b" \t\r\n"), True)
    except (expat.ExpatError, _EntityDeclared):
        return reading.dates  # what came before the mistake holds
    return reading.dates


def _refuse(*_: object) -> None:
    raise _EntityDeclared


class _SitemapIndexHandler:
    def __init__(self, url: str) -> None:
        self._url = url
        self._field: str | None = None
        self._text = ""
        self._fields: dict[str, str] = {}
        self.dates: dict[str, datetime] = {}

    def start(self, name: str, _: dict[str, str]) -> None:
        tag = name.rpartition(":")[2]
        if tag == "sitemap":
            self._fields = {}
        self._field, self._text = (tag if tag in _FIELDS else None), ""

    def characters(self, data: str) -> None:
        if self._field is not None and len(self._text) < _LONGEST_TEXT:
            self._text += data

    def end(self, name: str) -> None:
        tag = name.rpartition(":")[2]
        if tag == self._field:
            self._fields.setdefault(tag, self._text.strip())
        elif tag == "sitemap":
            self._note()
        self._field = None

    def _note(self) -> None:
        changed = parse_lastmod(self._fields.get("lastmod", ""))
        try:
            url = parse_url(self._fields.get("loc", ""), self._url).text
        except UrlInvalid:
            return
        if changed is not None:
            self.dates[url] = changed
