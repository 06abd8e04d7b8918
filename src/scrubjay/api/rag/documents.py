"""Documents over `/api/v1`: add, read, compare, tag, end and restore."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, Query, UploadFile
from pydantic import BaseModel, Field, StringConstraints
from starlette.responses import StreamingResponse

from scrubjay.api.deps import Jay, Who
from scrubjay.api.rag.ids import CollectionRef, DocumentId, TagId, TagRef, WireId, wire
from scrubjay.api.rag.schemas import (
    JobStartedResponse,
    Limit,
    ListResponse,
    Moment,
    Offset,
    RequestModel,
    field_values,
)
from scrubjay.documents.texts import storable_text
from scrubjay.errors import InvalidRequest
from scrubjay.model.chunking import ChunkingOptions
from scrubjay.model.content import (
    Chunk,
    ChunkContentType,
    Document,
    DocumentLogLine,
    DocumentSource,
    DocumentStatus,
    DocumentVersion,
    Tag,
)
from scrubjay.model.page import Page
from scrubjay.services.documents import MAX_BATCH, MAX_BYTES, DocumentQuery, Upload

router = APIRouter(prefix="/documents", tags=["documents"])

TagName = Annotated[str, StringConstraints(min_length=1, max_length=50)]
Language = Annotated[str, StringConstraints(min_length=2, max_length=16, pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]+)*$")]
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1)]
_MAX_DETAILS_BYTES = 65_536


class DocumentRequest(RequestModel):
    """Text, Markdown or HTML as it is; files are sent to `/documents/upload`."""

    content: str = Field(min_length=1, max_length=MAX_BYTES)
    url: Annotated[str, StringConstraints(min_length=1, max_length=2048)] | None = Field(
        None, description="The document's address; the same address again is the same document."
    )
    title: Annotated[str, StringConstraints(max_length=1000)] | None = None
    content_type: Literal["text/markdown", "text/plain", "text/html"] = "text/markdown"
    collection_id: CollectionRef | None = None
    tags: list[TagName] = Field(default_factory=list, max_length=100)
    language: Language | None = None
    metadata: dict[str, Any] = Field(default_factory=dict, max_length=100)
    chunking: ChunkingOptions | None = None


class BatchRequest(RequestModel):
    documents: list[DocumentRequest] = Field(min_length=1, max_length=MAX_BATCH)


class TagsRequest(RequestModel):
    tags: list[TagName] = Field(min_length=1, max_length=100)


class TagResponse(BaseModel):
    id: WireId
    name: str


class DocumentResponse(BaseModel):
    id: WireId
    url: str
    domain: str
    parent_url: str | None
    title: str | None
    content_hash: str | None = Field(validation_alias="content_sha256")
    language: str | None
    source: DocumentSource
    status: DocumentStatus
    error: str | None
    collection_id: WireId | None
    tags: list[TagResponse]
    metadata: dict[str, Any] = Field(validation_alias="details")
    content_type: str | None
    filename: str | None
    size_bytes: int
    version: int
    chunk_count: int
    duplicate_of: WireId | None
    plan_id: WireId | None
    operation_id: WireId | None
    created_at: datetime
    crawled_at: datetime
    updated_at: datetime
    deleted_at: datetime | None


class FullDocumentResponse(DocumentResponse):
    content: str | None = Field(description="What the document says, or said in the version asked for.")


class ChunkResponse(BaseModel):
    id: WireId
    document_id: WireId
    content: str
    chunk_index: int
    start_char: int
    end_char: int
    token_count: int
    embedding_model: str
    section_header: str | None
    content_type: ChunkContentType
    created_at: datetime


class VersionResponse(BaseModel):
    version: int
    title: str | None
    content_hash: str = Field(validation_alias="content_sha256")
    size_bytes: int
    created_at: datetime
    ended_at: datetime | None


class DiffResponse(BaseModel):
    document_id: WireId
    from_version: int
    to_version: int
    added_lines: int
    removed_lines: int
    unified: str
    hunks: list[dict[str, Any]]


class BatchItemResponse(BaseModel):
    document_id: WireId | None
    status: str
    error: str | None


class BatchResponse(BaseModel):
    total_submitted: int
    successful_count: int
    failed_count: int
    results: list[BatchItemResponse]


class LogLineResponse(BaseModel):
    at: datetime
    level: str
    message: str


def _upload(body: DocumentRequest) -> Upload:
    if len(json.dumps(body.metadata, default=str)) > _MAX_DETAILS_BYTES:
        raise InvalidRequest(f"metadata: at most {_MAX_DETAILS_BYTES} bytes.", field="metadata")
    return Upload(
        data=body.content.encode("utf-8", "replace"),
        source=DocumentSource.API,
        url=body.url,
        content_type=f"{body.content_type}; charset=utf-8",
        title=body.title,
        language=body.language,
        collection_id=body.collection_id,
        tags=tuple(body.tags),
        details=body.metadata,
        chunking=body.chunking,
    )


async def _tagged(jay: Jay, who: Who, documents: Sequence[Document]) -> list[dict[str, Any]]:
    tags = await jay.documents.tags_of(who, [document.id for document in documents])
    return [field_values(document) | {"tags": tags.get(document.id, ())} for document in documents]


@router.post("", status_code=201, response_model=DocumentResponse)
async def add_document(jay: Jay, who: Who, body: DocumentRequest) -> dict[str, Any]:
    """Add a document, or a new version of the one at its address. It can be found when this returns; one that takes
    longer is still being read then, and `status` says so."""
    documents = await jay.documents.add(who, [_upload(body)])
    return (await _tagged(jay, who, documents))[0]


@router.post("/batch", response_model=BatchResponse)
async def add_documents(jay: Jay, who: Who, body: BatchRequest) -> BatchResponse:
    """Add up to 50 documents. One that cannot be read does not keep the others out."""
    return await _add_each(jay, who, [_upload(item) for item in body.documents])


@router.post("/upload", response_model=BatchResponse)
async def upload_files(
    jay: Jay,
    who: Who,
    files: Annotated[list[UploadFile], File(description="Text, Markdown, HTML, PDF, DOCX, XLSX or PPTX; 50 MB each.")],
    collection_id: Annotated[CollectionRef | None, Form()] = None,
    tags: Annotated[str | None, Form(max_length=6000, description="Names, separated by commas.")] = None,
) -> BatchResponse:
    """Add files. The same file name again is a new version of the same document."""
    names = tuple(name for name in (part.strip() for part in (tags or "").split(",")) if name)
    uploads: list[Upload] = []
    for file in files:
        data = await file.read(MAX_BYTES + 1)
        uploads.append(
            Upload(
                data=data,
                filename=_file_name(file.filename),
                content_type=storable_text(file.content_type or "")[:255] or None,
                collection_id=collection_id,
                tags=names,
            )
        )
    return await _add_each(jay, who, uploads)


def _file_name(given: str | None) -> str:
    """The last part of what a client calls its file."""
    return storable_text(given or "").replace("\\", "/").rsplit("/", 1)[-1].strip()[:255] or "upload"


async def _add_each(jay: Jay, who: Who, uploads: Sequence[Upload]) -> BatchResponse:
    outcomes = await jay.documents.add_each(who, uploads)
    results = [
        BatchItemResponse(
            document_id=None if outcome.document is None else outcome.document.id,
            status="Failed" if outcome.document is None else str(outcome.document.status),
            error=outcome.error,
        )
        for outcome in outcomes
    ]
    failed = sum(result.error is not None for result in results)
    return BatchResponse(
        total_submitted=len(results),
        successful_count=len(results) - failed,
        failed_count=failed,
        results=results,
    )


@router.get("", response_model=ListResponse[DocumentResponse])
async def list_documents(
    jay: Jay,
    who: Who,
    collection_id: Annotated[CollectionRef | None, Query()] = None,
    tag_id: Annotated[TagRef | None, Query()] = None,
    domain: Annotated[str | None, Query(max_length=253)] = None,
    source: DocumentSource | None = None,
    status: DocumentStatus | None = None,
    url: Annotated[str | None, Query(max_length=2048)] = None,
    deleted: Annotated[bool, Query(description="List the deleted ones instead.")] = False,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Page[dict[str, Any]]:
    """Newest first."""
    query = DocumentQuery(
        collection_id=collection_id, tag_id=tag_id, host=domain, source=source, status=status, url=url,
        deleted=deleted, limit=limit, offset=offset,
    )  # fmt: skip
    page = await jay.documents.page(who, query)
    return page.with_items(await _tagged(jay, who, page.items))


@router.get("/{document_id}", response_model=FullDocumentResponse)
async def get_document(
    jay: Jay, who: Who, document_id: DocumentId, version: Version = None, as_of: Moment | None = None
) -> dict[str, Any]:
    """A document with what it says: now, in a version, or at a moment."""
    document = await jay.documents.get(who, document_id)
    content = None
    if document.version or version is not None or as_of is not None:
        _, content = await jay.documents.content(who, document_id, version=version, as_of=as_of)
    return (await _tagged(jay, who, [document]))[0] | {"content": content}


@router.delete("/{document_id}", status_code=204)
async def delete_document(
    jay: Jay,
    who: Who,
    document_id: DocumentId,
    purge: Annotated[bool, Query(description="Remove it for good; needs an admin key.")] = False,
) -> None:
    """Delete a document; `/restore` brings it back unless it was purged."""
    if purge:
        await jay.documents.purge(who, [document_id])
    else:
        await jay.documents.delete(who, document_id)


@router.post("/{document_id}/restore", response_model=DocumentResponse)
async def restore_document(jay: Jay, who: Who, document_id: DocumentId) -> dict[str, Any]:
    return (await _tagged(jay, who, [await jay.documents.restore(who, document_id)]))[0]


@router.post("/{document_id}/reindex", response_model=JobStartedResponse)
async def reindex_document(jay: Jay, who: Who, document_id: DocumentId) -> JobStartedResponse:
    """Cut and embed the document anew, as a job."""
    job = await jay.documents.reindex(who, [document_id])
    return JobStartedResponse(job_id=wire(job.id), status=job.state)


@router.get("/{document_id}/chunks", response_model=list[ChunkResponse])
async def list_chunks(jay: Jay, who: Who, document_id: DocumentId, version: Version = None) -> Sequence[Chunk]:
    return await jay.documents.chunks(who, document_id, version=version)


@router.get("/{document_id}/versions", response_model=list[VersionResponse])
async def list_versions(jay: Jay, who: Who, document_id: DocumentId) -> Sequence[DocumentVersion]:
    """Every content that the document ever had, newest first."""
    return await jay.documents.versions(who, document_id)


@router.get("/{document_id}/diff", response_model=DiffResponse)
async def show_diff(
    jay: Jay,
    who: Who,
    document_id: DocumentId,
    from_version: Version = None,
    to_version: Version = None,
) -> dict[str, Any]:
    """What changed between two versions; by default between the last two."""
    diff = await jay.documents.diff(who, document_id, from_version=from_version, to_version=to_version)
    return field_values(diff) | {"document_id": document_id}


@router.get("/{document_id}/log", response_model=list[LogLineResponse])
async def show_log(jay: Jay, who: Who, document_id: DocumentId) -> Sequence[DocumentLogLine]:
    """How the document came to be what it is."""
    return await jay.documents.log(who, document_id)


@router.get(
    "/{document_id}/original",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The bytes",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def download_original(jay: Jay, who: Who, document_id: DocumentId) -> StreamingResponse:
    """The bytes as they came, to be saved and never shown."""
    document = await jay.documents.get(who, document_id)
    headers = {"Content-Disposition": "attachment"}
    content = await jay.documents.original(document)
    return StreamingResponse(content, media_type="application/octet-stream", headers=headers)


@router.post("/{document_id}/tags", response_model=list[TagResponse])
async def add_tags(jay: Jay, who: Who, document_id: DocumentId, body: TagsRequest) -> Sequence[Tag]:
    """Tag a document; tags that are missing are made. Answers with all its tags."""
    return await jay.documents.tag(who, document_id, body.tags)


@router.delete("/{document_id}/tags/{tag_id}", status_code=204)
async def remove_tag(jay: Jay, who: Who, document_id: DocumentId, tag_id: TagId) -> None:
    await jay.documents.untag(who, document_id, tag_id)
