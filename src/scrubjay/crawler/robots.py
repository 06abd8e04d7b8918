"""robots.txt by RFC 9309: fetched once per origin, kept for a day, and asked before every page.

Rules are matched by protego. A host that cannot give its robots.txt is left alone for now, not taken as open.
"""

import asyncio
import json
import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from weakref import WeakValueDictionary

from protego import Protego

from scrubjay.crawler.fetcher import USER_AGENT, FetchRequest, FetchResponse
from scrubjay.crawler.fetching import Fetching
from scrubjay.errors import FetchFailed, Unavailable, UrlBlocked
from scrubjay.model.urls import Url, parse_url
from scrubjay.storage import cache_keys
from scrubjay.storage.cache import Cache
from scrubjay.telemetry import get_logger

MAX_ROBOTS_BYTES = 512 * 1024  # RFC 9309 asks for at least 500 KiB
MAX_REDIRECTS = 5
MAX_SITEMAPS = 500
FRESH_SECONDS = 24 * 60 * 60
TIMEOUT_SECONDS = 20.0
PARSED_ORIGINS = 1000
PARSED_BYTES = 8 * 1024 * 1024
_IN_THREAD_BYTES = 32 * 1024  # parsing this much takes longer than a page may hold up the others
# A redirect that leads nowhere means that there is no robots.txt (RFC 9309, 2.3.1.2).
_LIKE_ABSENT = frozenset({"too_many_redirects", "redirect_loop", "bad_redirect"})
_COMPATIBLE = re.compile(r"\(\s*compatible;\s*([A-Za-z_-]+)")
_PRODUCT = re.compile(r"\s*([A-Za-z_-]+)")

log = get_logger(__name__)


class RobotsState(StrEnum):
    PRESENT = "present"
    ABSENT = "absent"  # the host says that there is none: everything is allowed
    UNREACHABLE = "unreachable"  # the host cannot say: nothing is allowed for now


class RobotsReason(StrEnum):
    ALLOWED = "allowed"
    NO_ROBOTS = "no_robots"
    DISALLOWED = "robots_disallowed"
    UNREACHABLE = "robots_unreachable"


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    """Whether a page may be fetched. `temporary` says that it is worth asking again later."""

    allowed: bool
    reason: RobotsReason
    crawl_delay_seconds: float | None = None
    message: str | None = None

    @property
    def temporary(self) -> bool:
        return self.reason is RobotsReason.UNREACHABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsFile:
    """What came back for one origin; this is what the shared cache holds."""

    state: RobotsState
    fetched_at: float
    status: int | None = None
    message: str | None = None
    truncated: bool = False
    body: bytes = b""

    def dump(self) -> bytes:
        head = {
            "state": self.state,
            "fetched_at": self.fetched_at,
            "status": self.status,
            "message": self.message,
            "truncated": self.truncated,
        }
        return json.dumps(head).encode() + b"\n" + self.body

    @classmethod
    def load(cls, data: bytes) -> "RobotsFile":
        head, _, body = data.partition(b"\n")
        facts = json.loads(head)
        return cls(**(facts | {"state": RobotsState(facts["state"])}), body=body)


class RobotsRules:
    """The parsed rules of one origin."""

    def __init__(self, origin: str, file: RobotsFile) -> None:
        self.origin = origin
        self.file = file
        self._parser = Protego.parse(_text_of(file))
        self.sitemaps = tuple(dict.fromkeys(self._parser.sitemaps))[:MAX_SITEMAPS]

    @property
    def state(self) -> RobotsState:
        return self.file.state

    def allows(self, url: str, user_agent: str = USER_AGENT) -> bool:
        """`url` is the one that will be requested: `/private/` and `/private` are different to a rule."""
        if self.state is RobotsState.UNREACHABLE:
            return False
        return bool(self._parser.can_fetch(url, product_token(user_agent)))

    def crawl_delay_seconds(self, user_agent: str = USER_AGENT) -> float | None:
        own: float | None = self._parser.crawl_delay(product_token(user_agent))
        if own is not None:
            return own
        everyone: float | None = self._parser.crawl_delay("*")
        return everyone

    def verdict(self, url: str, user_agent: str = USER_AGENT) -> RobotsVerdict:
        if self.state is RobotsState.UNREACHABLE:
            return RobotsVerdict(False, RobotsReason.UNREACHABLE, message=self.file.message)
        delay = self.crawl_delay_seconds(user_agent)
        if self.state is RobotsState.ABSENT:
            return RobotsVerdict(True, RobotsReason.NO_ROBOTS, delay)
        if self.allows(url, user_agent):
            return RobotsVerdict(True, RobotsReason.ALLOWED, delay)
        return RobotsVerdict(False, RobotsReason.DISALLOWED, delay, f"The robots.txt of {self.origin} says no.")


