"""A batch of outcomes becomes rows: pages, settled URLs, new links, and what was learned of sites."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.frontier import REDIRECT_NOTE, CrawlFrontier, Settled
from scrubjay.crawler.page_store import (
    MIN_DUPLICATE_CHARACTERS,
    changed_at,
    extraction_label,
    hash_content,
    kept_headers,
    pack_details,
    pack_text,
    robots_directives,
    unpack_details,
)
from scrubjay.crawler.pages import PageOutcome
from scrubjay.crawler.tally import CrawlTally
from scrubjay.extract.boilerplate import SiteBoilerplate
from scrubjay.model.clock import utc_now
from scrubjay.model.crawl_spec import CrawlSpec
from scrubjay.model.crawling import CrawledPage, FrontierItem, FrontierStatus, PageSeen, SiteMemory
from scrubjay.model.extraction import DEFAULT_LIMITS, Anchor, Extraction, ExtractLimits, text_limits
from scrubjay.model.job import Job
from scrubjay.model.urls import canonical_form, hash_url, normal_form
from scrubjay.queue.context import storable
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database
from scrubjay.storage.site_memories import SiteMemories
from scrubjay.telemetry import CrawlCounts
from scrubjay.telemetry.crawls import UNCHANGED

SAVE_MEMORY_SECONDS = 20.0
MAX_FIRSTS = 50_000
MAX_MEMORIES = 200  # hosts whose boilerplate is remembered at a time
_GONE = frozenset({404, 410})


@dataclass(slots=True)
class Batch:
    """Everything that one transaction writes."""

    settled: list[Settled] = field(default_factory=list)
    pages: list[CrawledPage] = field(default_factory=list)
    seen: list[PageSeen] = field(default_factory=list)
    found: list[FrontierItem] = field(default_factory=list)
    memories: list[SiteMemory] = field(default_factory=list)
    counts: CrawlCounts = field(default_factory=CrawlCounts)  # for the metrics, once it is written


class BatchWriter:
    """Prepares batches outside of the transaction, and writes them inside."""

    def __init__(
        self,
        job: Job,
        spec: CrawlSpec,
        scope_id: str,
        frontier: CrawlFrontier,
        tally: CrawlTally,
        database: Database,
        limits: ExtractLimits = DEFAULT_LIMITS,
        *,
        keeps_documents: bool,
    ) -> None:
        self._job = job
        self._crawl_id = job.parent_id or job.id  # whose pages these are, also in a slice
        self._keeps_documents = keeps_documents  # then retrieval counts which pages are new
        self._spec = spec
        self._scope_id = scope_id
        self._frontier = frontier
        self._tally = tally
        self._database = database
        self._limits = limits
        self._memories: dict[str, SiteBoilerplate] = {}
        self._unsaved: set[str] = set()
        self._evicted: list[SiteMemory] = []
        self._saved_at = time.monotonic()
        self._firsts: dict[str, str] = {}  # content → the address that had it first; the recent ones

    async def prepare(self, outcomes: Sequence[PageOutcome], *, save_memories: bool = False) -> Batch:
        """What the outcomes mean, as rows. Counts them as well, so each outcome comes here once."""
        batch, now = Batch(), utc_now()
        for outcome in outcomes:
            if outcome.extraction is not None and self._spec.learn_boilerplate:
                memory = await self._memory(outcome.item.host)
                memory.learn(outcome.extraction)
                outcome.extraction = memory.clean(outcome.extraction)
        await self._find_circles(outcomes)
        await self._find_firsts(outcomes)
        for outcome in outcomes:
            self._tally.depth = max(self._tally.depth, outcome.item.depth)
            self._sort(batch, outcome, now)
        if save_memories or time.monotonic() - self._saved_at > SAVE_MEMORY_SECONDS:
            self._saved_at = time.monotonic()
            batch.memories = [self._packed(host) for host in self._unsaved]
            self._unsaved.clear()
        evicted, self._evicted = self._evicted, []
        batch.memories = [memory for memory in evicted if memory.host not in self._memories] + batch.memories
        return batch

    async def write(self, connection: AsyncConnection, batch: Batch) -> int:
        """Write it all; returns how many of the links were new."""
        await self._frontier.settle(connection, batch.settled)
        pages = CrawledPages(connection)
        await pages.put(batch.pages)
        await pages.confirm(self._scope_id, self._crawl_id, batch.seen)
        for memory in batch.memories:
            await SiteMemories(connection).put(memory)
        return await self._frontier.add(connection, batch.found)

    def _sort(self, batch: Batch, outcome: PageOutcome, now: datetime) -> None:
        if outcome.target is not None:
            self._take_redirect(batch, outcome, outcome.target)
        elif outcome.unchanged:
            self._take_unchanged(batch, outcome, now)
        elif outcome.has_content:
            self._take_page(batch, outcome, now)
        else:
            self._take_error(batch, outcome, now)

    def _take_redirect(self, batch: Batch, outcome: PageOutcome, target: str) -> None:
        self._tally.redirects += 1
        batch.counts.note_outcome("redirected")
        item = self._frontier.redirected(outcome.item, target)
        if item is not None:
            batch.found.append(item)
        batch.settled.append((outcome.item, FrontierStatus.COMPLETED, REDIRECT_NOTE + target))

    def _take_unchanged(self, batch: Batch, outcome: PageOutcome, now: datetime) -> None:
        item, known = outcome.item, outcome.known
        self._tally.fetched += 1
        self._tally.pages += 1
        self._tally.unchanged += 1
        size_bytes = 0 if known is None else known.size_bytes
        self._tally.bytes += size_bytes
        host = self._tally.host(item.host)
        host.pages += 1
        host.bytes += size_bytes
        batch.counts.note_processed(item.host, UNCHANGED)
        batch.counts.note_deduped(item.host)
        batch.seen.append(PageSeen(url_hash=item.url_hash, depth=item.depth, seen_at=now))
        batch.settled.append((item, FrontierStatus.COMPLETED, None))
        if known is not None:
            details = unpack_details(known.details)
            self._count_cuts(details.get("cuts") or ())
            said = robots_directives(details.get("metadata") or {}, (details.get("headers") or {}).items())
            if not (self._spec.respect_robots and "nofollow" in said):
                batch.found += self._frontier.follow(item, details.get("links", ()))

    def _take_page(self, batch: Batch, outcome: PageOutcome, now: datetime) -> None:
        item, extraction = outcome.item, outcome.extraction
        if extraction is None:
            raise ValueError("an outcome with content has an extraction")
        page = self._page(outcome, extraction, now)
        self._tally.fetched += 1
        self._tally.pages += 1
        self._tally.bytes += page.size_bytes
        self._tally.count_method(extraction.method)
        self._count_cuts(extraction.cuts)
        host = self._tally.host(item.host)
        host.pages += 1
        host.bytes += page.size_bytes
        batch.counts.note_processed(item.host, extraction.method)
        if page.duplicate_of is not None:
            self._tally.duplicates += 1
            if not self._keeps_documents:
                batch.counts.note_deduped(item.host)
        self._frontier.learn(item.url, page.content_sha256 or "")
        batch.pages.append(page)
        batch.settled.append((item, FrontierStatus.COMPLETED, None))
        batch.found += self._follow(outcome, extraction)

    def _count_cuts(self, cuts: Sequence[str]) -> None:
        for limit in text_limits(cuts):
            self._tally.count_limit(limit)

    def _follow(self, outcome: PageOutcome, extraction: Extraction) -> list[FrontierItem]:
        """New work from a page's links, and from the address that it calls its own."""
        headers = () if outcome.response is None else outcome.response.headers.items()
        if self._spec.respect_robots and "nofollow" in robots_directives(extraction.metadata, headers):
            return []
        anchors: Sequence[Anchor] = extraction.anchors
        canonical = extraction.metadata.get("canonical_url")
        if canonical and self._is_elsewhere(outcome, canonical):
            anchors = (Anchor(canonical), *anchors)
        return self._frontier.follow(outcome.item, anchors)

    def _is_elsewhere(self, outcome: PageOutcome, canonical: str) -> bool:
        return hash_url(normal_form(canonical)) != outcome.item.url_hash

    def _take_error(self, batch: Batch, outcome: PageOutcome, now: datetime) -> None:
        item, error_type = outcome.item, outcome.error_type or "unknown"
        if outcome.skipped:
            self._tally.skipped += 1
            batch.counts.note_outcome("skipped")
        else:
            batch.counts.note_error(item.host, error_type)
            self._tally.failed += 1
            self._tally.host(item.host).failed += 1
        if outcome.response is not None or not outcome.skipped:
            self._tally.fetched += 1
        self._tally.count_error(error_type)
        status = FrontierStatus.SKIPPED if outcome.skipped else FrontierStatus.FAILED
        outcome.error = storable(outcome.error)
        batch.settled.append((item, status, f"{error_type}: {outcome.error or ''}"))
        gone = outcome.response is not None and outcome.response.status in _GONE
        known = outcome.known is not None and outcome.known.content_sha256 is not None
        if known and not gone and error_type != "noindex":
            # What it said before is kept: a fault in between does not unsay it.
            seen = PageSeen(
                url_hash=item.url_hash,
                depth=item.depth,
                seen_at=now,
                status=None if outcome.response is None else outcome.response.status,
                attempts=outcome.attempts,
                error_type=error_type,
                error=outcome.error,
            )
            batch.seen.append(seen)
        else:
            batch.pages.append(self._row(outcome, now))
        if outcome.extraction is not None and not outcome.skipped:
            batch.found += self._follow(outcome, outcome.extraction)

    def _row(self, outcome: PageOutcome, now: datetime) -> CrawledPage:
        """What is known of a page whether or not it has content."""
        item, response = outcome.item, outcome.response
        return CrawledPage(
            scope_id=self._scope_id,
            url_hash=item.url_hash,
            tenant_id=self._job.tenant_id,
            job_id=self._crawl_id,
            url=item.url,
            depth=item.depth,
            parent_url=item.parent_url,
            status=None if response is None else response.status,
            error_type=outcome.error_type,
            error=outcome.error,
            content_type=None if response is None else storable(response.content_type),
            size_bytes=0 if response is None else response.size,
            duration_ms=outcome.duration_ms,
            attempts=outcome.attempts,
            fetched_at=now,
            changed_at=now,
        )

    def _page(self, outcome: PageOutcome, extraction: Extraction, now: datetime) -> CrawledPage:
        response = outcome.response
        if response is None:
            raise ValueError("an outcome with content has a response")
        content_sha256 = hash_content(extraction.markdown)
        return replace(
            self._row(outcome, now),
            etag=storable(response.etag),
            last_modified=storable(response.last_modified),
            body_sha256=outcome.body_sha256,
            content_sha256=content_sha256,
            duplicate_of=self._duplicate_of(outcome, extraction, content_sha256),
            title=storable(extraction.title),
            method=extraction.method,
            content=pack_text(extraction.markdown),
            details=pack_details(
                extraction, kept_headers(response.headers), response.url, extraction_label(self._spec), self._limits
            ),
            changed_at=changed_at(outcome.known, content_sha256, now),
        )

    def _duplicate_of(self, outcome: PageOutcome, extraction: Extraction, content_sha256: str) -> str | None:
        """The address hash that this page repeats: by its own word, or by its content."""
        own = outcome.item.url_hash
        canonical = hash_url(canonical_form(outcome.item.url, extraction.metadata.get("canonical_url")))
        if canonical != own:
            return canonical
        if len(extraction.markdown) < MIN_DUPLICATE_CHARACTERS:
            return None
        first = self._firsts.setdefault(content_sha256, own)
        return None if first == own else first

    async def _find_circles(self, outcomes: Sequence[PageOutcome]) -> None:
        """A redirect back to where it came from ends nowhere: that is a failure, and not a page that is known."""
        for outcome in outcomes:
            target = outcome.target
            if target is not None and await self._frontier.leads_back(self._database, outcome.item, target):
                outcome.target = None
                outcome.error_type, outcome.error = "redirect_loop", "The redirects lead in a circle."

    async def _find_firsts(self, outcomes: Sequence[PageOutcome]) -> None:
        """Recall who had the contents of this batch first, when that was too long ago to be in memory."""
        knows_all = len(self._firsts) < MAX_FIRSTS and self._tally.pages <= len(self._firsts) + self._tally.duplicates
        if knows_all and self._job.parent_id is None:
            return
        contents = {
            hash_content(outcome.extraction.markdown) for outcome in outcomes if outcome.extraction is not None
        } - self._firsts.keys()
        if contents:
            async with self._database.reading() as connection:
                found = await CrawledPages(connection).first_with_content(self._scope_id, self._crawl_id, contents)
            if len(self._firsts) >= MAX_FIRSTS:
                self._firsts.clear()
            self._firsts.update(found)

    async def _memory(self, host: str) -> SiteBoilerplate:
        known = self._memories.get(host)
        if known is None:
            async with self._database.reading() as connection:
                stored = await SiteMemories(connection).recall(self._job.tenant_id, host)
            known = SiteBoilerplate() if stored is None else SiteBoilerplate.from_bytes(stored.memory)
            if len(self._memories) >= MAX_MEMORIES:
                self._evict(next(iter(self._memories)))
        else:
            del self._memories[host]
        self._memories[host] = known  # the last one used is the last one
        self._unsaved.add(host)
        return known

    def _evict(self, host: str) -> None:
        if host in self._unsaved:
            self._unsaved.remove(host)
            self._evicted.append(self._packed(host))
        del self._memories[host]

    def _packed(self, host: str) -> SiteMemory:
        return SiteMemory(
            scope_id=self._job.tenant_id,
            host=host,
            tenant_id=self._job.tenant_id,
            memory=self._memories[host].to_bytes(),
        )


async def settle_duplicates(connection: AsyncConnection, scope_id: str, job_id: str) -> int:
    """At the end: what only repeats a page that this crawl does not have is no duplicate; returns how many.

    The page may have failed, changed or gone since, or lie outside of the crawl, or call this one its original.
    """
    pages, acquitted, after = CrawledPages(connection), 0, ""
    while doubtful := await pages.doubtful_duplicates(job_id, after=after):
        own_word = [page for page in doubtful if _canonical_hash(page) == page.duplicate_of]
        found = await pages.with_content(scope_id, job_id, {page.duplicate_of or "" for page in own_word})
        right = {page.url_hash for page in own_word if page.duplicate_of in found}
        wrong = [page.url_hash for page in doubtful if page.url_hash not in right]
        await pages.acquit(scope_id, wrong)
        acquitted, after = acquitted + len(wrong), doubtful[-1].url_hash
    return acquitted


def _canonical_hash(page: CrawledPage) -> str | None:
    canonical = (unpack_details(page.details).get("metadata") or {}).get("canonical_url")
    return hash_url(normal_form(canonical)) if canonical else None
