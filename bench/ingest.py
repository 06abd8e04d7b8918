"""Ingestion end to end: HTML pages become documents that are found, and where the time goes.

    python bench/ingest.py [--pages 2000]

Stages run one after the other for a batch of pages, as a crawl's do, on the embedded default (SQLite, wordllama, the
index in its own process). Times are wall times, because part of the work is done by other processes.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scrubjay.app import open_scrubjay
from scrubjay.documents import documents as ingesting
from scrubjay.documents.ingester import Ingester
from scrubjay.documents.texts import TextStore
from scrubjay.extract import extract
from scrubjay.model.content import DocumentSource, IncomingDocument
from scrubjay.model.search import SearchRequest
from scrubjay.settings import Settings
from site_pages import BenchSite

BATCH = 32


class Stopwatch:
    """Seconds by stage; what a stage asks others to do meanwhile is taken out of it by whoever reports."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def add(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def timed(self, stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*arguments, **options)
            finally:
                self.add(stage, time.perf_counter() - started)

        return run

    def awaited(self, stage: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def run(*arguments: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return await call(*arguments, **options)
            finally:
                self.add(stage, time.perf_counter() - started)

        return run


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[Any]:
    async with open_scrubjay(Settings(home=home, log_level="warning"), searching=True) as jay:
        await jay.indexer.stop()  # it is called by hand here
        yield jay


async def measure(pages: int, home: Path) -> None:
    watch, site = Stopwatch(), BenchSite(pages, seed=7)
    html = [(f"https://bench.example/page/{number}.html", _page(site, number)) for number in range(pages)]
    async with opened(home) as jay:
        who = await jay.access.open_as_admin(home)
        served = await jay.catalog.live()
        ingesting.cut = watch.timed("chunk", ingesting.cut)  # type: ignore[attr-defined]
        served.embedder.embed = watch.awaited("embed", served.embedder.embed)
        for name in ("upsert", "stamps", "delete"):
            setattr(served.index, name, watch.awaited("index", getattr(served.index, name)))
        ingester = Ingester(jay.database, TextStore(jay.database, jay.blobs), jay.catalog)
        started = time.perf_counter()
        for at in range(0, pages, BATCH):
            incoming = []
            for url, data in html[at : at + BATCH]:
                extraction = watch.timed("extract", extract)(data, url=url, content_type="text/html")
                incoming.append(
                    IncomingDocument(
                        tenant_id=who.tenant_id,
                        url=url,
                        source=DocumentSource.CRAWL,
                        markdown=extraction.markdown,
                        title=extraction.title,
                        language="en",
                    )
                )
            await watch.awaited("ingest", ingester.ingest_many)(incoming)
            await watch.awaited("follow", jay.indexer.drain)()
        total = time.perf_counter() - started
        stats = await jay.health.stats(who)
        await report(watch, total, pages, stats["chunks"])
        times = []
        for number in range(50):
            answer = await jay.search.search(who, SearchRequest(query=f"harvest river number {number}"))
            times.append(answer.latency_ms)
        times.sort()
        print(f"search over {stats['chunks']:,} chunks: p50 {times[25]:.1f} ms, p95 {times[47]:.1f} ms")


async def report(watch: Stopwatch, total: float, pages: int, chunks: int) -> None:
    seconds = dict(watch.seconds)
    seconds["store"] = seconds.pop("ingest") - seconds.get("chunk", 0)
    seconds["bookkeeping"] = seconds.pop("follow") - seconds.get("embed", 0) - seconds.get("index", 0)
    rates = f"{pages / total:.1f} pages/s, {chunks / total:.0f} chunks/s"
    print(f"{pages:,} pages, {chunks:,} chunks in {total:.1f} s: {rates}")
    rows = [
        [stage, f"{spent:.1f}", f"{spent / pages * 1000:.2f}", f"{spent / total:.0%}"]
        for stage, spent in sorted(seconds.items(), key=lambda entry: -entry[1])
    ]
    for row in [["stage", "seconds", "ms per page", "share"], *rows]:
        print("  ".join(cell.rjust(12) for cell in row))


def _page(site: BenchSite, number: int) -> bytes:
    body = site.body(f"/page/{number}.html")
    if body is None:
        raise ValueError(f"the site has no page {number}")
    return body.encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=2000)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(options.pages, Path(folder)))


if __name__ == "__main__":
    main()
