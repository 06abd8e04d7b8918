"""One page of a web crawl, from its place in the frontier to its outcome: robots, turn, fetch, extract."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TypeVar

from scrubjay.crawler.fetcher import FetchRequest, FetchResponse, redirect_target
from scrubjay.crawler.page_extractor import PageExtractor
from scrubjay.crawler.page_store import extraction_label, is_fixed_by_bytes, is_reusable, robots_directives
from scrubjay.crawler.polite import PoliteFetcher
from scrubjay.crawler.robots import Robots, RobotsVerdict
from scrubjay.crawler.tally import CrawlTally
from scrubjay.errors import (
    CircuitOpen,
    ExtractionFailed,
    FetchFailed,
    HostBlocked,
    ScrubjayError,
    Unavailable,
    UrlBlocked,
    UrlInvalid,
)
from scrubjay.model.crawl_spec import CrawlSpec, CrawlStrategy
from scrubjay.model.crawling import FrontierItem, KnownPage
from scrubjay.model.extraction import Extraction, ExtractOptions, Verdict
from scrubjay.model.urls import hash_url, normal_form, parse_url
from scrubjay.queue.courtesy import give_way
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.cache_keys import ROBOTS_UNREACHABLE_SECONDS
from scrubjay.telemetry import span

T = TypeVar("T")

MAX_ROUNDS = 4
MAX_CIRCUIT_WAITS = 3  # a host that stays broken through so many of its timeouts is given up
SOON_SECONDS = 5.0  # URLs whose turn comes later are as well off in the database
ORDERED_SOON_SECONDS = 0.2  # the same for strategies that decide again after every page
OUTAGE_SECONDS = 2.0
MAX_OUTAGES = 15  # after so many tries in vain the crawl itself must stop, and keep the rest of its frontier
MAX_ANSWERED = 50_000
ERROR_LENGTH = 1000
_NOT_FAILURES = frozenset({"blocked_host", "unsupported_type"})
_VERDICT_ERRORS = {
    Verdict.BLOCKED: "blocked_page",
    Verdict.LOGIN: "login_wall",
    Verdict.EMPTY: "empty_page",
    Verdict.SOFT_404: "soft_404",
}


@dataclass(slots=True, kw_only=True)
class PageOutcome:
    """What became of one URL. Exactly one of these is true: it has content, an error, a target, or is unchanged."""

    item: FrontierItem
    known: KnownPage | None = None
    elsewhere: Sequence[KnownPage] = ()
    response: FetchResponse | None = None
    extraction: Extraction | None = None
    body_sha256: str | None = None
    asked_for_changes: bool = False
    target: str | None = None  # where it redirects to
    unchanged: bool = False
    error_type: str | None = None
    error: str | None = None
    skipped: bool = False  # left alone on purpose, which is not a failure
    attempts: int = 1
    duration_ms: int = 0

    @property
    def has_content(self) -> bool:
        return self.extraction is not None and self.error_type is None


@dataclass(slots=True, kw_only=True)
class PageFetcher:
    """Turns frontier items into outcomes. It never raises for a page's sake, and writes nothing but originals.

    Unavailable is not for a page's sake: something of ours is down.
    """

    spec: CrawlSpec
    polite: PoliteFetcher
    robots: Robots | None
    extractor: PageExtractor
    options: ExtractOptions
    blobs: BlobStore
    max_sitemap_urls: int = 1_000_000
    recall: Callable[[KnownPage], Awaitable[Extraction | None]] | None = None  # reads a stored page's extraction
    tally: CrawlTally = field(default_factory=CrawlTally)
    _answered: set[str] = field(default_factory=set)  # hosts that gave this run an answer

    def worth_holding(self, host: str) -> int:
        """How many of a host's URLs should wait in memory: those whose turn comes soon."""
        seconds = SOON_SECONDS if self.spec.strategy is CrawlStrategy.BFS else ORDERED_SOON_SECONDS
        return 0 if self.tally.is_waiting(host) else self.polite.politeness.turns_within(host, seconds)

    async def process(
        self, item: FrontierItem, known: KnownPage | None, elsewhere: Sequence[KnownPage] = ()
    ) -> PageOutcome:
        """What becomes of one URL; patient with a cache, database or blob store that is away for a while.

        `known` is the page as this scope stored it, `elsewhere` as other scopes did.
        """
        patience = _Patience()
        return await patience.keep_trying(lambda: self._process_once(item, known, elsewhere, patience))

    async def _process_once(
        self, item: FrontierItem, known: KnownPage | None, elsewhere: Sequence[KnownPage], patience: "_Patience"
    ) -> PageOutcome:
        started = time.perf_counter()
        outcome = PageOutcome(item=item, known=known, elsewhere=elsewhere)
        try:
            with span("crawl page", server__address=item.host, crawl__depth=item.depth):
                await self._process(outcome, patience)
        except (UrlInvalid, UrlBlocked, HostBlocked, FetchFailed, ExtractionFailed) as error:
            outcome.error_type, outcome.error = _told(error)
            outcome.attempts = getattr(error, "attempts", 1)
            outcome.skipped = outcome.error_type in _NOT_FAILURES
        finally:
            _discard(outcome.response)
        outcome.duration_ms = int(1000 * (time.perf_counter() - started))
        return outcome

    async def _process(self, outcome: PageOutcome, patience: "_Patience") -> None:
        item = outcome.item
        await give_way()
        await self.polite.politeness.require_open(item.host)
        request = await self._request(outcome)
        for _ in range(MAX_ROUNDS):
            if not await self._obey_robots(outcome, request.url):
                return
            response = outcome.response = await self._ask(request)
            outcome.attempts = response.attempts
            if not self._comes_back(item, response):
                break
            _discard(response)
            request = replace(request, url=redirect_target(response).text)
        else:
            raise FetchFailed("The redirects lead in a circle.", error_type="redirect_loop")
        if not self._settle_by_status(outcome, response):
            await self._take_content(outcome, response, patience)

    async def _ask(self, request: FetchRequest) -> FetchResponse:
        host = parse_url(request.url).host
        answer = await self._outlast_circuit(host, lambda: self.polite.fetch(request))
        if len(self._answered) >= MAX_ANSWERED:
            self._answered.clear()
        self._answered.add(host)
        return answer

    def _has_answered(self, host: str) -> bool:
        before = self.tally.hosts.get(host)
        return host in self._answered or (before is not None and before.pages > 0)

    def _comes_back(self, item: FrontierItem, response: FetchResponse) -> bool:
        """Whether a redirect leads to another spelling of the same address, or sets a cookie on the way back to it."""
        if not (response.is_redirect and self.spec.follow_redirects):
            return False
        return hash_url(normal_form(redirect_target(response).text)) == item.url_hash

    async def _obey_robots(self, outcome: PageOutcome, url: str) -> bool:
        robots, item = self.robots, outcome.item
        if robots is None:
            return True
        verdict = await self._ask_robots(robots, item.host, url)
        await self.polite.politeness.respect_crawl_delay(item.host, verdict.crawl_delay_seconds)
        if not verdict.allowed:
            outcome.error_type, outcome.error = str(verdict.reason), verdict.message
            outcome.skipped = not verdict.temporary
        return verdict.allowed

    async def _ask_robots(self, robots: Robots, host: str, url: str) -> RobotsVerdict:
        """What robots.txt says; "not now" of a host that answered before is waited for."""
        for _ in range(MAX_CIRCUIT_WAITS):
            verdict = await self._outlast_circuit(host, lambda: robots.allowed(url))
            if not (verdict.temporary and self._has_answered(host)):
                return verdict
            self.tally.note_waiting(host, ROBOTS_UNREACHABLE_SECONDS)
            await asyncio.sleep(ROBOTS_UNREACHABLE_SECONDS + 0.01)
        return await robots.allowed(url)

    async def _outlast_circuit(self, host: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Wait while the host is left alone, and try again; not for ever."""
        for _ in range(MAX_CIRCUIT_WAITS):
            try:
                return await attempt()
            except CircuitOpen as error:
                if not self._has_answered(host):
                    raise  # it never answered: there is nothing to wait for
                self.tally.note_waiting(host, error.wait_seconds)
                await asyncio.sleep(error.wait_seconds + 0.01)
        return await attempt()

    async def _request(self, outcome: PageOutcome) -> FetchRequest:
        spec, known = self.spec, outcome.known
        conditional = known is not None and not spec.refresh and self._can_reuse(known)
        if known is not None and conditional and spec.keep_originals:
            # An earlier crawl may not have kept them.
            conditional = known.body_sha256 is not None and await self.blobs.exists(known.body_sha256)
        outcome.asked_for_changes = conditional
        return FetchRequest(
            url=outcome.item.url,
            timeout_seconds=spec.timeout_seconds,
            max_bytes=spec.max_bytes,
            follow_redirects=False,
            etag=known.etag if known is not None and conditional else None,
            last_modified=known.last_modified if known is not None and conditional else None,
            spool=True,
        )

    def _can_reuse(self, known: KnownPage) -> bool:
        return is_reusable(known, extraction_label(self.spec), self.options.limits)

    def _has_same_text(self, known: KnownPage, outcome: PageOutcome) -> bool:
        return known.body_sha256 == outcome.body_sha256 and self._can_reuse(known)

    async def _recall_text(self, outcome: PageOutcome) -> Extraction | None:
        """The text that another scope stored for the same bytes: one more extraction could give another one, because
        more is known of the site's boilerplate by now."""
        same = next((page for page in outcome.elsewhere if self._has_same_text(page, outcome)), None)
        return None if same is None or self.recall is None else await self.recall(same)

    def _settle_by_status(self, outcome: PageOutcome, response: FetchResponse) -> bool:
        """Whether the answer's head already says what becomes of the URL."""
        if response.not_modified and outcome.asked_for_changes:
            outcome.unchanged = True
        elif response.is_redirect:
            self._settle_redirect(outcome, response)
        elif response.status >= 300:
            outcome.error_type, outcome.error = "http_error", f"HTTP status {response.status}."
        else:
            return False
        return True

    def _settle_redirect(self, outcome: PageOutcome, response: FetchResponse) -> None:
        if not self.spec.follow_redirects:
            outcome.error_type, outcome.error = "redirect", "It redirects, and redirects are not followed."
            outcome.skipped = True
            return
        if outcome.item.redirects >= self.spec.max_redirects:
            raise FetchFailed(f"More than {self.spec.max_redirects} redirects.", error_type="too_many_redirects")
        outcome.target = redirect_target(response).text

    async def _take_content(self, outcome: PageOutcome, response: FetchResponse, patience: "_Patience") -> None:
        outcome.body_sha256 = await _hash_body(response)
        if self.spec.keep_originals:
            # Patient here too, so that a page is not fetched again because it could not be kept.
            await patience.keep_trying(lambda: self._keep_original(response))
        known = outcome.known
        # A header can forbid indexing although the bytes are the same: then the page is judged like a new one.
        hidden = self.robots is not None and "noindex" in robots_directives({}, response.headers.items())
        may_reuse = (not self.spec.refresh or is_fixed_by_bytes(self.spec)) and not hidden
        if known is not None and may_reuse and self._has_same_text(known, outcome):
            outcome.unchanged = True
            return
        outcome.extraction = await self._recall_text(outcome) if may_reuse else None
        outcome.extraction = outcome.extraction or await self.extractor.extract(
            response.file or response.body,
            url=response.url,
            content_type=response.content_type,
            status=response.status,
            options=self.options,
        )
        self._judge(outcome, response)

    def _judge(self, outcome: PageOutcome, response: FetchResponse) -> None:
        """A wall, a shell or an error page is told as what it is, not as content."""
        extraction = outcome.extraction
        if extraction is None:
            return
        if extraction.verdict is not Verdict.CONTENT:
            outcome.error_type = _VERDICT_ERRORS[extraction.verdict]
            outcome.error = extraction.verdict_reason
        elif self.robots is not None and "noindex" in robots_directives(extraction.metadata, response.headers.items()):
            outcome.error_type, outcome.error = "noindex", "The page asks not to be indexed."
            outcome.skipped = True

    async def _keep_original(self, response: FetchResponse) -> None:
        if response.file is None:
            await self.blobs.put(response.body)
            return
        with response.file.open("rb") as opened:
            await self.blobs.put_stream(_pieces(opened))


class _Patience:
    """How often one URL waits for what is ours and away, over all that is done with it."""

    def __init__(self) -> None:
        self._left = MAX_OUTAGES

    async def keep_trying(self, work: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await work()
            except Unavailable:
                if not self._left:
                    raise
                self._left -= 1
                await asyncio.sleep(OUTAGE_SECONDS)


def _discard(response: FetchResponse | None) -> None:
    if response is not None and response.file is not None:
        response.file.unlink(missing_ok=True)


def _told(error: ScrubjayError) -> tuple[str, str]:
    error_type = getattr(error, "error_type", "invalid_url")
    return error_type, error.message[:ERROR_LENGTH]


async def _hash_body(response: FetchResponse) -> str:
    if response.file is None:
        return hashlib.sha256(response.body).hexdigest()

    def digest(path: Path) -> str:
        with path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()

    return await asyncio.to_thread(digest, response.file)


async def _pieces(opened: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(opened.read, 256 * 1024):
        yield piece
