"""What searches keep for a while: whole answers until something changes, and the vectors of queries."""

from pydantic import TypeAdapter, ValidationError

from scrubjay.errors import Unavailable
from scrubjay.index.embedder import Embedder, Vectors
from scrubjay.model.search import SearchAnswer
from scrubjay.storage import cache_keys
from scrubjay.storage.cache import Cache
from scrubjay.telemetry import get_logger

MAX_ANSWER_BYTES = 512 * 1024
_answers = TypeAdapter(SearchAnswer)

log = get_logger(__name__)


class SearchCache:
    """A cache that is gone costs time, and nothing else."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    async def result(self, tenant_id: str, key: str) -> SearchAnswer | None:
        kept = await self._get(cache_keys.query_result(key, tenant_id=tenant_id))
        if kept is None:
            return None
        try:
            answer = _answers.validate_json(kept)
        except ValidationError:
            return None  # another version kept it
        return SearchAnswer(
            **{name: getattr(answer, name) for name in answer.__dataclass_fields__ if name != "result_cached"},
            result_cached=True,
        )

    async def keep_result(self, tenant_id: str, key: str, answer: SearchAnswer) -> None:
        if not answer.notes:  # what was left out may be back at the next search
            data = _answers.dump_json(answer)
            if len(data) <= MAX_ANSWER_BYTES:
                await self._set(
                    cache_keys.query_result(key, tenant_id=tenant_id), data, cache_keys.QUERY_RESULT_SECONDS
                )

    async def query_vector(self, embedder: Embedder, text: str) -> tuple[Vectors, bool]:
        """The vector of a query, and whether it was known."""
        key = cache_keys.query_embedding(text, model=embedder.model)
        kept = await self._get(key)
        if kept is not None and len(kept) == 4 * embedder.dimensions:
            import numpy as np  # here, because most commands search for nothing

            return np.frombuffer(kept, dtype="<f4"), True
        vector = await embedder.embed_query(text)
        await self._set(key, vector.astype("<f4").tobytes(), cache_keys.QUERY_EMBEDDING_SECONDS)
        return vector, False

    async def _get(self, key: str) -> bytes | None:
        try:
            return await self._cache.get(key)
        except Unavailable as error:
            log.warning("cache not asked", reason=error.message)
            return None

    async def _set(self, key: str, value: bytes, ttl_seconds: float) -> None:
        try:
            await self._cache.set(key, value, ttl_seconds=ttl_seconds)
        except Unavailable as error:
            log.warning("not cached", reason=error.message)
