"""Embedders on other machines: TEI's `/embed`, and `/embeddings` of any OpenAI-compatible API."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scrubjay.crawler.endpoints import JsonEndpoint
from scrubjay.errors import Unavailable
from scrubjay.index.embedder import Vectors
from scrubjay.index.embedding import load_tokenizer, normalize, package_folder, token_starts
from scrubjay.model.search import VectorTrust

BATCH = 32
MAX_TOKENS = 512
NAMES = ("tei", "openai")


class HttpEmbedder:
    """Asks a server in batches. What it answers is checked: so many vectors, each of the expected length.

    Such a server tells tokens only by being asked, so texts are measured with the tokenizer inside the package;
    its tokens are shorter than most models' own, which errs on the safe side.
    """

    def __init__(
        self, kind: str, endpoint: JsonEndpoint, *, model: str | None, dimensions: int, max_tokens: int = MAX_TOKENS
    ) -> None:
        self.name = kind
        self.model = f"{kind}:{model or endpoint.url}"[:255]
        self.dimensions = dimensions
        self.max_tokens = max_tokens
        self._kind = kind
        self._endpoint = endpoint
        self._model = model
        self._tokenizer = load_tokenizer(
            package_folder("wordllama") / "tokenizers" / "l2_supercat_tokenizer_config.json"
        )

    @classmethod
    async def connect(
        cls, kind: str, endpoint: JsonEndpoint, *, model: str | None, dimensions: int | None
    ) -> "HttpEmbedder":
        """An embedder whose dimensions are what was set, or what the server answers with."""
        embedder = cls(kind, endpoint, model=model, dimensions=dimensions or 0)
        if dimensions is None:
            embedder.dimensions = len((await embedder._ask(["dimensions"]))[0])
        return embedder

    def token_starts(self, texts: Sequence[str]) -> list[list[int]]:
        return token_starts(self._tokenizer, texts)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        asked = [number for number, text in enumerate(texts) if text.strip()]  # TEI refuses empty texts
        for numbers in _batched(asked, BATCH):
            answer = await self._ask([texts[number] for number in numbers])
            for number, vector in zip(numbers, answer, strict=True):
                vectors[number] = vector
        return normalize(vectors)

    async def embed_query(self, text: str) -> Vectors:
        query: Vectors = (await self.embed([text]))[0]
        return query

    def trust(self, query: str) -> VectorTrust:
        # Models differ in which cosines are high; whoever runs a server for one has chosen a good one.
        return VectorTrust(weight=0.5, is_scaled=True)

    async def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        if self._kind == "tei":
            answer = await self._endpoint.post("/embed", {"inputs": list(texts), "normalize": True, "truncate": True})
        else:
            answer = _openai_vectors(
                await self._endpoint.post("/embeddings", {"model": self._model, "input": list(texts)})
            )
        self._check(answer, len(texts))
        vectors: list[list[float]] = answer
        return vectors

    def _check(self, answer: Any, count: int) -> None:
        where = f"The embedder at {self._endpoint.url}"
        if not isinstance(answer, list) or len(answer) != count:
            raise Unavailable(f"{where} did not answer with one vector for each of {count} texts.")
        for vector in answer:
            numbers = isinstance(vector, list) and all(isinstance(value, int | float) for value in vector)
            if not numbers or (self.dimensions and len(vector) != self.dimensions):
                length = len(vector) if isinstance(vector, list) else "no"
                raise Unavailable(f"{where} answered with {length} dimensions; {self.dimensions} are expected.")
            if not np.isfinite(vector).all():
                raise Unavailable(f"{where} answered with numbers that are none.")

    async def close(self) -> None:
        await self._endpoint.fetcher.close()


def _openai_vectors(answer: Any) -> Any:
    """The vectors in the order of the texts, whatever order they came in."""
    try:
        items = sorted(answer["data"], key=lambda item: int(item["index"]))
        return [item["embedding"] for item in items]
    except (KeyError, TypeError, ValueError) as error:
        raise Unavailable("The embedder's answer is not that of an OpenAI-compatible API.") from error


def _batched(numbers: Sequence[int], size: int) -> list[Sequence[int]]:
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]
