"""One site of SharePoint, opened for one run: everything that those above ask of it."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from scrubjay.crawler.fetcher import Fetcher, Network
from scrubjay.errors import FetchFailed
from scrubjay.settings import Settings
from scrubjay.sources.sharepoint.auth import TokenSource
from scrubjay.sources.sharepoint.client import SharePointClient, Wait, wait_quietly
from scrubjay.sources.sharepoint.items import SharePointItem, SiteAddress, quoted
from scrubjay.sources.sharepoint.libraries import Library, find_library, list_files, require_folder
from scrubjay.sources.sharepoint.lists import ListExport, ListState, export_list, find_list
from scrubjay.sources.sharepoint.pages import SitePage, list_pages, read_page

_CONTENT = "web/GetFileByServerRelativePath(DecodedUrl=@a1)/$value"
_PAGES_AT_ONCE = 8


class SharePointSite:
    """A site's libraries, lists and pages. Close it when the run is over."""

    def __init__(self, client: SharePointClient, fetcher: Fetcher, own_tokens: TokenSource | None = None) -> None:
        self._client = client
        self._fetcher = fetcher
        self._own_tokens = own_tokens
        self._libraries: dict[str, Library] = {}

    @property
    def address(self) -> SiteAddress:
        return self._client.site

    @property
    def wait(self) -> Wait:
        """How it waits when SharePoint throttles; a run sets its own."""
        return self._client.wait

    @wait.setter
    def wait(self, wait: Wait) -> None:
        self._client.wait = wait

    async def check(self, url_part: str) -> Library:
        """The library or folder at an address, asked for once and without patience."""
        library = await find_library(self._client, url_part, patient=False)
        await require_folder(self._client, library)
        return library

    async def library_items(
        self,
        url_part: str,
        filter: str | None = None,  # noqa: A002 - the source's word
        *,
        most: int | None = None,
    ) -> AsyncIterator[SharePointItem]:
        """Every file of a library's folder and the folders in it; all of them, if it ends without an error."""
        library = await self._open_library(url_part)
        async for item in list_files(self._client, library, filter, most=most):
            yield item

    async def download(self, item: SharePointItem, target_path: Path) -> int:
        """Write a file to disk with the time of its last change. Its size; FetchFailed is about this file alone."""
        path = item.server_relative_url
        subject = f"The file '{path}'"
        if item.problem is not None:
            raise FetchFailed(f"{subject} cannot be read: {item.problem}", error_type="unreadable")
        query = {"@a1": quoted(path)}
        size = await self._client.download(_CONTENT, query, target_path, subject=subject, size=item.file_size)
        moment = item.modified_at.timestamp()
        await asyncio.to_thread(os.utime, target_path, (moment, moment))
        return size

    async def read_file(self, server_relative_url: str, max_bytes: int) -> bytes:
        """A file's bytes in memory."""
        subject = f"The file '{server_relative_url}'"
        query = {"@a1": quoted(server_relative_url)}
        return (await self._client.read(_CONTENT, query, subject=subject, max_bytes=max_bytes)).body

    async def list_state(self, list_title: str, *, patient: bool = True) -> ListState:
        """When a list changed last, in one request."""
        return await find_list(self._client, list_title, patient=patient)

    async def list_items(self, list_title: str, filter: str | None = None) -> ListExport:  # noqa: A002
        """A whole list: rows, Markdown and CSV."""
        return await export_list(self._client, list_title, filter)

    async def page_items(
        self,
        url_part: str = "/SitePages",
        filter: str | None = None,  # noqa: A002
        *,
        most: int | None = None,
    ) -> AsyncIterator[SharePointItem]:
        """The pages of a library as items, without their text: enough to see which of them changed."""
        library = await self._open_library(url_part)
        async for item in list_pages(self._client, library, filter, most=most):
            yield item

    async def read_page(self, item: SharePointItem) -> SitePage:
        """A page's text. FetchFailed and ExtractionFailed are about this page alone."""
        return await self.page_at(item.server_relative_url)

    async def page_at(self, server_relative_url: str) -> SitePage:
        return await read_page(self._client, server_relative_url)

    async def site_pages(self, url_part: str = "/SitePages", filter: str | None = None) -> AsyncIterator[SitePage]:  # noqa: A002
        """Every page with its text, some at a time. A page that cannot be read ends it: see `page_items`."""
        items = [item async for item in self.page_items(url_part, filter)]
        for start in range(0, len(items), _PAGES_AT_ONCE):
            for page in await asyncio.gather(*map(self.read_page, items[start : start + _PAGES_AT_ONCE])):
                yield page

    async def close(self) -> None:
        await self._fetcher.close()
        if self._own_tokens is not None:
            await self._own_tokens.close()

    async def __aenter__(self) -> "SharePointSite":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _open_library(self, url_part: str) -> Library:
        known = self._libraries.get(url_part)
        if known is None:
            known = self._libraries[url_part] = await find_library(self._client, url_part)
        return known


def open_site(
    settings: Settings, network: Network, site_url: str, *, wait: Wait = wait_quietly, tokens: TokenSource | None = None
) -> SharePointSite:
    """A site, read as the deployment's own app or with the tokens given. Nothing is asked yet."""
    address = SiteAddress.parse(site_url)
    fetcher = network.fetcher(user_agent=settings.crawl_user_agent)
    if tokens is not None:
        return SharePointSite(SharePointClient(fetcher, tokens, address, wait), fetcher)
    own = TokenSource.from_settings(settings, network)
    return SharePointSite(SharePointClient(fetcher, own, address, wait), fetcher, own)
