"""Collections and tags: where documents are searched together, and what they are labelled with."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select, update

from scrubjay.errors import Conflict, InvalidRequest
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Collection, Tag
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.services.reading import read_item, read_page
from scrubjay.storage.collections import CollectionRow, Collections
from scrubjay.storage.database import Database
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.tags import TagRow, Tags

_NAME = re.compile(r"[a-zA-Z0-9_ -]{1,100}")
_TAG = re.compile(r"[\w-]{1,50}(?: [\w-]+)*")
MAX_DESCRIPTION = 500
MAX_LISTED = 10_000


def clean_tag(name: str) -> str:
    """A tag's name as it is kept: lower case, letters and digits with hyphens and underscores."""
    cleaned = name.strip().lower()
    if not 1 <= len(cleaned) <= 50 or not _TAG.fullmatch(cleaned):
        raise InvalidRequest(
            "tags: a tag has 1 to 50 letters, digits, hyphens, underscores or spaces between them.", field="tags"
        )
    return cleaned


class CollectionService:
    def __init__(self, database: Database, wake: Callable[[], None]) -> None:
        self._database = database
        self._wake = wake

    async def create(self, principal: Principal, *, name: str, description: str | None = None) -> Collection:
        require(principal, Scope.WRITE)
        collection = Collection(
            tenant_id=principal.tenant_id, name=_check_name(name), description=_check_description(description)
        )
        async with self._database.writing() as connection:
            return await Collections(connection).add(collection)

    async def all(self, principal: Principal) -> Sequence[Collection]:
        by_name = [CollectionRow.name.asc()]
        return (await read_page(self._database, principal, Collections, limit=MAX_LISTED, order=by_name)).items

    async def get(self, principal: Principal, collection_id: str) -> Collection:
        return await read_item(self._database, principal, Collections, collection_id)

    async def find_or_create(self, principal: Principal, name: str) -> Collection:
        """The collection of this name or id; one that is missing is made."""
        for collection in await self.all(principal):
            if name in (collection.name, collection.id):
                return collection
        return await self.create(principal, name=name)

    async def change(self, principal: Principal, collection_id: str, **changes: Any) -> Collection:
        require(principal, Scope.WRITE)
        if "name" in changes:
            changes["name"] = _check_name(changes["name"])
        if "description" in changes:
            changes["description"] = _check_description(changes["description"])
        async with self._database.writing() as connection:
            known = await Collections(connection).get(principal.tenant_id, collection_id)
            if not changes:
                return known
            return await Collections(connection).update(principal.tenant_id, collection_id, **changes)

    async def delete(self, principal: Principal, collection_id: str, *, force: bool = False) -> None:
        """Remove a collection. One with documents only by force; they stay, and belong to no collection then."""
        require(principal, Scope.ADMIN)
        async with self._database.writing() as connection:
            known = await Collections(connection).get(principal.tenant_id, collection_id)
            held = await Documents(connection).count(
                DocumentRow.collection_id == collection_id, DocumentRow.deleted_at.is_(None)
            )
            if held and not force:
                raise Conflict(f"The collection has {held} documents; move or delete them first, or use force.")
            await connection.execute(
                update(DocumentRow)
                .where(DocumentRow.collection_id == collection_id)
                .values(collection_id=None, index_revision=DocumentRow.index_revision + 1, index_due_at=utc_now())
            )
            await Collections(connection).delete(principal.tenant_id, collection_id)
            await note_act(
                connection, principal, "collection.deleted", collection_id, name=known.name, documents_kept=held
            )
        self._wake()

    async def document_counts(self, principal: Principal) -> Mapping[str, int]:
        """Collection id → living documents."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            rows = await connection.execute(
                select(DocumentRow.collection_id, func.count())
                .where(DocumentRow.tenant_id == principal.tenant_id, DocumentRow.deleted_at.is_(None))
                .group_by(DocumentRow.collection_id)
            )
            return {collection_id: int(count) for collection_id, count in rows if collection_id is not None}

    async def create_tag(self, principal: Principal, name: str) -> Tag:
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            return await Tags(connection).add(Tag(tenant_id=principal.tenant_id, name=clean_tag(name)))

    async def list_tags(self, principal: Principal) -> Sequence[Tag]:
        return (await read_page(self._database, principal, Tags, limit=MAX_LISTED, order=[TagRow.name.asc()])).items

    async def tag_usage(self, principal: Principal) -> Mapping[str, int]:
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            return await Tags(connection).usage(principal.tenant_id)

    async def get_tag(self, principal: Principal, tag_id: str) -> Tag:
        return await read_item(self._database, principal, Tags, tag_id)

    async def rename_tag(self, principal: Principal, tag_id: str, name: str) -> Tag:
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            await Tags(connection).get(principal.tenant_id, tag_id)
            return await Tags(connection).update(principal.tenant_id, tag_id, name=clean_tag(name))

    async def delete_tag(self, principal: Principal, tag_id: str) -> None:
        """Remove a tag from everything that has it."""
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            await Tags(connection).get(principal.tenant_id, tag_id)
            for document_id in await Tags(connection).documents_with(tag_id):
                await Documents(connection).change(document_id, index_due_at=utc_now())
            await Tags(connection).delete(principal.tenant_id, tag_id)
        self._wake()


def _check_name(name: str) -> str:
    cleaned = name.strip()
    if not _NAME.fullmatch(cleaned):
        raise InvalidRequest("name must have 1 to 100 letters, digits, hyphens, underscores or spaces.", field="name")
    return cleaned


def _check_description(description: str | None) -> str | None:
    if description is not None and len(description) > MAX_DESCRIPTION:
        raise InvalidRequest(f"description must have at most {MAX_DESCRIPTION} characters.", field="description")
    return description
