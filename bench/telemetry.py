"""What metrics and spans cost for each page of a crawl, in CPU. A page takes some 10 ms; 1 % of that is the limit.

python bench/telemetry.py
"""

import argparse
import time
from collections.abc import Callable

from prometheus_client import generate_latest

from scrubjay.telemetry import CrawlCounts, crawl_meter, registry, span
from scrubjay.telemetry.metrics import (
    cache_requests_total,
    documents_ingested_total,
    extract_pages_total,
    extract_seconds,
    extract_waiting,
    fetch_bytes_total,
    fetch_requests_total,
    fetch_seconds,
    index_documents_total,
)

BATCH = 32
PAGE_MICROSECONDS = 10_000.0


def count_batch(job_id: str, hosts: list[str]) -> None:
    """All that is counted on the way of 32 pages, as the crawl does it."""
    counts = CrawlCounts()
    for number in range(BATCH):
        host = hosts[number % len(hosts)]
        for _ in range(3):  # robots.txt, the page before, the host's circuit
            cache_requests_total.labels("robots", "hit").inc()
        fetch_requests_total.labels("2xx").inc()
        fetch_seconds.observe(0.031)
        fetch_bytes_total.inc(20_000)
        extract_waiting.set(number)
        extract_pages_total.labels("ok").inc()
        extract_seconds.observe(0.006)
        counts.note_processed(host, "scrubjay")
    crawl_meter.tell(job_id, counts)
    ingested = CrawlCounts()
    for number in range(BATCH):
        ingested.note_inserted(hosts[number % len(hosts)])
        documents_ingested_total.labels("added").inc()
    crawl_meter.tell(job_id, ingested)
    index_documents_total.labels("indexed").inc(BATCH)


def open_spans(*_: object) -> None:
    """The spans of 32 pages while nobody is tracing."""
    for _page in range(BATCH):
        with span("crawl page", server__address="a.example", crawl__depth=1):
            with span("fetch", "client", server__address="a.example", http__request__method="GET") as fetch:
                fetch.set(http__response__status_code=200, http__response__body__size=20_000)
            with span("extract") as extract:
                extract.set(extract__method="scrubjay", extract__verdict="content")


def measure(work: Callable[[str, list[str]], None], hosts: list[str], rounds: int) -> float:
    """Microseconds of CPU per page; the best of five."""
    job_id = f"job_{len(hosts)}"
    crawl_meter.job_started("crawl", job_id)
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for _round in range(rounds):
            work(job_id, hosts)
        best = min(best, time.process_time() - started)
    crawl_meter.job_left("crawl", job_id)
    return best / rounds / BATCH * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=500)
    rounds = parser.parse_args().rounds
    for number in (1, 8, 100):
        cost = measure(count_batch, [f"host{each}.example" for each in range(number)], rounds)
        share = cost / PAGE_MICROSECONDS
        print(f"metrics, {number:3} hosts in the crawl: {cost:6.2f} µs a page = {share:.3%} of 10 ms")
    cost = measure(open_spans, ["a.example"], rounds)
    print(f"spans that nobody listens to:      {cost:6.2f} µs a page = {cost / PAGE_MICROSECONDS:.3%} of 10 ms")
    started = time.process_time()
    lines = generate_latest(registry).count(b"\n")
    print(f"one scrape: {lines} lines in {(time.process_time() - started) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
