"""Search: both rankings at once, fused, checked against the documents, reranked, highlighted and cached."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, overload

from scrubjay.errors import InvalidRequest, Unavailable
from scrubjay.index.analysis import contains_phrase, highlight, query_terms
from scrubjay.index.catalog import IndexCatalog, Served
from scrubjay.index.cursor import Cursor, read_cursor
from scrubjay.index.fusion import Fused, FusionOptions, drop_noise, fuse
from scrubjay.index.query import ParsedQuery, parse_query
from scrubjay.index.rerank import Reranker
from scrubjay.index.words import nearest_word
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Chunk, Document
from scrubjay.model.ids import uuid_from_id
from scrubjay.model.search import (
    Hit,
    KeywordQuery,
    SearchAnswer,
    SearchFilter,
    SearchMode,
    SearchRequest,
    SearchResult,
)
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.services.search_cache import SearchCache
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.collections import Collections
from scrubjay.storage.database import Database
from scrubjay.storage.documents import Documents
from scrubjay.storage.generations import Generations
from scrubjay.storage.tags import Tags
from scrubjay.storage.versions import DocumentVersions
from scrubjay.storage.vocabulary import Vocabulary
from scrubjay.telemetry import get_logger, span
from scrubjay.telemetry.metrics import search_seconds

LEAST_CANDIDATES = 50
CANDIDATES_PER_RESULT = 4
MOST_CANDIDATES = 2000
LEAST_LOADED = 24  # candidates that are looked up at a time
MAX_LANGUAGES = 4
MAX_WORDS = 200_000  # of the vocabulary that a misspelt word is compared with
MAX_VOCABULARIES = 16  # kept in memory, one for each tenant that misspelt something lately
_REMEMBER_SECONDS = 60.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    """A fused hit with its chunk and document."""

    fused: Fused
    chunk: Chunk
    document: Document


class SearchService:
    def __init__(
        self, database: Database, catalog: IndexCatalog, cache: SearchCache, reranker: Reranker | None = None
    ) -> None:
        self._database = database
        self._catalog = catalog
        self._cache = cache
        self._reranker = reranker
        self._languages: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._words: dict[str, tuple[float, Sequence[str]]] = {}

    async def search(self, principal: Principal, request: SearchRequest) -> SearchAnswer:
        require(principal, Scope.READ)
        started = time.perf_counter()
        with span("search", search__mode=str(request.mode)) as traced:
            answer = await self._search(principal, request)
            traced.set(search__results=len(answer.results), search__cached=answer.result_cached)
        seconds = time.perf_counter() - started
        search_seconds.labels(mode=str(request.mode)).observe(seconds)
        return replace(answer, latency_ms=round(seconds * 1000, 3))

    async def _search(self, principal: Principal, request: SearchRequest) -> SearchAnswer:
        parsed = parse_query(request.query)
        await self._check_owned(principal.tenant_id, request)
        canonical = json.dumps(asdict(replace(request, cursor=None)), sort_keys=True, default=str)
        cursor = read_cursor(request.cursor, canonical) if request.cursor else None
        async with self._database.reading() as connection:
            epoch = await Generations(connection).epoch(principal.tenant_id)
        key = f"{epoch}\n{canonical}\n{request.cursor or ''}"
        answer = await self._cache.result(principal.tenant_id, key)
        if answer is None:
            answer = await self._answer(principal.tenant_id, request, parsed, cursor, canonical)
            await self._cache.keep_result(principal.tenant_id, key, answer)
        return answer

    async def _check_owned(self, tenant_id: str, request: SearchRequest) -> None:
        """Another tenant's collection or tag does not exist."""
        async with self._database.reading() as connection:
            for collection_id in request.collection_ids:
                await Collections(connection).get(tenant_id, collection_id)
            for tag_id in request.tag_ids:
                await Tags(connection).get(tenant_id, tag_id)

    async def _answer(
        self, tenant_id: str, request: SearchRequest, parsed: ParsedQuery, cursor: Cursor | None, canonical: str
    ) -> SearchAnswer:
        moment = cursor.as_of if cursor is not None else utc_now()
        offset = cursor.offset if cursor is not None else 0
        where = _filter(tenant_id, request, parsed, moment if cursor is not None else None)
        run = _GenerationSearch(
            await self._catalog.live(), where, request, await self._languages_of(tenant_id, request), self._cache
        )
        wanted = offset + max(request.limit, request.rerank_top_n if request.use_reranker else 0)
        found, complete = await self._gather(run, parsed, wanted)
        corrected = None
        if run.nothing_matched and cursor is None:
            corrected = await self._correct(tenant_id, parsed)
            if corrected is not None:
                parsed = replace(parsed, text=corrected, phrases=())
                found, complete = await self._gather(run, parsed, wanted)
        scores: Mapping[str, float] = {}
        if request.use_reranker:
            found, scores = await self._rerank(run, parsed, found, request.rerank_top_n)
        found = [each for each in found if scores.get(each.chunk.id, each.fused.score) >= request.min_score]
        page = found[offset : offset + request.limit]
        more = len(found) > offset + request.limit or not complete
        return SearchAnswer(
            results=tuple(await self._results(run, parsed, page, scores)),
            total_count=len(found) if complete else None,
            next_cursor=Cursor(offset + request.limit, moment).encode(canonical) if page and more else None,
            query_embedding_cached=run.embedding_cached,
            corrected_query=corrected,
            notes=tuple(run.notes),
        )

    async def _gather(self, run: "_GenerationSearch", parsed: ParsedQuery, wanted: int) -> tuple[list[_Found], bool]:
        """At least as many as wanted, and whether that is all there is."""
        depth = max(LEAST_CANDIDATES, wanted * CANDIDATES_PER_RESULT)
        while True:
            depth = min(depth, MOST_CANDIDATES)
            fused, complete = await run.candidates(parsed, depth)
            found = await self._hydrate(run, parsed, fused, len(fused) if complete else wanted + 1)
            if len(found) > wanted or complete or depth >= MOST_CANDIDATES:
                return found, complete
            depth *= 4

    async def _hydrate(
        self, run: "_GenerationSearch", parsed: ParsedQuery, fused: Sequence[Fused], wanted: int
    ) -> list[_Found]:
        """The first ones as the database has them. What it does not have so any more, or not yet, is left out."""
        found: dict[tuple[str, str | None], _Found] = {}
        at, step = 0, max(LEAST_LOADED, wanted)
        while at < len(fused) and len(found) < wanted:
            for each in await self._load(run, fused[at : at + step]):
                if not _suits(each.chunk, each.document, parsed):
                    continue
                # The same words at another address of a collection say nothing new; the first one had them first.
                same = (each.chunk.content_sha256, each.document.collection_id)
                known = found.get(same)
                if known is None or (known.document.duplicate_of and not each.document.duplicate_of):
                    found[same] = each
            at += step
        return sorted(found.values(), key=lambda each: (-each.fused.score, each.chunk.id))

    async def _load(self, run: "_GenerationSearch", fused: Sequence[Fused]) -> list[_Found]:
        """Hits with their chunks and documents, without those that are not to be shown."""
        async with self._database.reading() as connection:
            chunks = await Chunks(connection).by_ids(run.where.tenant_id, [each.chunk_id for each in fused])
            documents = await Documents(connection).by_ids({chunk.document_id for chunk in chunks})
            then = await self._versions_then(connection, run.where, documents)
        by_id = {chunk.id: chunk for chunk in chunks}
        loaded = []
        for each in fused:
            chunk = by_id.get(each.chunk_id)
            document = documents.get(chunk.document_id) if chunk is not None else None
            if chunk is not None and document is not None and _is_shown(chunk, document, then):
                loaded.append(_Found(each, chunk, document))
        return loaded

    @staticmethod
    async def _versions_then(
        connection: Any, where: SearchFilter, documents: Mapping[str, Document]
    ) -> Mapping[str, int] | None:
        if where.as_of is None:
            return None
        versions = await DocumentVersions(connection).at(where.tenant_id, list(documents), where.as_of)
        return {document_id: version.version for document_id, version in versions.items()}

    async def _rerank(
        self, run: "_GenerationSearch", parsed: ParsedQuery, found: list[_Found], count: int
    ) -> tuple[list[_Found], Mapping[str, float]]:
        """The first ones in the reranker's order, and the rest after them in their own."""
        if self._reranker is None:
            raise InvalidRequest("use_reranker: no reranker is configured (SCRUBJAY_RERANK_URL).", field="use_reranker")
        first, rest = found[:count], found[count:]
        try:
            scores = await self._reranker.rerank(parsed.text, [each.chunk.content for each in first])
        except Unavailable as error:
            run.notes.append(f"Not reranked: {error.message}")
            return found, {}
        by_id = {each.chunk.id: score for each, score in zip(first, scores, strict=True)}
        first.sort(key=lambda each: (-by_id[each.chunk.id], each.chunk.id))
        least = min(scores, default=0.0)
        # What was not reranked comes after what was, and must not score more.
        by_id |= {each.chunk.id: min(least, each.fused.score) for each in rest}
        return [*first, *rest], by_id

    async def _results(
        self, run: "_GenerationSearch", parsed: ParsedQuery, page: Sequence[_Found], scores: Mapping[str, float]
    ) -> list[SearchResult]:
        asked = {term for word in query_terms(parsed.text, run.languages) for term in word.scoring}
        results = []
        for each in page:
            neighbours = await self._neighbours(each.chunk) if run.request.expand_chunks else None
            results.append(_result(each, scores, asked, neighbours, explain=run.request.explain))
        return results

    async def _neighbours(self, chunk: Chunk) -> tuple[str, ...]:
        async with self._database.reading() as connection:
            around = await Chunks(connection).neighbours(
                chunk.document_id, chunk.version, [chunk.chunk_index - 1, chunk.chunk_index + 1]
            )
        return tuple(each.content for each in around)

    async def _correct(self, tenant_id: str, parsed: ParsedQuery) -> str | None:
        """The query with every unknown word replaced by the known one that is nearest to it."""
        known = await self._words_of(tenant_id)
        present = set(known)
        words, changed = [], False
        for word in parsed.text.split():
            better = None
            if word.casefold() not in present:
                better = await asyncio.to_thread(nearest_word, word, known)
            changed = changed or better is not None
            words.append(better or word)
        return " ".join(words) if changed else None

    async def _words_of(self, tenant_id: str) -> Sequence[str]:
        """The words that a tenant's documents use, not older than a minute."""
        read_at, words = self._words.get(tenant_id, (0.0, ()))
        if not words or time.monotonic() - read_at > _REMEMBER_SECONDS:
            async with self._database.reading() as connection:
                words = await Vocabulary(connection).words(tenant_id, MAX_WORDS)
            if len(self._words) >= MAX_VOCABULARIES:
                self._words.pop(next(iter(self._words)))
            self._words[tenant_id] = (time.monotonic(), words)
        return words

    async def _languages_of(self, tenant_id: str, request: SearchRequest) -> tuple[str, ...]:
        """The languages to stem a query by: those asked for, or those that the tenant's documents are in."""
        if request.languages:
            return request.languages
        read_at, languages = self._languages.get(tenant_id, (0.0, ()))
        if not languages or time.monotonic() - read_at > _REMEMBER_SECONDS:
            async with self._database.reading() as connection:
                found = await Documents(connection).languages(tenant_id)
            languages = tuple(dict.fromkeys(language.partition("-")[0] for language in found))[:MAX_LANGUAGES]
            self._languages[tenant_id] = (time.monotonic(), languages)
        return languages or ("en",)


