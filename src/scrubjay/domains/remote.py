"""The sources of a domain as connectors. Their items are rows of `sharepoint_map.csv`, which can be fetched as files.

A listing is complete or raises: a source that cannot be listed to the end is never taken for one that has less.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel

from scrubjay.crawler.page_store import markdown_of
from scrubjay.crawler.web_crawler import WebCrawler
from scrubjay.domains.definition import DomainSource, FileSource, ListSource, SitePageSource, WebSource
from scrubjay.domains.folders import ORIGINAL_SUFFIX, safe_local_path
from scrubjay.domains.maps import Row, moment_columns
from scrubjay.domains.orders import CrawlScope
from scrubjay.errors import FetchFailed, InvalidRequest, Unavailable
from scrubjay.model.crawling import CrawledPage
from scrubjay.model.source import SourceItem, hash_key
from scrubjay.model.tenant import DEFAULT_TENANT_ID
from scrubjay.model.urls import normal_form
from scrubjay.queue.context import JobContext
from scrubjay.sources.protocol import ConnectorType
from scrubjay.sources.sharepoint import SharePointItem, SharePointSite, TokenSource, open_site, wait_in
from scrubjay.sources.sharepoint.items import SiteAddress, read_moment
from scrubjay.sources.web import WebConnector
from scrubjay.storage.crawled_pages import CrawledPages

SITE_PAGES = "/SitePages"
TITLE_MARK = "<!-- title: "  # a page's title is not in its canvas
REPOSITORY_TYPE = "SharePoint"


@dataclass(frozen=True, slots=True)
class ListedRow:
    row: Row  # of sharepoint_map.csv
    is_seen: bool = True  # false: it is there as far as anybody knows, but this listing did not come to it


class Remote(Protocol):
    """One source of a domain, listed like any connector's; the key of an item is its `raw_url`."""

    problems: list[str]

    def enumerate(self, context: JobContext, limit: int | None = None) -> AsyncIterator[SourceItem]: ...

    async def rows(self, *, is_complete: bool) -> list[ListedRow]:
        """What was listed, once it is."""

    async def fetch(self, row: Row, target: Path) -> None:
        """Write the file of a row. FetchFailed and ExtractionFailed are about this file alone."""

    async def close(self) -> None: ...


def local_path(kind: CrawlScope, source: DomainSource, row: Row) -> str:
    """Where a row's file is kept: the same as long as its address is."""
    if isinstance(source, WebSource):
        return _local_path_of_page(row["raw_url"])
    if isinstance(source, ListSource):
        return safe_local_path(row["filename"].replace("/", "_").replace("\\", "_"))
    inside = row["server_relative_url"]
    if isinstance(source, FileSource):
        part = source.sharepoint_url_part or (SITE_PAGES if kind is CrawlScope.SITEPAGES else "")
        top = SiteAddress.parse(source.site_url).resolve(part)
        inside = inside[len(top) :] if inside.lower().startswith(f"{top.lower()}/") else row["filename"]
    if kind is CrawlScope.SITEPAGES:
        inside = inside.rpartition(".")[0] + ORIGINAL_SUFFIX[kind]
    return safe_local_path(inside)


def local_paths(kind: CrawlScope, source: DomainSource, rows: Sequence[Row]) -> list[str]:
    """Where all files of a source are kept, each in a place of its own."""
    paths = [local_path(kind, source, row) for row in rows]
    taken = Counter(path.casefold() for path in paths)  # where case does not matter, two of them would be one file
    return [
        path if taken[path.casefold()] == 1 else _marked(path, row["sharepoint_unique_file_id"])
        for path, row in zip(paths, rows, strict=True)
    ]


def _marked(path: str, unique_id: str) -> str:
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    mark = hashlib.sha256(unique_id.encode()).hexdigest()[:8]
    return f"{folder}{slash}{stem}~{mark}.{suffix}" if dot else f"{path}~{mark}"


def _local_path_of_page(url: str) -> str:
    parts = urlsplit(normal_form(url))
    path = parts.path.strip("/") or "index"
    mark = f"~{hashlib.sha256(parts.query.encode()).hexdigest()[:8]}" if parts.query else ""
    return safe_local_path(f"{parts.netloc.replace(':', '_')}/{path}{mark}{ORIGINAL_SUFFIX[CrawlScope.WEB]}")


