"""`scrubjay serve`."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scrubjay.cli.context import console, run, settings
from scrubjay.errors import StartupError
from scrubjay.settings import Settings
from scrubjay.storage.home import note_server

if TYPE_CHECKING:
    import uvicorn

    from scrubjay.app import Scrubjay

EVERYWHERE = ("0.0.0.0", "::", "")
# Compression of sockets would cost more memory for each listener than everything else together.
UVICORN: Mapping[str, Any] = {
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "ws_per_message_deflate": False,
}


def serve(
    host: Annotated[str | None, typer.Option(help="Address to bind to. Default: 127.0.0.1", show_default=False)] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port; 0 picks a free one. Default: 8642", show_default=False),
    ] = None,
    work: Annotated[bool, typer.Option("--work/--no-work", help="Run jobs in this process too.")] = True,
) -> None:
    """Serve the API, and run jobs.

    Prints a one-time link that signs a browser in. Stop with Ctrl-C: running jobs are handed back at their next
    checkpoint and continue from there next time.
    """
    chosen = settings(api_host=host, api_port=port)
    run(lambda: _serve(chosen, work))


async def _serve(chosen: Settings, work: bool) -> None:
    from scrubjay.app import open_scrubjay

    # The address comes first: one in use should be told at once, and change nothing.
    with listening(chosen.api_host, chosen.api_port) as sockets:
        async with open_scrubjay(chosen, working=work) as jay:
            await serve_around(jay, chosen, sockets)


async def serve_around(jay: "Scrubjay", chosen: Settings, sockets: list[socket.socket]) -> None:
    """Serve an open Scrubjay until a signal ends it, and print how to sign in."""
    import uvicorn

    from scrubjay.api.app import app_around
    from scrubjay.cli.draining import DrainingServer

    admin = await jay.access.open_as_admin(chosen.home)
    token = await jay.access.create_sign_in_link(admin)
    config = uvicorn.Config(
        app_around(jay),
        **UVICORN,
        timeout_graceful_shutdown=int(chosen.shutdown_grace_seconds),
    )
    server = DrainingServer(config, jay, chosen.api_drain_seconds)
    await _run_server(server, sockets, chosen.api_host, token, chosen.home)


@asynccontextmanager
async def serving_quietly(jay: "Scrubjay", chosen: Settings) -> AsyncIterator[None]:
    """Serve other commands of this folder, without a word and on a free port, for as long as the context lasts."""
    import uvicorn

    from scrubjay.api.app import app_around

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # whoever serves in passing ends as its command does

    with listening("127.0.0.1", 0) as sockets:
        server = Server(uvicorn.Config(app_around(jay), **UVICORN, timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server.serve(sockets))
        try:
            with note_server(chosen.home, _base("127.0.0.1", sockets[0].getsockname()[1])):
                yield
        finally:
            server.should_exit = True
            await serving


@contextmanager
def listening(host: str, port: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        try:
            found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            sockets = [
                stack.enter_context(socket.create_server(address, family=family)) for family, _, _, _, address in found
            ]
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "this is not a host name"
            raise StartupError(
                f"Cannot serve on {host}:{port} ({reason}); choose another address with --host or --port."
            ) from error
        yield sockets


async def _run_server(
    server: "uvicorn.Server", sockets: list[socket.socket], host: str, token: str, home: Path
) -> None:
    # Uvicorn raises the signal that stopped it once more when it is done; jobs still have to be handed back then.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    base = _base(host, sockets[0].getsockname()[1])
    announcing = asyncio.create_task(_announce(server, base, token))
    try:
        with note_server(home, base):
            await server.serve(sockets)
    finally:
        announcing.cancel()


def _base(host: str, port: int) -> str:
    shown = "127.0.0.1" if host in EVERYWHERE else host
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}"


async def _announce(server: "uvicorn.Server", base: str, token: str) -> None:
    while not server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
        await asyncio.sleep(0.01)
    console.print(f"Scrubjay is serving on {base}", soft_wrap=True, highlight=False)
    console.print(f"Sign in (works once, for 15 minutes): {base}/signin?token={token}", soft_wrap=True, highlight=False)
