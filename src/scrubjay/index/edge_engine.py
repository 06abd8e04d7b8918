"""Qdrant's engine on one folder: the blocking half of the embedded index.

It is used by `edge_worker.py` alone, since its binding lets no other thread of a process run while it works.
"""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from qdrant_edge import (
    CountRequest,
    EdgeShard,
    FacetRequest,
    Filter,
    HasIdCondition,
    IdfParams,
    Point,
    Query,
    QueryRequest,
    Record,
    ScoredPoint,
    ScrollRequest,
    SearchParams,
    SparseVector,
    UpdateOperation,
)

from scrubjay.index.edge_schema import (
    INDEXING_KILOBYTES,
    create_shard,
    describe_filter,
    describe_point,
    ensure_indexes,
    tenant_only,
)
from scrubjay.index.keywords import Forms, Lookup, find_all, plan_keywords
from scrubjay.index.payload import DENSE, TERMS, WORDS, chunk_id, chunk_uuids, words_of
from scrubjay.model.search import IndexPoint, KeywordQuery, PointStamp, SearchFilter

# What a `Hit` has: as a plain tuple, it takes an eighth of the time to send.
PlainHit = tuple[str, str, float, int | None, float | None]

_SCAN_BATCH = 1_000
_TENANTS_SECONDS = 10.0

Page = tuple[list[PointStamp], UUID | None]
Exported = tuple[UUID, list[float], list[int], list[float], Any]  # id, vector, words, their weights, payload


