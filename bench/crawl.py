"""Crawlers side by side on one local site: Scrapy, Crawlee and Scrubjay, each in its own process at its best settings.

    python bench/crawl.py [--pages 5000] [--subjects scrapy,crawlee,scrubjay,indexing] [--repeat 1] [--recrawl SUBJECT]
    python bench/crawl.py --memory 50000

The site (`site_pages.py`) is served by nginx, which also counts: a page is an address that nginx answered with 200.
Every subject follows all links of the site, extracts Markdown from every page and stores it; `indexing` is Scrubjay as
its users start it, which also cuts, embeds and indexes what it stores. Scrapy and Crawlee live
in an environment of their own (`--peers-venv`, made at the first run). CPU and memory are those of whole process trees.
"""

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from measure import Cost, measure
from site_pages import BenchSite, write_site

HERE = Path(__file__).resolve().parent
# The last is what `lxml[html_clean]` means, which older pips do not understand.
PEERS = ["scrapy", "crawlee[parsel]", "trafilatura", "uvloop", "lxml-html-clean"]
SUBJECTS = ("scrapy", "crawlee", "scrubjay", "indexing")
START_SECONDS = 20
LOG_FLUSH_SECONDS = 1.5
NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  types {{ text/html html; }}
  default_type text/html; charset utf-8;
  sendfile on; tcp_nopush on; keepalive_requests 1000000; open_file_cache max=20000;
  log_format short '$status $request_uri $body_bytes_sent'; access_log {folder}/access.log short buffer=64k flush=1s;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{
    listen 127.0.0.1:{port} backlog=4096; root {folder}/site; index index.html;
    location ~ ^/old/(\\d+)$ {{ return 301 /page/$1.html; }}
  }}
}}
"""


@dataclass
class Result:
    pages: int
    answers: Counter[str]
    cost: Cost

    @property
    def pages_per_second(self) -> float:
        return self.pages / self.cost.wall_seconds

    @property
    def cpu_ms_per_page(self) -> float:
        return 1000 * self.cost.cpu_seconds / max(1, self.pages)


@dataclass
class Served:
    url: str
    log: Path

    def answers(self) -> Counter[str]:
        """How many answers of each status there were so far; robots.txt and sitemaps are not pages."""
        time.sleep(LOG_FLUSH_SECONDS)
        lines = self.log.read_text().splitlines()
        return Counter(line.partition(" ")[0] for line in lines)

    def sent_bytes(self) -> int:
        """Of all bodies so far."""
        time.sleep(LOG_FLUSH_SECONDS)
        return sum(int(line.rpartition(" ")[2]) for line in self.log.read_text().splitlines())


@contextmanager
def nginx(site: BenchSite, folder: Path) -> Iterator[Served]:
    binary = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if binary is None:
        sys.exit("nginx is needed: apt-get install -y nginx-light")
    write_site(site, folder / "site")
    folder.chmod(0o755)  # its workers are another user
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port))
    process = subprocess.Popen([binary, "-p", str(folder), "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, process)
        yield Served(f"http://127.0.0.1:{port}/", folder / "access.log")
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit("nginx did not start")


def make_peers(folder: Path) -> Path:
    """The peers' own environment, made once."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"making an environment for Scrapy and Crawlee in {folder} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return python


class Bench:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._runs = 0

    def command(self, subject: str, url: str, home: Path | None = None) -> list[str]:
        out = str(self._folder / f"{subject}-{self._runs}.jsonl")
        if subject in ("scrubjay", "indexing"):
            home = home or self._folder / f"home-{self._runs}"
            scrubjay = str(Path(sys.executable).parent / "scrubjay")
            behaviour = ["--max-pages", "100000", "--concurrency", "64", "--host-concurrency", "64"]
            behaviour += ["--delay-ms", "0", "--quiet", "--index" if subject == "indexing" else "--no-index"]
            return [scrubjay, "--home", str(home), "crawl", url, *behaviour, *self._options.scrubjay_options.split()]
        python = make_peers(self._options.peers_venv)
        return [str(python), str(HERE / f"crawl_{subject}.py"), url, out, "--concurrency", "64"]

    def run(self, subject: str, served: Served, home: Path | None = None) -> Result:
        self._runs += 1
        command = self.command(subject, served.url, home)
        log = self._folder / f"{subject}-{self._runs}.log"
        before = served.answers()
        cost = measure(command, timeout_seconds=self._options.timeout, log=log, env=environment())
        answers = served.answers() - before
        if cost.exit_code != 0:
            print(f"{subject} ended with {cost.exit_code}; its last words:\n{last_words(log)}", flush=True)
        return Result(answers["200"], answers, cost)


