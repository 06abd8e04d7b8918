"""What robots, sitemaps and discovery need of a fetcher: they work with the plain one and with the polite one."""

from typing import Protocol

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.fetcher import FetchRequest, FetchResponse


class Fetching(Protocol):
    @property
    def guard(self) -> EgressGuard: ...

    async def fetch(self, request: FetchRequest) -> FetchResponse: ...
