"""Bytes of a feed to its entries: RSS and Atom by feedparser, JSON Feed by ourselves."""

import hashlib
import io
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin
from xml.sax import SAXException

from scrubjay.crawler.sitemap_parsing import parse_lastmod
from scrubjay.errors import FetchFailed, UrlInvalid
from scrubjay.extract.tree import parse_html, text_of
from scrubjay.model.urls import normal_form, parse_url

_HTML_START = re.compile(rb"\s*+<(!doctype\s+html|html)\b", re.IGNORECASE)
_JSON_FEED = re.compile(r"https?://(www\.)?jsonfeed\.org/version/1")
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_NOT_A_FEED = "This is neither RSS nor Atom nor a JSON Feed."


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEntry:
    key: str  # its id, else its link, else a hash of title and date
    title: str | None = None
    link: str | None = None  # can be fetched; possibly with a fragment
    text: str = field(default="", repr=False)
    is_html: bool = False
    published_at: datetime | None = None
    updated_at: datetime | None = None
    author: str | None = None
    tags: tuple[str, ...] = ()
    language: str | None = None

    @property
    def page_url(self) -> str | None:
        """The address of the page that the entry links to."""
        return None if self.link is None else parse_url(self.link).text


@dataclass(slots=True, kw_only=True)
class Feed:
    url: str
    title: str | None = None
    language: str | None = None
    entries: dict[str, FeedEntry] = field(default_factory=dict)  # by key, in the feed's order
    problems: list[str] = field(default_factory=list)
    _links: Counter[str] = field(default_factory=Counter)

    def has_own_page(self, entry: FeedEntry) -> bool:
        """Whether the entry's link is the address of this entry alone.

        Fragments are not part of a document's address: `/changes#1` and `/changes#2` would be one document.
        """
        page = entry.page_url
        return page is not None and "#" not in (entry.link or "") and self._links[normal_form(page)] == 1

    def add(self, entries: Iterable[FeedEntry | None]) -> None:
        nameless = repeated = 0
        for entry in entries:
            if entry is None:
                nameless += 1
            elif self.entries.setdefault(entry.key, entry) is not entry:
                repeated += 1
        self._links.update(normal_form(page) for entry in self.entries.values() if (page := entry.page_url))
        if nameless:
            self.problems.append(f"{nameless} entries have neither an id nor a link, title or date, and were left out.")
        if repeated:
            self.problems.append(f"{repeated} entries have the id of another one and were left out.")


def parse_feed(data: bytes, url: str, content_type: str | None = None) -> Feed:
    """The feed that was found at an address. FetchFailed with the error_type not_a_feed when it is none."""
    start = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"{"):
        return _read_json_feed(data, url)
    if not start or _HTML_START.match(start):
        raise _not_a_feed(url)
    if b"<!ENTITY" in data:
        raise _not_a_feed(url, "It declares XML entities, which no feed needs.")
    return _read_xml_feed(data, url, content_type)


def _not_a_feed(url: str, reason: str = _NOT_A_FEED) -> FetchFailed:
    return FetchFailed(f"There is no feed at {url}: {reason}", error_type="not_a_feed")


def _read_xml_feed(data: bytes, url: str, content_type: str | None) -> Feed:
    import feedparser  # here, because a crawl of pages has no use for it

    headers = {"content-location": url, **({"content-type": content_type} if content_type else {})}
    try:
        # As a stream: text would be taken for an address or the name of a file.
        parsed = feedparser.parse(io.BytesIO(data), response_headers=headers, sanitize_html=False)
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        # It trips over some broken feeds in ways of its own.
        raise _not_a_feed(url, "It cannot be read.") from error
    broken = isinstance(parsed.get("bozo_exception"), SAXException)
    if not parsed.entries and (broken or not parsed.get("version")):
        raise _not_a_feed(url)
    feed = Feed(url=url, title=_words(parsed.feed, "title"), language=_text(parsed.feed.get("language")))
    if broken:
        feed.problems.append(f"The feed is not well-formed XML: {parsed.bozo_exception}.")
    feed.add(_read_entry(entry, url) for entry in parsed.entries)
    return feed


