"""Common Crawl's index on loopback, answering as index.commoncrawl.org does: `collinfo.json` and a pywb CDX server."""

import json

from tests.site import Reply, Site, SiteRequest

JSON_LINES = "text/x-ndjson"
LINES_PER_BLOCK = 3000


class CommonCrawl:
    """Serves captures on a site, in pages of `page_size` lines. Lines are in the order in which they were added."""

    def __init__(self, site: Site, *, page_size: int = 100) -> None:
        self.base_url = f"{site.url}/cc"
        self.failures_before_success = 0
        self._page_size = page_size
        self._captures: list[dict[str, str]] = []
        site.pages["/cc/collinfo.json"] = self._list_crawls
        site.pages["/cc/CC-MAIN-2026-39-index"] = self._search

    def add(self, url: str, *, status: int = 200, mime: str = "text/html") -> None:
        number = len(self._captures)
        self._captures.append(
            {
                "urlkey": url.partition("://")[2],
                "timestamp": f"20260901{number % 240000:06}",
                "url": url,
                "mime": mime,
                "mime-detected": mime,
                "status": str(status),
                "digest": "SCXFJPBRWM6QVL6SWWG5J4IMVNQMQTK2",
                "length": "1024",
                "offset": str(number * 1024),
                "filename": "crawl-data/CC-MAIN-2026-39/segments/1/warc/CC-MAIN-00000.warc.gz",
            }
        )

    def _list_crawls(self, request: SiteRequest) -> Reply:
        crawls = [
            {
                "id": f"CC-MAIN-2026-{week}",
                "name": f"{month} 2026 Index",
                "timegate": f"{self.base_url}/CC-MAIN-2026-{week}/",
                "cdx-api": f"{self.base_url}/CC-MAIN-2026-{week}-index",
                "from": "2026-08-01T00:00:00",
                "to": "2026-09-20T00:00:00",
            }
            for week, month in ((39, "September"), (30, "July"))
        ]
        return Reply(json.dumps(crawls, indent=2), content_type="application/json")

    def _search(self, request: SiteRequest) -> Reply:
        if self.failures_before_success > 0:
            self.failures_before_success -= 1
            return Reply("<html><h1>503 Please reduce your request rate.</h1></html>", 503)
        query = request.query
        assert query["output"] == "json"
        found = [capture for capture in self._captures if _matches(capture["url"], query["url"])]
        if not found:
            return Reply(json.dumps({"message": f"No Captures found for: {query['url']}"}), 404, JSON_LINES)
        pages = -(-len(found) // self._page_size)
        if query.get("showNumPages") == "true":
            blocks = -(-len(found) // LINES_PER_BLOCK)
            return Reply(json.dumps({"pages": pages, "pageSize": 5, "blocks": blocks}) + "\n", 200, JSON_LINES)
        page = int(query.get("page", "0"))
        if page >= pages:
            message = f"Page {page} invalid: First Page is 0, Last Page is {pages - 1}"
            return Reply(json.dumps({"message": message}), 400, JSON_LINES)
        return Reply(self._lines(found[page * self._page_size : (page + 1) * self._page_size], query), 200, JSON_LINES)

    def _lines(self, captures: list[dict[str, str]], query: dict[str, str]) -> str:
        """The filter applies after the paging, as there: a page can be shorter than the others, or empty."""
        name, _, value = query.get("filter", "=status:").removeprefix("=").partition(":")
        kept = [capture for capture in captures if not value or capture[name] == value]
        fields = query["fl"].split(",")
        return "".join(json.dumps({field: capture[field] for field in fields}) + "\n" for capture in kept)


def _matches(url: str, wanted: str) -> bool:
    """`*.example.com` means the domain and all its subdomains."""
    host = url.partition("://")[2].partition("/")[0].partition(":")[0]
    domain = wanted.removeprefix("*.")
    return host == domain or host.endswith(f".{domain}")
