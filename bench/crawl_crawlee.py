"""Crawlee at its best settings: a ParselCrawler in memory that follows every link, and trafilatura's Markdown.

PEERS/bin/python bench/crawl_crawlee.py URL OUT.jsonl --concurrency 64
"""

import argparse
import json
import logging
from datetime import timedelta
from pathlib import Path

import trafilatura
import uvloop
from crawlee import ConcurrencySettings
from crawlee.configuration import Configuration
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient


async def crawl(url: str, out: Path, concurrency: int) -> None:
    crawler = ParselCrawler(
        configuration=Configuration(available_memory_ratio=0.9),
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=concurrency // 2, max_concurrency=concurrency, desired_concurrency=concurrency
        ),
        max_request_retries=0,
        use_session_pool=False,
        retry_on_blocked=False,
        respect_robots_txt_file=False,
        configure_logging=False,
        request_handler_timeout=timedelta(minutes=5),
    )
    with out.open("w") as lines:

        @crawler.router.default_handler
        async def handle(context: ParselCrawlingContext) -> None:
            await context.enqueue_links(strategy="same-origin")
            text = (await context.http_response.read()).decode("utf-8", "replace")
            markdown = trafilatura.extract(text, url=context.request.url, output_format="markdown", include_tables=True)
            title = context.selector.css("title::text").get()
            lines.write(json.dumps({"url": context.request.url, "title": title, "markdown": markdown}) + "\n")

        await crawler.run([url])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--concurrency", type=int, default=64)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    uvloop.run(crawl(options.url, options.out, options.concurrency))


if __name__ == "__main__":
    main()
