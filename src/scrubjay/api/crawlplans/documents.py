"""Documents over `/v1.0`: list, upload, read, download and remove them."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, Query
from pydantic import Field, StringConstraints
from starlette.responses import StreamingResponse

from scrubjay.api.crawlplans.lists import EnvelopeResponse, Listed
from scrubjay.api.crawlplans.routing import door_router
from scrubjay.api.crawlplans.rules import Label, TagName, TagValue
from scrubjay.api.crawlplans.schemas import Blankable, Reference, Wire, WireRequest, any_case
from scrubjay.api.deps import Jay, Who, identifier
from scrubjay.api.rag.schemas import field_values
from scrubjay.errors import InvalidRequest
from scrubjay.model.content import Document, DocumentLogLine, DocumentStatus, Tag
from scrubjay.services.documents import DocumentQuery, Upload

router = door_router("/documents", "documents (v1.0)")

DocumentId = Annotated[str, Depends(identifier("adoc", "document", "document_id"))]
Text = Annotated[Annotated[str, StringConstraints(max_length=255)] | None, Blankable]
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
_UNADDRESSED = ("upload://", "api://")


class UploadRequest(WireRequest):
    """A file. With an ingestion rule, it goes where the rule says, and is cut and labelled as the rule says."""

    base64_content: str = Field(min_length=1)
    ingestion_rule_id: Reference = None
    name: Text = Field(None, description="The title; without one, what the file says, or its name.")
    original_filename: Text = None
    content_type: Text = None
    labels: list[Label] = Field(default_factory=list, max_length=100)
    tags: dict[TagName, TagValue] = Field(default_factory=dict, max_length=100)
    collection_id: Reference = None

    def data(self) -> bytes:
        try:
            return base64.b64decode("".join(self.base64_content.split()), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidRequest("Base64Content is not base64.", field="Base64Content") from None


class DeleteDocumentsRequest(WireRequest):
    document_ids: list[Annotated[str, StringConstraints(max_length=64)]] = Field(min_length=1)


class AssistantDocumentResponse(Wire):
    id: str
    tenant_id: str
    name: str
    original_filename: str | None = Field(None, validation_alias="filename")
    content_type: str | None = None
    size_bytes: int
    status: DocumentStatus
    error_message: str | None = Field(None, validation_alias="error")
    ingestion_rule_id: str | None = Field(None, validation_alias="rule_id")
    collection_id: str | None = None
    labels: list[str]
    tags: dict[str, Any] | None = None
    chunk_count: int
    version: int
    content_sha256: str | None = Field(None, validation_alias="original_sha256")
    crawl_plan_id: str | None = Field(None, validation_alias="plan_id")
    crawl_operation_id: str | None = Field(None, validation_alias="operation_id")
    source_url: str | None = None
    created_utc: datetime = Field(validation_alias="created_at")
    last_update_utc: datetime = Field(validation_alias="updated_at")


class ProcessingLogResponse(Wire):
    document_id: str
    log: str


def document_response(document: Document, tags: Sequence[Tag]) -> AssistantDocumentResponse:
    tags_said = document.details.get("tags")  # of an upload; pages may have something else by that name
    parts = {
        "name": document.title or document.filename or document.url,
        "labels": [tag.name for tag in tags],
        "tags": tags_said if isinstance(tags_said, Mapping) else None,
        "source_url": None if document.url.startswith(_UNADDRESSED) else document.url,
    }
    return AssistantDocumentResponse.model_validate(field_values(document) | parts)


async def _answer(jay: Jay, who: Who, document: Document) -> AssistantDocumentResponse:
    tags = await jay.documents.tags_of(who, [document.id])
    return document_response(document, tags.get(document.id, ()))


@router.put("", status_code=201, response_model=AssistantDocumentResponse)
async def upload_document(jay: Jay, who: Who, body: UploadRequest) -> AssistantDocumentResponse:
    """Add a file. The same file name again in the same collection is a new version of the same document."""
    upload = Upload(
        data=body.data(),
        filename=_file_name(body.original_filename or body.name),
        content_type=body.content_type,
        title=body.name,
        collection_id=body.collection_id,
        tags=tuple(body.labels),
        details={"tags": body.tags} if body.tags else {},
    )
    if body.ingestion_rule_id is not None:
        upload = await jay.rules.apply(who, body.ingestion_rule_id, upload)
    (document,) = await jay.documents.add(who, [upload])
    return await _answer(jay, who, document)


def _file_name(given: str | None) -> str | None:
    """The last part of what a client calls its file."""
    return (given or "").replace("\\", "/").rpartition("/")[2].strip() or None


@router.get("", response_model=EnvelopeResponse[AssistantDocumentResponse])
async def list_documents(
    jay: Jay,
    who: Who,
    listed: Listed,
    crawl_plan_id: Annotated[str | None, Query(alias="crawlPlanId", max_length=64)] = None,
    crawl_operation_id: Annotated[str | None, Query(alias="crawlOperationId", max_length=64)] = None,
    status: Annotated[DocumentStatus | None, Query(), any_case(DocumentStatus)] = None,
) -> EnvelopeResponse[AssistantDocumentResponse]:
    query = DocumentQuery(
        plan_id=crawl_plan_id or None, operation_id=crawl_operation_id or None, status=status,
        limit=listed.limit, offset=listed.offset, newest_first=listed.newest_first,
    )  # fmt: skip
    page = await jay.documents.page(who, query)
    tags = await jay.documents.tags_of(who, [document.id for document in page.items])
    return listed.answer(page, lambda document: document_response(document, tags.get(document.id, ())))


@router.post("/delete", status_code=204)
async def delete_documents(jay: Jay, who: Who, body: DeleteDocumentsRequest) -> None:
    """Remove documents for good. If one of them does not exist, none is removed."""
    await jay.documents.purge(who, body.document_ids)


@router.head("/{document_id}", include_in_schema=False)
async def look_for_document(jay: Jay, who: Who, document_id: DocumentId) -> None:
    """Whether there is such a document."""
    await jay.documents.get(who, document_id)


@router.get("/{document_id}", response_model=AssistantDocumentResponse)
async def get_document(jay: Jay, who: Who, document_id: DocumentId) -> AssistantDocumentResponse:
    return await _answer(jay, who, await jay.documents.get(who, document_id))


@router.delete("/{document_id}", status_code=204)
async def delete_document(jay: Jay, who: Who, document_id: DocumentId) -> None:
    """Remove a document for good: vectors, text, bytes, log and record."""
    await jay.documents.purge(who, [document_id])


@router.get("/{document_id}/processing-log", response_model=ProcessingLogResponse)
async def show_processing_log(jay: Jay, who: Who, document_id: DocumentId) -> ProcessingLogResponse:
    """How the document came to be what it is, a line for each step."""
    lines = await jay.documents.log(who, document_id)
    return ProcessingLogResponse(document_id=document_id, log="\n".join(_log_line(line) for line in lines))


def _log_line(line: DocumentLogLine) -> str:
    at = line.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"[{at}] [{line.level}] {line.message}"


@router.get(
    "/{document_id}/download",
    response_class=StreamingResponse,
    responses={
        200: {"description": "The bytes", "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}},
    },
)
async def download_document(jay: Jay, who: Who, document_id: DocumentId) -> StreamingResponse:
    """The bytes as they came, to be saved and never shown."""
    document = await jay.documents.get(who, document_id)
    content = await jay.documents.original(document)
    kind = (document.content_type or "").partition(";")[0].strip()
    name = document.filename or document.url.rstrip("/").rpartition("/")[2] or document.id
    return StreamingResponse(
        content,
        media_type=kind if _MEDIA_TYPE.fullmatch(kind) else "application/octet-stream",
        headers={"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"},
    )