def environment() -> dict[str, str]:
    """For every subject: compiled modules are kept, as they are wherever packages are installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8"}


def last_words(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def middle(results: list[Result]) -> Result:
    """The run with the median CPU time per page."""
    return sorted(results, key=lambda result: result.cpu_ms_per_page)[len(results) // 2]


def compare(bench: Bench, options: argparse.Namespace, served: Served, site: BenchSite) -> None:
    print(f"\n{site.expected} pages ({site.pages} + categories and copies), {os.cpu_count()} cores, ", end="")
    print(f"median of {options.repeat} runs")
    print(f"{'':<12}{'pages':>8}{'seconds':>10}{'pages/s':>10}{'CPU ms/page':>14}{'peak MB':>10}  other answers")
    results: dict[str, Result] = {}
    # In turns, so that a busy moment of the machine does not fall on one subject alone.
    runs: dict[str, list[Result]] = {subject: [] for subject in options.subjects}
    for _ in range(options.repeat):
        for subject in options.subjects:
            runs[subject].append(bench.run(subject, served))
    for subject, each in runs.items():
        results[subject] = show(subject, middle(each), site)
    ours = results.get("scrubjay")
    for subject, theirs in results.items():
        if ours is not None and theirs is not ours and ours.pages and theirs.pages:
            faster = ours.pages_per_second / theirs.pages_per_second
            cheaper = ours.cpu_ms_per_page / theirs.cpu_ms_per_page
            print(f"Scrubjay beside {subject}: {faster:.1f}× its pages/s, {cheaper:.2f} of its CPU per page")


def show(subject: str, result: Result, site: BenchSite) -> Result:
    others = ", ".join(f"{count} × {status}" for status, count in sorted(result.answers.items()) if status != "200")
    complete = "" if result.pages >= site.expected * 0.99 else f"   INCOMPLETE: {site.expected} expected"
    print(
        f"{subject:<12}{result.pages:>8}{result.cost.wall_seconds:>10.1f}{result.pages_per_second:>10.1f}"
        f"{result.cpu_ms_per_page:>14.2f}{result.cost.peak_mb:>10.0f}  {others}{complete}",
        flush=True,
    )
    return result


def recrawl(bench: Bench, subject: str, served: Served, site: BenchSite, folder: Path) -> None:
    """The same home twice: nothing changed in between."""
    home = folder / "recrawl-home"
    print(f"\nScrubjay twice in the same home ({subject})")
    first = show("first", bench.run(subject, served, home), site)
    second = bench.run(subject, served, home)
    ratio = second.cost.cpu_seconds / first.cost.cpu_seconds
    print(
        f"{'again':<12}{second.answers['304']:>8} × 304, {second.pages} × 200, {second.cost.wall_seconds:.1f} s, "
        f"{second.cost.cpu_seconds:.1f} s CPU: {ratio:.3f} of the first crawl's"
    )


def watch_memory(bench: Bench, options: argparse.Namespace, folder: Path) -> None:
    """Scrubjay's memory over a site that is made on the fly."""
    command = [sys.executable, str(HERE / "site_pages.py"), "--serve", "--pages", str(options.memory)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip() + "/"
        log = folder / "memory.log"
        cost = measure(bench.command("scrubjay", url), timeout_seconds=options.timeout, log=log, env=environment())
    finally:
        server.terminate()
        server.wait()
    print(
        f"\n{options.memory} pages, exit code {cost.exit_code}, {cost.wall_seconds:.0f} s, peak {cost.peak_mb:.0f} MB"
    )
    print(last_words(log))
    tenths = [cost.memory[len(cost.memory) * part // 10 : len(cost.memory) * (part + 1) // 10] for part in range(10)]
    for part, samples in enumerate(tenths):
        sizes = [size for _, size in samples] or [0.0]
        when = f"{part * 10:>3}–{part * 10 + 10} % of the time"
        print(f"  {when}: median {statistics.median(sizes):.0f} MB, most {max(sizes):.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--subjects", type=lambda text: text.split(","), default=list(SUBJECTS))
    parser.add_argument(
        "--recrawl",
        nargs="?",
        const="scrubjay",
        choices=("scrubjay", "indexing"),
        help="crawl a second time in the same home, too",
    )
    parser.add_argument("--memory", type=int, metavar="PAGES", help="only watch Scrubjay's memory over so many pages")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds after which a crawler is ended")
    parser.add_argument("--scrubjay-options", default="", help="more options for `scrubjay crawl`")
    parser.add_argument("--peers-venv", type=Path, default=Path.home() / ".cache" / "scrubjay-bench" / "peers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sj-bench-") as name:
        folder = Path(name)
        bench = Bench(options, folder)
        if options.memory:
            watch_memory(bench, options, folder)
            return
        site = BenchSite(options.pages)
        with nginx(site, folder) as served:
            if options.subjects != [""]:
                compare(bench, options, served, site)
            if options.recrawl:
                recrawl(bench, options.recrawl, served, site, folder)


if __name__ == "__main__":
    main()
