"""Search over `/api/v1`: hybrid, by vectors, by keywords."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, StringConstraints, model_validator

from scrubjay.api.deps import Jay, Who
from scrubjay.api.rag.ids import CollectionRef, TagRef, maybe_wire, wire
from scrubjay.api.rag.schemas import Moment, RequestModel
from scrubjay.model.content import ChunkContentType, DocumentSource
from scrubjay.model.search import FusionKind, SearchAnswer, SearchMode, SearchRequest, SearchResult

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


class ResultResponse(BaseModel):
    document_id: str
    chunk_id: str
    url: str
    title: str | None
    content: str
    score: float = Field(ge=0, le=1)
    vector_score: float | None
    keyword_score: float | None
    rerank_score: float | None
    source: Literal["vector", "keyword", "fused"]
    highlights: list[tuple[int, int]] | None
    section_header: str | None
    expanded_chunks: list[str] | None
    collection_id: str | None
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
    return SearchRequest(
        query=body.query,
        mode=mode,
        collection_ids=tuple(body.collection_ids or ()),
        tag_ids=tuple(body.tag_ids or ()),
        hosts=tuple(body.domains or ()),
        sources=tuple(body.source_types or ()),
        languages=tuple(body.languages or ()),
        content_types=tuple(body.content_types or ()),
        crawled_from=body.date_from,
        crawled_to=body.date_to,
        as_of=body.as_of,
        fusion=body.fusion,
        vector_weight=body.vector_weight,
        keyword_weight=body.keyword_weight,
        rrf_k=body.rrf_k,
        min_score=body.min_score,
        use_reranker=body.use_reranker,
        rerank_top_n=body.rerank_top_n,
        expand_chunks=body.expand_chunks,
        explain=body.explain,
        limit=body.limit,
        cursor=body.cursor,
    )


def _result(result: SearchResult) -> ResultResponse:
    return ResultResponse(
        document_id=wire(result.document_id),
        chunk_id=wire(result.chunk_id),
        url=result.url,
        title=result.title,
        content=result.content,
        score=min(1.0, max(0.0, result.score)),
        vector_score=result.vector_score,
        keyword_score=result.keyword_score,
        rerank_score=result.rerank_score,
        source=result.found_by,
        highlights=list(result.highlights),
        section_header=result.section_header,
        expanded_chunks=None if result.expanded_chunks is None else list(result.expanded_chunks),
        collection_id=maybe_wire(result.collection_id),
        content_type=result.content_type,
        language=result.language,
        chunk_index=result.chunk_index,
        start_char=result.start_char,
        end_char=result.end_char,
        crawled_at=result.crawled_at,
        explanation=None if result.explanation is None else dict(result.explanation),
    )


def _response(answer: SearchAnswer) -> SearchResponse:
    return SearchResponse(
        results=[_result(result) for result in answer.results],
        total_count=answer.total_count,
        next_cursor=answer.next_cursor,
        query_embedding_cached=answer.query_embedding_cached,
        result_cached=answer.result_cached,
        latency_ms=answer.latency_ms,
        corrected_query=answer.corrected_query,
        notes=list(answer.notes),
    )


@router.post("", response_model=SearchResponse)
async def search(jay: Jay, who: Who, body: SearchBody) -> SearchResponse:
    """By meaning and by words, fused into one ranking."""
    return _response(await jay.search.search(who, _request(body, SearchMode.HYBRID)))


@router.post("/vector", response_model=SearchResponse)
async def search_by_vector(jay: Jay, who: Who, body: SearchBody) -> SearchResponse:
    """By meaning only."""
    return _response(await jay.search.search(who, _request(body, SearchMode.VECTOR)))


@router.post("/keyword", response_model=SearchResponse)
async def search_by_keyword(jay: Jay, who: Who, body: SearchBody) -> SearchResponse:
    """By words only."""
    return _response(await jay.search.search(who, _request(body, SearchMode.KEYWORD)))
