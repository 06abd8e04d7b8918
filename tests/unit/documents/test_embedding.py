"""The embedder inside the package: what its authors' own code computes, without its side effects."""

import io
import logging
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from scrubjay.index.embedding import WordLlama

TEXTS = ["a red car", "an automobile of crimson colour", "banana soup", "", "🐦 日本語", "word " * 3000]


@pytest.fixture(scope="module")
def model() -> WordLlama:
    return WordLlama()


async def test_vectors_are_those_of_the_models_own_package(model: WordLlama) -> None:
    script = (
        "import sys, wordllama, pathlib, numpy; folder = pathlib.Path(wordllama.__file__).parent;"
        "model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True);"
        "numpy.save(sys.stdout.buffer, model.embed(sys.argv[1:], norm=True))"
    )
    texts = TEXTS[:3]
    made = subprocess.run([sys.executable, "-c", script, *texts], capture_output=True, check=True).stdout
    expected = np.load(io.BytesIO(made))
    assert np.allclose(await model.embed(texts), expected, atol=1e-5)


async def test_vectors_have_unit_length_and_texts_without_tokens_are_zero(model: WordLlama) -> None:
    lengths = np.linalg.norm(await model.embed(TEXTS), axis=1)
    assert np.allclose(lengths, [1, 1, 1, 0, 1, 1], atol=1e-5)


async def test_like_texts_are_nearer_than_unlike_ones(model: WordLlama) -> None:
    car, automobile, soup = await model.embed(TEXTS[:3])
    assert car @ automobile > car @ soup + 0.2


async def test_a_query_is_embedded_like_a_text(model: WordLlama) -> None:
    assert np.allclose(await model.embed_query(TEXTS[0]), (await model.embed([TEXTS[0]]))[0])


def test_tokens_begin_where_their_words_do(model: WordLlama) -> None:
    [starts] = model.token_starts(["red car"])
    assert starts[0] == 0
    assert all(earlier <= later for earlier, later in pairwise(starts))


@pytest.mark.parametrize("text", ["\ud800 lone", "nul \0 inside", "\U0010ffff"])
async def test_hostile_text_is_embedded(model: WordLlama, text: str) -> None:
    assert np.isfinite(await model.embed([text])).all()


def test_loading_the_model_changes_nothing_about_logging() -> None:
    before = list(logging.getLogger().handlers)
    WordLlama()
    assert logging.getLogger().handlers == before
