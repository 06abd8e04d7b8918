"""Scrapy at its best settings: a CrawlSpider that follows every link, and trafilatura's Markdown into JSON lines.

PEERS/bin/python bench/crawl_scrapy.py URL OUT.jsonl --concurrency 64
"""

import argparse
from urllib.parse import urlsplit

import trafilatura
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

# Everything that costs time and is not needed here.
UNUSED_DOWNLOADER = {
    f"scrapy.downloadermiddlewares.{name}": None
    for name in (
        "httpauth.HttpAuthMiddleware",
        "downloadtimeout.DownloadTimeoutMiddleware",
        "retry.RetryMiddleware",
        "redirect.MetaRefreshMiddleware",
        "cookies.CookiesMiddleware",
        "httpproxy.HttpProxyMiddleware",
        "stats.DownloaderStats",
        "robotstxt.RobotsTxtMiddleware",
        "httpcache.HttpCacheMiddleware",
    )
}
CACHE = "scrapy.downloadermiddlewares.httpcache.HttpCacheMiddleware"
UNUSED_SPIDER = {
    f"scrapy.spidermiddlewares.{name}": None
    for name in ("referer.RefererMiddleware", "urllength.UrlLengthMiddleware", "depth.DepthMiddleware")
}
UNUSED_EXTENSIONS = {
    f"scrapy.extensions.{name}": None
    for name in ("corestats.CoreStats", "logstats.LogStats", "memusage.MemoryUsage", "throttle.AutoThrottle")
}


def settings(out: str, concurrency: int, http_cache: str | None = None) -> dict[str, object]:
    downloader = dict(UNUSED_DOWNLOADER)
    cache: dict[str, object] = {}
    if http_cache is not None:
        downloader[CACHE] = 900
        cache = {
            "HTTPCACHE_ENABLED": True,
            "HTTPCACHE_DIR": http_cache,
            "HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy",
            "HTTPCACHE_STORAGE": "scrapy.extensions.httpcache.DbmCacheStorage",
            "HTTPCACHE_ALWAYS_STORE": True,
        }
    return {
        **cache,
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
        "DOWNLOAD_DELAY": 0,
        "AUTOTHROTTLE_ENABLED": False,
        "COOKIES_ENABLED": False,
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "ERROR",
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
        "STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector",
        "DOWNLOADER_MIDDLEWARES": downloader,
        "SPIDER_MIDDLEWARES": UNUSED_SPIDER,
        "EXTENSIONS": UNUSED_EXTENSIONS,
        "FEEDS": {out: {"format": "jsonlines", "overwrite": True}},
    }


class BenchSpider(CrawlSpider):
    name = "bench"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def parse_start_url(self, response, **_):
        return self.parse_page(response)

    def parse_page(self, response):
        markdown = trafilatura.extract(response.text, url=response.url, output_format="markdown", include_tables=True)
        return {"url": response.url, "title": response.css("title::text").get(), "markdown": markdown}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("out")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--http-cache", help="keep answers in this folder, and ask again only whether they changed")
    options = parser.parse_args()
    process = CrawlerProcess(settings(options.out, options.concurrency, options.http_cache))
    process.crawl(BenchSpider, start_urls=[options.url], allowed_domains=[urlsplit(options.url).hostname])
    process.start()


if __name__ == "__main__":
    main()
