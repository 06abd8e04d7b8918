"""Two rankings become one: by scores on one scale, or by reciprocal ranks. Scores are 0 to 1 whichever way.

How the default was found, and how it was measured, is in docs/search.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scrubjay.model.search import FusionKind, Hit, VectorTrust

_BM25_HALF = 8.0  # a BM25 score that counts as half of the most there can be
_CROWD = 10  # the best match by words is sure when it is far ahead of the one with this rank
_CROWD_DOUBT = 0.75  # what words lose of their say when it is not ahead at all
_NEAREST = 10  # so many chunks tell by their length what kind of texts is asked for
_SHORT = 12.0  # chunks of so few different words leave words about two thirds of their say


@dataclass(frozen=True, slots=True)
class FusionOptions:
    kind: FusionKind = FusionKind.LINEAR
    vector_weight: float | None = None
    keyword_weight: float | None = None
    rrf_k: int = 60
    trust: VectorTrust = field(default_factory=VectorTrust)


class Fused(NamedTuple):
    chunk_id: str
    document_id: str
    score: float
    vector_score: float | None = None
    keyword_score: float | None = None
    vector_rank: int | None = None
    keyword_rank: int | None = None
    vector_part: float = 0.0  # what each ranking gave to the place of this hit, weighted
    keyword_part: float = 0.0

    @property
    def found_by(self) -> str:
        if self.vector_rank is not None and self.keyword_rank is not None:
            return "fused"
        return "vector" if self.vector_rank is not None else "keyword"


def keyword_score(score: float) -> float:
    """BM25 on a scale from 0 to 1 that means the same for every query."""
    return score / (score + _BM25_HALF) if score > 0 else 0.0


def vector_score(score: float) -> float:
    return min(1.0, max(0.0, score))


def drop_noise(vector: Sequence[Hit], keyword: Sequence[Hit], floor: float) -> list[Hit]:
    """The vector's hits without those that have neither a word of the query nor more than a chance likeness to it."""
    worded = {hit.chunk_id for hit in keyword}
    return [hit for hit in vector if hit.score >= floor or hit.chunk_id in worded]


def fuse(vector: Sequence[Hit], keyword: Sequence[Hit], options: FusionOptions) -> list[Fused]:
    """Everything that either found, best first; ties are broken by id, so that the order is always the same."""
    vector_weight, keyword_weight = _weights(options, bool(vector), bool(keyword))
    if options.kind is FusionKind.RRF:
        vector_parts, missing = _reciprocals(vector, options.rrf_k), 0.0
        keyword_parts = _reciprocals(keyword, options.rrf_k)
    else:
        vector_parts, missing = _closeness(vector, keyword, is_scaled=options.trust.is_scaled)
        keyword_parts = _aptness(keyword, _fullness(vector))
    places = []
    for chunk_id, document_id in {hit.chunk_id: hit.document_id for hit in (*vector, *keyword)}.items():
        by_vector = vector_weight * vector_parts.get(chunk_id, missing)
        by_keyword = keyword_weight * keyword_parts.get(chunk_id, 0.0)
        places.append((-by_vector - by_keyword, chunk_id, document_id, by_vector, by_keyword))
    places.sort()
    vector_hits = {hit.chunk_id: (vector_score(hit.score), rank) for rank, hit in enumerate(vector, 1)}
    keyword_hits = {hit.chunk_id: (keyword_score(hit.score), rank) for rank, hit in enumerate(keyword, 1)}
    fused = []
    for place, chunk_id, document_id, by_vector, by_keyword in places:
        near, near_rank = vector_hits.get(chunk_id, (None, None))
        worded, worded_rank = keyword_hits.get(chunk_id, (None, None))
        fused.append(Fused(chunk_id, document_id, -place, near, worded, near_rank, worded_rank, by_vector, by_keyword))
    if options.kind is FusionKind.RRF or not fused:
        return fused
    return _on_absolute_scale(fused, has_both=bool(vector and keyword))


def _on_absolute_scale(fused: Sequence[Fused], *, has_both: bool) -> list[Fused]:
    """The same order with scores that mean the same for every query.

    Where one ranking speaks, they are its scores. Where both do, the first has the better of its two, and every other
    has as much less as it is behind.
    """
    best = max(fused[0].vector_score or 0.0, fused[0].keyword_score or 0.0)
    if not has_both:
        return [each._replace(score=each.vector_score or each.keyword_score or 0.0) for each in fused]
    scale = best / fused[0].score if fused[0].score > 0 else 0.0
    return [each._replace(score=min(best, each.score * scale)) for each in fused]


def _aptness(keyword: Sequence[Hit], fullness: float) -> dict[str, float]:
    """BM25 as a share of the best, squared: what has half of the words' weight is much less than half as apt.

    Where a crowd has the words as much as the best, words say little of which is meant, and have less of a say.
    """
    best = keyword[0].score if keyword else 0.0
    if best <= 0:
        return dict.fromkeys((hit.chunk_id for hit in keyword), 0.0)
    crowd = keyword[_CROWD - 1].score / best if len(keyword) >= _CROWD else 0.0
    say = fullness * (1 - _CROWD_DOUBT * max(0.0, crowd))
    return {hit.chunk_id: say * (max(0.0, hit.score) / best) ** 2 for hit in keyword}


def _fullness(vector: Sequence[Hit]) -> float:
    """How much it means, from 0 to 1, that a chunk lacks a word: a page had room for it, a line of a chat had not."""
    terms = sorted(hit.terms for hit in vector[:_NEAREST] if hit.terms is not None)
    return 1 - math.exp(-terms[len(terms) // 2] / _SHORT) if terms else 1.0


def _closeness(vector: Sequence[Hit], keyword: Sequence[Hit], *, is_scaled: bool) -> tuple[dict[str, float], float]:
    """Cosines from 0 to 1, and what a chunk gets of which none is known: as much as the last of the nearest.

    Scaled, the last of the nearest is 0 and the first is 1. As they are, vectors that lie close together (of a
    language that the model does not know, say) tell less apart, and so have less of a say.
    """
    if not vector:
        return {}, 0.0
    nearest = {hit.chunk_id: vector_score(hit.score) for hit in vector}
    least, best = min(nearest.values()), max(nearest.values())
    cosines = {hit.chunk_id: vector_score(hit.cosine) for hit in keyword if hit.cosine is not None} | nearest
    if not is_scaled or best == least:
        return cosines, least
    return {chunk_id: vector_score((cosine - least) / (best - least)) for chunk_id, cosine in cosines.items()}, 0.0


def _reciprocals(hits: Sequence[Hit], k: int) -> Mapping[str, float]:
    """1 for the first rank, less for every other."""
    return {hit.chunk_id: (k + 1) / (k + rank) for rank, hit in enumerate(hits, 1)}


def _weights(options: FusionOptions, has_vector: bool, has_keyword: bool) -> tuple[float, float]:
    """Shares that add up to one. What has no ranking at all has no say, and what has the only one has all of it."""
    if not has_vector or not has_keyword:
        return float(has_vector), float(has_keyword)
    share = 0.5 if options.kind is FusionKind.RRF else options.trust.weight
    vector, keyword = options.vector_weight, options.keyword_weight
    if vector is None and keyword is None:
        vector = share
    if vector is None:
        vector = max(0.0, 1 - (keyword or 0.0))
    if keyword is None:
        keyword = max(0.0, 1 - vector)
    total = vector + keyword
    return (vector / total, keyword / total) if total else (0.0, 0.0)
