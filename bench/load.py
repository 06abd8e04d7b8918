"""Many clients at once while crawls run: errors, how long the slowest wait, and whether all get their share.

    python bench/load.py [--clients 200] [--crawls 8] [--seconds 60] [--postgres URL]

`scrubjay serve` on the embedded default, or an API process and two workers on the PostgreSQL named. Clients of two
tenants read, search and write in turn, each with a pause of its own; the crawls are of a local site that answers
slowly enough for them to last. A client that is refused for its rate does not count as failed, but is told.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from cost import fresh_postgres
from site_pages import BenchSite

SCRUBJAY = [str(Path(sys.executable).parent / "scrubjay")]
THINKING_SECONDS = (0.2, 1.0)
KEYS_PER_TENANT = 10
START_SECONDS = 60


@dataclass
class Tally:
    """What the clients saw."""

    took: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    per_client: Counter[int] = field(default_factory=Counter)

    def note(self, client: int, what: str, seconds: float, status: str) -> None:
        self.took[what].append(seconds)
        self.answers[what, status] += 1
        self.per_client[client] += status.startswith("2")


Act = Callable[["Client"], Awaitable[None]]


class Client:
    def __init__(self, number: int, session: aiohttp.ClientSession, key: str, tally: Tally) -> None:
        self.chance = random.Random(number)
        self._number = number
        self._session = session
        self._headers = {"X-API-Key": key}
        self._tally = tally
        self.documents: list[str] = []

    async def live(self, until: float) -> None:
        acts: list[tuple[int, Act]] = [(5, search), (3, read), (2, list_documents), (2, write), (1, look_at_jobs)]
        choices = [act for weight, act in acts for _ in range(weight)]
        while time.monotonic() < until:
            await asyncio.sleep(self.chance.uniform(*THINKING_SECONDS))
            await self.chance.choice(choices)(self)

    async def ask(self, what: str, method: str, path: str, body: object = None) -> object:
        started = time.monotonic()
        try:
            async with self._session.request(method, path, json=body, headers=self._headers) as answer:
                status, text = str(answer.status), await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            status, text = type(error).__name__, ""
        self._tally.note(self._number, what, time.monotonic() - started, status)
        return json.loads(text) if status.startswith("2") and text else None


async def search(client: Client) -> None:
    words = " ".join(client.chance.sample(["harvest", "river", "number", "garden", "winter", "engine", "market"], 3))
    await client.ask("search", "POST", "/api/v1/search", {"query": words, "limit": 10})


async def list_documents(client: Client) -> None:
    found = await client.ask("list", "GET", "/api/v1/documents?limit=20")
    if isinstance(found, dict):
        client.documents = [item["id"] for item in found["items"]] or client.documents


async def read(client: Client) -> None:
    if not client.documents:
        await list_documents(client)
        return
    await client.ask("read", "GET", f"/api/v1/documents/{client.chance.choice(client.documents)}")


async def write(client: Client) -> None:
    number = client.chance.randrange(10**9)
    text = f"# Note {number}\n\n" + " ".join(client.chance.choices(["river", "garden", "winter", "engine"], k=80))
    await client.ask("write", "POST", "/api/v1/documents", {"url": f"https://notes.example/{number}", "content": text})


async def look_at_jobs(client: Client) -> None:
    await client.ask("jobs", "GET", "/api/v1/jobs?limit=20")


def start(stack: ExitStack, arguments: list[str], env: dict[str, str], log: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*SCRUBJAY, *arguments], env=env, stdout=subprocess.PIPE, stderr=log.open("w"), text=True
    )
    stack.callback(process.wait, 120)
    stack.callback(process.terminate)
    return process


def make_keys(home: Path, env: dict[str, str]) -> list[str]:
    keys = []
    for number in range(2 * KEYS_PER_TENANT):
        tenant = ["--tenant", "other"] if number % 2 else []
        command = [
            *SCRUBJAY,
            "--home",
            str(home),
            "keys",
            "create",
            f"load {number}",
            "--scope",
            "write",
            "--scope",
            "read",
        ]
        made = subprocess.run(
            [*command, "--rate", "10000", *tenant], env=env, check=True, capture_output=True, text=True
        )
        keys.append(made.stdout.strip())
    return keys


@asynccontextmanager
async def slow_site(pages: int, latency_seconds: float) -> AsyncIterator[str]:
    """The benchmark's site, each page a while after it was asked for."""
    from aiohttp import web

    site = BenchSite(pages)

    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(latency_seconds)
        body = site.body(request.path)
        return web.Response(status=404) if body is None else web.Response(text=body, content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    listening = web.TCPSite(runner, "0.0.0.0", 0)
    await listening.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def begin_crawls(session: aiohttp.ClientSession, keys: list[str], url: str, count: int) -> list[tuple[str, str]]:
    """Each on a host of its own, as fast as that host answers."""
    begun, configs = [], {}
    for key in keys[:2]:
        config = {"name": "as fast as it answers", "rate_limit_rps": 10}
        async with session.post("/api/v1/configs", json=config, headers={"X-API-Key": key}) as answer:
            configs[key] = (await answer.json())["id"]
    for number in range(count):
        key = keys[number % 2]
        host = url.replace("127.0.0.1", f"127.0.0.{number + 1}")
        body = {"url": f"{host}/", "max_depth": 20, "max_pages": 1_000, "config_id": configs[key]}
        async with session.post("/api/v1/crawl/deep", json=body, headers={"X-API-Key": key}) as answer:
            if answer.status >= 300:
                sys.exit(f"A crawl was refused: {answer.status} {await answer.text()}")
            begun.append(((await answer.json())["job_id"], key))
    return begun


async def run_clients(address: str, keys: list[str], options: argparse.Namespace, site: str) -> Tally:
    tally = Tally()
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(address, connector=connector, timeout=timeout) as session:
        begun = await begin_crawls(session, keys, site, options.crawls)
        until = time.monotonic() + options.seconds
        clients = [Client(number, session, keys[number % len(keys)], tally) for number in range(options.clients)]
        await asyncio.gather(*(client.live(until) for client in clients))
        for job_id, key in begun:
            async with session.get(f"/api/v1/jobs/{job_id}", headers={"X-API-Key": key}) as answer:
                job = await answer.json()
            print(f"  crawl {job.get('status')}: {(job.get('progress') or {}).get('current')} pages")
    return tally


def report(tally: Tally, seconds: float) -> None:
    total = sum(tally.answers.values())
    failed = sum(
        count for (_, status), count in tally.answers.items() if not status.startswith("2") and status != "429"
    )
    refused = sum(count for (_, status), count in tally.answers.items() if status == "429")
    shares_failed = f"{failed} failed ({failed / total:.3%}), {refused} refused by rate"
    print(f"{total:,} requests, {total / seconds:.0f}/s; {shares_failed}")
    for what, took in sorted(tally.took.items()):
        ordered = sorted(took)
        p50, p95, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.95, 0.99))
        print(f"  {what:<8}{len(took):>7}  p50 {1000 * p50:6.0f}  p95 {1000 * p95:6.0f}  p99 {1000 * p99:6.0f} ms")
    shares = list(tally.per_client.values())
    fairness = sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
    spread = f"least {min(shares)}, median {statistics.median(shares):.0f}, most {max(shares)}"
    print(f"  answers per client: {spread}; Jain's index {fairness:.3f}")
    for (what, status), count in sorted(tally.answers.items()):
        if not status.startswith("2"):
            print(f"  {what}: {count} × {status}")


