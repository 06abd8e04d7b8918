"""One site under many loopback addresses, for tests of crawls that several workers share.

Every host has a chain of pages; each page links to the next page of its own host and to a page of the next host, so
that most links lead to another shard. The site records who asked for what, when, and until when it was answered.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.site import Reply, Site, SiteRequest, running_site


@dataclass(frozen=True)
class Visit:
    host: str
    path: str
    began: float
    ended: float


class ManyHosts:
    def __init__(self, site: Site, hosts: int, pages: int, answer_seconds: float) -> None:
        self.site = site
        self.hosts = hosts
        self.pages = pages  # of each host
        self.answer_seconds = answer_seconds
        self.visits: list[Visit] = []
        for number in range(pages):
            site.add(_path(number), self._answer)

    @property
    def start_urls(self) -> list[str]:
        return [self.site.url_at(host) for host in range(1, self.hosts + 1)]

    @property
    def total(self) -> int:
        return self.hosts * self.pages

    @property
    def counts(self) -> Counter[str]:
        """How often each page was fetched, by `host path`."""
        return Counter(f"{visit.host} {visit.path}" for visit in self.visits)

    def by_host(self) -> dict[str, list[Visit]]:
        found: dict[str, list[Visit]] = {}
        for visit in sorted(self.visits, key=lambda each: each.began):
            found.setdefault(visit.host, []).append(visit)
        return found

    async def _answer(self, request: SiteRequest) -> Reply:
        began = time.monotonic()
        if self.answer_seconds:
            await asyncio.sleep(self.answer_seconds)
        host = int(request.host.partition(":")[0].rpartition(".")[2])
        number = 0 if request.path == "/" else int(request.path.rpartition("/")[2])
        self.visits.append(Visit(request.host, request.path, began, time.monotonic()))
        return Reply(self._text(host, number), headers={"ETag": f'"{host}-{number}"'})

    def _text(self, host: int, number: int) -> str:
        links = []
        if number + 1 < self.pages:
            links.append(self.site.url_at(host) + _path(number + 1))
        other = host % self.hosts + 1
        links.append(self.site.url_at(other) + _path((number * 7 + host) % self.pages))
        anchors = "".join(f"<li><a href='{link}'>{link}</a></li>" for link in links)
        return (
            f"<html lang='en'><head><title>Page {number} of host {host}</title></head><body><article>"
            f"<h1>Page {number} of host {host}</h1><p>The keeper of house {host} wrote down on day {number} which jays "
            f"came to the larder, and what they took away.</p><ul>{anchors}</ul></article></body></html>"
        )


def _path(number: int) -> str:
    return "/" if number == 0 else f"/page/{number}"


@asynccontextmanager
async def many_hosts(hosts: int, pages: int, *, answer_seconds: float = 0.0) -> AsyncIterator[ManyHosts]:
    async with running_site(hosts=hosts) as site:
        site.robots = "User-agent: *\nAllow: /\n"
        yield ManyHosts(site, hosts, pages, answer_seconds)
