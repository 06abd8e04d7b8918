"""Feeds as a source: each entry of an RSS, Atom or JSON feed is a document, or leads to the page that is one."""

import asyncio
import html
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, field_validator

from scrubjay.crawler.fetcher import Fetcher, FetchRequest
from scrubjay.crawler.page_store import hash_content
from scrubjay.crawler.polite import PoliteFetcher
from scrubjay.crawler.politeness import Manners, Politeness
from scrubjay.crawler.robots import Robots
from scrubjay.errors import ExtractionFailed, FetchFailed, InvalidRequest, UrlInvalid
from scrubjay.model.clock import utc_now
from scrubjay.model.plan import Plan
from scrubjay.model.source import Connectivity, SourceContent, SourceItem, hash_key
from scrubjay.model.urls import parse_url
from scrubjay.queue.context import JobContext, storable
from scrubjay.sources.feed_pages import LinkedPages, fetch_politely
from scrubjay.sources.feed_parsing import Feed, FeedEntry, parse_feed
from scrubjay.sources.protocol import ConnectorType, Tools

MAX_FEED_BYTES = 20 * 1024 * 1024
MAX_PAGE_BYTES = 50 * 1024 * 1024
BATCH = 16
RETRIES = 2
_ACCEPT = "application/atom+xml,application/rss+xml,application/feed+json,application/xml;q=0.9,*/*;q=0.8"
_HTML_TYPE = "text/html; charset=utf-8"


