"""What a page costs, from its address to being found: the figures that docs/scale.md counts with.

    python bench/cost.py [--pages 1000] [--postgres URL]

A plan crawls a local site into documents and the embedded index, on SQLite or on the PostgreSQL named, whose own CPU
time is counted apart. Everything is given per page that became a document.
"""

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from crawl import Served, last_words, nginx
from measure import Cost, measure
from site_pages import BenchSite

SCRUBJAY = str(Path(sys.executable).parent / "scrubjay")
TICKS = os.sysconf("SC_CLK_TCK")
Rows = Mapping[str, int]


def environment(database_url: str | None) -> dict[str, str]:
    made = os.environ | {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8"}
    return made | {"SCRUBJAY_DATABASE_URL": database_url} if database_url else made


def run_plan(served: Served, home: Path, env: Mapping[str, str], log: Path, timeout: float) -> Cost:
    plan = [SCRUBJAY, "--home", str(home), "plan"]
    behaviour = ["--name", "cost", "--delay-ms", "0", "--concurrency", "64", "--once", "--inactive"]
    subprocess.run([*plan, "add", served.url, *behaviour], check=True, env=env, stdout=subprocess.DEVNULL)
    return measure([*plan, "run", "cost"], timeout_seconds=timeout, log=log, env=env)


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.exists() else 0


def sqlite_rows(path: Path) -> tuple[Rows, int]:
    connection = sqlite3.connect(path)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}
    (size,) = connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()
    connection.close()
    return rows, size


def postgres_rows(url: str) -> tuple[Rows, int]:
    import psycopg

    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT oid::regclass::text, pg_total_relation_size(oid) FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        ).fetchall()
        counted = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone() for name, _ in found}
    return {name: row[0] for name, row in counted.items() if row}, sum(size for _, size in found)


def server_cpu_seconds() -> float:
    """Of all PostgreSQL processes here, with those that have ended: each process counts the children it waited for."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text.partition("(")[2].startswith("postgres)"):
            ticks += sum(map(int, text.rpartition(")")[2].split()[11:15]))
    return ticks / TICKS


@contextmanager
def fresh_postgres(url: str) -> Iterator[str]:
    """A database of its own on the server, gone afterwards."""
    import psycopg

    name = f"scrubjay_cost_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{url.rpartition('/')[0]}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def report(title: str, cost: Cost, pages: int, requests: int, sent: int, rows: Rows, sizes: Mapping[str, int]) -> None:
    print(f"\n{title}: {pages:,} documents, {cost.wall_seconds:.0f} s, {pages / cost.wall_seconds:.0f} pages/s")
    figures = {
        "requests": f"{requests / pages:.2f}",
        "KB received": f"{sent / pages / 1000:.1f}",
        "CPU ms": f"{1000 * cost.cpu_seconds / pages:.1f}",
        "rows": f"{sum(rows.values()) / pages:.1f}",
        **{f"KB in {name}": f"{size / pages / 1000:.1f}" for name, size in sizes.items()},
        "peak MB (whole)": f"{cost.peak_mb:.0f}",
    }
    for name, value in figures.items():
        print(f"  {name:<22}{value:>10}")
    largest = sorted(rows.items(), key=lambda each: -each[1])[:8]
    print("  rows per page: " + ", ".join(f"{name} {number / pages:.2f}" for name, number in largest))


def measure_once(
    title: str, site: BenchSite, served: Served, folder: Path, database: str | None, timeout: float
) -> None:
    home, log, env = folder / f"home-{title}", folder / f"{title}.log", environment(database)
    before, sent, server = served.answers(), served.sent_bytes(), server_cpu_seconds()
    cost = run_plan(served, home, env, log, timeout)
    server = server_cpu_seconds() - server
    answers = served.answers() - before
    if cost.exit_code != 0:
        sys.exit(f"the plan's run ended with {cost.exit_code}:\n{last_words(log)}")
    rows, size = postgres_rows(database) if database else sqlite_rows(home / "scrubjay.db")
    sizes = {"the database": size, "the index": folder_bytes(home / "index"), "blobs": folder_bytes(home / "blobs")}
    report(title, cost, answers["200"], answers.total(), served.sent_bytes() - sent, rows, sizes)
    if database:
        print(f"  {'CPU ms of the server':<22}{1000 * server / answers['200']:>10.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--postgres", metavar="URL", help="measure on this server as well, in a database made for it")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds after which a run is ended")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sj-bench-") as name:
        folder, site = Path(name), BenchSite(options.pages)
        with nginx(site, folder) as served:
            measure_once("SQLite", site, served, folder, None, options.timeout)
            if options.postgres:
                with fresh_postgres(options.postgres) as url:
                    measure_once("PostgreSQL", site, served, folder, url, options.timeout)


if __name__ == "__main__":
    main()
