"""The embedded index's own words: which shard it is, which fields are indexed, and our filters as the engine's."""

import json
import os
import shutil
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import UUID

from qdrant_edge import (
    Distance,
    EdgeConfig,
    EdgeOptimizersConfig,
    EdgeShard,
    EdgeSparseVectorParams,
    EdgeVectorParams,
    FieldCondition,
    Filter,
    HnswIndexConfig,
    IntegerIndexParams,
    MatchAny,
    MatchValue,
    Memory,
    Modifier,
    RangeFloat,
    UpdateOperation,
    UuidIndexParams,
)

from scrubjay.errors import Conflict, IndexCorrupt
from scrubjay.index.payload import (
    DENSE,
    FOREVER,
    WORDS,
    clean,
    labels_of,
    microseconds,
    unwanted_labels,
    wanted_labels,
)
from scrubjay.model.search import IndexPoint, SearchFilter

_CONFIG = "edge_config.json"
# Fewer vectors than this are searched one by one, which takes a few milliseconds.
INDEXING_KILOBYTES = 10_000
# When a filter lets fewer through than this, they are looked at one by one; else the graph is faster.
_FULL_SCAN_KILOBYTES = 2_000
_SEGMENTS = 2
_TIMES = ("crawled_at_us", "since_us", "until_us")


def create_shard(path: Path, dimensions: int) -> EdgeShard:
    """The shard at this path, made if there is none. One that was half made when the process died is made anew."""
    if not path.exists():
        unfinished = path.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        EdgeShard.create(str(unfinished), _config(dimensions)).close()
        unfinished.rename(path)
    found = json.loads((path / _CONFIG).read_text())["vectors"][DENSE]["size"]
    if found != dimensions:
        raise Conflict(f"The index in {path.parent} holds vectors of {found} dimensions, not {dimensions}.")
    return EdgeShard.load(str(path))


def ensure_indexes(shard: EdgeShard) -> None:
    """Index every field that filters ask for; what is there already is left as it is."""
    wanted: dict[str, Any] = {
        "tenant": UuidIndexParams(is_tenant=True),
        "labels": IntegerIndexParams(lookup=True, range=False),
    }
    wanted |= {name: IntegerIndexParams(lookup=name == "until_us", range=True, enable_hnsw=False) for name in _TIMES}
    facts = shard.info()
    if facts.points_count and "tenant" not in facts.payload_schema:
        raise IndexCorrupt(
            "The search index was made by an older Scrubjay; move its folder away and run 'scrubjay reindex'."
        )
    for name in wanted.keys() - facts.payload_schema.keys():
        shard.update(UpdateOperation.create_field_index(name, wanted[name]))


def describe_point(point: IndexPoint) -> dict[str, Any]:
    return {
        "tenant": _tenant_uuid(point.tenant_id),
        "tenant_id": clean(point.tenant_id),
        "document_id": clean(point.document_id),
        "labels": [_number(label) for label in labels_of(point)],
        "crawled_at_us": microseconds(point.crawled_at),
        "since_us": microseconds(point.since),
        "until_us": FOREVER if point.until is None else microseconds(point.until),
        "stamp": clean(point.stamp),
    }


def describe_filter(where: SearchFilter) -> Filter:
    must = [_tenant(where.tenant_id), *(_has_one_of(labels) for labels in wanted_labels(where))]
    if where.crawled_from or where.crawled_to:
        must.append(_between("crawled_at_us", gte=where.crawled_from, lte=where.crawled_to))
    if where.as_of is None:
        must.append(FieldCondition("until_us", match=MatchValue(FOREVER)))
    else:
        must += [_between("since_us", lte=where.as_of), _between("until_us", gt=where.as_of)]
    unwanted = unwanted_labels(where)
    return Filter(must=[*must], must_not=[_has_one_of(unwanted)] if unwanted else None)


def tenant_only(tenant_id: str, document_id: str | None = None) -> Filter:
    if document_id is None:
        return Filter(must=[_tenant(tenant_id)])
    (labels,) = wanted_labels(SearchFilter(tenant_id=tenant_id, document_ids=(document_id,)))
    return Filter(must=[_tenant(tenant_id), _has_one_of(labels)])


def _tenant(tenant_id: str) -> FieldCondition:
    return FieldCondition("tenant", match=MatchValue(_tenant_uuid(tenant_id)))


def _has_one_of(labels: list[str]) -> FieldCondition:
    return FieldCondition("labels", match=MatchAny([_number(label) for label in labels]))


# Conditions are checked for thousands of candidates of a search. The engine compares numbers several times as fast as
# texts, so what filters ask for is stored as the hash of its text: 63 bits for a label, 128 for whose a point is.


def _number(label: str) -> int:
    return int.from_bytes(blake2b(label.encode(), digest_size=8).digest()) >> 1


def _tenant_uuid(tenant_id: str) -> str:
    return str(UUID(bytes=blake2b(clean(tenant_id).encode(), digest_size=16).digest()))


def _between(name: str, **limits: datetime | None) -> FieldCondition:
    numbers = {limit: float(microseconds(moment)) for limit, moment in limits.items() if moment is not None}
    return FieldCondition(name, range=RangeFloat(**numbers))


def _config(dimensions: int) -> EdgeConfig:
    return EdgeConfig(
        vectors={DENSE: EdgeVectorParams(size=dimensions, distance=Distance.Cosine)},
        sparse_vectors={WORDS: EdgeSparseVectorParams(modifier=Modifier.Idf)},
        optimizers=EdgeOptimizersConfig(default_segment_number=_SEGMENTS, indexing_threshold=INDEXING_KILOBYTES),
        hnsw_config=HnswIndexConfig(16, 100, _FULL_SCAN_KILOBYTES, max_indexing_threads=_optimizing_threads()),
        payload_memory=Memory.Cached,  # read from the disk, the payloads of the hits take longer than finding these
        wal_enabled=True,
    )


def _optimizing_threads() -> int:
    """Half of the cores: crawling and searching go on meanwhile."""
    return max(1, (os.cpu_count() or 2) // 2)