class FeedSettings(BaseModel):
    """Which feed is read, and whether its own text is enough."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, Field(max_length=2048)] | None = None
    full_pages: bool = False  # the page behind each entry instead of what the feed says of it
    max_entries: Annotated[int, Field(ge=1, le=10_000)] = 1000
    user_agent: Annotated[str, Field(min_length=1, max_length=500)] | None = None

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            url = parse_url(value)
        except UrlInvalid as error:
            raise ValueError(f"url: {error.message}") from error
        if url.username or url.password:
            raise ValueError("url must have no credentials")
        return url.text


@dataclass(frozen=True, slots=True)
class _Listed:
    """An entry with what it says in Markdown."""

    entry: FeedEntry
    markdown: str
    text_sha256: str


class FeedConnector:
    def __init__(self, url: str, wanted: FeedSettings, plan: Plan, tools: Tools) -> None:
        crawler = tools.crawler
        user_agent = wanted.user_agent or crawler.settings.crawl_user_agent
        self._url = url
        self._wanted = wanted
        self._keeps_originals = plan.ingestion_settings.store_original
        self._crawler = crawler
        self._fetcher: Fetcher = crawler.network.fetcher(user_agent=user_agent)
        politeness = Politeness(crawler.cache, crawler.database, plan.tenant_id, Manners())
        self._polite = PoliteFetcher(self._fetcher, politeness, RETRIES)
        robots = Robots(self._polite, crawler.cache, user_agent=user_agent)
        self._pages = LinkedPages(self._polite, robots, crawler.pool)
        self._feed: Feed | None = None
        self._fetched_at: datetime | None = None
        self._loading = asyncio.Lock()
        self._problems: list[str] = []

    @property
    def problems(self) -> list[str]:
        return self._problems

    async def check(self) -> Connectivity:
        try:
            feed = await self._fetch(replace(self._polite, retries=0))
        except FetchFailed as error:
            return Connectivity(False, error.message)
        return Connectivity(True, f"The feed '{feed.title or self._url}' has {len(feed.entries)} entries.")

    async def enumerate(self, context: JobContext, limit: int | None = None) -> AsyncIterator[SourceItem]:
        self._problems = []
        await context.checkpoint()
        feed = await self._load()
        self._problems = list(feed.problems)
        most = self._wanted.max_entries if limit is None else min(limit, self._wanted.max_entries)
        left = iter(list(islice(feed.entries.values(), most)))
        while batch := list(islice(left, BATCH)):
            await context.checkpoint()
            for listed in await asyncio.gather(*(self._try_listing(feed, entry) for entry in batch)):
                if listed is not None:
                    yield self._item_of(listed)

    async def read(self, item: SourceItem) -> SourceContent:
        async with self._loading:  # the first of many readings fetches the feed for all
            feed = self._feed or await self._load()
        entry = feed.entries.get(item.key)
        if entry is None:
            raise FetchFailed(f"The feed no longer has the entry '{item.key}'.", error_type="not_found")
        if self._wanted.full_pages and entry.page_url is not None:
            return await self._read_page(feed, entry, entry.page_url)
        listed = await self._list(feed, entry)
        return SourceContent(
            url=self._address_of(feed, entry),
            markdown=listed.markdown,
            title=entry.title,
            content_type="text/markdown",
            language=entry.language or feed.language,
            parent_url=self._url,
            details=self._details(feed, entry),
            size_bytes=len(listed.markdown.encode()),
            crawled_at=self._fetched_at,
        )

    async def close(self) -> None:
        await self._fetcher.close()

    async def _load(self) -> Feed:
        self._feed = await self._fetch(self._polite)
        self._fetched_at = utc_now()
        return self._feed

    async def _fetch(self, polite: PoliteFetcher) -> Feed:
        request = FetchRequest(url=self._url, headers={"Accept": _ACCEPT}, max_bytes=MAX_FEED_BYTES)
        answer = await fetch_politely(polite, request)
        return await asyncio.to_thread(parse_feed, answer.body, answer.url, answer.content_type)

    async def _try_listing(self, feed: Feed, entry: FeedEntry) -> _Listed | None:
        try:
            return await self._list(feed, entry)
        except ExtractionFailed as error:
            self._problems.append(f"The entry '{entry.key}' cannot be read: {error.message}")
            return None

    async def _list(self, feed: Feed, entry: FeedEntry) -> _Listed:
        body = entry.text.strip()
        if entry.is_html and ("<" in body or "&" in body):
            title = html.escape(entry.title or "")
            page = (
                f"<!DOCTYPE html><html><head><title>{title}</title></head><body><article>{body}</article></body></html>"
            )
            extraction = await self._crawler.pool.extract(
                page.encode("utf-8", "replace"), url=entry.page_url or feed.url, content_type=_HTML_TYPE
            )
            body = extraction.markdown.strip()
        heading = f"# {entry.title}" if entry.title else ""
        parts = [body] if heading and body.partition("\n")[0] == heading else [heading, body]
        markdown = str(storable("\n\n".join(part for part in parts if part)))
        return _Listed(entry, markdown, hash_content(markdown))

    def _item_of(self, listed: _Listed) -> SourceItem:
        """What the entry says is what the document says, or else only a sign that the page may have changed."""
        entry = listed.entry
        item = SourceItem(
            key=entry.key, key_hash=hash_key(entry.key), last_modified_at=entry.updated_at or entry.published_at
        )
        if self._wanted.full_pages and entry.page_url is not None:
            return replace(item, content_type="text/html", etag=listed.text_sha256)
        return replace(
            item,
            content_type="text/markdown",
            content_length=len(listed.markdown.encode()),
            text_sha256=listed.text_sha256,
        )

    async def _read_page(self, feed: Feed, entry: FeedEntry, url: str) -> SourceContent:
        answer, extraction = await self._pages.read(url, MAX_PAGE_BYTES)
        original = await self._crawler.blobs.put(answer.body) if self._keeps_originals else None
        return SourceContent(
            url=url,
            markdown=extraction.markdown,
            title=extraction.title or entry.title,
            content_type=answer.content_type,
            language=extraction.metadata.get("language") or entry.language or feed.language,
            parent_url=self._url,
            details=self._details(feed, entry),
            size_bytes=answer.size,
            original_sha256=None if original is None else original.sha256,
            crawled_at=utc_now(),
        )

    def _address_of(self, feed: Feed, entry: FeedEntry) -> str:
        """The entry's link; one inside the feed where others have the same link, or there is none."""
        page = entry.page_url
        return page if page and feed.has_own_page(entry) else f"feed:{self._url}#{quote(entry.key, safe='')}"

    def _details(self, feed: Feed, entry: FeedEntry) -> dict[str, Any]:
        facts = {
            "feed_url": self._url,
            "feed_title": feed.title,
            "link": entry.link,
            "published": entry.published_at and entry.published_at.isoformat(),
            "updated": entry.updated_at and entry.updated_at.isoformat(),
            "author": entry.author,
            "tags": list(entry.tags),
        }
        return {name: storable(value) for name, value in facts.items() if value}


def _open(plan: Plan, tools: Tools) -> FeedConnector:
    wanted = FeedSettings.model_validate(plan.repository_settings)
    if wanted.url is None:
        raise InvalidRequest("The plan has no url.", field="url")
    return FeedConnector(wanted.url, wanted, plan, tools)


FEED = ConnectorType(
    name="Feed",
    settings=FeedSettings,
    required=("url",),
    skips_system_files=False,
    lists_everything=False,
    open=_open,
)
