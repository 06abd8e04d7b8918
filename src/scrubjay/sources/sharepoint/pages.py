"""Site pages: modern pages with their canvas, wiki pages and publishing pages, as clean HTML and Markdown."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from scrubjay.errors import ExtractionFailed, FetchFailed
from scrubjay.sources.sharepoint.canvas import canvas_to_html, clean_html, html_to_markdown, write_page
from scrubjay.sources.sharepoint.client import SharePointClient
from scrubjay.sources.sharepoint.items import SELECTED, SharePointItem, quoted, read_item
from scrubjay.sources.sharepoint.libraries import Library, list_files

PAGE_TYPE = "aspx"
_CANVAS, _WIKI, _PUBLISHING = "CanvasContent1", "WikiField", "PublishingPageContent"


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePage:
    item: SharePointItem
    title: str
    original_html: str = field(repr=False)  # as SharePoint has it
    html: str = field(repr=False)  # cleaned, a whole document
    markdown: str = field(repr=False)


async def list_pages(
    client: SharePointClient, library: Library, filter_: str | None = None, *, most: int | None = None
) -> AsyncIterator[SharePointItem]:
    """The pages of a library; pictures and templates' files in it are none."""
    async for item in list_files(client, library, filter_, most=most):
        if item.file_type == PAGE_TYPE:
            yield item


async def read_page(client: SharePointClient, server_relative_url: str) -> SitePage:
    """A page's text as it is now."""
    try:
        row = await _read_fields(client, server_relative_url, f"*,{SELECTED},{_CANVAS},{_WIKI}")
    except FetchFailed as error:
        if error.details.get("status") != 400:
            raise
        # Libraries of publishing pages have neither field, and refuse to be asked for them by name.
        row = await _read_fields(client, server_relative_url, f"*,{SELECTED}")
    return make_page(read_item(row, client.site), row)


async def _read_fields(client: SharePointClient, server_relative_url: str, select: str) -> Mapping[str, Any]:
    path = "web/GetFileByServerRelativePath(DecodedUrl=@a1)/ListItemAllFields"
    query = {"@a1": quoted(server_relative_url), "$select": select, "$expand": "File"}
    return await client.get(path, query, subject=f"The page '{server_relative_url}'")


def make_page(item: SharePointItem, row: Mapping[str, Any]) -> SitePage:
    title = str(row.get("Title") or item.filename.rpartition(".")[0])
    original = str(row.get(_CANVAS) or row.get(_WIKI) or row.get(_PUBLISHING) or "")
    try:
        body = clean_html(canvas_to_html(original) if row.get(_CANVAS) else original)
        text = html_to_markdown(body, item.url)
    except (ValueError, RecursionError) as error:
        raise ExtractionFailed(
            f"The page '{item.server_relative_url}' cannot be understood: {error}", error_type="bad_canvas"
        ) from error
    return SitePage(
        item=item,
        title=title,
        original_html=original,
        html=write_page(title, body),
        markdown=f"# {' '.join(title.split())}\n\n{text}".strip() + "\n",
    )
