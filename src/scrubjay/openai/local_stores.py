"""Vector stores: collections, as OpenAI's clients see them."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.documents.cleanup import mark_for_removal
from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Collection
from scrubjay.openai.adding import Adding
from scrubjay.openai.ids import collection_id_of, store_id_of
from scrubjay.openai.local_parts import LocalPart, list_window
from scrubjay.openai.protocol import Item, Listed, StoreFile, Window
from scrubjay.openai.shapes import INVENTORY, deleted, expiry_of, store_object
from scrubjay.openai.values import VectorStoreChanges, VectorStoreValues, read_values
from scrubjay.storage.collections import CollectionRow, Collections
from scrubjay.storage.documents import DocumentRow
from scrubjay.storage.inventory import IS_ADDED, VectorStoreFiles

AT_ONCE = 500
ACTIVE_SECONDS = 60  # how exact `last_active_at` is
_UNUSUAL = re.compile(r"[^a-zA-Z0-9_ -]+")
_LONGEST_NAME = 100


class LocalStores(LocalPart):
    async def create_vector_store(self, tenant_id: str, values: Mapping[str, Any]) -> Item:
        wanted = read_values(VectorStoreValues, values)
        given = wanted.model_dump(mode="json", include={"name", "metadata", "expires_after"}, exclude_none=True)
        collection = Collection(
            tenant_id=tenant_id, name="", description=wanted.description, details={INVENTORY: {"name": "", **given}}
        )
        strategy = None if wanted.chunking_strategy is None else wanted.chunking_strategy.model_dump()
        files = [StoreFile(file_id=each, chunking_strategy=strategy) for each in wanted.file_ids]
        adding = await Adding(self.parts, tenant_id).prepare(files)
        async with self.parts.database.writing(long=True) as connection:
            collection = replace(collection, name=await _free_name(connection, collection, wanted.name or ""))
            await Collections(connection).add(collection)
            await adding.write(connection, collection.id)
        await adding.announce()
        return await self._shown(tenant_id, collection)

    async def vector_stores(self, tenant_id: str, window: Window) -> Listed:
        own = replace(window, after=_cursor(window.after, "after"), before=_cursor(window.before, "before"))
        async with self.parts.database.reading() as connection:
            items, has_more = await list_window(Collections(connection), tenant_id, own)
            counts = await VectorStoreFiles(connection).counts(tenant_id, [each.id for each in items])
        return Listed([store_object(each, counts[each.id]) for each in items], has_more)

    async def vector_store(self, tenant_id: str, store_id: str) -> Item:
        return await self._shown(tenant_id, await self.collection(tenant_id, store_id))

    async def update_vector_store(self, tenant_id: str, store_id: str, changes: Mapping[str, Any]) -> Item:
        wanted = read_values(VectorStoreChanges, changes)
        given = wanted.model_dump(mode="json", exclude_unset=True)
        async with self.parts.database.writing() as connection:
            known = await get_collection(connection, tenant_id, store_id)
            kept = {**(known.details.get(INVENTORY) or {}), **given}
            values: dict[str, Any] = {"details": {**known.details, INVENTORY: kept}}
            if wanted.name is not None:
                values["name"] = await _free_name(connection, known, wanted.name)
            elif "name" in given:
                kept.pop("name")
            collection = await Collections(connection).update(tenant_id, known.id, **values)
        return await self._shown(tenant_id, collection)

    async def delete_vector_store(self, tenant_id: str, store_id: str) -> Item:
        """Documents that are only there because files were added go; what was crawled stays, in no collection."""
        async with self.parts.database.writing(long=True) as connection:
            collection = await get_collection(connection, tenant_id, store_id)
            files = VectorStoreFiles(connection)
            not_planned = DocumentRow.plan_id.is_(None)
            while True:
                listed = await files.listed(tenant_id, collection.id, IS_ADDED, not_planned, limit=AT_ONCE)
                await mark_for_removal(connection, [each.document for each in listed])
                if len(listed) < AT_ONCE:
                    break
            await connection.execute(
                update(DocumentRow)
                .where(DocumentRow.tenant_id == tenant_id, DocumentRow.collection_id == collection.id)
                .values(collection_id=None, index_revision=DocumentRow.index_revision + 1, index_due_at=utc_now())
            )
            await Collections(connection).delete(tenant_id, collection.id)
        self.parts.wake()
        return deleted(store_id, "vector_store")

    async def collection(self, tenant_id: str, store_id: str) -> Collection:
        async with self.parts.database.reading() as connection:
            return await get_collection(connection, tenant_id, store_id)

    async def note_use(self, collection: Collection) -> None:
        """Refuse a store that has expired; otherwise its time begins anew."""
        now, end = utc_now(), expiry_of(collection)
        if end is not None and end <= now:
            raise InvalidRequest(f"Vector store '{store_id_of(collection.id)}' has expired.", field="vector_store_id")
        if now - collection.last_active_at > timedelta(seconds=ACTIVE_SECONDS):
            async with self.parts.database.writing() as connection:
                await connection.execute(
                    update(CollectionRow).where(CollectionRow.id == collection.id).values(last_active_at=now)
                )

    async def _shown(self, tenant_id: str, collection: Collection) -> Item:
        async with self.parts.database.reading() as connection:
            counts = await VectorStoreFiles(connection).counts(tenant_id, [collection.id])
        return store_object(collection, counts[collection.id])


async def get_collection(connection: AsyncConnection, tenant_id: str, store_id: str) -> Collection:
    try:
        return await Collections(connection).get(tenant_id, collection_id_of(store_id))
    except NotFound:
        raise NotFound(f"Vector store '{store_id[:64]}' not found.") from None


def _cursor(store_id: str | None, field: str) -> str | None:
    try:
        return None if store_id is None else collection_id_of(store_id)
    except NotFound as error:
        raise InvalidRequest(f"{field}: there is no '{str(store_id)[:64]}' in this list.", field=field) from error


async def _free_name(connection: AsyncConnection, collection: Collection, name: str) -> str:
    """A collection's name: as given, as far as such names go, and told apart from others by the store's id."""
    plain = _UNUSUAL.sub("-", name).strip()[:_LONGEST_NAME].strip()
    own = store_id_of(collection.id)
    if not plain:
        return own
    taken = await Collections(connection).find(
        CollectionRow.tenant_id == collection.tenant_id,
        CollectionRow.id != collection.id,
        CollectionRow.name == plain,
    )
    return plain if taken is None else f"{plain[: _LONGEST_NAME - len(own) - 1].strip()} {own}"
