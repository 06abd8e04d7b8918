"""What a source says when it is asked: its entries, or that nothing changed. Feeds here, the others beside.

Whatever it answers instead of a listing is FetchFailed, in words that end up on the watch.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from scrubjay.crawler.fetcher import FetchRequest, FetchResponse
from scrubjay.crawler.polite import retry_after_seconds
from scrubjay.crawler.robots import Robots
from scrubjay.errors import FetchFailed
from scrubjay.extract.pool import ExtractionPool
from scrubjay.model.urls import hash_url, host_of, normal_form, parse_url, registrable_domain
from scrubjay.model.watching import Watch
from scrubjay.queue.context import storable
from scrubjay.sources.feed_parsing import Feed, FeedEntry, parse_feed
from scrubjay.watches.analysis import FUTURE_ALLOWED
from scrubjay.watches.budget import MeteredFetcher
from scrubjay.watches.fingerprint import (
    FINGERPRINT_CHARACTERS,
    TELLING_CHARACTERS,
    hash_entry,
    plain_text,
    telling_fingerprint,
)

MAX_FEED_BYTES = 10 * 1024 * 1024
MAX_ENTRIES = 10_000
TIMEOUT_SECONDS = 30.0
MAX_VALIDATOR_CHARACTERS = 255
MAX_TITLE_CHARACTERS = 500
_ACCEPT = "application/atom+xml,application/rss+xml,application/feed+json,application/xml;q=0.9,*/*;q=0.8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that a source lists."""

    key_hash: str
    url: str  # what can be fetched
    url_hash: str
    is_page: bool = True  # whether there is a page behind it that a crawl can take in
    title: str | None = None
    text: str = ""  # what the listing itself says of it, without markup
    entry_hash: str | None = None
    fingerprint: str | None = None  # of the article, where the source is the article
    published_at: datetime | None = None
    is_old: bool = False  # it was there before the watch looked for the first time

    @property
    def text_fingerprint(self) -> str | None:
        """Of the article, or else of what the listing says; with the title, because teasers may all be the same."""
        return self.fingerprint or (telling_fingerprint(f"{self.title}\n{self.text}") if self.is_telling else None)

    @property
    def is_telling(self) -> bool:
        """Whether the listing says so much of it that there is no need to look."""
        return self.fingerprint is not None or len(self.text) >= TELLING_CHARACTERS

    @property
    def site(self) -> str:
        return registrable_domain(host_of(self.url))


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchListing:
    """What came back. What may be left out of the next question is only remembered when all of it was dealt with."""

    entries: tuple[Entry, ...] = ()
    unchanged: bool = False
    etag: str | None = None
    last_modified: str | None = None
    memory: Mapping[str, Any] | None = None  # nothing means: as it was
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """What reading a source needs, for one poll."""

    fetcher: MeteredFetcher
    robots: Robots
    pool: ExtractionPool
    now: datetime

    async def obey_robots(self, url: str) -> None:
        verdict = await self.robots.allowed(url)
        await self.fetcher.polite.politeness.respect_crawl_delay(host_of(url), verdict.crawl_delay_seconds)
        if not verdict.allowed:
            raise FetchFailed(verdict.message, error_type=str(verdict.reason))


async def read_feed(reader: Reader, watch: Watch) -> WatchListing:
    answer = await reader.fetcher.fetch(
        FetchRequest(
            url=watch.url,
            headers={"Accept": _ACCEPT},
            etag=watch.etag,
            last_modified=watch.last_modified,
            max_bytes=MAX_FEED_BYTES,
            timeout_seconds=TIMEOUT_SECONDS,
        )
    )
    if is_unchanged(answer, watch):
        return WatchListing(unchanged=True)
    digest = hashlib.sha256(answer.body).hexdigest()
    if digest == watch.memory.get("body_sha256"):
        return WatchListing(unchanged=True)  # it does not understand conditions, but says the same
    feed, entries = await asyncio.to_thread(_read_feed, answer, reader.now)
    problems = [*moved(answer), *feed.problems]
    if len(feed.entries) > MAX_ENTRIES:
        problems.append(f"Only the first {MAX_ENTRIES:,} of {len(feed.entries):,} entries are looked at.")
    return WatchListing(
        entries=entries,
        etag=validator(answer.etag),
        last_modified=validator(answer.last_modified),
        memory={"body_sha256": digest},
        problems=tuple(problems),
    )


def _read_feed(answer: FetchResponse, now: datetime) -> tuple[Feed, tuple[Entry, ...]]:
    feed = parse_feed(answer.body, answer.url, answer.content_type)
    entries: dict[str, Entry] = {}
    for each in islice(feed.entries.values(), MAX_ENTRIES):
        entry = _feed_entry(feed, each, now)
        entries.setdefault(entry.key_hash, entry)
    return feed, tuple(entries.values())


def _feed_entry(feed: Feed, entry: FeedEntry, now: datetime) -> Entry:
    page = entry.page_url
    # Entries that share a page are told apart by their ids.
    own = page if page is not None and feed.has_own_page(entry) else None
    text = str(storable(plain_text(entry.text[: 4 * FINGERPRINT_CHARACTERS])))[:FINGERPRINT_CHARACTERS]
    title = None if entry.title is None else str(storable(entry.title))[:MAX_TITLE_CHARACTERS]
    return Entry(
        key_hash=hash_text(entry.key),
        url=page or parse_url(feed.url).text,
        url_hash=hash_url(normal_form(own)) if own else hash_text(f"{feed.url}\n{entry.key}"),
        is_page=page is not None,
        title=title,
        text=text,
        entry_hash=hash_entry(title, text),
        published_at=plausible(entry.published_at or entry.updated_at, now),
    )


def plausible(moment: datetime | None, now: datetime) -> datetime | None:
    """A date that can be believed: nothing is published tomorrow."""
    return None if moment is None or moment > now + FUTURE_ALLOWED else min(moment, now)


def is_unchanged(answer: FetchResponse, watch: Watch) -> bool:
    """Whether a source says that nothing changed; anything but that and a 200 is a failure."""
    if answer.not_modified and (watch.etag or watch.last_modified):
        return True
    require_ok(answer)
    return False


def require_ok(answer: FetchResponse) -> None:
    if answer.status == 200:
        return
    message = f"{answer.url} answered with HTTP status {answer.status}."
    if answer.status == 304:
        message = f"{answer.url} says that nothing changed, but was not asked for that."
    raise FetchFailed(
        message, error_type="http_error", status=answer.status, retry_after_seconds=retry_after_seconds(answer)
    )


def moved(answer: FetchResponse) -> list[str]:
    return [f"The address leads to {answer.url}."] if answer.redirects else []


def validator(text: str | None) -> str | None:
    """An ETag or date to send back; one that is too long to keep is not."""
    if text is None or len(text) > MAX_VALIDATOR_CHARACTERS:
        return None
    return str(storable(text))


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
