"""Streamable HTTP. Nothing is kept between two requests, so any process can answer any of them."""

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from scrubjay.mcp.server import make_server
from scrubjay.model.tenant import Principal
from scrubjay.services.tools import ToolService


class McpResponse(Response):
    """Reads the protocol's message from the request and answers it, for the owner of the request's key."""

    def __init__(self, tools: ToolService, who: Principal) -> None:
        super().__init__()
        self._server = make_server(tools, lambda _: who)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(self._server, json_response=True, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)
