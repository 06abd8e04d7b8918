"""The index on a Qdrant server, through its own client. `opening.py` imports this only when it is asked for."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import httpx
import stamina
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from scrubjay.errors import Conflict, Unavailable
from scrubjay.index.keywords import Forms, Lookup, find_all, plan_keywords
from scrubjay.index.payload import DENSE, TERMS, WORDS, check_dimensions, chunk_id, chunk_uuids, words_of
from scrubjay.index.qdrant_schema import PAYLOAD_INDEXES, describe_filter, describe_point, tenant_only
from scrubjay.model.ids import id_from_uuid
from scrubjay.model.search import Hit, IndexPoint, KeywordQuery, PointStamp, SearchFilter
from scrubjay.telemetry import redact

_TIMEOUT_SECONDS = 30
_BATCH = 128
_SCAN_BATCH = 1_000
_ATTEMPTS = 4
_RETRY_SECONDS = 15.0
_BUSY_STATUSES = frozenset({408, 429, 500, 502, 503, 504})

T = TypeVar("T")


def connect(url: str, api_key: str | None = None) -> AsyncQdrantClient:
    return AsyncQdrantClient(url=url, api_key=api_key, timeout=_TIMEOUT_SECONDS, check_compatibility=False)


class QdrantIndex:
    """One collection of the server is one generation. What the server is too busy for is tried again."""

    def __init__(self, client: AsyncQdrantClient, collection: str, dimensions: int) -> None:
        self.dimensions = dimensions
        self._client = client
        self._collection = collection
        self._closed = False

    @classmethod
    async def open(cls, client: AsyncQdrantClient, generation: str, dimensions: int) -> "QdrantIndex":
        self = cls(client, f"scrubjay_{generation}", dimensions)
        if await self._call(client.collection_exists):
            await self._check_dimensions()
        else:
            await self._create()
        return self

    async def _check_dimensions(self) -> None:
        facts: Any = await self._call(self._client.get_collection)
        found = facts.config.params.vectors[DENSE].size
        if found != self.dimensions:
            raise Conflict(
                f"Qdrant's collection {self._collection} holds vectors of {found} dimensions, not {self.dimensions}."
            )

    async def _create(self) -> None:
        vector = models.VectorParams(size=self.dimensions, distance=models.Distance.COSINE)
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        await self._call(
            self._client.create_collection, vectors_config={DENSE: vector}, sparse_vectors_config={WORDS: words}
        )
        for name, schema in PAYLOAD_INDEXES.items():
            await self._call(self._client.create_payload_index, field_name=name, field_schema=schema, wait=True)

    async def upsert(self, points: Sequence[IndexPoint]) -> None:
        for point in points:
            check_dimensions(len(point.vector), self.dimensions)
        chunk_uuids(point.id for point in points)
        for start in range(0, len(points), _BATCH):
            batch = [_as_qdrant(point) for point in points[start : start + _BATCH]]
            await self._call(self._client.upsert, points=batch, wait=True)

    async def delete(self, chunk_ids: Sequence[str]) -> None:
        identifiers: list[Any] = [str(each) for each in chunk_uuids(chunk_ids)]
        if identifiers:
            selector = models.PointIdsList(points=identifiers)
            await self._call(self._client.delete, points_selector=selector, wait=True)

    async def stamps(self, tenant_id: str, document_id: str) -> Mapping[str, str]:
        return {each.id: each.stamp async for each in self._scroll(tenant_only(tenant_id, document_id))}

    async def scan(self) -> AsyncIterator[PointStamp]:
        async for each in self._scroll(None):
            yield each

    async def _scroll(self, where: models.Filter | None) -> AsyncIterator[PointStamp]:
        offset: Any = None
        while True:
            records, offset = await self._call(
                self._client.scroll,
                scroll_filter=where,
                limit=_SCAN_BATCH,
                offset=offset,
                with_payload=["tenant_id", "document_id", "stamp"],
                with_vectors=False,
            )
            for record in records:
                facts = record.payload or {}
                yield PointStamp(chunk_id(record.id), facts["tenant_id"], _document_id(facts), facts["stamp"])
            if offset is None:
                return

    async def search_vector(self, vector: Sequence[float], where: SearchFilter, limit: int) -> list[Hit]:
        check_dimensions(len(vector), self.dimensions)
        found = await self._find([float(each) for each in vector], DENSE, describe_filter(where), limit)
        return [_as_hit(point) for point in found]

    async def search_keywords(
        self, query: KeywordQuery, where: SearchFilter, limit: int, near: Sequence[float] | None = None
    ) -> list[Hit]:
        plan = plan_keywords(query)
        if not plan.scoring:
            return []
        wanted = describe_filter(where)
        must: list[Any] = [wanted]
        if plan.required:
            must.append(_has_id(await self._find_all(plan.required, wanted)))
        must_not: list[Any] = [_has_id(await self._find_all(groups, wanted)) for groups in plan.together]
        narrowed = models.Filter(must=must, must_not=must_not) if plan.required or must_not else wanted
        indices, values = plan.sparse
        words = models.SparseVector(indices=indices, values=values)
        # A word is as rare as it is among the tenant's own chunks.
        params = models.SearchParams(idf=models.IdfCorpusParams(corpus=tenant_only(where.tenant_id)))
        more: dict[str, Any] = {"score_threshold": 0.0} if plan.excluded else {}
        found = await self._find(words, WORDS, narrowed, limit, search_params=params, **more)
        cosines = {} if near is None or not found else await self._compare([point.id for point in found], near)
        return [_as_hit(point, cosines.get(point.id)) for point in found]

    async def _compare(self, identifiers: Sequence[Any], near: Sequence[float]) -> dict[Any, float]:
        """How near these points are to a vector."""
        these = models.Filter(must=[models.HasIdCondition(has_id=list(identifiers))])
        found = await self._find([float(each) for each in near], DENSE, these, len(identifiers))
        return {point.id: point.score for point in found}

    async def _find(
        self, query: Any, using: str, where: models.Filter, limit: int, **more: Any
    ) -> list[models.ScoredPoint]:
        found = await self._call(
            self._client.query_points,
            query=query,
            using=using,
            query_filter=where,
            limit=limit,
            with_payload=["document_id", TERMS],
            **more,
        )
        return found.points

    async def _find_all(self, groups: Sequence[Forms], where: models.Filter) -> set[UUID]:
        lookups = find_all(groups)
        try:
            lookup = next(lookups)
            while True:
                lookup = lookups.send(await self._look_up(lookup, where))
        except StopIteration as finished:
            return set(finished.value)

    async def _look_up(self, lookup: Lookup, where: models.Filter) -> list[UUID]:
        if lookup.within is not None:
            where = models.Filter(must=[where, _has_id(lookup.within)])
        total = await self._call(self._client.count, exact=True)
        found = await self._call(
            self._client.query_points,
            query=models.SparseVector(indices=list(lookup.forms), values=[1.0] * len(lookup.forms)),
            using=WORDS,
            query_filter=where,
            limit=min(lookup.limit, max(total.count, 1)),
            with_payload=False,
        )
        return [UUID(str(point.id)) for point in found.points]

    async def count(self, where: SearchFilter) -> int:
        counted = await self._call(self._client.count, count_filter=describe_filter(where), exact=True)
        return int(counted.count)

    async def optimize(self) -> None:
        """The server does that by itself."""

    async def check(self) -> None:
        await self._call(self._client.get_collection)

    async def drop(self) -> None:
        await self._call(self._client.delete_collection)
        await self.close()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._client.close()

    async def _call(self, method: Callable[..., Awaitable[T]], **arguments: Any) -> T:
        if self._closed:
            raise Unavailable("The search index is closed.")
        try:
            async for attempt in stamina.retry_context(_is_passing, attempts=_ATTEMPTS, timeout=_RETRY_SECONDS):
                with attempt:
                    return await method(collection_name=self._collection, **arguments)
        except (ApiException, httpx.HTTPError, OSError) as error:
            reason = redact(str(error).strip().partition("\n")[0]) or type(error).__name__
            raise Unavailable(f"Qdrant does not answer: {reason}.") from error
        raise AssertionError("unreachable")


def _is_passing(error: Exception) -> bool:
    """Whether it may work a moment later. Everything that is asked of the server may be asked twice."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code in _BUSY_STATUSES
    return isinstance(error, (ResponseHandlingException, httpx.TransportError, OSError))


def _as_hit(point: models.ScoredPoint, cosine: float | None = None) -> Hit:
    terms = (point.payload or {}).get(TERMS)
    return Hit(chunk_id(point.id), _document_id(point.payload), point.score, terms, cosine)


def _as_qdrant(point: IndexPoint) -> models.PointStruct:
    indices, values = words_of(point)
    (identifier,) = chunk_uuids([point.id])
    vector: dict[str, Any] = {
        DENSE: [float(each) for each in point.vector],
        WORDS: models.SparseVector(indices=indices, values=values),
    }
    return models.PointStruct(id=str(identifier), vector=vector, payload={**describe_point(point), TERMS: len(indices)})


def _document_id(payload: Mapping[str, Any] | None) -> str:
    return id_from_uuid("adoc", UUID((payload or {})["document_id"]))


def _has_id(identifiers: set[UUID]) -> models.HasIdCondition:
    return models.HasIdCondition(has_id=[str(each) for each in identifiers])
