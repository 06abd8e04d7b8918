"""What is searched and what is found: points of the index, filters, queries, hits and results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from scrubjay.model.content import ChunkContentType, DocumentSource


class SearchMode(StrEnum):
    HYBRID = "hybrid"
    VECTOR = "vector"
    KEYWORD = "keyword"


class FusionKind(StrEnum):
    LINEAR = "linear"  # normalised scores, weighted
    RRF = "rrf"  # reciprocal ranks, weighted


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPoint:
    """One chunk as the index holds it: its vector, its words, and everything that filters may ask for.

    `since` and `until` are when the chunk's version was the document's content; nothing means that it still is.
    `stamp` changes when anything of the point does: an index that holds the same stamp holds the same point.
    """

    id: str  # of the chunk
    tenant_id: str
    document_id: str
    chunk_index: int
    url: str
    host: str
    domain: str
    source: DocumentSource
    content_type: ChunkContentType
    crawled_at: datetime
    since: datetime
    until: datetime | None = None
    collection_id: str | None = None
    title: str | None = None
    language: str | None = None
    section_header: str | None = None
    tags: tuple[str, ...] = ()  # ids
    text: str
    vector: Sequence[float]  # of unit length
    stamp: str


class PointStamp(NamedTuple):
    """What `Index.scan` tells of a point."""

    id: str
    tenant_id: str
    document_id: str
    stamp: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFilter:
    """What a hit must be. Each list means "one of these"; an empty one means "any". Lists are joined by AND."""

    tenant_id: str
    collection_ids: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    tag_ids: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # a host, or a registrable domain with all its hosts
    excluded_hosts: tuple[str, ...] = ()
    sources: tuple[DocumentSource, ...] = ()
    languages: tuple[str, ...] = ()
    content_types: tuple[ChunkContentType, ...] = ()
    crawled_from: datetime | None = None  # inclusive
    crawled_to: datetime | None = None  # inclusive
    as_of: datetime | None = None  # what was the content then; nothing means now


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordQuery:
    """Words to look for, as a person typed them; the index analyses them as it analysed the chunks.

    A hit has at least one word of `text`, all words of every phrase, and none of the excluded words. That a
    phrase's words stand side by side is checked by the searcher, on the text itself.
    """

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()  # to stem by


class Hit(NamedTuple):
    """A chunk that an engine found, and its engine's own score: cosine similarity, or BM25."""

    chunk_id: str
    document_id: str
    score: float
    terms: int | None = None  # how many different words the chunk has, where the engine tells
    cosine: float | None = None  # of what words found: its likeness to the query, where the engine tells


@dataclass(frozen=True, slots=True)
class VectorTrust:
    """What an embedder's cosines are worth beside words, in a search for both. Measured by `bench/retrieval.py`."""

    weight: float = 0.5  # their share of the ranking, from 0 to 1
    floor: float = 0.0  # texts that are less alike than this have nothing to do with each other
    is_scaled: bool = False  # whether cosines are stretched until the nearest is 1 and the last of the nearest 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What doors ask for. Weights of nothing mean the defaults, which suit the query and the embedder."""

    query: str
    mode: SearchMode = SearchMode.HYBRID
    collection_ids: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    tag_ids: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    sources: tuple[DocumentSource, ...] = ()
    languages: tuple[str, ...] = ()
    content_types: tuple[ChunkContentType, ...] = ()
    crawled_from: datetime | None = None
    crawled_to: datetime | None = None
    as_of: datetime | None = None
    fusion: FusionKind = FusionKind.LINEAR
    vector_weight: float | None = None
    keyword_weight: float | None = None
    rrf_k: int = 60
    min_score: float = 0.0
    use_reranker: bool = False
    rerank_top_n: int = 20
    expand_chunks: bool = False
    explain: bool = False
    limit: int = 10
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A found chunk with its place: `score` is 0 to 1, highlights are ranges of characters in `content`."""

    document_id: str
    chunk_id: str
    url: str
    title: str | None
    content: str
    start_char: int
    end_char: int
    chunk_index: int
    crawled_at: datetime
    collection_id: str | None = None
    language: str | None = None
    section_header: str | None = None
    content_type: ChunkContentType = ChunkContentType.PROSE
    score: float
    vector_score: float | None = None
    keyword_score: float | None = None
    rerank_score: float | None = None
    found_by: str = "fused"  # vector, keyword or fused
    highlights: tuple[tuple[int, int], ...] = ()
    expanded_chunks: tuple[str, ...] | None = None
    explanation: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    results: tuple[SearchResult, ...]
    total_count: int | None = None
    next_cursor: str | None = None
    query_embedding_cached: bool = False
    result_cached: bool = False
    latency_ms: float = 0.0
    corrected_query: str | None = None  # what was searched when nothing matched the query as typed
    notes: tuple[str, ...] = field(default=())  # why a part of the search was left out