class SharePointSites:
    """The sites of one job; they share their tokens, and are opened when they are first needed."""

    def __init__(self, crawler: WebCrawler, context: JobContext, stack: AsyncExitStack) -> None:
        self._crawler = crawler
        self._context = context
        self._stack = stack
        self._tokens: TokenSource | None = None
        self._sites: dict[str, SharePointSite] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, crawler: WebCrawler, context: JobContext) -> AsyncIterator["SharePointSites"]:
        async with AsyncExitStack() as stack:
            yield cls(crawler, context, stack)

    async def site(self, url: str) -> SharePointSite:
        if url not in self._sites:
            settings, network = self._crawler.settings, self._crawler.network
            if self._context.job.tenant_id != DEFAULT_TENANT_ID:
                # It reads whatever the operator's company lets it read, whoever asks.
                raise FetchFailed("The SharePoint app belongs to the default tenant.", error_type="forbidden")
            if self._tokens is None:
                self._tokens = await self._stack.enter_async_context(TokenSource.from_settings(settings, network))
            site = open_site(settings, network, url, wait=wait_in(self._context), tokens=self._tokens)
            self._sites[url] = await self._stack.enter_async_context(site)
        return self._sites[url]


@dataclass(slots=True)
class SharePointRemote:
    """A library, a list or the pages of a site."""

    sites: SharePointSites
    source: FileSource | ListSource
    problems: list[str] = field(default_factory=list)
    _listed: list[Row] = field(default_factory=list)
    _unreadable: dict[str, str] = field(default_factory=dict)  # why, by address
    _exports: dict[str, bytes] = field(default_factory=dict)  # of lists, which are read to be listed

    async def enumerate(self, context: JobContext, limit: int | None = None) -> AsyncIterator[SourceItem]:
        self._listed = []
        try:
            async for row in self._rows():
                self._listed.append(row)
                yield SourceItem(
                    key=row["raw_url"],
                    key_hash=hash_key(row["raw_url"]),
                    content_length=int(row["file_size"]),
                    last_modified_at=read_moment(row["last_modified_utc"]),
                )
        except Unavailable as error:
            # Other sources do not wait for this one to get well.
            raise FetchFailed(error.message, error_type="source_unreadable") from error

    async def _rows(self) -> AsyncIterator[Row]:
        source = self.source
        site = await self.sites.site(source.site_url)
        if isinstance(source, ListSource):
            yield await self._export(site, source)
            return
        chosen = source.filter or None
        if isinstance(source, SitePageSource):
            items = site.page_items(source.sharepoint_url_part or SITE_PAGES, chosen)
        else:
            items = site.library_items(source.sharepoint_url_part, chosen)
        async for item in items:
            if item.problem is not None:
                self._unreadable[item.raw_url] = item.problem
            yield _row(item)

    async def _export(self, site: SharePointSite, source: ListSource) -> Row:
        """A list is one file, whose size is that of its export."""
        export = await site.list_items(source.list_name, source.filter or None)
        data = self._exports[export.raw_url] = export.csv.encode()
        return {
            "sharepoint_listitem_id": "",
            "sharepoint_unique_file_id": export.id,
            "filename": f"{export.title}{ORIGINAL_SUFFIX[CrawlScope.LISTS]}",
            "file_type": "csv",
            "file_size": str(len(data)),
            "url": export.url,
            "raw_url": export.raw_url,
            "server_relative_url": export.server_relative_url,
            **moment_columns("last_modified", export.modified_at),
        }

    async def rows(self, *, is_complete: bool) -> list[ListedRow]:
        return [ListedRow(row) for row in self._listed]

    async def fetch(self, row: Row, target: Path) -> None:
        site = await self.sites.site(self.source.site_url)
        if isinstance(self.source, ListSource):
            if row["raw_url"] not in self._exports:  # listed by a process that is gone
                await self._export(site, self.source)
            await asyncio.to_thread(target.write_bytes, self._exports[row["raw_url"]])
            return
        item = _item(row, self._unreadable.get(row["raw_url"]))
        if not isinstance(self.source, SitePageSource):
            await site.download(item, target)
            return
        page = await site.read_page(item)
        title = " ".join(page.title.split()).replace("--", "–")  # two dashes would end the comment
        text = f"{TITLE_MARK}{title} -->\n{page.original_html}"
        await asyncio.to_thread(target.write_text, text, "utf-8", "replace")

    async def close(self) -> None:
        """Sites are closed with the job."""


