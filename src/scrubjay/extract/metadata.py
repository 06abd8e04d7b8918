"""What a page says about itself: title, dates, author, language, Open Graph, JSON-LD, headings; in one walk."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from scrubjay.extract.links import base_of, resolve_href
from scrubjay.extract.tree import PageTree, collapse, text_of

MAX_JSON_LD_CHARACTERS = 32_768
MAX_TEXT = 2_000
MAX_HEADINGS = 200
_MAX_TITLE = 500
_MAX_OPEN_GRAPH = 40
_HEADINGS = {f"h{level}": level for level in range(1, 7)}

_SEPARATOR = re.compile(r"\s+[|\-–—·•»:/]{1,2}\s+")
_NOT_A_WORD = re.compile(r"[\W_]+")
_YEAR_FIRST = re.compile(r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})")
_ROBOTS_WORDS = frozenset({"noindex", "nofollow", "none", "noarchive", "nosnippet"})

_PUBLISHED_NAMES = (
    "article:published_time",
    "datepublished",
    "og:published_time",
    "pubdate",
    "publish-date",
    "publishdate",
    "date.issued",
    "dc.date.issued",
    "dcterms.created",
    "citation_publication_date",
    "parsely-pub-date",
    "sailthru.date",
    "dc.date",
    "date",
)
_MODIFIED_NAMES = ("article:modified_time", "datemodified", "og:updated_time", "last-modified", "dcterms.modified")
_AUTHOR_NAMES = ("author", "article:author", "dc.creator", "citation_author", "parsely-author", "sailthru.author")
_DESCRIPTION_NAMES = ("description", "og:description", "twitter:description", "dc.description")
_KEYWORD_NAMES = ("keywords", "news_keywords", "article:tag")
_IMAGE_NAMES = ("og:image", "og:image:url", "og:image:secure_url", "twitter:image", "twitter:image:src")
_SITE_NAMES = ("og:site_name", "application-name", "al:ios:app_name")


_Attributes = dict[str, str | None]


@dataclass(slots=True)
class _Findings:
    """What the walk collected, before it is weighed."""

    metas: dict[str, list[str]] = field(default_factory=dict)
    title: str = ""
    canonical: str | None = None
    headings: list[tuple[int, str]] = field(default_factory=list)
    times: list[tuple[str, str]] = field(default_factory=list)  # (what it is called, its date)
    json_ld: list[Any] = field(default_factory=list)
    json_ld_room: int = MAX_JSON_LD_CHARACTERS

    def first(self, *names: str) -> str | None:
        return next((values[0] for name in names if (values := self.metas.get(name))), None)


def read_metadata(page: PageTree, url: str) -> tuple[str | None, dict[str, Any]]:
    """The page's title, and whatever of the documented metadata it tells."""
    found = _walk(page)
    thing = _main_thing(found.json_ld)
    site_name = found.first(*_SITE_NAMES)
    title = _choose_title(found, thing, site_name, url)
    open_graph = _open_graph(found.metas)
    base = base_of(page, url)
    values: dict[str, Any] = {
        "description": _short(found.first(*_DESCRIPTION_NAMES) or _string(thing.get("description"))),
        "author": _author(found, thing),
        "published_at": _published(found, thing),
        "modified_at": _date(found.first(*_MODIFIED_NAMES)) or _date(_string(thing.get("dateModified"))),
        "language": _language(page, found),
        "keywords": _keywords(found, thing),
        "canonical_url": _address(found.canonical, base) or _address(found.first("og:url"), base),
        "site_name": _short(site_name),
        "image": _address(found.first(*_IMAGE_NAMES), base),
        "open_graph": open_graph,
        "json_ld": found.json_ld,
        "headings": found.headings,
        "robots": _robots(found.metas),
    }
    return title, {name: value for name, value in values.items() if value}


