"""`/mcp`: where language models' programs ask for tools. The protocol itself is `scrubjay/mcp`."""

from typing import Any

from fastapi import APIRouter, Response

from scrubjay.api.deps import Jay, Who
from scrubjay.api.rag.schemas import ErrorResponse
from scrubjay.mcp.http import McpResponse

router = APIRouter(tags=["models"])

_JSON_RPC: dict[int | str, dict[str, Any]] = {
    200: {"description": "A JSON-RPC answer", "content": {"application/json": {"schema": {"type": "object"}}}},
    "4XX": {"model": ErrorResponse, "description": "The request is wrong or not allowed"},
}


@router.post("/mcp", response_class=Response, responses=_JSON_RPC)
async def answer_models(jay: Jay, who: Who) -> Response:
    """The Model Context Protocol over streamable HTTP: every request is complete in itself and carries its key."""
    return McpResponse(jay.tools, who)
