"""Ids as OpenAI's clients know them, one to one with ours.

| theirs | ours |
|---|---|
| `vs_…` | the collection `coll_…` with the same UUID |
| `file-0…` | the uploaded file `file_0…` |
| `file-d…` | the document `adoc_0…` that was crawled or came in through another door |
| `asst_…`, `vsfb_…` | the same |
"""

import re

from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.ids import id_from_uuid, uuid_from_id

_FOREIGN = re.compile(r"[A-Za-z0-9._-]{1,128}")
_FILE = re.compile(r"file-([0d])([0-9a-v]{26})")


def store_id_of(collection_id: str) -> str:
    return id_from_uuid("vs", uuid_from_id(collection_id))


def collection_id_of(store_id: str) -> str:
    """The collection that a vector store is; what cannot be one is not found."""
    try:
        if store_id.startswith("vs_"):
            return id_from_uuid("coll", uuid_from_id(store_id))
    except InvalidRequest:
        pass
    raise NotFound(f"Vector store '{store_id[:64]}' not found.")


def file_id_of(own_id: str) -> str:
    """The public id of an uploaded file, or of a document."""
    kind, _, text = own_id.partition("_")
    return f"file-{text}" if kind == "file" else f"file-d{text[1:]}"


def own_file_id(file_id: str) -> str:
    """The uploaded file or the document that a public id means; what cannot be one is not found."""
    found = _FILE.fullmatch(file_id)
    if found is None:
        raise no_file(file_id)
    return f"file_0{found[2]}" if found[1] == "0" else f"adoc_0{found[2]}"


def require_id(identifier: str, prefix: str, noun: str) -> str:
    """An id that is the same here and there; what cannot be one is not found, and never reaches the database."""
    try:
        if identifier.startswith(f"{prefix}_"):
            uuid_from_id(identifier)
            return identifier
    except InvalidRequest:
        pass
    raise NotFound(f"{noun} '{identifier[:64]}' not found.")


def require_foreign_id(identifier: str, noun: str) -> str:
    """An id that somebody else made up."""
    if not _FOREIGN.fullmatch(identifier):
        raise NotFound(f"{noun} '{identifier[:64]}' not found.")
    return identifier


def is_document(own_id: str) -> bool:
    return own_id.startswith("adoc_")


def no_file(file_id: str) -> NotFound:
    return NotFound(f"File '{file_id[:64]}' not found.")
