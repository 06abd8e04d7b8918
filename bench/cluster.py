"""A crawl that several workers share, beside Scrapy with scrapy-redis, on one local site of many hosts.

    python bench/cluster.py [--workers 1,2,4,8] [--quota 20] [--pages 1800] [--hosts 60] [--delay-ms 0]

Each worker may use some percent of one core (cgroup v1 or v2); PostgreSQL, Redis and nginx may use what they want. The
site (`site_pages.py`) is served by nginx under many loopback addresses, with links from host to host. Its log is the
judge: pages per second are pages answered with 200 between the first and the last request; a host was treated
politely when no request to it began before the one before had been answered and the delay was over, whoever asked.
Every process introduces itself by a name of its own, so the log also tells who asked. CPU is that of the workers while
the crawl lasts. Efficiency is pages per second, divided by the number of workers, beside those of one worker.
"""

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import redis

from cgroups import bases, quota_groups
from crawl import LOG_FLUSH_SECONDS, make_peers
from site_pages import BenchSite, write_site

HERE = Path(__file__).resolve().parent
LINKS_AWAY = 2
CLOCK_SECONDS = 0.002  # nginx writes milliseconds
NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
events {{ worker_connections 8192; }}
http {{
  types {{ text/html html; }}
  default_type text/html; charset utf-8;
  sendfile on; keepalive_requests 1000000; open_file_cache max=20000;
  log_format who '$msec $request_time $server_addr $status $request_uri $http_user_agent';
  access_log {folder}/access.log who buffer=64k flush=1s;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ {listen} root {folder}/site/$server_addr; index index.html; }}
}}
"""


@dataclass(frozen=True)
class Request:
    began: float
    ended: float
    host: str
    status: str
    path: str
    agent: str

    @classmethod
    def read(cls, line: str) -> "Request":
        at, took, host, status, path, agent = line.split(" ", 5)
        return cls(float(at) - float(took), float(at), host, status, path, agent)


@dataclass
class Result:
    cpu_seconds: float
    requests: list[Request] = field(default_factory=list)
    pages: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.pages = Counter(f"{each.host}{each.path}" for each in self.requests if each.status == "200")
        self.pages = Counter({page: count for page, count in self.pages.items() if not page.endswith("robots.txt")})

    @property
    def seconds(self) -> float:
        return self.requests[-1].ended - self.requests[0].began if self.requests else 0.0

    def by_host(self) -> dict[str, list[Request]]:
        found: dict[str, list[Request]] = {}
        for each in sorted(self.requests, key=lambda request: request.began):
            found.setdefault(each.host, []).append(each)
        return found

    def impolite(self, delay_seconds: float) -> tuple[int, int]:
        """How many requests came while their host still answered another, and how many before the delay was over."""
        pairs = [pair for requests in self.by_host().values() for pair in pairwise(requests)]
        overlapping = sum(later.began < earlier.ended - CLOCK_SECONDS for earlier, later in pairs)
        early = sum(later.began - earlier.began < delay_seconds - 10 * CLOCK_SECONDS for earlier, later in pairs)
        return overlapping, early

    @property
    def changes(self) -> int:
        """How often a host was asked by another process than before."""
        pairs = [pair for requests in self.by_host().values() for pair in pairwise(requests)]
        return sum(earlier.agent != later.agent for earlier, later in pairs)


@dataclass
class Served:
    starts: list[str]
    log: Path
    expected: int

    def requests(self) -> list[Request]:
        time.sleep(LOG_FLUSH_SECONDS)
        return [Request.read(line) for line in self.log.read_text().splitlines()]


def write_hosts(folder: Path, hosts: int, pages: int, port: int) -> int:
    """A site for each host, every page with links to others; returns how many pages there are."""
    expected = 0
    for host in range(1, hosts + 1):
        site, root = BenchSite(max(1, pages // hosts - 3), seed=host), folder / f"127.0.0.{host}"
        write_site(site, root)
        expected += site.expected
        for number, file in enumerate(sorted(root.rglob("*.html"))):
            away = [f"127.0.0.{(host + step * (number + 1)) % hosts + 1}" for step in range(1, LINKS_AWAY + 1)]
            path = f"{port}/page/{number % site.pages}.html"
            links = "".join(f'<p><a href="http://{each}:{path}">on</a></p>' for each in away)
            file.write_text(file.read_text().replace("</main>", f"{links}</main>"))
    return expected


@contextmanager
def nginx(folder: Path, hosts: int, pages: int) -> Iterator[Served]:
    folder.chmod(0o755)  # its workers are another user
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    expected = write_hosts(folder / "site", hosts, pages, port)
    listen = " ".join(f"listen 127.0.0.{host}:{port};" for host in range(1, hosts + 1))
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, listen=listen))
    process = subprocess.Popen(["/usr/sbin/nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        starts = [f"http://127.0.0.{host}:{port}/" for host in range(1, hosts + 1)]
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield Served(starts, folder / "access.log", expected)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def fresh_database(url: str) -> Iterator[str]:
    name = f"sj_bench_{os.getpid()}_{time.monotonic_ns() % 10**6}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(url)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def started(
    commands: Sequence[Sequence[str]], quota: int, log: Path, env: dict[str, str]
) -> Iterator[Callable[[], float]]:
    """Run each command in a group of its own; gives the CPU seconds that all of them have used so far."""
    with quota_groups(len(commands), quota) as groups, log.open("wb") as output:
        processes = [
            subprocess.Popen(
                group.command(command), stdout=output, stderr=output,
                env=env | {"SCRUBJAY_CRAWL_USER_AGENT": f"worker-{number}"},
            )
            for number, (group, command) in enumerate(zip(groups, commands, strict=True))
        ]  # fmt: skip
        try:
            yield lambda: sum(group.cpu_seconds for group in groups)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
            for process in processes:
                process.wait(120)


def run_scrubjay(options: argparse.Namespace, served: Served, workers: int, folder: Path) -> float:
    home = folder / f"home-{workers}"
    with fresh_database(options.postgres) as url:
        env = {"SCRUBJAY_DATABASE_URL": url, "SCRUBJAY_CACHE_URL": options.redis, "SCRUBJAY_EXTRACT_PROCESSES": "1"}
        env |= {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8"}
        os.environ.update(env)
        command = [str(Path(sys.executable).parent / "scrubjay"), "--home", str(home), "worker"]
        subprocess.run([command[0], "--home", str(home), "migrate"], check=True, stdout=subprocess.DEVNULL)
        with started([command] * workers, options.quota, folder / f"scrubjay-{workers}.log", dict(os.environ)) as cpu:
            return asyncio.run(_crawl(home, workers, options.delay_ms, served.starts, cpu))


async def _crawl(home: Path, workers: int, delay_ms: int, starts: Sequence[str], cpu: Callable[[], float]) -> float:
    from scrubjay.app import open_scrubjay
    from scrubjay.model.crawl_spec import read_spec
    from scrubjay.model.job import FINISHED_STATES
    from scrubjay.settings import Settings
    from scrubjay.storage.workers import Workers

    async with open_scrubjay(Settings(home=home), working=False) as jay:
        who = await jay.access.open_as_admin(home)
        while True:
            async with jay.database.reading() as connection:
                if len(await Workers(connection).all()) == workers:
                    break
            await asyncio.sleep(0.1)
        await asyncio.sleep(2)  # until their extraction processes have started
        before = cpu()
        values = {"start_urls": list(starts), "max_pages": 1_000_000, "max_depth": 1000, "use_sitemaps": False}
        values |= {"delay_ms": delay_ms, "host_concurrency": 1, "concurrency": 64}
        job = await jay.crawls.start(who, read_spec(values))
        while (job := await jay.jobs.get(who, job.id)).state not in FINISHED_STATES:
            await asyncio.sleep(0.1)
        used = cpu() - before
        facts = {name: (job.result or {}).get(name) for name in ("pages", "failed", "slices")}
        if job.error:
            print(job.state, job.error, facts)
        return used


def run_scrapy(options: argparse.Namespace, served: Served, workers: int, folder: Path) -> float:
    """The same for scrapy-redis: processes that share one queue. Their start counts, which is little."""
    python = make_peers(options.peers_venv)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "scrapy-redis"], check=True)
    with redis.Redis.from_url(options.redis) as client:
        client.lpush("bench:start_urls", *served.starts)
    spider = [str(python), str(HERE / "cluster_scrapy.py"), options.redis]
    delay = str(options.delay_ms)
    commands = [[*spider, f"{folder}/{workers}-{number}.jsonl", f"scrapy-{number}", delay] for number in range(workers)]
    with started(commands, options.quota, folder / f"scrapy-{workers}.log", dict(os.environ)) as cpu:
        last, quiet = 0, 0
        while quiet < 20:  # its processes wait for more for some seconds, which is not counted
            time.sleep(1)
            now = len(served.requests())
            last, quiet = (now, 0) if now != last else (now, quiet + 1)
        return cpu()


def run(options: argparse.Namespace, served: Served, subject: str, workers: int, folder: Path) -> Result:
    before = len(served.requests())
    with redis.Redis.from_url(options.redis) as client:
        client.flushdb()
    cpu_seconds = {"scrubjay": run_scrubjay, "scrapy": run_scrapy}[subject](options, served, workers, folder)
    return Result(cpu_seconds, served.requests()[before:])


def show(subject: str, workers: int, result: Result, first: Result, served: Served, delay_ms: int) -> None:
    pages, twice = len(result.pages), sum(count > 1 for count in result.pages.values())
    overlapping, early = result.impolite(delay_ms / 1000)
    rate, alone = (len(each.pages) / max(0.001, each.seconds) for each in (result, first))
    print(
        f"{subject + ' × ' + str(workers):<16}{pages:>7}{twice:>7}{result.seconds:>9.1f}{rate:>9.1f}"
        f"{rate / workers / alone:>12.2f}{1000 * result.cpu_seconds / max(1, pages):>13.1f}{overlapping:>13}{early:>8}"
        + ("" if pages >= 0.99 * served.expected else f"   INCOMPLETE: {served.expected} expected"),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1800)
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--workers", type=lambda text: [int(each) for each in text.split(",")], default=[1, 2, 4, 8])
    parser.add_argument("--quota", type=int, default=20, help="percent of one core for each worker")
    parser.add_argument("--subjects", type=lambda text: text.split(","), default=["scrubjay", "scrapy"])
    parser.add_argument("--delay-ms", type=int, default=0, help="between two requests to a host")
    parser.add_argument("--postgres", default="postgresql://postgres@127.0.0.1:5432/postgres")
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/15", help="a database that may be emptied")
    parser.add_argument("--peers-venv", type=Path, default=Path.home() / ".cache" / "scrubjay-bench" / "peers")
    options = parser.parse_args()
    if not bases():
        print("Skipped: no cgroup with a CPU controller can be written here.")
        return
    with (
        tempfile.TemporaryDirectory(prefix="sj-bench-") as name,
        nginx(folder := Path(name), options.hosts, options.pages) as served,
    ):
        print(
            f"{served.expected} pages on {options.hosts} hosts, one request to a host at a time, delay "
            f"{options.delay_ms} ms; {options.quota} % of a core for each worker, {os.cpu_count()} cores"
        )
        print(
            f"{'':<16}{'pages':>7}{'twice':>7}{'seconds':>9}{'pages/s':>9}{'efficiency':>12}{'CPU ms/page':>13}"
            f"{'overlapping':>13}{'early':>8}"
        )
        for subject in options.subjects:
            first: Result | None = None
            for workers in options.workers:
                result = run(options, served, subject, workers, folder)
                first = first or result
                show(subject, workers, result, first, served, options.delay_ms)


if __name__ == "__main__":
    main()