async def measure(options: argparse.Namespace, folder: Path, database: str | None) -> None:
    env = os.environ | {
        "SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
        "SCRUBJAY_WORKER_CONCURRENCY": str(options.crawls),
    }
    if database:
        env["SCRUBJAY_DATABASE_URL"] = database
    home = folder / "home"
    keys = make_keys(home, env)
    with ExitStack() as stack:
        serve = ["--home", str(home), "serve", "--port", "0", *(["--no-work"] if database else [])]
        server = start(stack, serve, env, folder / "serve.log")
        assert server.stdout is not None
        address = server.stdout.readline().strip().rpartition(" ")[2].rstrip("/.")
        if database:
            for number in range(2):
                start(stack, ["--home", str(home), "worker"], env, folder / f"worker-{number}.log")
        async with slow_site(5_000, options.site_latency) as site:
            print(f"{options.clients} clients and {options.crawls} crawls for {options.seconds:.0f} s", flush=True)
            tally = await run_clients(address, keys, options, site)
        report(tally, options.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--crawls", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--site-latency", type=float, default=0.2, help="seconds until the crawled site answers")
    parser.add_argument("--postgres", metavar="URL", help="an API process and two workers on this server instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sj-bench-") as name, ExitStack() as stack:
        database = stack.enter_context(fresh_postgres(options.postgres)) if options.postgres else None
        asyncio.run(measure(options, Path(name), database))


if __name__ == "__main__":
    main()
