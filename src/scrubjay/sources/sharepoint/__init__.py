"""SharePoint as a source: libraries, lists and site pages of one site, read by an app through the REST protocol.

    async with open_site(settings, network, "https://acme.sharepoint.com/sites/demo", wait=wait_in(context)) as site:
        async for item in site.library_items("/Shared Documents/Reports", "Modified gt datetime'2026-01-01T00:00:00Z'"):
            await site.download(item, target_path)             # parents are made, the file gets the item's time
        export = await site.list_items("Ice creams")            # .rows, .markdown, .csv, .last_modified_utc, .url, …
        async for page in site.site_pages("/SitePages"):        # .item, .title, .html, .markdown, .original_html
            ...

Whatever keeps a source from being listed is raised as FetchFailed, also in the middle of it, so that a listing which
ends without an error is complete. `download` and `read_page` raise FetchFailed for their item alone.
Several sites of one run share their tokens: `async with TokenSource.from_settings(settings, network) as tokens`, and
`open_site(…, tokens=tokens)`.
"""

from scrubjay.sources.sharepoint.auth import AppCredentials, TokenSource
from scrubjay.sources.sharepoint.client import Wait, wait_in
from scrubjay.sources.sharepoint.items import SharePointItem
from scrubjay.sources.sharepoint.lists import ListExport
from scrubjay.sources.sharepoint.pages import SitePage
from scrubjay.sources.sharepoint.site import SharePointSite, open_site

__all__ = [
    "AppCredentials",
    "ListExport",
    "SharePointItem",
    "SharePointSite",
    "SitePage",
    "TokenSource",
    "Wait",
    "open_site",
    "wait_in",
]