def _walk(page: PageTree) -> _Findings:
    found = _Findings()
    for tag, element in page.telling:
        if tag == "a":  # most are
            continue
        if tag == "meta":
            _read_meta(element.attributes, found)
        elif tag == "link":
            _read_link(element.attributes, found)
        elif tag == "script":
            _read_script(element, found)
        elif tag == "time":
            _read_time(element.attributes, found)
        elif tag == "title":
            # An <svg> has titles too; the page's is the first.
            found.title = found.title or collapse(text_of(element))[:_MAX_TITLE]
        elif tag in _HEADINGS and len(found.headings) < MAX_HEADINGS:
            text = collapse(text_of(element))[:_MAX_TITLE]
            if text:
                found.headings.append((_HEADINGS[tag], text))
    return found


def _read_meta(attributes: _Attributes, found: _Findings) -> None:
    content = attributes.get("content")
    if not content:
        return
    names = map(attributes.get, ("property", "name", "itemprop", "http-equiv"))
    name = next((name for name in names if name), None)
    if name:
        content = collapse(content[: 4 * MAX_TEXT])[:MAX_TEXT]
        if content:
            found.metas.setdefault(name.strip().lower(), []).append(content)


def _read_link(attributes: _Attributes, found: _Findings) -> None:
    rel = attributes.get("rel")
    if rel and found.canonical is None and "canonical" in rel.lower().split():
        found.canonical = attributes.get("href")


def _read_script(element: LexborNode, found: _Findings) -> None:
    """Dozens a page, of which one or two are JSON-LD."""
    if "ld+json" not in (element.attributes.get("type") or ""):
        return
    text = text_of(element).strip()
    if not text or len(text) > found.json_ld_room:
        return
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return  # pages often carry broken JSON-LD; the rest of what they say still counts
    found.json_ld_room -= len(text)
    found.json_ld.extend(value if isinstance(value, list) else [value])


def _read_time(attributes: _Attributes, found: _Findings) -> None:
    date = attributes.get("datetime")
    if date and len(found.times) < MAX_HEADINGS:
        name = f"{attributes.get('itemprop') or ''} {attributes.get('class') or ''}"
        if "pubdate" in attributes:
            name += " pubdate"
        found.times.append((name.lower(), date))


def _short(text: str | None) -> str | None:
    return text[:MAX_TEXT] if text else None


def _string(value: Any) -> str | None:
    """JSON-LD writes a name as text, as an object with a name, or as a list of these."""
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("name") or value.get("@value")
    return collapse(value) if isinstance(value, str) and value.strip() else None


_THINGS = ("Article", "Posting", "Report", "WebPage", "Product", "QAPage", "Recipe", "Event", "Course", "Page", "Book")


def _main_thing(items: list[Any]) -> dict[str, Any]:
    """The JSON-LD object that describes the page itself, if one does."""
    candidates = list(_things(items))
    for ending in _THINGS:
        for item in candidates:
            kinds = item.get("@type")
            for kind in kinds if isinstance(kinds, list) else [kinds]:
                if isinstance(kind, str) and kind.endswith(ending):
                    return item
    return {}


def _things(items: list[Any]) -> Iterator[dict[str, Any]]:
    for item in items:
        if isinstance(item, dict):
            yield item
            graph = item.get("@graph")
            if isinstance(graph, list):
                yield from (part for part in graph if isinstance(part, dict))


def _choose_title(found: _Findings, thing: dict[str, Any], site_name: str | None, url: str) -> str | None:
    """The heading when the page's own title confirms it, else what the page calls itself, without the site's name."""
    given = found.first("og:title", "twitter:title") or found.title
    first_headings = [text for level, text in found.headings if level == 1]
    for heading in first_headings[:3]:
        wordless = _letters(heading)
        if len(wordless) > 2 and (wordless in _letters(found.title) or wordless in _letters(given)):
            return heading
    if given:
        return _without_site(given, site_name, url)[:_MAX_TITLE]
    return first_headings[0] if first_headings else _string(thing.get("headline")) or _string(thing.get("name"))


def _letters(text: str) -> str:
    return _NOT_A_WORD.sub("", text).casefold()


def _without_site(title: str, site_name: str | None, url: str) -> str:
    """The title without a leading or trailing part that is the site's name."""
    parts = list(_SEPARATOR.finditer(title))
    if not parts:
        return title
    head, tail = title[: parts[-1].start()], title[parts[-1].end() :]
    if _names_site(tail, site_name, url) and head:
        return head
    first, rest = title[: parts[0].start()], title[parts[0].end() :]
    if _names_site(first, site_name, url) and rest:
        return rest
    # A short last part behind a bar is a site's name by custom; behind a dash it may be part of the sentence.
    if "|" in parts[-1].group() and len(tail.split()) <= 4 and len(head) > len(tail):
        return head
    return title


