"""Lists of this door: one envelope for all of them, and a token that says where the next page begins."""

import base64
import binascii
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Query, Request

from scrubjay.api.crawlplans.schemas import Range, Wire, any_case
from scrubjay.errors import InvalidRequest
from scrubjay.model.page import Page

T = TypeVar("T")
S = TypeVar("S")

MAX_OFFSET = 2**31 - 1
_PAGING = frozenset({"maxResults", "continuationToken", "ordering"})


class Ordering(StrEnum):
    ASCENDING = "CreatedAscending"
    DESCENDING = "CreatedDescending"


class EnvelopeResponse(Wire, Generic[T]):
    success: bool = True
    max_results: int
    total_records: int
    records_remaining: int
    continuation_token: str | None = None
    end_of_results: bool
    total_ms: float
    objects: Sequence[T]


@dataclass(frozen=True, slots=True)
class Pagination:
    """Which page of which list is asked for."""

    limit: int
    offset: int
    newest_first: bool
    mark: str  # of the list: a token of another one leads nowhere
    started: float

    def answer(self, page: Page[S], translate: Callable[[S], T]) -> EnvelopeResponse[T]:
        end = page.offset + len(page.items)
        remaining = max(0, page.total - end)
        return EnvelopeResponse(
            max_results=self.limit,
            total_records=page.total,
            records_remaining=remaining,
            continuation_token=_encode(end, self.mark) if remaining else None,
            end_of_results=not remaining,
            total_ms=round((time.perf_counter() - self.started) * 1000, 2),
            objects=[translate(item) for item in page.items],
        )


def read_listing(
    request: Request,
    max_results: Annotated[int, Query(alias="maxResults"), Range(1, 1000)] = 100,
    continuation_token: Annotated[str | None, Query(alias="continuationToken", max_length=500)] = None,
    ordering: Annotated[Ordering, Query(), any_case(Ordering)] = Ordering.DESCENDING,
) -> Pagination:
    """The page that a request asks for."""
    filters = sorted(item for item in request.query_params.multi_items() if item[0] not in _PAGING)
    identity = json.dumps([request.url.path, ordering, filters])
    mark = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    offset = _decode(continuation_token, mark) if continuation_token else 0
    return Pagination(max_results, offset, ordering is Ordering.DESCENDING, mark, time.perf_counter())


Listed = Annotated[Pagination, Depends(read_listing)]


def _encode(offset: int, mark: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([offset, mark]).encode()).decode().rstrip("=")


def _decode(token: str, mark: str) -> int:
    try:
        offset, given = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        is_ours = isinstance(offset, int) and 0 <= offset <= MAX_OFFSET and given == mark
    except (ValueError, TypeError, binascii.Error, RecursionError):
        is_ours = False
    if not is_ours:
        raise InvalidRequest("continuationToken is not one that this list gave.", field="ContinuationToken")
    return int(offset)
