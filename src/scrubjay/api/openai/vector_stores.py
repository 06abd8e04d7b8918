"""`/vector_stores`: collections, their files, batches of them, and search."""

from typing import Annotated

from fastapi import Body

from scrubjay.api.deps import Jay, Who
from scrubjay.api.openai.routing import door_router
from scrubjay.api.openai.schemas import (
    Cut,
    FileBatchRequest,
    Status,
    StoreSearchRequest,
    list_object,
    results_object,
    store_file,
)
from scrubjay.openai.protocol import Item
from scrubjay.openai.values import AttributeValues, StoreFileValues, VectorStoreChanges, VectorStoreValues

router = door_router("vector stores")


@router.post("/vector_stores")
async def create_vector_store(jay: Jay, who: Who, body: Annotated[VectorStoreValues | None, Body()] = None) -> Item:
    """A new collection; the files that are named are read at once."""
    values = {} if body is None else body.model_dump(mode="json", exclude_none=True)
    return await jay.inventory.create_vector_store(who, values)


@router.get("/vector_stores")
async def list_vector_stores(jay: Jay, who: Who, cut: Cut) -> Item:
    return list_object(await jay.inventory.list_vector_stores(who, cut))


@router.get("/vector_stores/{vector_store_id}")
async def get_vector_store(jay: Jay, who: Who, vector_store_id: str) -> Item:
    return await jay.inventory.get_vector_store(who, vector_store_id)


@router.post("/vector_stores/{vector_store_id}")
async def update_vector_store(jay: Jay, who: Who, vector_store_id: str, body: VectorStoreChanges) -> Item:
    changes = body.model_dump(mode="json", exclude_unset=True)
    return await jay.inventory.update_vector_store(who, vector_store_id, changes)


@router.delete("/vector_stores/{vector_store_id}")
async def delete_vector_store(jay: Jay, who: Who, vector_store_id: str) -> Item:
    """Delete a vector store with its vectors. Its files stay, and so does what was crawled."""
    await jay.inventory.delete_vector_store(who, vector_store_id)
    return {"id": vector_store_id, "object": "vector_store.deleted", "deleted": True}


@router.post("/vector_stores/{vector_store_id}/search")
async def search_vector_store(jay: Jay, who: Who, vector_store_id: str, body: StoreSearchRequest) -> Item:
    """The passages that suit a question best, by meaning and by words, from files whose attributes suit the filters."""
    wanted = body.wanted()
    return results_object(wanted.queries, await jay.inventory.search(who, vector_store_id, wanted))


@router.post("/vector_stores/{vector_store_id}/files")
async def add_file(jay: Jay, who: Who, vector_store_id: str, body: StoreFileValues) -> Item:
    """Have a file read and searched; `status` says when it is."""
    return await jay.inventory.add_to_store(who, vector_store_id, store_file(body))


@router.get("/vector_stores/{vector_store_id}/files")
async def list_files(jay: Jay, who: Who, vector_store_id: str, cut: Cut, status: Status = None) -> Item:
    """The files of a vector store, and what was crawled into its collection."""
    return list_object(await jay.inventory.list_store_files(who, vector_store_id, cut, status=status))


@router.get("/vector_stores/{vector_store_id}/files/{file_id}")
async def get_file(jay: Jay, who: Who, vector_store_id: str, file_id: str) -> Item:
    return await jay.inventory.get_store_file(who, vector_store_id, file_id)


@router.post("/vector_stores/{vector_store_id}/files/{file_id}")
async def update_file(jay: Jay, who: Who, vector_store_id: str, file_id: str, body: AttributeValues) -> Item:
    """Give a file other attributes."""
    return await jay.inventory.update_store_file(who, vector_store_id, file_id, body.attributes or {})


@router.delete("/vector_stores/{vector_store_id}/files/{file_id}")
async def remove_file(jay: Jay, who: Who, vector_store_id: str, file_id: str) -> Item:
    """Remove a file's vectors from a vector store; the file stays."""
    await jay.inventory.remove_from_store(who, vector_store_id, file_id)
    return {"id": file_id, "object": "vector_store.file.deleted", "deleted": True}


@router.get("/vector_stores/{vector_store_id}/files/{file_id}/content")
async def get_file_content(jay: Jay, who: Who, vector_store_id: str, file_id: str) -> Item:
    """What a file says, as it was read."""
    texts = await jay.inventory.store_file_text(who, vector_store_id, file_id)
    return {
        "object": "vector_store.file_content.page",
        "data": [{"type": "text", "text": text} for text in texts],
        "has_more": False,
        "next_page": None,
    }


@router.post("/vector_stores/{vector_store_id}/file_batches")
async def create_batch(jay: Jay, who: Who, vector_store_id: str, body: FileBatchRequest) -> Item:
    """Add up to 2,000 files at once: all of them, or, when one cannot be, none."""
    return await jay.inventory.create_batch(who, vector_store_id, body.store_files())


@router.get("/vector_stores/{vector_store_id}/file_batches/{batch_id}")
async def get_batch(jay: Jay, who: Who, vector_store_id: str, batch_id: str) -> Item:
    return await jay.inventory.get_batch(who, vector_store_id, batch_id)


@router.post("/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel")
async def cancel_batch(jay: Jay, who: Who, vector_store_id: str, batch_id: str) -> Item:
    """What is not read yet is not read any more."""
    return await jay.inventory.cancel_batch(who, vector_store_id, batch_id)


@router.get("/vector_stores/{vector_store_id}/file_batches/{batch_id}/files")
async def list_batch_files(
    jay: Jay, who: Who, vector_store_id: str, batch_id: str, cut: Cut, status: Status = None
) -> Item:
    return list_object(await jay.inventory.list_batch_files(who, vector_store_id, batch_id, cut, status=status))
