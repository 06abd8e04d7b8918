"""Traps: places where a site makes up ever more addresses for whoever follows its links.

`strip_session` takes out what makes one page look like many; `find_trap` tells from an address, and the page it was
found on, that it leads into a trap; `TrapMemory` notices the rest while the crawl goes on.
"""

import re
from collections import OrderedDict

from scrubjay.model.clock import utc_now

MAX_QUERY_PARAMETERS = 10
MAX_SEGMENTS = 24
MAX_GROWING_SEGMENTS = 12
MAX_PATH_LENGTH = 1024
MAX_QUERY_LENGTH = 1024
REPETITIONS = 3
SCATTERED_REPETITIONS = 4

CALENDAR = "trap:calendar"
SESSION = "trap:session"
REPETITION = "trap:repetition"
PARAMETERS = "trap:parameters"
GROWING = "trap:growing"
DUPLICATES = "trap:duplicates"

# Archives reach back far; nobody writes about a month that is years away. Calendars are empty long before either.
_OLDEST_ARCHIVE_YEAR = 1800
_YEARS_AHEAD = 2
_CALENDAR_YEARS_BACK = 10
_DATE_PATH = re.compile(r"/(\d{4})[/-](?:0?[1-9]|1[0-2])(?:[/-](?:0?[1-9]|[12]\d|3[01]))?(?=/|$)")
_CALENDAR_WORD = re.compile(
    r"/cal(?=/)|calend[ae]r|kalender|calendrier|calendario|agenda|events?\b|termine|veranstaltung|schedule|availability|booking",
    re.IGNORECASE,
)
_YEAR_NAME = re.compile(r"(?:^|[_-])(?:year|yr|jahr|annee|ano|yyyy|cal_?y)$", re.IGNORECASE)
_MONTH_NAME = re.compile(r"(?:^|[_-])(?:month|mon|monat|mois|mes|mm|m|cal_?m|day|tag|week)$", re.IGNORECASE)
_DATE_NAME = re.compile(r"date|day|month|week|calendar|kalender|^(?:from|to|start|end|d)$", re.IGNORECASE)
_DATE_VALUE = re.compile(r"(\d{4})-?(?:0[1-9]|1[0-2])(?:-?(?:0[1-9]|[12]\d|3[01]))?(?!\d)")

_SESSION_NAME = (
    r"(?:jsessionid|php_?sess(?:ion)?_?id|phpsessid|aspsessionid\w*|asp\.net_sessionid|"
    r"cfid|cftoken|oscsid|zenid|session_?id|sess_?id|s?sid|sessiontoken)"
)
# Names as short as `sid` also mean other things: what they hold must look like a token. The long names need no proof.
_SURE_NAME = r"(?:jsessionid|php_?sess(?:ion)?_?id|phpsessid|aspsessionid\w*|asp\.net_sessionid|oscsid|zenid|cftoken)"
_TOKEN = r"(?=[0-9a-z_-]*\d)(?=[0-9a-z_-]*[a-z])[0-9a-z_-]{16,}|\d{20,}"  # noqa: S105 - a pattern
_SESSION_PARAMETER = re.compile(rf"(?:{_SURE_NAME}=.*|{_SESSION_NAME}=(?:{_TOKEN}))", re.IGNORECASE)
_PATH_PARAMETER = re.compile(rf";(?:{_SURE_NAME}=[^/;]*|{_SESSION_NAME}=(?:{_TOKEN}))(?=/|;|$)", re.IGNORECASE)
_ASP_SEGMENT = re.compile(r"/\([A-Z]\([0-9a-z]{20,}\)\)", re.IGNORECASE)
_SESSION_SEGMENT = re.compile(rf"/{_SESSION_NAME}[=:_-](?:{_TOKEN})(?=/|$)", re.IGNORECASE)
_SESSION_HINT = re.compile(r"sess|sid[=:_-]|cfid|cftoken|zenid|/\([a-z]\(", re.IGNORECASE)

_NUMBER = re.compile(r"\d+")
_LONG_HEX = re.compile(r"[0-9a-f]{8,}", re.IGNORECASE)


def strip_session(url: str) -> str:
    """The address without its session id, where it can be taken out without leading elsewhere."""
    if not _SESSION_HINT.search(url):
        return url
    start, question, query = url.partition("?")
    start = _ASP_SEGMENT.sub("", _PATH_PARAMETER.sub("", start))
    kept = "&".join(part for part in query.split("&") if part and not _SESSION_PARAMETER.fullmatch(part))
    return f"{start}?{kept}" if question and kept else start


def find_trap(url: str, parent: str | None = None, *, this_year: int | None = None) -> str | None:
    """Why this normalised address leads into a trap, in a word, or None. `parent` is the page that links it."""
    path, query = _path_and_query(url)
    segments = [segment for segment in path.split("/") if segment]
    if _is_growing(path, query, segments, parent):
        return GROWING
    if query.count("&") >= MAX_QUERY_PARAMETERS:
        return PARAMETERS
    if len(segments) >= REPETITIONS and _is_repeating(segments):
        return REPETITION
    if _SESSION_HINT.search(path) and _SESSION_SEGMENT.search(path):
        return SESSION
    if _is_calendar(path, query, this_year or utc_now().year):
        return CALENDAR
    return None


