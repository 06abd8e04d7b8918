"""Content: collections, tags, documents with their versions, chunks, and the rules that make chunks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Where documents are searched together; also an OpenAI vector store."""

    id: str = field(default_factory=lambda: new_id("coll"))
    tenant_id: str
    name: str
    description: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime = field(default_factory=utc_now)
    last_active_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    id: str = field(default_factory=lambda: new_id("tag"))
    tenant_id: str
    name: str
    created_at: datetime = field(default_factory=utc_now)


class DocumentSource(StrEnum):
    CRAWL = "crawl"
    UPLOAD = "upload"
    API = "api"


class DocumentStatus(StrEnum):
    PENDING = "Pending"
    UPLOADING = "Uploading"
    UPLOADED = "Uploaded"
    TYPE_DETECTING = "TypeDetecting"
    TYPE_DETECTION_SUCCESS = "TypeDetectionSuccess"
    TYPE_DETECTION_FAILED = "TypeDetectionFailed"
    PROCESSING = "Processing"
    PROCESSING_CHUNKS = "ProcessingChunks"
    SUMMARIZING = "Summarizing"
    STORING_EMBEDDINGS = "StoringEmbeddings"
    COMPLETED = "Completed"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One piece of content with its provenance. `natural_key` makes doing anything twice doing it once."""

    id: str = field(default_factory=lambda: new_id("adoc"))
    tenant_id: str
    natural_key: str  # SHA-256 of plan or collection, and canonical URL
    url: str
    url_hash: str
    host: str
    domain: str  # the registrable domain of the host
    source: DocumentSource
    status: DocumentStatus = DocumentStatus.PENDING
    collection_id: str | None = None
    plan_id: str | None = None
    operation_id: str | None = None
    rule_id: str | None = None
    parent_url: str | None = None
    title: str | None = None
    filename: str | None = None
    content_type: str | None = None
    language: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)  # author, dates, keywords, Open Graph …
    size_bytes: int = 0
    content_sha256: str | None = None  # the Markdown, in the blob store
    original_sha256: str | None = None  # the bytes as they came, in the blob store
    version: int = 0
    chunk_count: int = 0
    duplicate_of: str | None = None
    error: str | None = None
    created_at: datetime = field(default_factory=utc_now)
    crawled_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVersion:
    id: str = field(default_factory=lambda: new_id("ver"))
    tenant_id: str
    document_id: str
    version: int
    title: str | None = None
    content_sha256: str
    original_sha256: str | None = None
    size_bytes: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    operation_id: str | None = None
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLogLine:
    tenant_id: str
    document_id: str
    level: str
    message: str
    at: datetime = field(default_factory=utc_now)


class ChunkContentType(StrEnum):
    PROSE = "prose"
    CODE = "code"
    TABLE = "table"
    LIST = "list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A span of a document version; its id is derived from (document, version, index)."""

    id: str
    tenant_id: str
    document_id: str
    version: int
    chunk_index: int
    content: str
    content_sha256: str
    start_char: int
    end_char: int
    token_count: int
    embedding_model: str
    section_header: str | None = None
    content_type: ChunkContentType = ChunkContentType.PROSE
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """A vector, kept under the hash of its text so that the same text is never embedded twice."""

    content_sha256: str
    model: str
    dimensions: int
    vector: bytes  # little-endian float32
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionRule:
    """How documents are chunked, embedded and stored."""

    id: str = field(default_factory=lambda: new_id("irule"))
    tenant_id: str
    name: str
    description: str | None = None
    bucket: str | None = None
    collection_id: str | None = None
    labels: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    summarization: Mapping[str, Any] = field(default_factory=dict)
    chunking: Mapping[str, Any] = field(default_factory=dict)
    embedding: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEvent:
    """Something that happened, committed with the change itself and told to listeners afterwards."""

    id: str = field(default_factory=lambda: new_id("evt"))
    tenant_id: str
    topic: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime = field(default_factory=utc_now)
    published_at: datetime | None = None
