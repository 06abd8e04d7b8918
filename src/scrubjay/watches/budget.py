"""What one poll may still ask for: every request of it is counted, also previews, robots.txt and redirects."""

from dataclasses import dataclass, replace

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.fetcher import FetchRequest, FetchResponse, next_hop
from scrubjay.crawler.polite import PoliteFetcher
from scrubjay.errors import FetchFailed
from scrubjay.model.urls import parse_url

OVER_BUDGET = "over_budget"


@dataclass(slots=True)
class Meter:
    left: int
    used: int = 0


@dataclass(frozen=True, slots=True)
class MeteredFetcher:
    """A polite fetcher that stops when the day's requests are used up.

    One that does not refuse only counts: a robots.txt that the budget kept from us would be taken for one that is
    down, by everybody who shares the cache.
    """

    polite: PoliteFetcher
    meter: Meter
    refuses: bool = True

    @property
    def guard(self) -> EgressGuard:
        return self.polite.guard

    @property
    def counting_only(self) -> "MeteredFetcher":
        return replace(self, refuses=False)

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """The answer, after redirects, each of which is a request. FetchFailed with `over_budget` when none is left."""
        visited: list[str] = []
        hop = replace(request, follow_redirects=False)
        while True:
            await self.polite.politeness.require_open(parse_url(hop.url).host)
            self._spend()
            answer = await self.polite.fetch(hop)
            if not (request.follow_redirects and answer.is_redirect):
                return replace(answer, requested_url=request.url, redirects=tuple(visited)) if visited else answer
            hop = replace(hop, url=next_hop(answer, visited, request.max_redirects).text)

    def _spend(self) -> None:
        if self.meter.left <= 0 and self.refuses:
            raise FetchFailed("The day's budget of requests is used up.", error_type=OVER_BUDGET)
        self.meter.left -= 1
        self.meter.used += 1
