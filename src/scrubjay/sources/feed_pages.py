"""The pages that a feed's entries link to: fetched as politely as a crawl does, and extracted."""

from dataclasses import dataclass, replace
from typing import Any

from scrubjay.crawler.fetcher import FetchRequest, FetchResponse, next_hop
from scrubjay.crawler.page_store import robots_directives
from scrubjay.crawler.polite import PoliteFetcher
from scrubjay.crawler.robots import Robots
from scrubjay.errors import ExtractionFailed, FetchFailed, HostBlocked, UrlBlocked, UrlInvalid
from scrubjay.extract.pool import ExtractionPool
from scrubjay.model.extraction import Extraction, Verdict
from scrubjay.model.urls import host_of, parse_url

MAX_REDIRECTS = 10
_VERDICT_ERRORS = {
    Verdict.BLOCKED: "blocked_page",
    Verdict.LOGIN: "login_wall",
    Verdict.EMPTY: "empty_page",
    Verdict.SOFT_404: "soft_404",
}


async def fetch_politely(polite: PoliteFetcher, request: FetchRequest, robots: Robots | None = None) -> FetchResponse:
    """The answer with status 200, after redirects; every other outcome is FetchFailed."""
    visited: list[str] = []
    hop = replace(request, follow_redirects=False)
    try:
        while True:
            if robots is not None:
                await _obey(robots, polite, hop.url)
            answer = await polite.fetch(hop)
            if not answer.is_redirect:
                break
            hop = replace(hop, url=next_hop(answer, visited, MAX_REDIRECTS).text)
    except (UrlBlocked, HostBlocked, UrlInvalid) as error:
        error_type = getattr(error, "error_type", "invalid_url")
        raise FetchFailed(f"{request.url} cannot be fetched: {error.message}", error_type=error_type) from error
    except FetchFailed as error:
        raise FetchFailed(f"{request.url} cannot be fetched: {error.message}", error_type=error.error_type) from error
    if answer.status != 200:
        raise FetchFailed(
            f"{request.url} answered with HTTP status {answer.status}.", error_type="http_error", status=answer.status
        )
    return answer


async def _obey(robots: Robots, polite: PoliteFetcher, url: str) -> None:
    address = parse_url(url).text
    verdict = await robots.allowed(address)
    await polite.politeness.respect_crawl_delay(host_of(address), verdict.crawl_delay_seconds)
    if not verdict.allowed:
        raise FetchFailed(verdict.message, error_type=str(verdict.reason))


@dataclass(frozen=True, slots=True)
class LinkedPages:
    polite: PoliteFetcher
    robots: Robots
    pool: ExtractionPool

    async def read(self, url: str, max_bytes: int) -> tuple[FetchResponse, Extraction]:
        answer = await fetch_politely(self.polite, FetchRequest(url=url, max_bytes=max_bytes), self.robots)
        extraction = await self.pool.extract(
            answer.body, url=answer.url, content_type=answer.content_type, status=answer.status
        )
        if extraction.verdict is not Verdict.CONTENT:
            raise _failure(extraction.verdict_reason, _VERDICT_ERRORS[extraction.verdict], url=url)
        if "noindex" in robots_directives(extraction.metadata, answer.headers.items()):
            raise _failure("The page asks not to be indexed.", "noindex", url=url)
        return answer, extraction


def _failure(reason: str | None, error_type: str, **details: Any) -> ExtractionFailed:
    return ExtractionFailed(reason, error_type=error_type, **details)
