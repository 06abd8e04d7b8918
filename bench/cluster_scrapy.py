"""One of several Scrapy processes that share a queue in Redis through scrapy-redis; `cluster.py` starts them.

PEERS/bin/python bench/cluster_scrapy.py REDIS OUT.jsonl NAME DELAY_MS
"""

import sys

from scrapy.crawler import CrawlerProcess
from scrapy_redis.spiders import RedisMixin

from crawl_scrapy import BenchSpider, settings

CONCURRENCY = 32  # of each process: two of them have as much as one crawl of Scrubjay
IDLE_SECONDS = 6


class SharedSpider(RedisMixin, BenchSpider):
    name = "bench"
    redis_key = "bench:start_urls"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.setup_redis(crawler)
        return spider


def main() -> None:
    redis_url, out, name, delay_ms = sys.argv[1:5]
    shared = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "REDIS_URL": redis_url,
        # Otherwise the first process that ends empties the queue, and forgets what was seen, for all others.
        "SCHEDULER_PERSIST": True,
        "MAX_IDLE_TIME_BEFORE_CLOSE": IDLE_SECONDS,
        "USER_AGENT": name,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": int(delay_ms) / 1000,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
        # DummyStatsCollector keeps none, and scrapy-redis counts in them.
        "STATS_CLASS": "scrapy.statscollectors.MemoryStatsCollector",
    }
    process = CrawlerProcess({**settings(out, CONCURRENCY), **shared})
    process.crawl(SharedSpider)
    process.start()


if __name__ == "__main__":
    main()