class WebRemote(WebConnector):
    """A web site, whose pages become files of Markdown."""

    __slots__ = ("_job_id",)

    async def enumerate(self, context: JobContext, limit: int | None = None) -> AsyncIterator[SourceItem]:
        self._job_id = context.job.id
        async for item in WebConnector.enumerate(self, context, limit):
            yield item

    async def rows(self, *, is_complete: bool) -> list[ListedRow]:
        """Pages that this crawl saw, or that it may not have come to; one that could not be read keeps its text."""
        return [
            ListedRow(_page_row(page), is_seen=page.job_id == self._job_id)
            async for page in self._pages()
            if page.content is not None and (page.job_id == self._job_id or not is_complete)
        ]

    async def _pages(self) -> AsyncIterator[CrawledPage]:
        after = ""
        while True:
            async with self.tools.crawler.database.reading() as connection:
                pages = await CrawledPages(connection).of_scope(self.plan.id, after=after)
            if not pages:
                return
            for page in pages:
                yield page
            after = pages[-1].url_hash

    async def fetch(self, row: Row, target: Path) -> None:
        async with self.tools.crawler.database.reading() as connection:
            found = await CrawledPages(connection).by_hashes(self.plan.id, [row["sharepoint_unique_file_id"]])
        if not found or found[0].content is None:
            raise FetchFailed(f"{row['url']} has no content any more.", error_type="gone")
        await asyncio.to_thread(target.write_bytes, _text_of(found[0]))


def _page_row(page: CrawledPage) -> Row:
    local = _local_path_of_page(page.url)
    return {
        "sharepoint_listitem_id": "",
        "sharepoint_unique_file_id": page.url_hash,
        "filename": local.rpartition("/")[2],
        "file_type": "md",
        "file_size": str(len(_text_of(page))),
        "url": page.url,
        "raw_url": page.url,
        "server_relative_url": urlsplit(page.url).path or "/",
        **moment_columns("last_modified", page.changed_at),
    }


def _text_of(page: CrawledPage) -> bytes:
    text = markdown_of(page)
    if page.title and not text.lstrip().startswith("# "):
        text = f"# {page.title}\n\n{text}"
    return text.encode("utf-8", "replace")


def _row(item: SharePointItem) -> Row:
    return {
        "sharepoint_listitem_id": str(item.sharepoint_listitem_id),
        "sharepoint_unique_file_id": item.sharepoint_unique_file_id,
        "filename": item.filename,
        "file_type": item.file_type,
        "file_size": str(item.file_size),
        "url": item.url,
        "raw_url": item.raw_url,
        "server_relative_url": item.server_relative_url,
        "last_modified_utc": item.last_modified_utc,
        "last_modified_timestamp": str(item.last_modified_timestamp),
    }


def _item(row: Row, problem: str | None) -> SharePointItem:
    return SharePointItem(
        sharepoint_listitem_id=int(row["sharepoint_listitem_id"]),
        sharepoint_unique_file_id=row["sharepoint_unique_file_id"],
        filename=row["filename"],
        file_type=row["file_type"],
        file_size=int(row["file_size"]),
        url=row["url"],
        raw_url=row["raw_url"],
        server_relative_url=row["server_relative_url"],
        modified_at=read_moment(row["last_modified_utc"]),
        problem=problem,
    )


def _refuse(*_: object) -> NoReturn:
    raise InvalidRequest("SharePoint is crawled as a source of a domain.", field="RepositoryType")


SHAREPOINT = ConnectorType(name=REPOSITORY_TYPE, settings=BaseModel, skips_system_files=False, open=_refuse)
