"""A small server that speaks TEI's, OpenAI's and Cohere's protocols for embeddings and reranking, and can misbehave."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

DIMENSIONS = 32


def vector_of(text: str) -> list[float]:
    """Words hashed into buckets: like texts have like vectors. Not of unit length, as some servers' are not."""
    vector = [0.0] * DIMENSIONS
    for word in text.lower().split():
        vector[hashlib.sha256(word.encode()).digest()[0] % DIMENSIONS] += 2.0
    return vector if any(vector) else [1.0] * DIMENSIONS


class ModelServer:
    """`failures` answers are 503 before the server recovers; `dimensions` may be wrong; `garbage` is no JSON."""

    def __init__(self) -> None:
        self.url = ""
        self.failures = 0
        self.dimensions = DIMENSIONS
        self.garbage = False
        self.keys: list[str | None] = []
        self.embedded: list[str] = []
        self.batches: list[int] = []
        self.runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_post("/embed", self._tei_embed)
        app.router.add_post("/rerank", self._rerank)
        app.router.add_post("/v1/embeddings", self._openai_embed)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()

    def _refusal(self, request: web.Request) -> web.Response | None:
        self.keys.append(request.headers.get("Authorization"))
        if self.failures:
            self.failures -= 1
            return web.Response(status=503, text="overloaded")
        if self.garbage:
            return web.Response(text="<html>not json</html>")
        return None

    def _vectors(self, texts: list[str]) -> list[list[float]]:
        self.embedded += texts
        self.batches.append(len(texts))
        return [vector_of(text)[: self.dimensions] for text in texts]

    async def _tei_embed(self, request: web.Request) -> web.Response:
        if refusal := self._refusal(request):
            return refusal
        texts = (await request.json())["inputs"]
        if any(not text for text in texts):
            return web.json_response({"error": "`inputs` cannot be empty"}, status=422)
        return web.json_response(self._vectors(texts))

    async def _openai_embed(self, request: web.Request) -> web.Response:
        if refusal := self._refusal(request):
            return refusal
        body = await request.json()
        data = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(self._vectors(body["input"]))
        ]
        data.reverse()  # the order is in the indexes, not in the list
        return web.json_response({"object": "list", "model": body["model"], "data": data})

    async def _rerank(self, request: web.Request) -> web.Response:
        """Scores by shared words: TEI's shape for `texts`, Cohere's for `documents`."""
        if refusal := self._refusal(request):
            return refusal
        body: dict[str, Any] = await request.json()
        asked = set(body["query"].lower().split())
        texts = body.get("texts") or body["documents"]
        scores = [len(asked & set(text.lower().split())) / max(1, len(asked)) for text in texts]
        order = sorted(range(len(texts)), key=lambda index: -scores[index])
        if "texts" in body:
            return web.json_response([{"index": index, "score": scores[index]} for index in order])
        results = [{"index": index, "relevance_score": scores[index]} for index in order]
        return web.json_response({"results": results})


@asynccontextmanager
async def running_model_server() -> AsyncIterator[ModelServer]:
    server = ModelServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
