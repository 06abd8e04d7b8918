"""`/files`: originals, uploaded and had back."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import File, Form, Query, Request, UploadFile
from starlette.responses import StreamingResponse

from scrubjay.api.deps import Jay, Who
from scrubjay.api.openai.routing import door_router
from scrubjay.api.openai.schemas import WideCut, list_object
from scrubjay.errors import InvalidRequest
from scrubjay.openai.protocol import Item, NewFile

router = door_router("files")

_PIECE_BYTES = 256 * 1024
_FOLDERS = re.compile(r".*[/\\]")


@router.post("/files")
async def create_file(
    jay: Jay,
    who: Who,
    request: Request,
    file: Annotated[UploadFile, File(description="At most 512 MB.")],
    purpose: Annotated[str, Form(max_length=64)],
) -> dict[str, Any]:
    """Upload a file. It is searched as soon as it is added to a vector store."""
    if any(name.startswith("expires_after") for name in await request.form()):
        raise InvalidRequest("expires_after: files are kept until they are deleted.", field="expires_after")
    new = NewFile(
        filename=_FOLDERS.sub("", file.filename or "") or "upload",
        content=_pieces(file),
        purpose=purpose,
        content_type=file.content_type,
    )
    return await jay.inventory.upload_file(who, new)


@router.get("/files")
async def list_files(
    jay: Jay, who: Who, cut: WideCut, purpose: Annotated[str | None, Query(max_length=64)] = None
) -> Item:
    """What was uploaded. Crawled documents are listed with the files of their vector stores."""
    return list_object(await jay.inventory.list_files(who, cut, purpose=purpose))


@router.get("/files/{file_id}")
async def get_file(jay: Jay, who: Who, file_id: str) -> Item:
    return await jay.inventory.get_file(who, file_id)


@router.delete("/files/{file_id}")
async def delete_file(jay: Jay, who: Who, file_id: str) -> Item:
    """Delete a file everywhere: from every vector store, with its vectors, and its bytes."""
    return await jay.inventory.delete_file(who, file_id)


@router.get("/files/{file_id}/content", response_class=StreamingResponse)
async def get_file_content(jay: Jay, who: Who, file_id: str) -> StreamingResponse:
    """The bytes as they came."""
    body = await jay.inventory.file_body(who, file_id)
    name = quote(body.filename, safe="")
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Type": _header_text(body.content_type),
    }
    return StreamingResponse(body.chunks, headers=headers)


async def _pieces(file: UploadFile) -> AsyncIterator[bytes]:
    while piece := await file.read(_PIECE_BYTES):
        yield piece


def _header_text(value: str) -> str:
    """A type that somebody sent is sent back only if it cannot be anything else than a type."""
    return value if value.isascii() and value.isprintable() else "application/octet-stream"
