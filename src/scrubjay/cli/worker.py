"""`scrubjay worker`."""

import asyncio
import signal

from scrubjay.cli.context import console, run, settings
from scrubjay.storage.home import note_server


def work() -> None:
    """Run jobs, without serving the API.

    Any number of workers can share a PostgreSQL database; a data folder with SQLite has room for one process.
    Stop with Ctrl-C or SIGTERM: running jobs are handed back at their next checkpoint.
    """
    chosen = settings()
    from scrubjay.bootstrap import open_scrubjay

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with open_scrubjay(chosen, working=True):
            console.print("Working; stop with Ctrl-C.")
            with note_server(chosen.home):
                await stop.wait()

    run(main)
