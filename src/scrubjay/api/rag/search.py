"""Search over `/api/v1`: hybrid, by vectors, by keywords."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, model_validator

from scrubjay.api.deps import Jay, Who
from scrubjay.api.rag.ids import CollectionRef, TagRef, WireId
from scrubjay.api.rag.schemas import Moment, RequestModel
from scrubjay.model.content import ChunkContentType, DocumentSource
from scrubjay.model.search import FusionKind, SearchAnswer, SearchMode, SearchRequest

router = APIRouter(prefix="/search", tags=["search"])

Host = Annotated[str, StringConstraints(min_length=1, max_length=253, to_lower=True)]
Language = Annotated[str, StringConstraints(min_length=2, max_length=16)]
Weight = Annotated[float, Field(ge=0, le=10)]


class SearchBody(RequestModel):
    """What to look for. In `query`, "a phrase" must occur as it is, -word must not occur, and site:host restricts."""

    query: str = Field(min_length=1, max_length=500)
    collection_ids: list[CollectionRef] | None = Field(None, max_length=100)
    tag_ids: list[TagRef] | None = Field(None, max_length=100)
    domains: list[Host] | None = Field(None, max_length=100)
    source_types: list[DocumentSource] | None = Field(None, max_length=3)
    languages: list[Language] | None = Field(None, max_length=20)
    content_types: list[ChunkContentType] | None = Field(None, max_length=4)
    date_from: Moment | None = None
    date_to: Moment | None = None
    as_of: Moment | None = Field(None, description="Search what the documents said at this moment.")
    min_score: float = Field(0.0, ge=0, le=1)
    use_reranker: bool = False
    rerank_top_n: int = Field(20, ge=1, le=50)
    expand_chunks: bool = False
    fusion: FusionKind = FusionKind.LINEAR
    rrf_k: int = Field(60, ge=10, le=200)
    vector_weight: Weight | None = Field(None, description="Default: what suits the query and the embedder.")
    keyword_weight: Weight | None = None
    explain: bool = False
    limit: int = Field(10, ge=1, le=100)
    cursor: str | None = Field(None, min_length=1, max_length=500)

    @model_validator(mode="after")
    def _check_dates(self) -> "SearchBody":
        if self.date_from and self.date_to and self.date_to < self.date_from:
            raise ValueError("date_to must be after date_from")
        return self


# As they are called inside, where this door has another name for them.
_RENAMED = {"domains": "hosts", "source_types": "sources", "date_from": "crawled_from", "date_to": "crawled_to"}


class ResultResponse(BaseModel):
    document_id: WireId
    chunk_id: WireId
    url: str
    title: str | None
    content: str
    score: Annotated[float, BeforeValidator(lambda score: min(1.0, max(0.0, score)))] = Field(ge=0, le=1)
    vector_score: float | None
    keyword_score: float | None
    rerank_score: float | None
    source: Literal["vector", "keyword", "fused"] = Field(validation_alias="found_by")
    highlights: list[tuple[int, int]] | None
    section_header: str | None
    expanded_chunks: list[str] | None
    collection_id: WireId | None
    content_type: ChunkContentType
    language: str | None
    chunk_index: int
    start_char: int
    end_char: int
    crawled_at: datetime
    explanation: dict[str, Any] | None


class SearchResponse(BaseModel):
    results: list[ResultResponse]
    total_count: int | None
    next_cursor: str | None
    query_embedding_cached: bool
    result_cached: bool
    latency_ms: float
    corrected_query: str | None = Field(description="What was searched for when no document has the words as typed.")
    notes: list[str] = Field(description="Why a part of the search was left out.")


def _request(body: SearchBody, mode: SearchMode) -> SearchRequest:
    given: dict[str, Any] = {_RENAMED.get(name, name): value for name, value in body if value is not None}
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    return SearchRequest(mode=mode, **given | lists)


@router.post("", response_model=SearchResponse)
async def search(jay: Jay, who: Who, body: SearchBody) -> SearchAnswer:
    """By meaning and by words, fused into one ranking."""
    return await jay.search.search(who, _request(body, SearchMode.HYBRID))


@router.post("/vector", response_model=SearchResponse)
async def search_by_vector(jay: Jay, who: Who, body: SearchBody) -> SearchAnswer:
    """By meaning only."""
    return await jay.search.search(who, _request(body, SearchMode.VECTOR))


@router.post("/keyword", response_model=SearchResponse)
async def search_by_keyword(jay: Jay, who: Who, body: SearchBody) -> SearchAnswer:
    """By words only."""
    return await jay.search.search(who, _request(body, SearchMode.KEYWORD))
