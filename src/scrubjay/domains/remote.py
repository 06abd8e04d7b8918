"""What a domain's sources have, each kind as the same thing: rows of `sharepoint_map.csv` that can be fetched.

A listing is complete or raises: a source that cannot be listed to the end is never taken for one that has less.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from scrubjay.connectors.sharepoint import SharePointItem, SharePointSite, TokenSource, open_site, wait_in
from scrubjay.connectors.sharepoint.items import SiteAddress
from scrubjay.connectors.web_job import WebCrawler
from scrubjay.connectors.web_store import markdown_of
from scrubjay.crawl.urls import normal_form
from scrubjay.domains.definition import FileSource, ListSource, SitePageSource, Source, WebSource
from scrubjay.domains.folders import ORIGINAL_SUFFIX, safe_local_path
from scrubjay.domains.maps import Row, moment_columns
from scrubjay.domains.orders import CrawlScope
from scrubjay.errors import FetchFailed
from scrubjay.jobs.context import JobContext
from scrubjay.model.crawling import CrawledPage
from scrubjay.model.tenant import DEFAULT_TENANT_ID
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.frontier import Frontier

SITE_PAGES = "/SitePages"
TITLE_MARK = "<!-- title: "  # a page's title is not in its canvas
_CRAWL_STATE = ("tally", "roots", "seeded", "refused")  # what a crawl remembers in its job's state

Fetch = Callable[[Path], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    row: Row  # of sharepoint_map.csv
    local: str  # where it is kept, below a stage's folder
    modified_at: datetime
    fetch: Fetch  # writes it to a path; FetchFailed and ExtractionFailed are about this file alone


def local_path(kind: CrawlScope, source: Source, row: Row) -> str:
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


def local_paths(kind: CrawlScope, source: Source, rows: Sequence[Row]) -> list[str]:
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


class Remotes:
    """Lists sources for one run; sites of SharePoint share their tokens, and are opened when they are first needed."""

    def __init__(self, crawler: WebCrawler, context: JobContext, stack: AsyncExitStack) -> None:
        self._crawler = crawler
        self._context = context
        self._stack = stack
        self._tokens: TokenSource | None = None
        self._sites: dict[str, SharePointSite] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, crawler: WebCrawler, context: JobContext) -> AsyncIterator["Remotes"]:
        async with AsyncExitStack() as stack:
            yield cls(crawler, context, stack)

    async def listing(self, kind: CrawlScope, source: Source, domain_id: str) -> list[RemoteFile]:
        """Everything that a source has now."""
        found = await self._list(kind, source, domain_id)
        places = local_paths(kind, source, [remote.row for remote in found])
        return [replace(remote, local=place) for remote, place in zip(found, places, strict=True)]

    async def _list(self, kind: CrawlScope, source: Source, domain_id: str) -> list[RemoteFile]:
        if isinstance(source, WebSource):
            return await self._list_web(source, domain_id)
        if isinstance(source, ListSource):
            return [await self._list_list(source)]
        if isinstance(source, SitePageSource):
            site = await self._site(source.site_url)
            part = source.sharepoint_url_part or SITE_PAGES
            pages = [item async for item in site.page_items(part, source.filter or None)]
            return [_remote(kind, source, item, _page_fetcher(site, item)) for item in pages]
        if isinstance(source, FileSource):
            site = await self._site(source.site_url)
            files = [item async for item in site.library_items(source.sharepoint_url_part, source.filter or None)]
            return [_remote(kind, source, item, _file_fetcher(site, item)) for item in files]
        raise TypeError(f"no such source: {type(source).__name__}")

    async def _site(self, url: str) -> SharePointSite:
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

    async def _list_list(self, source: ListSource) -> RemoteFile:
        """A list is one file, whose size is that of its export."""
        site = await self._site(source.site_url)
        export = await site.list_items(source.list_name, source.filter or None)
        data = export.csv.encode()
        name = f"{export.title}{ORIGINAL_SUFFIX[CrawlScope.LISTS]}"
        row = {
            "sharepoint_listitem_id": "",
            "sharepoint_unique_file_id": export.id,
            "filename": name,
            "file_type": "csv",
            "file_size": str(len(data)),
            "url": export.url,
            "raw_url": export.raw_url,
            "server_relative_url": export.server_relative_url,
            **moment_columns("last_modified", export.modified_at),
        }

        async def fetch(target: Path) -> int:
            return await asyncio.to_thread(target.write_bytes, data)

        return RemoteFile(row, local_path(CrawlScope.LISTS, source, row), export.modified_at, fetch)

    async def _list_web(self, source: WebSource, domain_id: str) -> list[RemoteFile]:
        """Crawl the site, and take its pages. What an earlier crawl knows is asked for changes only."""
        crawler, context = self._crawler, self._context
        scope_id = web_scope(context.job.tenant_id, domain_id, source.source_id)
        done = await crawler.crawl_site(context, source.spec(), scope_id)
        if not done["pages"]:
            reason = await self._why_unreadable(scope_id)
            raise FetchFailed(
                f"{source.start_url} led to no page that could be read{reason}", error_type="source_unreadable"
            )
        complete = not done["left_in_queue"]
        found = [
            self._remote_page(source, page)
            async for page in self._pages(scope_id)
            if _is_there(page, context.job.id, complete)
        ]
        async with context.transaction() as connection:
            await Frontier(connection).clear(context.job.id)  # the next site of this job begins with its own
            rest = {name: value for name, value in context.state.items() if name not in _CRAWL_STATE}
            await context.remember(connection, rest)
        if not complete:
            left = f"{done['left_in_queue']} links of '{source.start_url}' were left unread."
            await context.log(left, level="warning")
        return found

    async def _why_unreadable(self, scope_id: str) -> str:
        async for page in self._pages(scope_id):
            if page.error and page.job_id == self._context.job.id:
                return f": {page.error.rstrip('.')}."
        return "."

    async def _pages(self, scope_id: str) -> AsyncIterator[CrawledPage]:
        after = ""
        while True:
            async with self._crawler.database.reading() as connection:
                pages = await CrawledPages(connection).of_scope(scope_id, after=after)
            if not pages:
                return
            for page in pages:
                yield page
            after = pages[-1].url_hash

    def _remote_page(self, source: WebSource, page: CrawledPage) -> RemoteFile:
        row = {
            "sharepoint_listitem_id": "",
            "sharepoint_unique_file_id": page.url_hash,
            "file_size": str(len(_text_of(page))),
            "url": page.url,
            "raw_url": page.url,
            "server_relative_url": urlsplit(page.url).path or "/",
            **moment_columns("last_modified", page.changed_at),
        }
        local = local_path(CrawlScope.WEB, source, row)
        row |= {"filename": local.rpartition("/")[2], "file_type": "md"}
        scope_id, url_hash = page.scope_id, page.url_hash

        async def fetch(target: Path) -> int:
            # Read again: a whole site's texts are not kept in memory until their turn comes.
            async with self._crawler.database.reading() as connection:
                found = await CrawledPages(connection).by_hashes(scope_id, [url_hash])
            if not found or found[0].content is None:
                raise FetchFailed(f"{row['url']} has no content any more.", error_type="gone")
            return await asyncio.to_thread(target.write_bytes, _text_of(found[0]))

        return RemoteFile(row, local, page.changed_at, fetch)


def _text_of(page: CrawledPage) -> bytes:
    text = markdown_of(page)
    if page.title and not text.lstrip().startswith("# "):
        text = f"# {page.title}\n\n{text}"
    return text.encode("utf-8", "replace")


def web_scope(tenant_id: str, domain_id: str, source_id: str) -> str:
    """Under which name the pages of a domain's web source are remembered between two crawls."""
    text = "\n".join(("domain", tenant_id, domain_id, source_id))
    return "site_" + hashlib.sha256(text.encode()).hexdigest()[:27]


def _is_there(page: CrawledPage, job_id: str, complete: bool) -> bool:
    """A page that this crawl saw, or that it may just not have come to; one that could not be read keeps its text."""
    return page.content is not None and (page.job_id == job_id or not complete)


def _remote(kind: CrawlScope, source: Source, item: SharePointItem, fetch: Fetch) -> RemoteFile:
    row = {
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
    return RemoteFile(row, local_path(kind, source, row), item.modified_at, fetch)


def _file_fetcher(site: SharePointSite, item: SharePointItem) -> Fetch:
    async def fetch(target: Path) -> int:
        return await site.download(item, target)

    return fetch


def _page_fetcher(site: SharePointSite, item: SharePointItem) -> Fetch:
    async def fetch(target: Path) -> int:
        page = await site.read_page(item)
        title = " ".join(page.title.split()).replace("--", "–")  # two dashes would end the comment
        text = f"{TITLE_MARK}{title} -->\n{page.original_html}"
        return await asyncio.to_thread(target.write_text, text, "utf-8", "replace")

    return fetch
