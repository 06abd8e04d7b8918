"""How well a concurrent crawl keeps the order of its strategy within a page budget, on a synthetic site.

    python bench/order.py [--budget 100] [--concurrency 16] [--latency-ms 20] [--sitemap]

The site has 2,000 pages. best_first: the share of the pages that match the keyword among those fetched. dfs: the share
of pages that the sequential crawl fetches with the same budget. Both are compared with sequential (exact) and bfs.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from ipaddress import ip_network
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.site import Reply, Site, SiteRequest, running_site

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.job import FINISHED_STATES
from scrubjay.model.tenant import Principal
from scrubjay.settings import Settings

PAGES = 2000
KEYWORD = "acorns"


class OrderSite:
    """A tree of pages with some cross links; a tenth of the pages is about the keyword, mostly in the same branches."""

    def __init__(self, pages: int = PAGES, seed: int = 7) -> None:
        chance = random.Random(seed)
        self.children: dict[int, list[int]] = {number: [] for number in range(pages)}
        self.relevant: set[int] = set()
        for number in range(1, pages):
            parent = (number - 1) // 4
            self.children[parent].append(number)
            if chance.random() < (0.6 if parent in self.relevant else 0.04):
                self.relevant.add(number)

    def path(self, number: int) -> str:
        if number == 0:
            return "/"
        return f"/{KEYWORD}/{number}" if number in self.relevant and number % 2 else f"/page/{number}"

    def reply(self, request: SiteRequest) -> Reply | None:
        last = request.path.rsplit("/", 1)[-1]
        number = int(last) if last.isdecimal() else 0
        if self.path(number) != request.path:
            return None
        links = "".join(
            f'<p><a href="{self.path(child)}">{KEYWORD if child in self.relevant else "more"} {child}</a></p>'
            for child in self.children[number]
        )
        words = f"Page {number} tells of tree {number * 31} and of the jay that lives in it. " * 4
        return Reply(
            f"<html><head><title>Page {number}</title></head><body><main><p>{words}</p>{links}</main></body></html>"
        )

    def sitemap(self, base: str) -> str:
        return "<urlset>" + "".join(f"<url><loc>{base}{self.path(n)}</loc></url>" for n in range(PAGES)) + "</urlset>"


async def crawl(jay: Scrubjay, who: Principal, site: Site, **values: Any) -> list[str]:
    """The paths that a crawl fetched, in order."""
    site.forget()
    spec = {"start_urls": [site.url], "delay_ms": 0, "refresh": True, "keywords": [KEYWORD], "max_depth": 100, **values}
    job = await jay.crawls.start(who, read_spec(spec))
    while (await jay.jobs.get(who, job.id)).state not in FINISHED_STATES:
        await asyncio.sleep(0.05)
    return [request.path for request in site.requests if request.path not in ("/robots.txt", "/sitemap.xml")]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--latency-ms", type=float, default=20)
    parser.add_argument("--sitemap", action="store_true")
    options = parser.parse_args()
    pages = OrderSite()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder) / "home", allowed_private_networks=(ip_network("127.0.0.0/8"),))
        async with running_site() as site, open_scrubjay(settings, working=True) as jay:
            site.fallback = pages.reply
            site.latency_seconds = options.latency_ms / 1000
            if options.sitemap:
                site.sitemap = pages.sitemap(site.url)
            who = await jay.access.open_as_admin(settings.home)
            common: dict[str, Any] = {
                "max_pages": options.budget,
                "concurrency": options.concurrency,
                "host_concurrency": options.concurrency,
                "use_sitemaps": options.sitemap,
            }
            wanted = {pages.path(number) for number in pages.relevant}
            bfs = await crawl(jay, who, site, strategy="bfs", **common)
            for strategy in ("best_first", "dfs"):
                exact = await crawl(jay, who, site, strategy=strategy, mode="sequential", **common)
                found = await crawl(jay, who, site, strategy=strategy, **common)
                goal = wanted if strategy == "best_first" else set(exact)
                shares = [len(goal & set(paths)) / max(1, len(paths)) for paths in (exact, found, bfs)]
                print(
                    f"{strategy}: sequential {shares[0]:.2f}, concurrent {shares[1]:.2f}, bfs {shares[2]:.2f}; "
                    f"concurrent/sequential {shares[1] / shares[0]:.2f}"
                )


if __name__ == "__main__":
    asyncio.run(main())
