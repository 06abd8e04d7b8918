"""The Query API: `/describe`, `/describe2`, `/query`, `/query2`; older than `/v2`, with shapes of its own."""

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, PlainTextResponse

from scrubjay.api.actions.pages import visitor_of
from scrubjay.api.deps import Jay, Who
from scrubjay.dashboard.rendering import show

router = APIRouter(tags=["query"], responses={"4XX": {"description": "The request is wrong or not allowed"}})

MAX_RESULTS = 50
QueryText = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
StoreId = Annotated[str, Field(max_length=200)]
ResultCount = Annotated[int, Field(ge=1, le=MAX_RESULTS)]
_QUERY2 = """/query2
Semantic search in knowledge domains

GET /query2?query={text}&vsid={vector_store_id} - HTML response (default)
GET /query2?query={text}&vsid={vector_store_id}&format=json - JSON response
GET /query2?query={text}&vsid={vector_store_id}&results={max_results} - custom result limit
  - query - What to look for, 1 to 500 characters.
  - Optional: vsid - The vector store; without it, those of all domains are searched.
  - Optional: results - 1 to 50, 20 if not given.
  - Optional: format - html (default) or json.

Every request needs a key: 'Authorization: Bearer <key>' or 'X-Api-Key: <key>'.
"""


class QueryData(BaseModel):
    model_config = ConfigDict(extra="ignore")

    query: QueryText
    vsid: StoreId | None = None
    results: ResultCount = 20


class QueryRequest(BaseModel):
    data: QueryData


@router.post("/describe", summary="What can be searched")
async def describe(jay: Jay, who: Who) -> dict[str, Any]:
    return {"data": await jay.queries.describe(who)}


@router.get("/describe2", summary="What can be searched, for people or programs", response_class=Response)
async def describe_for_people(
    request: Request,
    jay: Jay,
    who: Who,
    format: Literal["html", "json"] = "html",  # noqa: A002
) -> Response:
    described = await jay.queries.describe(who)
    if format == "json":
        return _json({"data": described})
    return show(request, "actions/described.html", await visitor_of(request, jay, who), described=described)


@router.post("/query", summary="Search a vector store")
async def query(jay: Jay, who: Who, request: QueryRequest) -> dict[str, Any]:
    wanted = request.data
    found = await jay.queries.query(who, wanted.query, vector_store_id=wanted.vsid or "", results=wanted.results)
    return {"data": found}


@router.get("/query2", summary="Search a vector store, for people or programs", response_class=Response)
async def query_for_people(
    request: Request,
    jay: Jay,
    who: Who,
    query: Annotated[QueryText | None, Query()] = None,
    vsid: Annotated[StoreId, Query()] = "",
    results: Annotated[ResultCount, Query()] = 20,
    format: Literal["html", "json"] = "html",  # noqa: A002
) -> Response:
    if not request.url.query:
        return PlainTextResponse(_QUERY2)
    if query is None:
        return JSONResponse({"ok": False, "error": "Missing 'query' parameter.", "data": {}}, status_code=400)
    found = await jay.queries.query(who, query, vector_store_id=vsid, results=results)
    if format == "json":
        return _json({"data": found})
    return show(
        request, "actions/answer.html", await visitor_of(request, jay, who), found=found, vsid=vsid, results=results
    )


def _json(answer: dict[str, Any]) -> Response:
    return Response(json.dumps(answer, ensure_ascii=False), media_type="application/json")