class _GenerationSearch:
    """One search against one generation."""

    def __init__(
        self,
        served: Served,
        where: SearchFilter,
        request: SearchRequest,
        languages: tuple[str, ...],
        cache: SearchCache,
    ) -> None:
        self.where = where
        self.request = request
        self.languages = languages
        self.notes: list[str] = []
        self.embedding_cached = False
        self.nothing_matched = False
        self._served = served
        self._cache = cache

    async def candidates(self, parsed: ParsedQuery, depth: int) -> tuple[list[Fused], bool]:
        """Both rankings at once, fused; and whether neither has more."""
        meaning = await self._meaning(parsed)
        vector, keyword = await asyncio.gather(self._vector(meaning, depth), self._keyword(parsed, meaning, depth))
        self.nothing_matched = self.request.mode is not SearchMode.VECTOR and not keyword
        if self.request.mode is SearchMode.HYBRID and self.nothing_matched and parsed.phrases:
            vector = []  # what lacks the words of a phrase cannot contain it
        trust = self._served.embedder.trust(parsed.text)
        more_vectors = len(vector) >= depth
        if self.request.mode is SearchMode.HYBRID:
            more_vectors = more_vectors and vector[-1].score >= trust.floor
            vector = drop_noise(vector, keyword, trust.floor)
        options = FusionOptions(
            self.request.fusion, self.request.vector_weight, self.request.keyword_weight, self.request.rrf_k, trust
        )
        return fuse(vector, keyword, options), not more_vectors and len(keyword) < depth

    async def _meaning(self, parsed: ParsedQuery) -> list[float] | None:
        """The query's vector; none when it is not asked for, not to be had, or says nothing."""
        if self.request.mode is SearchMode.KEYWORD:
            return None
        try:
            vector, cached = await self._cache.query_vector(self._served.embedder, parsed.text)
        except Unavailable as error:
            if self.request.mode is SearchMode.VECTOR:
                raise
            self.notes.append(f"By keywords only: {error.message}")
            return None
        self.embedding_cached = cached
        meaning: list[float] = vector.tolist()
        return meaning if any(meaning) else None

    async def _vector(self, meaning: list[float] | None, depth: int) -> list[Hit]:
        return [] if meaning is None else await self._served.index.search_vector(meaning, self.where, depth)

    async def _keyword(self, parsed: ParsedQuery, meaning: list[float] | None, depth: int) -> list[Hit]:
        if self.request.mode is SearchMode.VECTOR:
            return []
        query = KeywordQuery(
            text=parsed.text, phrases=parsed.phrases, excluded=parsed.excluded, languages=self.languages
        )
        return await self._served.index.search_keywords(query, self.where, depth, meaning)