def _read_entry(entry: dict[str, Any], url: str) -> FeedEntry | None:
    text, is_html = _content_of(entry)
    return _entry(
        id_=_text(entry.get("id")),
        title=_words(entry, "title"),
        link=_whole(entry.get("link"), url),
        text=text,
        is_html=is_html,
        # By the plain dictionary's way: feedparser's own would give one date for the other, with a warning.
        published_at=_moment(dict.get(entry, "published_parsed")),
        updated_at=_moment(dict.get(entry, "updated_parsed")),
        author=_text(entry.get("author")),
        tags=_texts(tag.get("term") for tag in entry.get("tags") or ()),
    )


def _content_of(entry: Mapping[str, Any]) -> tuple[str, bool]:
    """What the entry says at its longest, and whether that is HTML."""
    candidates = [*(entry.get("content") or ()), entry.get("summary_detail") or {}]
    texts = [
        each
        for each in candidates
        if each.get("value") and str(each.get("type", "text/")).startswith(("text/", "application/xhtml"))
    ]
    if not texts:
        return "", False
    longest = max(texts, key=lambda each: len(each["value"]))
    return str(longest["value"]), longest.get("type") in _HTML_TYPES


def _read_json_feed(data: bytes, url: str) -> Feed:
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _not_a_feed(url, "The JSON is broken.") from error
    items = value.get("items")
    if not _JSON_FEED.match(str(value.get("version"))) or not isinstance(items, list):
        raise _not_a_feed(url)
    feed = Feed(url=url, title=_text(value.get("title")), language=_text(value.get("language")))
    feed.add(_read_item(item, url) if isinstance(item, Mapping) else None for item in items)
    return feed


def _read_item(item: Mapping[str, Any], url: str) -> FeedEntry | None:
    html = _text(item.get("content_html"))
    authors = item.get("authors") if isinstance(item.get("authors"), list) else [item.get("author")]
    names = _texts(author.get("name") for author in authors or () if isinstance(author, Mapping))
    tags = item.get("tags")
    return _entry(
        id_=_text(item.get("id")),
        title=_text(item.get("title")),
        link=_whole(item.get("url") or item.get("external_url"), url),
        text=html or _text(item.get("content_text")) or _text(item.get("summary")) or "",
        is_html=html is not None,
        published_at=parse_lastmod(_text(item.get("date_published")) or ""),
        updated_at=parse_lastmod(_text(item.get("date_modified")) or ""),
        author=", ".join(names) or None,
        tags=_texts(tags if isinstance(tags, list) else ()),
        language=_text(item.get("language")),
    )


def _entry(*, id_: str | None, **facts: Any) -> FeedEntry | None:
    """The entry, if there is anything to know it by."""
    moment = facts["published_at"] or facts["updated_at"]
    key = id_ or facts["link"]
    if key is None and (facts["title"] or moment):
        key = "sha256:" + hashlib.sha256(f"{facts['title']}\n{moment}".encode("utf-8", "replace")).hexdigest()
    return None if key is None else FeedEntry(key=key, **facts)


def _whole(link: Any, base: str) -> str | None:
    """A link that leads to a page. feedparser also takes an id for one, whatever it is."""
    try:
        whole = urljoin(base, text) if (text := _text(link)) else None
        if whole is not None:
            parse_url(whole)
    except (ValueError, UrlInvalid):
        return None
    return whole


def _text(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # ids of JSON feeds often are numbers
    return value.strip() or None if isinstance(value, str) else None


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for value in values if (text := _text(value))))


def _words(facts: Mapping[str, Any], name: str) -> str | None:
    """A title without its markup, on one line."""
    text = _text(facts.get(name))
    if text and "<" in text and (facts.get(f"{name}_detail") or {}).get("type") in _HTML_TYPES:
        page = parse_html(text)
        text = text if page is None else text_of(page.body)
    return " ".join(text.split()) or None if text else None


def _moment(parsed: time.struct_time | Sequence[int] | None) -> datetime | None:
    """feedparser gives UTC, and seconds up to 61."""
    if parsed is None:
        return None
    year, month, day, hour, minute, second = parsed[:6]
    try:
        return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None
