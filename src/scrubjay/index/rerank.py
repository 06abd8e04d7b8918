"""Rerankers: servers that read query and passage together. TEI's `/rerank`, and the Cohere-style `/rerank`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scrubjay.crawler.endpoints import JsonEndpoint
from scrubjay.errors import Unavailable

MAX_PASSAGE_CHARACTERS = 8000


@dataclass(frozen=True, slots=True)
class Reranker:
    kind: str  # tei or cohere
    endpoint: JsonEndpoint
    model: str | None = None

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """A score from 0 to 1 for each text, in their order."""
        if not texts:
            return []
        passages = [text[:MAX_PASSAGE_CHARACTERS] for text in texts]
        if self.kind == "tei":
            body: dict[str, Any] = {"query": query, "texts": passages, "truncate": True}
            items = await self.endpoint.post("/rerank", body)
            return self._read(items, "score", len(texts))
        body = {"model": self.model, "query": query, "documents": passages, "top_n": len(passages)}
        answer = await self.endpoint.post("/rerank", body)
        items = answer.get("results") if isinstance(answer, dict) else None
        return self._read(items, "relevance_score", len(texts))

    def _read(self, items: Any, name: str, count: int) -> list[float]:
        scores: dict[int, float] = {}
        try:
            for item in items:
                scores[int(item["index"])] = float(item[name])
        except (KeyError, TypeError, ValueError, OverflowError):
            scores = {}
        if scores.keys() != set(range(count)) or not all(map(math.isfinite, scores.values())):
            raise Unavailable(f"The reranker at {self.endpoint.url} did not answer with a score for every passage.")
        return _units([scores[number] for number in range(count)])


def _units(scores: list[float]) -> list[float]:
    """Most rerankers answer from 0 to 1. Some answer with logits: then all are, also those that lie there by chance."""
    if all(0 <= score <= 1 for score in scores):
        return scores
    return [1 / (1 + math.exp(-max(-50.0, min(50.0, score)))) for score in scores]