def _filter(tenant_id: str, request: SearchRequest, parsed: ParsedQuery, moment: datetime | None) -> SearchFilter:
    hosts = request.hosts
    if parsed.hosts:
        hosts = tuple(host for host in parsed.hosts if not hosts or host in hosts) or ("",)
    return SearchFilter(
        tenant_id=tenant_id,
        collection_ids=request.collection_ids,
        document_ids=request.document_ids,
        tag_ids=request.tag_ids,
        hosts=hosts,
        excluded_hosts=parsed.excluded_hosts,
        sources=request.sources,
        languages=request.languages,
        content_types=request.content_types,
        crawled_from=request.crawled_from,
        crawled_to=request.crawled_to,
        as_of=request.as_of or moment,
    )


def _suits(chunk: Chunk, document: Document, parsed: ParsedQuery) -> bool:
    """Whether a chunk has every phrase as it was typed, and no excluded word: vectors know of neither."""

    def has(words: str) -> bool:
        return contains_phrase(chunk.content, words, document.language)

    return all(map(has, parsed.phrases)) and not any(map(has, parsed.excluded))


def _is_shown(chunk: Chunk, document: Document, then: Mapping[str, int] | None) -> bool:
    """Whether a chunk is what its document says now, or said then, as a whole."""
    if document.is_purging:
        return False
    if then is not None:
        return then.get(document.id) == chunk.version
    return document.deleted_at is None and chunk.version == document.indexed_version


