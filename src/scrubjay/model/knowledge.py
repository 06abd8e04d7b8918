"""The OpenAI-shaped inventory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryFile:
    id: str = field(default_factory=lambda: new_id("file"))
    tenant_id: str
    filename: str
    purpose: str = "assistants"
    content_type: str | None = None
    size_bytes: int = 0
    blob_sha256: str
    status: str = "processed"
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStoreFile:
    """What the inventory knows of a document in a collection, which is a file in a vector store.

    A document that came in another way has none of these until somebody gives it attributes. Whether the file is
    ready is what its document and its job say; nothing here has to be kept equal to them.
    """

    document_id: str
    tenant_id: str
    file_id: str  # the uploaded file, or the document that this is a copy of, or the document itself
    job_id: str | None = None  # that reads it
    batch_id: str | None = None
    is_cancelled: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStoreBatch:
    id: str = field(default_factory=lambda: new_id("vsfb"))
    tenant_id: str
    collection_id: str
    cancelled_at: datetime | None = None
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assistant:
    id: str = field(default_factory=lambda: new_id("asst"))
    tenant_id: str
    name: str | None = None
    description: str | None = None
    model: str = ""
    instructions: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)  # tools, tool_resources, metadata …
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a language model answered, kept under the id that its server gave it."""

    tenant_id: str
    id: str
    model: str = ""
    status: str = "completed"
    previous_response_id: str | None = None
    conversation_id: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime = field(default_factory=utc_now)
