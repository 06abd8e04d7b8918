"""`scrubjay mcp`: the tools for language models over standard input and output."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from scrubjay.cli.asking import ask_server
from scrubjay.cli.context import PATIENCE_SECONDS, admin, own_home, quiet_settings, run
from scrubjay.cli.serve import serving_quietly
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from scrubjay.mcp.stdio import CallTool
    from scrubjay.model.tenant import Principal
    from scrubjay.services.tools import ToolService


def serve_models() -> None:
    """Serve tools for language models over standard input and output (Model Context Protocol).

    For programs that start their servers themselves. It searches, reads, tells what is new, and starts crawls, as
    the admin of this data folder. A running server offers the same at /mcp, with an API key.
    """

    async def main() -> None:
        # Here, not above: the protocol's library takes a moment to import.
        from scrubjay.mcp.stdio import serve_stdio

        async with _tools(quiet_settings()) as (tools, who, call):
            await serve_stdio(tools, who, call)

    run(main)


@asynccontextmanager
async def _tools(settings: Settings) -> "AsyncIterator[tuple[ToolService, Principal, CallTool | None]]":
    """Those of a server that runs in this folder, or our own; then this is the server, for other commands as well."""
    async with own_home(settings, working=True, keeping_time=True, patience_seconds=PATIENCE_SECONDS) as jay:
        if jay is None:

            async def ask(_: "Principal", name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
                body = {"agent": "scrubjay", "tool": name, "kwargs": dict(arguments)}
                answer: dict[str, Any] = (await ask_server(settings, "/call", body))["data"]
                return answer

            async with admin() as (shared, who):
                yield shared.tools, who, ask
            return
        who = await jay.access.open_as_admin(settings.home)
        async with serving_quietly(jay, settings):
            yield jay.tools, who, None
