"""Collections and tags over `/api/v1`."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from scrubjay.api.deps import Jay, Who
from scrubjay.api.rag.ids import CollectionId, TagId, WireId
from scrubjay.api.rag.schemas import RequestModel, field_values
from scrubjay.model.content import Collection, Tag

router = APIRouter()


class CollectionRequest(RequestModel):
    name: str = Field(min_length=1, max_length=100)
    description: str | None = Field(None, max_length=500)


class ChangeCollectionRequest(RequestModel):
    name: str | None = Field(None, min_length=1, max_length=100)
    description: str | None = Field(None, max_length=500)


class CollectionResponse(BaseModel):
    id: WireId
    name: str
    description: str | None
    document_count: int
    created_at: datetime


class CollectionsResponse(BaseModel):
    collections: list[CollectionResponse]


class TagRequest(RequestModel):
    name: str = Field(min_length=1, max_length=50)


class CountedTagResponse(BaseModel):
    id: WireId
    name: str
    document_count: int
    created_at: datetime


class TagsResponse(BaseModel):
    tags: list[CountedTagResponse]


def _counted(thing: Collection | Tag, count: int) -> dict[str, Any]:
    return field_values(thing) | {"document_count": count}


@router.post("/collections", tags=["collections"], status_code=201, response_model=CollectionResponse)
async def create_collection(jay: Jay, who: Who, body: CollectionRequest) -> dict[str, Any]:
    return _counted(await jay.collections.create(who, name=body.name, description=body.description), 0)


@router.get("/collections", tags=["collections"], response_model=CollectionsResponse)
async def list_collections(jay: Jay, who: Who) -> dict[str, Any]:
    counts = await jay.collections.document_counts(who)
    found = await jay.collections.all(who)
    return {"collections": [_counted(each, counts.get(each.id, 0)) for each in found]}


@router.get("/collections/{collection_id}", tags=["collections"], response_model=CollectionResponse)
async def get_collection(jay: Jay, who: Who, collection_id: CollectionId) -> dict[str, Any]:
    collection = await jay.collections.get(who, collection_id)
    counts = await jay.collections.document_counts(who)
    return _counted(collection, counts.get(collection_id, 0))


@router.patch("/collections/{collection_id}", tags=["collections"], response_model=CollectionResponse)
async def change_collection(
    jay: Jay, who: Who, collection_id: CollectionId, body: ChangeCollectionRequest
) -> dict[str, Any]:
    changes: dict[str, Any] = body.model_dump(exclude_unset=True)
    if changes.get("name", "") is None:
        del changes["name"]
    await jay.collections.change(who, collection_id, **changes)
    return await get_collection(jay, who, collection_id)


@router.delete("/collections/{collection_id}", tags=["collections"], status_code=204)
async def delete_collection(
    jay: Jay,
    who: Who,
    collection_id: CollectionId,
    force: Annotated[bool, Query(description="Also when it has documents; they stay without a collection.")] = False,
) -> None:
    await jay.collections.delete(who, collection_id, force=force)


@router.post("/tags", tags=["tags"], status_code=201, response_model=CountedTagResponse)
async def create_tag(jay: Jay, who: Who, body: TagRequest) -> dict[str, Any]:
    return _counted(await jay.collections.create_tag(who, body.name), 0)


@router.get("/tags", tags=["tags"], response_model=TagsResponse)
async def list_tags(jay: Jay, who: Who) -> dict[str, Any]:
    usage = await jay.collections.tag_usage(who)
    return {"tags": [_counted(tag, usage.get(tag.id, 0)) for tag in await jay.collections.list_tags(who)]}


@router.get("/tags/{tag_id}", tags=["tags"], response_model=CountedTagResponse)
async def get_tag(jay: Jay, who: Who, tag_id: TagId) -> dict[str, Any]:
    usage = await jay.collections.tag_usage(who)
    return _counted(await jay.collections.get_tag(who, tag_id), usage.get(tag_id, 0))


@router.patch("/tags/{tag_id}", tags=["tags"], response_model=CountedTagResponse)
async def rename_tag(jay: Jay, who: Who, tag_id: TagId, body: TagRequest) -> dict[str, Any]:
    await jay.collections.rename_tag(who, tag_id, body.name)
    return await get_tag(jay, who, tag_id)


@router.delete("/tags/{tag_id}", tags=["tags"], status_code=204)
async def delete_tag(jay: Jay, who: Who, tag_id: TagId) -> None:
    """Remove a tag from everything that has it."""
    await jay.collections.delete_tag(who, tag_id)
