"""The one protocol that every index engine speaks. An index is derived: it can be thrown away and built again."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from scrubjay.model.search import Hit, IndexPoint, KeywordQuery, PointStamp, SearchFilter


class Index(Protocol):
    """One generation of the index: all points in it were embedded by one model.

    Writes are idempotent, durable when they return, and found by the searches that begin afterwards. Filters are
    applied by the engine itself. What cannot be reached raises `Unavailable`.
    """

    dimensions: int

    async def upsert(self, points: Sequence[IndexPoint]) -> None:
        """Add points, in place of those with the same ids."""

    async def delete(self, chunk_ids: Sequence[str]) -> None:
        """Remove points; those that are not there are no error."""

    async def stamps(self, tenant_id: str, document_id: str) -> Mapping[str, str]:
        """Chunk id → stamp of every point of a document."""

    def scan(self) -> AsyncIterator[PointStamp]:
        """Every point there is, in no particular order."""

    async def search_vector(self, vector: Sequence[float], where: SearchFilter, limit: int) -> list[Hit]:
        """The nearest points, best first; scores are cosine similarities. Hits tell how many words they have."""

    async def search_keywords(
        self, query: KeywordQuery, where: SearchFilter, limit: int, near: Sequence[float] | None = None
    ) -> list[Hit]:
        """The points that suit the words, best first; scores are BM25. Hits tell how near they are to a vector, if
        one is given."""

    async def count(self, where: SearchFilter) -> int:
        """How many points the filter lets through."""

    async def optimize(self) -> None:
        """Make searches fast again after many writes; may take long, and searches go on meanwhile."""

    async def check(self) -> None:
        """Answer, or raise Unavailable."""

    async def drop(self) -> None:
        """Remove the whole generation."""

    async def close(self) -> None: ...