def _path_and_query(url: str) -> tuple[str, str]:
    start = url.find("/", url.find("://") + 3)
    path, _, query = url[start:].partition("?") if start >= 0 else ("/", "", "")
    return path, query


def _is_growing(path: str, query: str, segments: list[str], parent: str | None) -> bool:
    if len(segments) > MAX_SEGMENTS or len(path) > MAX_PATH_LENGTH or len(query) > MAX_QUERY_LENGTH:
        return True
    # An address inside an address inside an address: each visit wraps the last one once more.
    if "%252525" in query or "%25253" in query or "%25252F" in query:
        return True
    if len(segments) <= MAX_GROWING_SEGMENTS or parent is None:
        return False
    return path.startswith(_path_and_query(parent)[0].rstrip("/") + "/")


def _is_repeating(segments: list[str]) -> bool:
    if len(set(segments)) > len(segments) - (REPETITIONS - 1):
        return False  # too few are the same for any of what follows
    for period in range(1, len(segments) // REPETITIONS + 1):
        run = 0
        for index in range(period, len(segments)):
            run = run + 1 if segments[index] == segments[index - period] else 0
            # Numbers are dates and versions: 11/11/11 is a day.
            if run >= period * (REPETITIONS - 1) and not (period == 1 and segments[index].isdecimal()):
                return True
    words = [segment for segment in segments if not segment.isdecimal()]
    return any(words.count(word) >= SCATTERED_REPETITIONS for word in set(words))


def _is_calendar(path: str, query: str, this_year: int) -> bool:
    found = _DATE_PATH.search(path)
    if found is not None:
        year = int(found[1])
        if year > this_year + _YEARS_AHEAD or year < _OLDEST_ARCHIVE_YEAR:
            return True
        # With something after the date it is an article; without, a page of a calendar.
        if found.end() >= len(path.rstrip("/")) and _CALENDAR_WORD.search(path):
            return year < this_year - _CALENDAR_YEARS_BACK
    if not query:
        return False
    asked = _year_in_query(query)
    return asked is not None and not this_year - _CALENDAR_YEARS_BACK <= asked <= this_year + _YEARS_AHEAD


def _year_in_query(query: str) -> int | None:
    """The year of the month or day that a query asks for; a year by itself is a filter, not a calendar."""
    year: int | None = None
    month = False
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if value.isdecimal() and len(value) <= 4:
            if len(value) == 4 and _YEAR_NAME.search(name):
                year = int(value)
            elif _MONTH_NAME.search(name):
                month = True
        elif value[:4].isdecimal() and _DATE_NAME.search(name):
            dated = _DATE_VALUE.match(value)
            if dated is not None:
                return int(dated[1])
    return year if month else None


def shape_of(url: str) -> str:
    """What addresses of one kind have in common: numbers and long hexadecimal parts are replaced by a letter."""
    return _NUMBER.sub("N", _LONG_HEX.sub(_shorten_hex, url))


def _shorten_hex(found: re.Match[str]) -> str:
    """A word of the letters a to f alone is a word."""
    return "H" if any(map(str.isdigit, found[0])) else found[0]


class _Shape:
    """The pages of one shape: how many were fetched, how many of them had content of their own."""

    __slots__ = ("contents", "cut", "fetched", "fresh")

    def __init__(self) -> None:
        self.fetched = 0
        self.fresh = 0
        self.contents: OrderedDict[int, None] = OrderedDict()
        self.cut = False


class TrapMemory:
    """Cuts off shapes of addresses that bring the same content over and over. Its size is bounded."""

    def __init__(
        self, *, enough: int = 50, least_fresh_share: float = 0.1, max_shapes: int = 10_000, max_contents: int = 64
    ) -> None:
        self._enough = enough
        self._least_fresh_share = least_fresh_share
        self._max_shapes = max_shapes
        self._max_contents = max_contents
        self._shapes: OrderedDict[str, _Shape] = OrderedDict()

    def find_trap(self, url: str) -> str | None:
        """`trap:duplicates` when addresses of this shape are no longer worth fetching."""
        shape = self._shapes.get(shape_of(url))
        return DUPLICATES if shape is not None and shape.cut else None

    def learn(self, url: str, content_hash: str) -> None:
        """Tell what a fetched page contained."""
        key = shape_of(url)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = _Shape()
            if len(self._shapes) > self._max_shapes:
                self._shapes.popitem(last=False)
        else:
            self._shapes.move_to_end(key)
        content = hash(content_hash)
        shape.fetched += 1
        if content in shape.contents:
            shape.contents.move_to_end(content)
        else:
            shape.fresh += 1
            shape.contents[content] = None
            if len(shape.contents) > self._max_contents:
                shape.contents.popitem(last=False)
        self._judge(shape)

    def _judge(self, shape: _Shape) -> None:
        if shape.fetched < self._enough:
            return
        if shape.fresh < shape.fetched * self._least_fresh_share:
            shape.cut = True
        elif shape.fetched >= 2 * self._enough:
            # A shape that was good for long may still run dry: what is older counts half.
            shape.fetched //= 2
            shape.fresh //= 2