class Robots:
    """The rules of every origin that a crawl meets. Processes share what was fetched through the cache."""

    def __init__(self, fetcher: Fetching, cache: Cache, *, user_agent: str = USER_AGENT) -> None:
        self._fetcher = fetcher
        self._cache = cache
        self._user_agent = user_agent
        self._parsed: OrderedDict[str, tuple[float, RobotsRules]] = OrderedDict()
        self._parsed_bytes = 0
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def allowed(self, url: str) -> RobotsVerdict:
        """Whether this very address may be requested now; a redirect's target is to be asked for anew."""
        return (await self.rules_for(url)).verdict(url, self._user_agent)

    async def rules_for(self, url: str) -> RobotsRules:
        """The rules of the address's origin. UrlBlocked when the origin itself must not be reached."""
        # What begins like an origin that is known needs no parsing: this is asked for every page.
        known = self._recall(url[: url.find("/", len("https://"))])
        if known is not None:
            return known
        parsed = parse_url(url)
        origin = origin_of(parsed)
        known = self._recall(origin)
        if known is not None:
            return known
        lock = self._locks.setdefault(origin, asyncio.Lock())
        async with lock:
            known = self._recall(origin)
            if known is None:
                known = await self._load(parsed, origin)
                self._remember(origin, known)
        return known

    async def _load(self, url: Url, origin: str) -> RobotsRules:
        stored = await self._read_cache(origin)
        if stored is None or _age(stored) >= _fresh_seconds(stored.state):
            fetched = await self._fetch(url, origin)
            if fetched.state is RobotsState.UNREACHABLE and stored is not None and stored.state is RobotsState.PRESENT:
                log.info("robots_kept", origin=origin, reason=fetched.message)
            else:
                stored = fetched
                await self._write_cache(origin, stored)
        if len(stored.body) > _IN_THREAD_BYTES:
            return await asyncio.to_thread(RobotsRules, origin, stored)
        return RobotsRules(origin, stored)

    async def _fetch(self, url: Url, origin: str) -> RobotsFile:
        request = FetchRequest(
            url=f"{origin}/robots.txt",
            timeout_seconds=TIMEOUT_SECONDS,
            max_bytes=MAX_ROBOTS_BYTES,
            truncate=True,
            max_redirects=MAX_REDIRECTS,
        )
        try:
            return _file_of(await self._fetcher.fetch(request))
        except FetchFailed as error:
            state = RobotsState.ABSENT if error.error_type in _LIKE_ABSENT else RobotsState.UNREACHABLE
            return RobotsFile(state=state, fetched_at=time.time(), message=error.message)
        except UrlBlocked as error:
            # Of the origin itself there is nothing to ask; of a redirect, somebody may yet mend it.
            await self._fetcher.guard.resolve(url.host, url.port)
            return RobotsFile(state=RobotsState.UNREACHABLE, fetched_at=time.time(), message=error.message)

    async def _read_cache(self, origin: str) -> RobotsFile | None:
        try:
            data = await self._cache.get(cache_keys.robots(origin))
        except Unavailable as error:
            log.warning("robots_cache_unavailable", reason=error.message)
            return None
        return None if data is None else RobotsFile.load(data)

    async def _write_cache(self, origin: str, file: RobotsFile) -> None:
        unreachable = file.state is RobotsState.UNREACHABLE
        seconds = cache_keys.ROBOTS_UNREACHABLE_SECONDS if unreachable else cache_keys.ROBOTS_SECONDS
        try:
            await self._cache.set(cache_keys.robots(origin), file.dump(), ttl_seconds=seconds)
        except Unavailable as error:
            log.warning("robots_cache_unavailable", reason=error.message)

    def _recall(self, origin: str) -> RobotsRules | None:
        found = self._parsed.get(origin)
        if found is None:
            return None
        until, rules = found
        if time.monotonic() >= until:
            self._forget(origin)
            return None
        self._parsed.move_to_end(origin)
        return rules

    def _remember(self, origin: str, rules: RobotsRules) -> None:
        left = _fresh_seconds(rules.state) - _age(rules.file)
        # An old copy that stands in for an unreachable one is asked for again as soon as that would be.
        until = time.monotonic() + max(left, cache_keys.ROBOTS_UNREACHABLE_SECONDS)
        self._parsed[origin] = (until, rules)
        self._parsed_bytes += len(rules.file.body)
        while len(self._parsed) > PARSED_ORIGINS or (self._parsed_bytes > PARSED_BYTES and len(self._parsed) > 1):
            self._forget(next(iter(self._parsed)))

    def _forget(self, origin: str) -> None:
        _, rules = self._parsed.pop(origin)
        self._parsed_bytes -= len(rules.file.body)


def origin_of(url: Url) -> str:
    """`https://example.com` or `http://example.com:8080`: scheme, host and port, as robots.txt is kept by them."""
    start = url.text.find("/", len(url.scheme) + 3)
    return url.text if start < 0 else url.text[:start]


@lru_cache(maxsize=256)
def product_token(user_agent: str) -> str:
    """The name under which a crawler is addressed: `scrubjay` of `Scrubjay/0.1 (+https://…)`."""
    found = _COMPATIBLE.search(user_agent) or _PRODUCT.match(user_agent)
    return found[1].lower() if found else user_agent.strip().lower()


def _file_of(response: FetchResponse) -> RobotsFile:
    now, status = time.time(), response.status
    if 200 <= status < 300:
        body = response.body
        if response.truncated:
            body = body[: body.rfind(b"\n") + 1]  # half a rule is another rule
        return RobotsFile(
            state=RobotsState.PRESENT, fetched_at=now, status=status, truncated=response.truncated, body=body
        )
    # 429 is the host's "not now" in so many words, though the RFC counts it among the 4xx.
    if status >= 500 or status == 429:
        message = f"The robots.txt of {response.url} answered with {status}."
        return RobotsFile(state=RobotsState.UNREACHABLE, fetched_at=now, status=status, message=message)
    return RobotsFile(state=RobotsState.ABSENT, fetched_at=now, status=status)


def _text_of(file: RobotsFile) -> str:
    # An error page that came with status 200: whatever it says, it says to people.
    if file.body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return ""
    return file.body.decode("utf-8-sig", "replace").replace("\x00", "")


def _age(file: RobotsFile) -> float:
    return max(0.0, time.time() - file.fetched_at)


def _fresh_seconds(state: RobotsState) -> float:
    return cache_keys.ROBOTS_UNREACHABLE_SECONDS if state is RobotsState.UNREACHABLE else FRESH_SECONDS