def _names_site(part: str, site_name: str | None, url: str) -> bool:
    letters = _letters(part)
    if not letters:
        return True
    if site_name and letters == _letters(site_name):
        return True
    host = (urlsplit(url).hostname or "").removeprefix("www.")
    return len(letters) > 2 and letters in (_letters(host), *(_letters(label) for label in host.split(".")[:-1]))


def _open_graph(metas: dict[str, list[str]]) -> dict[str, str]:
    pairs = [(name[3:], values[0]) for name, values in metas.items() if name.startswith("og:") and len(name) > 3]
    return dict(pairs[:_MAX_OPEN_GRAPH])


def _author(found: _Findings, thing: dict[str, Any]) -> str | None:
    for name in (found.first(*_AUTHOR_NAMES), _string(thing.get("author")), _string(thing.get("creator"))):
        # article:author is often the address of a profile.
        if name and not name.startswith(("http://", "https://")):
            return name[:_MAX_TITLE]
    return None


def _keywords(found: _Findings, thing: dict[str, Any]) -> list[str]:
    given: list[Any] = [text for name in _KEYWORD_NAMES for text in found.metas.get(name, ())]
    if not given:
        keywords = thing.get("keywords")
        given = keywords if isinstance(keywords, list) else [keywords]
    words = [word.strip() for text in given if isinstance(text, str) for word in re.split(r"[,;\n]", text)]
    return list(dict.fromkeys(word[:100] for word in words if word))[:50]


def _language(page: PageTree, found: _Findings) -> str | None:
    attributes = page.root.attributes
    given = attributes.get("lang") or attributes.get("xml:lang")
    given = given or found.first("content-language", "og:locale", "language", "dc.language")
    match = re.match(r"([A-Za-z]{2,3})(?:[-_]([A-Za-z0-9]{2,8}))?", (given or "").strip())
    if match is None:
        return None
    language, region = match.groups()
    return f"{language.lower()}-{region.upper() if len(region) == 2 else region}" if region else language.lower()


def _robots(metas: dict[str, list[str]]) -> list[str]:
    words = {
        word.strip()
        for name in ("robots", "scrubjay")
        for text in metas.get(name, ())
        for word in text.lower().split(",")
    }
    if "none" in words:
        words |= {"noindex", "nofollow"}
    return sorted(words & _ROBOTS_WORDS)


def _published(found: _Findings, thing: dict[str, Any]) -> str | None:
    given = [found.first(name) for name in _PUBLISHED_NAMES]
    given += [_string(thing.get("datePublished")), _string(thing.get("dateCreated"))]
    given += [date for name, date in found.times if "pub" in name or "entry-date" in name]
    if len(found.times) <= 2:
        given += [date for name, date in found.times if "modif" not in name and "updat" not in name]
    return next((date for date in map(_date, given) if date), None)


def _date(text: str | None) -> str | None:
    """An ISO date or date and time; what cannot be read is left out."""
    if not text or len(text) > 64:
        return None
    text = text.strip()
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        read_other = _other_date(text)
        if read_other is None:
            return None
        read = read_other
    if not 1970 <= read.year <= datetime.now(UTC).year + 2:
        return None
    return read.date().isoformat() if len(text) <= 10 else read.isoformat(timespec="seconds")


def _other_date(text: str) -> datetime | None:
    match = _YEAR_FIRST.match(text)
    try:
        if match:
            year, month, day = map(int, match.groups())
            return datetime(year, month, day)  # noqa: DTZ001 - only its date is known
        return parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        pass
    for pattern in ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%Y%m%d", "%Y-%m-%dT%H:%M:%S%z"):
        try:
            return datetime.strptime(text, pattern)  # noqa: DTZ007 - the page gives no zone
        except ValueError:
            continue
    return None


def _address(href: str | None, url: str) -> str | None:
    return resolve_href(href, url) if href else None
