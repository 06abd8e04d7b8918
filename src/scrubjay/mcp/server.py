"""The MCP server on the official SDK: it lists and calls the tools of `services/tools.py`, for one key each time."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from scrubjay import __version__
from scrubjay.errors import ScrubjayError, Unavailable
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.tools import Tool, ToolService
from scrubjay.telemetry import get_logger, redact

log = get_logger(__name__)

INSTRUCTIONS = (
    "Scrubjay searches content that it crawls and keeps fresh. Use `search` first and cite the url and title of what "
    "you use; `get_document` reads on around a passage; `whats_new` tells what changed since a date."
)
MAX_ANSWER_CHARACTERS = 60_000

Context = ServerRequestContext[Any, Any]
WhoAsks = Callable[[Context], Principal]
CallTool = Callable[[Principal, str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


def make_server(tools: ToolService, who_asks: WhoAsks, call: CallTool | None = None) -> Server[dict[str, Any]]:
    """`who_asks` says whose request a message is; `call` is for tools that somebody else has to answer."""
    answer_call = call or tools.call

    async def list_tools(context: Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        who = who_asks(context)
        return types.ListToolsResult(tools=[_describe(tool) for tool in tools.of(who, for_models=True)])

    async def call_tool(context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            return _result(await answer_call(who_asks(context), asked.name, asked.arguments or {}))
        except ScrubjayError as error:
            if isinstance(error, Unavailable):
                log.warning("a tool could not answer", tool=asked.name, reason=error.message)
            details = {"details": redact(error.details)} if error.details else {}
            return _result({"error": error.message, **details}, failed=True)

    return Server(
        "scrubjay",
        version=__version__,
        title="Scrubjay",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _describe(tool: Tool) -> types.Tool:
    schema = tool.parameters.model_json_schema()
    reads = tool.scope is Scope.READ
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=schema,
        annotations=types.ToolAnnotations(read_only_hint=reads, destructive_hint=False, open_world_hint=not reads),
    )


def _result(answer: dict[str, Any], *, failed: bool = False) -> types.CallToolResult:
    """As text for the model, bounded, and as it is for programs."""
    text = json.dumps(answer, ensure_ascii=False, indent=1)
    if len(text) > MAX_ANSWER_CHARACTERS:
        text = f"{text[:MAX_ANSWER_CHARACTERS]}\n… (cut off; ask for less)"
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=None if failed else answer,
        is_error=failed,
    )
