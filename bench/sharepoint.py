"""A SharePoint library that changed a little: requests and time of an incremental look, and the memory of a large file.

    python bench/sharepoint.py [--files 10000] [--changed 100] [--latency-ms 20] [--places 8] [--megabytes 1024]

The server of the tests runs in a process of its own and waits before every answer. It counts every request, those for
tokens included. Memory is that of the process that reads.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_network
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.sharepoint_app import app_settings
from tests.sharepoint_server import SharePointServer, running_sharepoint

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.fetcher import Network
from scrubjay.sources.sharepoint import SharePointItem, SharePointSite, open_site
from scrubjay.sources.sharepoint.client import PAGE_SIZE

LIBRARY = "/Shared Documents"
LARGE = "large.bin"
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SAMPLE_SECONDS = 0.005


async def _serve(pipe: Connection, files: int, latency_seconds: float, large_bytes: int) -> None:
    async with running_sharepoint() as server:
        library = server.add_site().documents
        library.fill((f"box{number % 50}/note-{number}.txt" for number in range(files)), b"acorn" * 200)
        if large_bytes:
            server.add_site("/sites/large").documents.put(LARGE, large_bytes)
        server.latency_seconds = latency_seconds
        pipe.send(server.url)
        while (order := await asyncio.to_thread(pipe.recv)) is not None:
            pipe.send(_obey(server, order))


def _obey(server: SharePointServer, order: tuple[str, int]) -> int:
    what, number = order
    library = server.add_site().documents
    if what == "change":
        for item in sorted(library.items.values(), key=lambda each: each.id * 7919 % 10_007)[:number]:
            item.content, item.modified = b"beetle" * 200, library.tick()
            library.note(item, 2)
    count = len(server.requests)
    server.requests.clear()
    return count


def _run_server(pipe: Connection, files: int, latency_seconds: float, large_bytes: int) -> None:
    asyncio.run(_serve(pipe, files, latency_seconds, large_bytes))


@asynccontextmanager
async def serving(options: argparse.Namespace) -> AsyncIterator[tuple[str, Connection]]:
    ours, theirs = multiprocessing.Pipe()
    sizes = (options.files, options.latency_ms / 1000, options.megabytes * 1024 * 1024)
    process = multiprocessing.get_context("spawn").Process(target=_run_server, args=(theirs, *sizes))
    process.start()
    try:
        yield ours.recv(), ours
    finally:
        ours.send(None)
        process.join(10)


@asynccontextmanager
async def opened(url: str, path: str, folder: Path) -> AsyncIterator[SharePointSite]:
    named = SharePointServer()
    named.url = url
    network = Network(EgressGuard([ip_network("127.0.0.0/8")]), spool_folder=folder)
    try:
        async with open_site(app_settings(named, folder), network, url + path) as site:
            yield site
    finally:
        await network.close()


async def download_all(site: SharePointSite, items: Iterable[SharePointItem], folder: Path, places: int) -> int:
    room = asyncio.Semaphore(places)

    async def one(item: SharePointItem) -> None:
        async with room:
            await site.download(item, folder / str(item.sharepoint_listitem_id))

    wanted = list(items)
    await asyncio.gather(*map(one, wanted))
    return len(wanted)


def changed_items(before: Mapping[int, SharePointItem], after: Iterable[SharePointItem]) -> list[SharePointItem]:
    known = {number: (item.file_size, item.last_modified_utc) for number, item in before.items()}
    return [item for item in after if known[item.sharepoint_listitem_id] != (item.file_size, item.last_modified_utc)]


async def measure_changes(url: str, pipe: Connection, options: argparse.Namespace, folder: Path) -> None:
    async with opened(url, "/sites/demo", folder) as site:
        before = {item.sharepoint_listitem_id: item async for item in site.library_items(LIBRARY)}
    assert len(before) == options.files
    pages = -(-options.files // PAGE_SIZE)
    bound = (pages + options.changed) * 1.05
    pipe.send(("change", options.changed))
    pipe.recv()

    started = time.perf_counter()
    async with opened(url, "/sites/demo", folder) as site:
        changed = changed_items(before, [item async for item in site.library_items(LIBRARY)])
        done = await download_all(site, changed, folder / "a", options.places)
    report("by listing", done, time.perf_counter() - started, pipe, bound)


class Memory(threading.Thread):
    """Looks at this process's resident memory every few milliseconds. The peak that the kernel keeps would not do: what
    was reached before, while everything was imported, would hide what a download takes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self.before = self.most = _resident_bytes()
        self.samples = 0

    def run(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.most = max(self.most, _resident_bytes())
            self.samples += 1

    def __enter__(self) -> "Memory":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def report(name: str, done: int, seconds: float, pipe: Connection, bound: float) -> None:
    pipe.send(("count", 0))
    requests = pipe.recv()
    verdict = "ok" if requests <= bound else "TOO MANY"
    print(f"{name:16} {done} changed files, {requests} requests (bound {bound:.0f}: {verdict}), {seconds:.2f} s")


async def measure_large(url: str, options: argparse.Namespace, folder: Path) -> None:
    async with opened(url, "/sites/large", folder) as site:
        (item,) = [item async for item in site.library_items(LIBRARY)]
        started = time.perf_counter()
        with Memory() as memory:
            size = await site.download(item, folder / LARGE)
        seconds = time.perf_counter() - started
    assert (folder / LARGE).stat().st_size == size == options.megabytes * 1024**2
    more = (memory.most - memory.before) / 1024**2
    verdict = "ok" if more < 64 else "TOO MUCH"
    print(
        f"one large file   {size / 1024**2:.0f} MB in {seconds:.1f} s, {more:.1f} MB more memory than the "
        f"{memory.before / 1024**2:.0f} MB before (bound 64: {verdict}; {memory.samples} samples)"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--changed", type=int, default=100)
    parser.add_argument("--latency-ms", type=float, default=20)
    parser.add_argument("--places", type=int, default=8, help="downloads at the same time")
    parser.add_argument("--megabytes", type=int, default=1024)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        async with serving(options) as (url, pipe):
            if options.megabytes:
                await measure_large(url, options, Path(folder))
            await measure_changes(url, pipe, options, Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
