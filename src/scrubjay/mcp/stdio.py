"""The same tools over standard input and output, with the key of whoever started the program."""

from mcp.server.stdio import stdio_server

from scrubjay.mcp.server import CallTool, make_server
from scrubjay.model.tenant import Principal
from scrubjay.services.tools import ToolService

__all__ = ["CallTool", "serve_stdio"]


async def serve_stdio(tools: ToolService, who: Principal, call: CallTool | None = None) -> None:
    """Answer until the other side closes standard input."""
    server = make_server(tools, lambda _: who, call)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
