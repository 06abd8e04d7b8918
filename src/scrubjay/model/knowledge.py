"""Domains (several sources, one collection) and the OpenAI-shaped inventory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A named knowledge domain. `domain_id` is the name of its folder; `domain.json` there is the truth."""

    tenant_id: str
    domain_id: str
    name: str
    description: str = ""
    collection_id: str | None = None
    vector_store_name: str = ""
    sources: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryFile:
    id: str = field(default_factory=lambda: new_id("file"))
    tenant_id: str
    filename: str
    purpose: str = "assistants"
    size_bytes: int = 0
    blob_sha256: str
    status: str = "processed"
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStoreFile:
    """A file in a vector store: it points at the document that was made of it."""

    tenant_id: str
    collection_id: str
    file_id: str
    document_id: str | None = None
    batch_id: str | None = None
    status: str = "in_progress"
    last_error: Mapping[str, Any] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    chunking: Mapping[str, Any] = field(default_factory=dict)
    usage_bytes: int = 0
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
    id: str = field(default_factory=lambda: new_id("resp"))
    tenant_id: str
    model: str = ""
    status: str = "completed"
    previous_response_id: str | None = None
    conversation_id: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime = field(default_factory=utc_now)
