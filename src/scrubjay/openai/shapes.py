"""Our rows as OpenAI's objects, field by field as the official SDK reads them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from scrubjay.model.content import Collection, Document, DocumentStatus
from scrubjay.model.knowledge import Assistant, InventoryFile, VectorStoreBatch
from scrubjay.openai.ids import file_id_of, store_id_of
from scrubjay.openai.protocol import Item
from scrubjay.openai.values import chunking_strategy_of
from scrubjay.storage.inventory import ListedFile, StoreCount

STATUSES = ("in_progress", "completed", "failed", "cancelled")
# What the inventory keeps in a collection's details.
INVENTORY = "inventory"
NOT_READ = "The job that was to read this file ended without reading it; add the file again."


def seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def file_object(file: InventoryFile) -> Item:
    return {
        "id": file_id_of(file.id),
        "object": "file",
        "bytes": file.size_bytes,
        "created_at": seconds(file.created_at),
        "expires_at": None,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": file.status,
        "status_details": None,
    }


def document_as_file(document: Document) -> Item:
    """What was crawled, as if somebody had uploaded it."""
    return {
        "id": file_id_of(document.id),
        "object": "file",
        "bytes": document.size_bytes,
        "created_at": seconds(document.created_at),
        "expires_at": None,
        "filename": name_of(document),
        "purpose": "assistants",
        "status": "processed",
        "status_details": None,
    }


def name_of(document: Document) -> str:
    return document.filename or document.url


def deleted(identifier: str, kind: str) -> Item:
    return {"id": identifier, "object": kind, "deleted": True}


def counts_object(counts: Mapping[str, int]) -> Item:
    return {**{status: counts.get(status, 0) for status in STATUSES}, "total": sum(counts.values())}


def store_object(collection: Collection, counts: Sequence[StoreCount]) -> Item:
    files = {each.status: each.files for each in counts}
    kept = collection.details.get(INVENTORY) or {}
    end = expiry_of(collection)
    status = "in_progress" if files.get("in_progress") else "completed"
    return {
        "id": store_id_of(collection.id),
        "object": "vector_store",
        "created_at": seconds(collection.created_at),
        "name": shown_name(collection),
        "description": collection.description,
        "usage_bytes": sum(each.size_bytes for each in counts),
        "file_counts": counts_object(files),
        "status": "expired" if end is not None and end <= datetime.now(UTC) else status,
        "expires_after": kept.get("expires_after"),
        "expires_at": None if end is None else seconds(end),
        "last_active_at": seconds(collection.last_active_at),
        "metadata": kept.get("metadata") or {},
    }


def shown_name(collection: Collection) -> str:
    """The name that was given; a collection's own name is unique, and may differ."""
    kept = collection.details.get(INVENTORY) or {}
    name = kept.get("name")
    return collection.name if name is None else str(name)


def expiry_of(collection: Collection) -> datetime | None:
    policy: Any = (collection.details.get(INVENTORY) or {}).get("expires_after")
    return None if not policy else collection.last_active_at + timedelta(days=int(policy["days"]))


def store_file_object(listed: ListedFile, collection_id: str) -> Item:
    document, record = listed.document, listed.record
    return {
        "id": file_id_of(listed.file_id),
        "object": "vector_store.file",
        "usage_bytes": document.size_bytes if listed.status == "completed" else 0,
        "created_at": seconds(document.created_at),
        "vector_store_id": store_id_of(collection_id),
        "status": listed.status,
        "last_error": _last_error(listed),
        "chunking_strategy": chunking_strategy_of(document.chunking),
        "attributes": dict(record.attributes) if record is not None else {},
    }


def _last_error(listed: ListedFile) -> Item | None:
    if listed.status != "failed":
        return None
    document = listed.document
    if document.status is DocumentStatus.TYPE_DETECTION_FAILED:
        return {"code": "unsupported_file", "message": document.error or "This kind of file cannot be read."}
    if document.status is DocumentStatus.FAILED:
        return {"code": "invalid_file", "message": document.error or "The file could not be read."}
    return {"code": "server_error", "message": NOT_READ}


def batch_object(batch: VectorStoreBatch, counts: Mapping[str, int]) -> Item:
    status = "in_progress" if counts.get("in_progress") else "completed"
    if batch.cancelled_at is not None:
        status = "cancelled"
    elif counts and set(counts) == {"failed"}:
        status = "failed"
    return {
        "id": batch.id,
        "object": "vector_store.files_batch",
        "created_at": seconds(batch.created_at),
        "vector_store_id": store_id_of(batch.collection_id),
        "status": status,
        "file_counts": counts_object(counts),
    }


def assistant_object(assistant: Assistant) -> Item:
    return {
        "id": assistant.id,
        "object": "assistant",
        "created_at": seconds(assistant.created_at),
        "name": assistant.name,
        "description": assistant.description,
        "model": assistant.model,
        "instructions": assistant.instructions,
        "tools": [],
        "tool_resources": {},
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "response_format": "auto",
        **assistant.details,
    }
