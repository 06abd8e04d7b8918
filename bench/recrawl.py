"""A plan's second run over a site on which nothing changed, beside Scrapy's second crawl through its HttpCache.

    python bench/recrawl.py [--pages 5000]

Both ask nginx for every page and are told 304. Scrapy (RFC 2616 policy, DBM storage) takes the body from its cache
and extracts it again, because it cannot know that it need not; a plan's run compares with its ledger, and touches no
document. CPU is that of whole process trees.
"""

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from crawl import HERE, Served, last_words, make_peers, nginx
from measure import Cost, measure
from site_pages import BenchSite

SCRUBJAY = str(Path(sys.executable).parent / "scrubjay")
ENVIRONMENT = os.environ | {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8"}


def show(name: str, cost: Cost, served: Served, before: dict[str, int], log: Path) -> None:
    answers = served.answers()
    told = ", ".join(
        f"{number} × {status}" for status in sorted(answers) if (number := answers[status] - before.get(status, 0))
    )
    print(
        f"{name:<22}{cost.wall_seconds:>8.1f} s {cost.cpu_seconds:>8.1f} s CPU {cost.peak_mb:>6.0f} MB   {told}",
        flush=True,
    )
    if cost.exit_code != 0:
        print(f"  it ended with {cost.exit_code}:\n{last_words(log)}")


def documents(home: Path) -> tuple[object, ...]:
    """Whatever would be different if a single document had been touched."""
    with sqlite3.connect(home / "scrubjay.db") as connection:
        row: tuple[object, ...] = connection.execute(
            "SELECT count(*), max(updated_at), sum(version), sum(index_revision) FROM documents"
        ).fetchone()
    connection.close()
    return row


def run_scrubjay(served: Served, folder: Path, timeout: float) -> tuple[Cost, Cost]:
    home = folder / "home"
    command = [SCRUBJAY, "--home", str(home), "plan"]
    behaviour = ["--name", "bench", "--delay-ms", "0", "--concurrency", "64", "--once", "--inactive"]
    subprocess.run([*command, "add", served.url, *behaviour], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    costs, states = [], []
    for number in ("first", "second"):
        log, before = folder / f"scrubjay-{number}.log", dict(served.answers())
        cost = measure([*command, "run", "bench"], timeout_seconds=timeout, log=log, env=ENVIRONMENT)
        show(f"Scrubjay, {number} run", cost, served, before, log)
        costs.append(cost)
        states.append(documents(home))
    print(f"  documents touched by the second run: {'none' if states[0] == states[1] else states}")
    return costs[0], costs[1]


def run_scrapy(served: Served, folder: Path, timeout: float, peers: Path) -> tuple[Cost, Cost]:
    python = make_peers(peers)
    costs = []
    for number in ("first", "second"):
        log, before = folder / f"scrapy-{number}.log", dict(served.answers())
        command = [str(python), str(HERE / "crawl_scrapy.py"), served.url, str(folder / f"{number}.jsonl")]
        cost = measure(
            [*command, "--http-cache", str(folder / "httpcache")], timeout_seconds=timeout, log=log, env=ENVIRONMENT
        )
        show(f"Scrapy, {number} crawl", cost, served, before, log)
        costs.append(cost)
    return costs[0], costs[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--timeout", type=float, default=3600)
    parser.add_argument("--peers-venv", type=Path, default=Path.home() / ".cache" / "scrubjay-bench" / "peers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sj-bench-") as name:
        folder = Path(name)
        with nginx(BenchSite(options.pages), folder) as served:
            first, ours = run_scrubjay(served, folder, options.timeout)
            _, theirs = run_scrapy(served, folder, options.timeout, options.peers_venv)
    print(f"second run: {ours.cpu_seconds / theirs.cpu_seconds:.2f} of Scrapy's CPU, ", end="")
    print(f"{ours.cpu_seconds / first.cpu_seconds:.2f} of the first run's")


if __name__ == "__main__":
    main()