class EdgeEngine:
    def __init__(self, folder: Path, dimensions: int) -> None:
        self._folder = folder
        self._dimensions = dimensions
        self._shard: EdgeShard = create_shard(folder, dimensions)
        ensure_indexes(self._shard)
        self._one_tenant = False
        self._tenants_known_until = 0.0

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        self._shard.update(UpdateOperation.upsert_points([_as_edge(point) for point in points]))

    def delete(self, chunk_ids: Sequence[str]) -> None:
        self._shard.update(UpdateOperation.delete_points([*chunk_uuids(chunk_ids)]))

    def scroll(self, of_document: tuple[str, str] | None, offset: UUID | None) -> Page:
        """The stamps of a tenant's document, or of all points, and where the next ones begin."""
        records, following = self._shard.scroll(
            ScrollRequest(
                offset=offset,
                limit=_SCAN_BATCH,
                filter=tenant_only(*of_document) if of_document else None,
                with_payload=["tenant_id", "document_id", "stamp"],
                with_vector=False,
            )
        )
        stamps = []
        for record in records:
            payload = record.payload or {}
            stamps.append(
                PointStamp(chunk_id(record.id), payload["tenant_id"], payload["document_id"], payload["stamp"])
            )
        return stamps, None if following is None else UUID(str(following))

    def search_vector(self, vector: Sequence[float], where: SearchFilter, limit: int) -> list[PlainHit]:
        found = self._find(Query.Nearest(list(vector), using=DENSE), describe_filter(where), limit)
        return [_as_hit(point.id, point) for point in found]

    def search_keywords(
        self, query: KeywordQuery, where: SearchFilter, limit: int, near: Sequence[float] | None = None
    ) -> list[PlainHit]:
        plan = plan_keywords(query)
        if not plan.scoring:
            return []
        wanted = describe_filter(where)
        must: list[Any] = []
        if plan.required:
            found = self._find_all(plan.required, wanted)
            if not found:
                return []
            must = [HasIdCondition(set(found))]
        must_not = [HasIdCondition(set(self._find_all(groups, wanted))) for groups in plan.together]
        narrowed = Filter(must=[wanted, *must], must_not=[*must_not]) if must or must_not else wanted
        indices, values = plan.sparse
        nearest = Query.Nearest(SparseVector(indices=indices, values=values), using=WORDS)
        least = 0.0 if plan.excluded else None
        points = self._find(nearest, narrowed, limit, self._rarity(where.tenant_id), least)
        identifiers = [point.id for point in points]  # the binding makes a new one at every look
        cosines = {} if near is None or not points else self._compare(identifiers, near)
        return [_as_hit(each, point, cosines.get(each)) for each, point in zip(identifiers, points, strict=True)]

    def _compare(self, identifiers: Sequence[Any], near: Sequence[float]) -> dict[Any, float]:
        """How near these points are to a vector."""
        these = Filter(must=[HasIdCondition(set(identifiers))])
        request = QueryRequest(limit=len(identifiers), query=Query.Nearest(list(near), using=DENSE), filter=these)
        return {point.id: point.score for point in self._shard.query(request)}

    def _rarity(self, tenant_id: str) -> SearchParams | None:
        """A word is as rare as it is among the tenant's own chunks. With one tenant these are all, which is faster."""
        if time.monotonic() > self._tenants_known_until:
            self._one_tenant = len(self._shard.facet(FacetRequest(key="tenant", limit=2)).hits) < 2
            self._tenants_known_until = time.monotonic() + _TENANTS_SECONDS
        return None if self._one_tenant else SearchParams(idf=IdfParams(corpus=tenant_only(tenant_id)))

    def count(self, where: SearchFilter) -> int:
        return self._shard.count(CountRequest(exact=True, filter=describe_filter(where)))

    def size(self) -> int:
        return self._shard.info().points_count

    def is_small(self) -> bool:
        """Whether optimizing takes no time, because the vectors are too few for a graph of them."""
        return self.size() * self._dimensions * 4 < INDEXING_KILOBYTES * 1024

    def optimize(self) -> None:
        self._shard.optimize()
        self._shard.flush()

    def copy_to(self, target: Path) -> None:
        self._shard.flush()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self._folder, target)

    def export(self, chunk_ids: Sequence[str]) -> list[Exported]:
        """These points as they are, without those that are not there."""
        records = self._shard.retrieve([*chunk_uuids(chunk_ids)], True, True)
        return [(UUID(str(record.id)), *_apart(record), record.payload) for record in records]

    def replace(self, chunk_ids: Sequence[str], points: Sequence[Exported]) -> None:
        """Make these points what they are elsewhere: the given ones, and none of the others."""
        there = {identifier for identifier, *_ in points}
        gone = [each for each in chunk_uuids(chunk_ids) if each not in there]
        made = [_together(*point) for point in points]
        self._shard.update(UpdateOperation.delete_points([*gone]))
        self._shard.update(UpdateOperation.upsert_points(made))

    def close(self) -> None:
        self._shard.flush()
        self._shard.close()

    def _find(
        self,
        query: Query,
        where: Filter,
        limit: int,
        params: SearchParams | None = None,
        threshold: float | None = None,
    ) -> list[ScoredPoint]:
        request = QueryRequest(
            limit=limit,
            query=query,
            filter=where,
            params=params,
            score_threshold=threshold,
            with_payload=["document_id", TERMS],
        )
        return self._shard.query(request)

    def _find_all(self, groups: Sequence[Forms], where: Filter) -> set[UUID]:
        lookups = find_all(groups)
        try:
            lookup = next(lookups)
            while True:
                lookup = lookups.send(self._look_up(lookup, where))
        except StopIteration as finished:
            return set(finished.value)

    def _look_up(self, lookup: Lookup, where: Filter) -> list[UUID]:
        if lookup.within is not None:
            where = Filter(must=[where, HasIdCondition(set(lookup.within))])
        words = SparseVector(indices=list(lookup.forms), values=[1.0] * len(lookup.forms))
        limit = min(lookup.limit, max(self.size(), 1))
        request = QueryRequest(limit=limit, query=Query.Nearest(words, using=WORDS), filter=where)
        return [UUID(str(point.id)) for point in self._shard.query(request)]


def _as_hit(identifier: object, point: ScoredPoint, cosine: float | None = None) -> PlainHit:
    payload = point.payload or {}
    return chunk_id(identifier), payload["document_id"], point.score, payload.get(TERMS), cosine


def _as_edge(point: IndexPoint) -> Point:
    (identifier,) = chunk_uuids([point.id])
    words, weights = words_of(point)
    return _together(identifier, list(point.vector), words, weights, {**describe_point(point), TERMS: len(words)})


def _together(identifier: UUID, vector: list[float], words: list[int], weights: list[float], payload: Any) -> Point:
    return Point(identifier, {DENSE: vector, WORDS: SparseVector(indices=words, values=weights)}, payload)


def _apart(record: Record) -> tuple[list[float], list[int], list[float]]:
    vectors: Any = record.vector
    return vectors[DENSE], vectors[WORDS].indices, vectors[WORDS].values
