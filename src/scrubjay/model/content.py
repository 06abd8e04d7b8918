"""Content: collections, tags, documents with their versions, chunks, and the rules that make chunks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

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
    natural_key: str  # SHA-256 of collection and canonical URL
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
    chunking: Mapping[str, Any] | None = None  # how it was asked to be chunked; nothing means the defaults
    created_at: datetime = field(default_factory=utc_now)
    crawled_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)
    deleted_at: datetime | None = None
    is_purging: bool = False  # being removed for good: what is left of it is not shown any more
    # How the index follows: it is brought up to `index_revision` when due, by whoever holds the lease.
    indexed_version: int = 0  # the version that searches find; 0 is none
    index_revision: int = 0
    index_due_at: datetime | None = None
    index_lease: str | None = None
    index_attempts: int = 0

    @property
    def is_found(self) -> bool:
        """Whether searches find what the document says now."""
        return self.deleted_at is None and self.indexed_version == self.version > 0


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
    ended_at: datetime | None = None  # when another version took its place, or the document was deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The text of document versions, kept once under its hash; a long one is in the blob store, not here."""

    tenant_id: str
    content_sha256: str
    body: bytes | None  # zstd-compressed UTF-8
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
    content_sha256: str  # of what is embedded: the context and the content
    start_char: int
    end_char: int
    token_count: int
    embedding_model: str
    section_header: str | None = None
    context: str | None = None  # embedded before the content: a rule's prefix, a table's header
    content_type: ChunkContentType = ChunkContentType.PROSE
    created_at: datetime = field(default_factory=utc_now)

    @property
    def embedded_text(self) -> str:
        return self.content if self.context is None else f"{self.context}\n{self.content}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """A vector, kept under the hash of its text so that the same text is never embedded twice."""

    content_sha256: str
    model: str
    dimensions: int
    vector: bytes  # little-endian float32
    created_at: datetime = field(default_factory=utc_now)


class IngestOutcome(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingDocument:
    """Content on its way to become a document: what it says, where it is from, and where it shall go."""

    tenant_id: str
    url: str
    source: DocumentSource
    markdown: str
    title: str | None = None
    language: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    document_id: str | None = None  # of a document that waits for this content
    reading_job_id: str | None = None  # of a vector store's file, which may be removed or replaced before it is read
    collection_id: str | None = None
    plan_id: str | None = None
    takes_over: bool = True  # from the plan that the document has; a one-off crawl does not
    operation_id: str | None = None
    rule_id: str | None = None
    parent_url: str | None = None
    filename: str | None = None
    content_type: str | None = None
    size_bytes: int = 0
    original_sha256: str | None = None
    tags: tuple[str, ...] = ()  # names
    chunking: Mapping[str, Any] | None = None
    crawled_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What became of content that came in."""

    document_id: str
    outcome: IngestOutcome
    version: int = 0
    error: str | None = None


class ChunkOutline(NamedTuple):
    """A chunk without its text."""

    id: str
    version: int
    chunk_index: int
    content_sha256: str
    section_header: str | None
    content_type: ChunkContentType


class GenerationState(StrEnum):
    BUILDING = "building"  # being filled while another one serves
    LIVE = "live"  # the one that searches ask
    RETIRED = "retired"  # to be removed


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexGeneration:
    """One build of the index: every vector in it was made by one model."""

    id: str = field(default_factory=lambda: new_id("gen"))
    embedder: str  # as the setting names it
    model: str
    dimensions: int
    place: str | None = None  # the one machine and folder that has it; nothing when every process can reach it
    state: GenerationState = GenerationState.BUILDING
    created_at: datetime = field(default_factory=utc_now)
    live_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFields:
    """What users set of an ingestion rule."""

    name: str
    description: str | None = None
    bucket: str | None = None
    collection_id: str | None = None
    labels: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    summarization: Mapping[str, Any] = field(default_factory=dict)
    chunking: Mapping[str, Any] = field(default_factory=dict)
    embedding: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionRule(RuleFields):
    """How documents are chunked, embedded and stored."""

    id: str = field(default_factory=lambda: new_id("irule"))
    tenant_id: str
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
