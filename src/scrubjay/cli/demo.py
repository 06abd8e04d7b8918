"""`scrubjay demo`: the main job in one command. Crawl a site, search it, and serve it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live
from rich.text import Text

import scrubjay
from scrubjay.cli.context import cell, console, run, settings
from scrubjay.cli.crawl_view import show_crawl, show_summary
from scrubjay.cli.serve import listening, serve_around
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.destination import Destination
from scrubjay.model.search import SearchRequest
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.job import Job
    from scrubjay.model.tenant import Principal

SAMPLE = Path(scrubjay.__file__).parent / "sample"
LOOPBACK = ip_network("127.0.0.0/8")
QUESTION = "how does a jay find its hidden acorns?"
LOOK_SECONDS = 0.2


def demo(
    url: Annotated[
        str | None, typer.Argument(help="A site to crawl. Default: a small one that comes with Scrubjay.")
    ] = None,
    max_pages: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of pages.")] = 200,
) -> None:
    """Crawl a site, search it, and serve it with the API. Stop with Ctrl-C."""
    chosen = settings(log_level="warning")
    run(lambda: _demo(chosen, url, max_pages))


async def _demo(chosen: Settings, url: str | None, max_pages: int) -> None:
    from scrubjay.app import open_scrubjay

    if url is None:
        # The sample is served on this machine, where crawls otherwise may not look.
        chosen = chosen.model_copy(update={"allowed_private_networks": (*chosen.allowed_private_networks, LOOPBACK)})
    async with AsyncExitStack() as stack:
        sockets = stack.enter_context(listening(chosen.api_host, chosen.api_port))
        jay = await stack.enter_async_context(open_scrubjay(chosen, working=True))
        who = await jay.access.open_as_admin(chosen.home)
        start = url or stack.enter_context(_sample_site(chosen.api_port + 1))
        console.print(Text.assemble("Crawling ", (cell(start).plain, "bold"), " …"))
        job = await _crawl(jay, who, start, max_pages)
        show_summary(job)
        if url is None:
            await _search(jay, who, QUESTION)
        else:
            console.print("Search it from another terminal: scrubjay search WORDS", highlight=False)
        await serve_around(jay, chosen, sockets)


class _SampleHandler(SimpleHTTPRequestHandler):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, directory=str(SAMPLE))

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name is the library's
        """The crawl tells what is fetched."""


@contextmanager
def _sample_site(port: int) -> Iterator[str]:
    """The sample on this machine, always at the same address if that is free: documents know theirs."""
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _SampleHandler)
    except OSError:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _SampleHandler)
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


async def _crawl(jay: "Scrubjay", who: "Principal", url: str, max_pages: int) -> "Job":
    spec = read_spec({"start_urls": [url], "max_pages": max_pages, "delay_ms": 20 if "127.0.0.1" in url else 100})
    job = await jay.crawls.start(who, spec, destination=Destination.to())
    with Live(show_crawl(job), console=console, refresh_per_second=4, transient=True) as live:
        while not job.is_finished:
            await asyncio.sleep(LOOK_SECONDS)
            job = await jay.jobs.get(who, job.id)
            live.update(show_crawl(job))
    await jay.indexer.drain()
    return job


async def _search(jay: "Scrubjay", who: "Principal", question: str) -> None:
    from scrubjay.cli.search import show_answer

    answer = await jay.search.search(who, SearchRequest(query=question, limit=3))
    console.print(Text.assemble("\n$ scrubjay search ", (f'"{question}"', "bold")))
    show_answer(answer)
