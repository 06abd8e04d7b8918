"""`scrubjay worker`."""

import asyncio
import signal
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli.context import console, run, settings
from scrubjay.cli.serve import listening
from scrubjay.settings import Settings
from scrubjay.storage.home import note_server

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay


def work(
    concurrency: Annotated[
        int | None,
        typer.Option(help="Jobs to run at the same time. Default: the setting worker_concurrency.", show_default=False),
    ] = None,
    queues: Annotated[
        str | None,
        typer.Option(help="Kinds of jobs to run, for example crawl,ingest. Default: all.", show_default=False),
    ] = None,
) -> None:
    """Run jobs, without serving the API.

    Any number of workers can share a PostgreSQL database; a data folder with SQLite has room for one process.
    Stop with Ctrl-C or SIGTERM: running jobs are handed back at their next checkpoint.
    """
    chosen = settings(worker_concurrency=concurrency, worker_queues=queues)
    run(lambda: _work(chosen))


async def _work(chosen: Settings) -> None:
    if chosen.worker_metrics_port is None:
        await _work_until_stopped(chosen)
        return
    with listening(chosen.api_host, chosen.worker_metrics_port) as sockets:
        await _work_and_tell(chosen, sockets)


async def _work_until_stopped(chosen: Settings) -> None:
    from scrubjay.app import open_scrubjay

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_scrubjay(chosen, working=True):
        console.print("Working; stop with Ctrl-C.")
        with note_server(chosen.home):
            await stop.wait()


async def _work_and_tell(chosen: Settings, sockets: list[socket.socket]) -> None:
    from scrubjay.app import open_scrubjay

    # The server below listens for signals; it raises the one that stopped it once more, which must end nothing.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    async with open_scrubjay(chosen, working=True) as jay:
        host, port = sockets[0].getsockname()[:2]
        console.print(f"Working; metrics on {host}:{port}; stop with Ctrl-C.", soft_wrap=True, highlight=False)
        with note_server(chosen.home):
            await _serve_metrics(jay, sockets)


async def _serve_metrics(jay: "Scrubjay", sockets: list[socket.socket]) -> None:
    import uvicorn

    from scrubjay.api.app import metrics_app_around

    config = uvicorn.Config(metrics_app_around(jay), log_config=None, access_log=False, server_header=False)
    await uvicorn.Server(config).serve(sockets)
