"""A fetcher with manners: each request waits for its turn, and is tried again when that may help."""

import asyncio
import email.utils
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.fetcher import Fetcher, FetchRequest, FetchResponse, next_hop
from scrubjay.crawler.politeness import Politeness
from scrubjay.errors import FetchFailed
from scrubjay.model.clock import utc_now
from scrubjay.model.urls import parse_url

LONGEST_RETRY_AFTER_SECONDS = 120.0  # a page that asks for more fails; a host where many do opens its circuit
FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
_RETRIED_FAILURES = frozenset({"timeout", "connection", "dns", "incomplete", "proxy"})
_RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504, 522, 524})
# What the host answered cannot be used, but it does answer.
_ANSWERS = frozenset({"too_large", "bad_encoding", "bad_redirect", "too_many_redirects", "redirect_loop"})
_FAULTS_OF_HOST = frozenset({"timeout", "connection", "dns", "tls", "incomplete", "protocol"})


@dataclass(slots=True)
class PoliteFetcher:
    """Fetches one address at a time from hosts, without following redirects: each hop needs its own turn."""

    fetcher: Fetcher
    politeness: Politeness
    retries: int = 0
    may_ask: Callable[[], None] | None = None  # raises when nothing may leave here at this moment

    @property
    def guard(self) -> EgressGuard:
        return self.fetcher.guard

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """The answer to one request; redirects are followed through here again when the request asks for it."""
        visited: list[str] = []
        hop = request
        while True:
            answer = await self._try(replace(hop, follow_redirects=False) if hop.follow_redirects else hop)
            if not (request.follow_redirects and answer.is_redirect):
                return replace(answer, requested_url=request.url, redirects=tuple(visited)) if visited else answer
            hop = replace(hop, url=next_hop(answer, visited, request.max_redirects).text)

    async def _try(self, request: FetchRequest) -> FetchResponse:
        url = parse_url(request.url)
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                answer = await self._take_turn(request, url.host)
            except FetchFailed as error:
                if last or error.error_type not in _RETRIED_FAILURES:
                    error.attempts = attempt + 1
                    raise
                await asyncio.sleep(_backoff(attempt))
                continue
            asked = retry_after_seconds(answer) if answer.status in _RETRIED_STATUSES else None
            if asked is not None:
                if asked > LONGEST_RETRY_AFTER_SECONDS:
                    return _tried(answer, attempt + 1)
                await self.politeness.defer(url.host, asked)
            if last or answer.status not in _RETRIED_STATUSES:
                return _tried(answer, attempt + 1)
            if answer.file is not None:
                answer.file.unlink(missing_ok=True)
            if asked is None:
                await asyncio.sleep(_backoff(attempt))
        raise AssertionError("the last attempt returns or raises")

    async def _take_turn(self, request: FetchRequest, host: str) -> FetchResponse:
        async with self.politeness.turn(host):
            if self.may_ask is not None:
                self.may_ask()  # after the waiting: whoever waited long may have lost the right
            try:
                answer = await self.fetcher.fetch(request)
            except FetchFailed as error:
                if error.error_type in _FAULTS_OF_HOST or error.error_type in _ANSWERS:
                    await self.politeness.report(host, success=error.error_type in _ANSWERS)
                raise
        await self.politeness.report(host, success=answer.status < 500 and answer.status != 429)
        return answer


def _tried(answer: FetchResponse, attempts: int) -> FetchResponse:
    return answer if attempts == 1 else replace(answer, attempts=attempts)


def retry_after_seconds(answer: FetchResponse) -> float | None:
    """What the Retry-After header asks for: seconds, or a date."""
    text = answer.headers.get("Retry-After", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return max(0.0, (moment - utc_now()).total_seconds())


def _backoff(attempt: int) -> float:
    longest = min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2**attempt)
    share = random.uniform(0.5, 1.0)  # noqa: S311 - spreads requests, hides nothing
    return float(longest * share)
