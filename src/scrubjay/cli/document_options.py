"""Options that commands about documents share."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.ids import id_from_uuid

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.content import Document
    from scrubjay.model.tenant import Principal

MOST_NAMED = 5
CollectionName = Annotated[
    str | None, typer.Option("--collection", "-c", help="A collection, by name or id; it is made if need be.")
]
InCollection = Annotated[str | None, typer.Option("--collection", "-c", help="Only this collection, by name or id.")]
TagNames = Annotated[list[str] | None, typer.Option("--tag", "-t", help="A tag; can be given several times.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DOCUMENT_FACTS = (
    "id", "url", "title", "status", "error", "source", "collection_id", "language", "version", "size_bytes",
    "duplicate_of", "created_at", "crawled_at", "updated_at", "deleted_at",
)  # fmt: skip
DocumentName = Annotated[str, typer.Argument(help="The document's id (adoc_…), address or file.")]


async def find_document(jay: "Scrubjay", who: "Principal", name: str) -> "Document":
    """The document of this id, in either spelling, or at this address or path; also a deleted one."""
    from scrubjay.services.documents import DocumentQuery

    if name.startswith("adoc_"):
        return await jay.documents.get(who, name)
    with suppress(ValueError):
        return await jay.documents.get(who, id_from_uuid("adoc", UUID(name)))
    address = _address(name)
    for deleted in (False, True):
        found = await jay.documents.page(who, DocumentQuery(url=address, deleted=deleted, limit=MOST_NAMED))
        if len(found.items) > 1:
            ids = ", ".join(document.id for document in found.items)
            raise InvalidRequest(f"Several collections have a document '{name[:200]}'; name one by its id: {ids}.")
        if found.items:
            return found.items[0]
    raise NotFound(f"There is no document '{name[:200]}'; `scrubjay ls` lists them.")


def _address(name: str) -> str:
    return name if "://" in name else Path(name).absolute().as_uri()


async def find_collection(jay: "Scrubjay", who: "Principal", name: str) -> str:
    """The id of a collection by name or id."""
    for collection in await jay.collections.all(who):
        if name in (collection.name, collection.id):
            return collection.id
    raise NotFound(f"There is no collection '{name[:100]}'; `scrubjay collections` lists them.")


async def find_tags(jay: "Scrubjay", who: "Principal", names: list[str]) -> tuple[str, ...]:
    known = {tag.name: tag.id for tag in await jay.collections.list_tags(who)}
    for name in names:
        if name.strip().lower() not in known:
            raise NotFound(f"There is no tag '{name[:50]}'; `scrubjay tags` lists them.")
    return tuple(known[name.strip().lower()] for name in names)


def document_facts(document: "Document") -> dict[str, Any]:
    facts = {name: getattr(document, name) for name in DOCUMENT_FACTS}
    return facts | {"chunks": document.chunk_count, "metadata": dict(document.details)}
