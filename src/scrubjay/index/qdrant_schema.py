"""Points and filters as a Qdrant server holds them: the payload of the RAG data model (spec 001, section 4) and ours.

The data model has UUIDs where we have ids with a UUID inside, so that is what is stored.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from qdrant_client import models

from scrubjay.errors import InvalidRequest
from scrubjay.index.payload import FOREVER, clean, microseconds
from scrubjay.model.ids import uuid_from_id
from scrubjay.model.search import IndexPoint, SearchFilter

_NO_UUID = "00000000-0000-0000-0000-000000000000"
_KEYWORD = models.PayloadSchemaType.KEYWORD
_RANGE = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True)
PAYLOAD_INDEXES: dict[str, Any] = {
    "tenant_id": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    "document_id": models.PayloadSchemaType.UUID,
    "collection_id": models.PayloadSchemaType.UUID,
    "domain": _KEYWORD,
    "host": _KEYWORD,
    "tags": _KEYWORD,
    "source": _KEYWORD,
    "language": _KEYWORD,
    "content_type": _KEYWORD,
    "crawled_at_us": _RANGE,
    "since_us": _RANGE,
    "until_us": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=True),
}


def describe_point(point: IndexPoint) -> dict[str, Any]:
    return {
        "document_id": _uuid(point.document_id),
        "chunk_id": _uuid(point.id),
        "chunk_index": point.chunk_index,
        "collection_id": _uuid(point.collection_id) if point.collection_id else None,
        "domain": clean(point.domain),
        "url": clean(point.url),
        "title": clean(point.title) if point.title is not None else None,
        "source": point.source.value,
        "tags": [_uuid(tag) for tag in point.tags],
        "section_header": clean(point.section_header) if point.section_header is not None else None,
        "content_type": point.content_type.value,
        "crawled_at": point.crawled_at.isoformat(),
        "tenant_id": clean(point.tenant_id),
        "host": clean(point.host),
        "language": clean(point.language) if point.language else None,
        "crawled_at_us": microseconds(point.crawled_at),
        "since_us": microseconds(point.since),
        "until_us": FOREVER if point.until is None else microseconds(point.until),
        "stamp": clean(point.stamp),
    }


def describe_filter(where: SearchFilter) -> models.Filter:
    lists = {
        "collection_id": [_uuid(each) for each in where.collection_ids],
        "document_id": [_uuid(each) for each in where.document_ids],
        "tags": [_uuid(each) for each in where.tag_ids],
        "source": where.sources,
        "language": where.languages,
        "content_type": where.content_types,
    }
    must: list[Any] = [_tenant(where.tenant_id), *(_any(name, values) for name, values in lists.items() if values)]
    if where.hosts:
        must.append(models.Filter(should=_hosts(where.hosts)))
    if where.crawled_from or where.crawled_to:
        must.append(_between("crawled_at_us", gte=where.crawled_from, lte=where.crawled_to))
    if where.as_of is None:
        must.append(models.FieldCondition(key="until_us", match=models.MatchValue(value=FOREVER)))
    else:
        must += [_between("since_us", lte=where.as_of), _between("until_us", gt=where.as_of)]
    return models.Filter(must=must, must_not=_hosts(where.excluded_hosts) if where.excluded_hosts else None)


def tenant_only(tenant_id: str, document_id: str | None = None) -> models.Filter:
    return models.Filter(
        must=[_tenant(tenant_id), *([_any("document_id", [_uuid(document_id)])] if document_id else [])]
    )


def _tenant(tenant_id: str) -> models.FieldCondition:
    return models.FieldCondition(key="tenant_id", match=models.MatchValue(value=clean(tenant_id)))


def _hosts(hosts: Sequence[str]) -> list[Any]:
    return [_any("host", hosts), _any("domain", hosts)]


def _any(name: str, values: Sequence[str]) -> models.FieldCondition:
    return models.FieldCondition(key=name, match=models.MatchAny(any=[clean(str(each)) for each in values]))


def _between(name: str, **limits: datetime | None) -> models.FieldCondition:
    numbers = {limit: float(microseconds(moment)) for limit, moment in limits.items() if moment is not None}
    return models.FieldCondition(key=name, range=models.Range(**numbers))


def _uuid(identifier: str) -> str:
    """The UUID inside an id; what is no id is the id of nothing."""
    try:
        return str(uuid_from_id(identifier))
    except InvalidRequest:
        return _NO_UUID