def _result(
    found: _Found,
    scores: Mapping[str, float],
    asked: set[str],
    neighbours: tuple[str, ...] | None,
    *,
    explain: bool,
) -> SearchResult:
    fused, chunk, document = found.fused, found.chunk, found.document
    rerank_score = scores.get(chunk.id)
    explanation: dict[str, Any] | None = None
    if explain:
        explanation = {
            "vector_rank": fused.vector_rank,
            "keyword_rank": fused.keyword_rank,
            "vector_score": fused.vector_score,
            "keyword_score": fused.keyword_score,
            "vector_part": _rounded(fused.vector_part),
            "keyword_part": _rounded(fused.keyword_part),
            "fused_score": fused.score,
            "rerank_score": rerank_score,
            "version": chunk.version,
            "chunk_index": chunk.chunk_index,
            "point": str(uuid_from_id(chunk.id)),
        }
    return SearchResult(
        document_id=document.id,
        chunk_id=chunk.id,
        url=document.url,
        title=document.title,
        content=chunk.content,
        start_char=chunk.start_char,
        end_char=chunk.end_char,
        chunk_index=chunk.chunk_index,
        crawled_at=document.crawled_at,
        collection_id=document.collection_id,
        language=document.language,
        section_header=chunk.section_header,
        content_type=chunk.content_type,
        score=_rounded(fused.score if rerank_score is None else rerank_score),
        vector_score=_rounded(fused.vector_score),
        keyword_score=_rounded(fused.keyword_score),
        rerank_score=_rounded(rerank_score),
        found_by=fused.found_by,
        highlights=highlight(chunk.content, asked, document.language),
        expanded_chunks=neighbours,
        explanation=explanation,
    )


@overload
def _rounded(score: float) -> float: ...
@overload
def _rounded(score: float | None) -> float | None: ...
def _rounded(score: float | None) -> float | None:
    return None if score is None else round(float(score), 6)
