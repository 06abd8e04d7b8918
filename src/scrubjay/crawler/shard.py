"""A shard of a crawl: the hosts that are its own, links to and from other shards, and its part of the budget.

Every shard is a job of its own with a frontier of its own, so that the fence of its job covers all that it does.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid5

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.model.crawling import FrontierItem, MailedLink
from scrubjay.model.ids import id_from_uuid, uuid_from_id
from scrubjay.storage.frontier_mail import FrontierMail
from scrubjay.storage.sharded_crawls import ShardedCrawls

LINKS_AT_ONCE = 500
MOST_GRANTED = 500
FOR_LINKS, FOR_PAGES = "links", "pages"  # what an idle shard waits for: work, or a part of the budget


def shard_of(host: str, count: int) -> int:
    """The same everywhere and for ever: a host moves between workers, never between shards."""
    return int.from_bytes(hashlib.sha256(host.encode()).digest()[:8]) % count


def shard_job_id(crawl_id: str, number: int) -> str:
    """Follows from the crawl's id, so that a crawl that is set going twice has its shards once."""
    return id_from_uuid("job", uuid5(uuid_from_id(crawl_id), f"shard:{number}"))


class Shard:
    """One run's view of a shard. `state` is what an earlier run remembered."""

    def __init__(self, crawl_id: str, number: int, count: int, max_pages: int, state: Mapping[str, Any]) -> None:
        self.crawl_id = crawl_id
        self.granted = int(state.get("granted", 0))  # pages that this shard may fetch, of those of the crawl
        self.waits_for: str | None = state.get("waits_for")
        self.is_over = False
        self.is_starved = False  # there was no page left in the budget when one was wanted
        self._number = number
        self._count = count
        self._max_pages = max_pages
        self.job_ids = [shard_job_id(crawl_id, each) for each in range(count)]

    @property
    def state(self) -> Mapping[str, Any]:
        return {"granted": self.granted, "waits_for": self.waits_for}

    def owns(self, host: str) -> bool:
        return shard_of(host, self._count) == self._number

    async def send(self, connection: AsyncConnection, items: Sequence[FrontierItem]) -> list[FrontierItem]:
        """Mail what belongs to other shards; returns what is our own."""
        own, mail = list[FrontierItem](), list[MailedLink]()
        for item in items:
            owner = shard_of(item.host, self._count)
            if owner == self._number:
                own.append(item)
            else:
                mail.append(_mailed(item, self.job_ids[owner]))
        if mail:
            await FrontierMail(connection).add_many(mail)
        return own

    async def receive(self, connection: AsyncConnection) -> Sequence[MailedLink]:
        return await FrontierMail(connection).take(self.job_ids[self._number], LINKS_AT_ONCE)

    async def ask_for_pages(self, connection: AsyncConnection, wanted: int) -> None:
        """Have this shard's part of the budget made larger, by more than is wanted while there is plenty."""
        self.is_starved = False
        if wanted <= 0:
            return
        crawls = ShardedCrawls(connection)
        known = await crawls.find_by_job(self.crawl_id)
        left = self._max_pages - (known.granted if known is not None else self._max_pages)
        plenty = min(MOST_GRANTED, left // (4 * self._count))
        given = await crawls.grant(self.crawl_id, max(wanted, plenty), self._max_pages) if left > 0 else 0
        self.granted += given
        self.is_starved = not given

    async def rest(self, connection: AsyncConnection, used: int) -> None:
        """Nothing is left to do: leave the rest of the budget to others."""
        await ShardedCrawls(connection).give_back(self.crawl_id, self.granted - used)
        self.granted = used
        self.waits_for = FOR_PAGES if self.is_starved else FOR_LINKS

    async def look(self, connection: AsyncConnection) -> Sequence[str]:
        """Find out whether the crawl is over; returns where starts redirected to on any shard."""
        known = await ShardedCrawls(connection).find_by_job(self.crawl_id)
        self.is_over = known is None or known.is_over
        return () if known is None else known.roots

    async def has_news(self, connection: AsyncConnection) -> bool:
        """Whether there is something to do again: links, or pages of the budget, or the end."""
        known = await ShardedCrawls(connection).find_by_job(self.crawl_id)
        self.is_over = known is None or known.is_over
        if self.is_over or (self.is_starved and known is not None and known.granted < self._max_pages):
            return True
        return await FrontierMail(connection).is_there_any(self.job_ids[self._number])


def _mailed(item: FrontierItem, job_id: str) -> MailedLink:
    return MailedLink(
        job_id=job_id,
        url=item.url,
        depth=item.depth,
        redirects=item.redirects,
        score=item.score,
        parent_url=item.parent_url,
    )
