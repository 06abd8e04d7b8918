"""The news desk: looks at what a poll found, scores it, and writes in one transaction what becomes of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.model.destination import Destination
from scrubjay.model.watching import ThrottleLevel, Watch, WatchItem, WatchKind
from scrubjay.storage.database import Database
from scrubjay.storage.watches import WatchItems
from scrubjay.watches.analysis import PREVIEW_CHARACTERS, Candidate, NewsScore, NewsScorer, score_safely
from scrubjay.watches.issue import Found, Issue, PollTally, Rules, heading_of
from scrubjay.watches.pages import Preview, look_at
from scrubjay.watches.similarity import read_telling
from scrubjay.watches.sorting import Sorting
from scrubjay.watches.sources import Entry, Reader

MAX_PREVIEWS = 20  # of one poll
PREVIEWS_AT_ONCE = 4


class NewsDesk:
    def __init__(self, database: Database, scorer: NewsScorer, rules: Rules) -> None:
        self._database = database
        self._scorer = scorer
        self.rules = rules

    async def look(self, reader: Reader, watch: Watch, sorting: Sorting, reserve: int) -> list[Found]:
        """A preview of what the listing tells too little of, as far as the budget goes."""
        wanted = [*((None, entry) for entry in sorting.new), *sorting.updated]
        places, previews = asyncio.Semaphore(PREVIEWS_AT_ONCE), 0
        tasks: list[Any] = []
        for item, entry in wanted:
            wants = entry.is_page and not entry.is_telling
            previews += wants
            tasks.append(self._found(reader, item, entry, places, reserve, look=wants and previews <= MAX_PREVIEWS))
        found: list[Found | None] = await asyncio.gather(*tasks)
        if watch.kind is WatchKind.SITEMAP:
            # A changed lastmod alone is no evidence; without a look, it waits for the next poll.
            unseen = [each for each in found if each is not None and each.is_update and each.fingerprint is None]
            sorting.left_over += sum(each.preview is None for each in unseen)
            found = [each for each in found if each not in unseen]
        return [each for each in found if each is not None]

    async def _found(
        self,
        reader: Reader,
        item: WatchItem | None,
        entry: Entry,
        places: asyncio.Semaphore,
        reserve: int,
        *,
        look: bool,
    ) -> Found:
        preview: Preview | str | None = None
        if look:
            async with places:
                if reader.fetcher.meter.left > reserve:
                    preview = await look_at(reader, entry.url)
        if isinstance(preview, Preview):
            title = entry.title or preview.title
            lead = preview.lead if len(preview.lead) > len(entry.text) else entry.text
            return Found(entry=entry, item=item, title=title, lead=lead, fingerprint=preview.fingerprint)
        return Found(
            entry=entry,
            item=item,
            title=entry.title,
            lead=entry.text[:PREVIEW_CHARACTERS],
            fingerprint=entry.text_fingerprint,
            preview=preview,
        )

    async def score(self, watch: Watch, found: Sequence[Found], now: datetime) -> list[Found]:
        """Each with its score and factors; novelty is judged by the stories and documents that there are."""
        if not found:
            return []
        async with self._database.reading() as connection:
            indexed = await WatchItems(connection).indexed(watch.tenant_id, {each.entry.url_hash for each in found})
            chapter = await self.rules.book.open(connection, watch.tenant_id, now)
        scored = []
        for each in found:
            nearest = chapter.nearest(read_telling(heading_of(each), each.lead))
            candidate = Candidate(
                url=each.entry.url,
                title=heading_of(each),
                lead=each.lead,
                published_at=now if each.is_update else each.entry.published_at,
                seen_at=now,
                source_weight=watch.weight,
                similarity=nearest.similarity,
                told_by=0 if nearest.story is None else nearest.story.source_count,
                is_indexed=each.entry.url_hash in indexed,
                is_update=each.is_update,
            )
            told = await score_safely(self._scorer, candidate)
            factors = {**told.factors, **({"preview": each.preview} if each.preview else {})}
            scored.append(replace(each, score=NewsScore(told.value, factors)))
        return scored

    async def publish(
        self,
        connection: AsyncConnection,
        watch: Watch,
        found: Sequence[Found],
        destination: Destination,
        now: datetime,
        level: ThrottleLevel,
    ) -> PollTally:
        """Write every item with what becomes of it, its story, and the job. The caller holds the tenant's lock."""
        issue = Issue(self.rules, connection, watch, destination, now)
        await issue.open(found)
        for each in found:
            await issue.take(each)
        await issue.trigger()
        for story_id in issue.stories:
            issue.tally.breaking += await self.rules.book.check_breaking(
                connection, watch.tenant_id, story_id, now, level
            )
        return issue.tally
