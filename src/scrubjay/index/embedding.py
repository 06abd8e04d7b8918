"""Texts become vectors of unit length: the embedder inside the package, and what others share with it.

`wordllama` (the default) and `minilm` run here, in a thread; `embedding_http.py` asks a server. A vector depends on
nothing but model and text, so it is kept under both (`Embedder.model`, SHA-256 of the text) and never made twice.
"""

import asyncio
import importlib.util
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.errors import ConfigurationError
from scrubjay.index.embedder import Vectors
from scrubjay.model.search import VectorTrust

if TYPE_CHECKING:
    from tokenizers import Tokenizer as FastTokenizer

DEFAULT = "wordllama"


def normalize(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit


def load_tokenizer(path: Path) -> "FastTokenizer":
    # Imported here because it takes a moment, and most commands embed nothing.
    from tokenizers import Tokenizer as FastTokenizer

    tokenizer = FastTokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def token_starts(tokenizer: "FastTokenizer", texts: Sequence[str]) -> list[list[int]]:
    encodings = tokenizer.encode_batch([clean(text) for text in texts], add_special_tokens=False)
    return [[start for start, _ in encoding.offsets] for encoding in encodings]


def clean(text: str) -> str:
    """The text with what no tokenizer can read replaced, character by character."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def package_folder(package: str, extra: str | None = None) -> Path:
    """Where an installed package keeps its files. It is not imported: its data are all that is needed."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        install = f"pip install 'scrubjay[{extra}]'" if extra else f"pip install {package}"
        raise ConfigurationError(f"This embedder needs a package: {install}")
    return Path(spec.submodule_search_locations[0])


class WordLlama:
    """Averages of token vectors that were distilled from large language models: small, fast, and offline."""

    name = DEFAULT
    model = "wordllama-l2-supercat-256"
    dimensions = 256
    max_tokens = 4000
    _SLICE = 256  # texts at a time

    def __init__(self) -> None:
        self._folder = package_folder("wordllama")
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")
        self._loading = Lock()
        self._loaded: tuple[FastTokenizer, Vectors] | None = None

    def _load(self) -> "tuple[FastTokenizer, Vectors]":
        """Tokenizer and weights, read when they are first needed: most commands embed nothing."""
        with self._loading:
            if self._loaded is None:
                from safetensors.numpy import load_file

                tokenizer = load_tokenizer(self._folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
                weights = load_file(self._folder / "weights" / "l2_supercat_256.safetensors")
                self._loaded = tokenizer, np.ascontiguousarray(weights["embedding.weight"], dtype=np.float32)
            return self._loaded

    def token_starts(self, texts: Sequence[str]) -> list[list[int]]:
        return token_starts(self._load()[0], texts)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._embed, texts)

    async def embed_query(self, text: str) -> Vectors:
        # A query is a few words: that is done sooner than handed to a thread, once the weights are there.
        query: Vectors = (await self.embed([text]) if self._loaded is None else self._embed([text]))[0]
        return query

    def _embed(self, texts: Sequence[str]) -> Vectors:
        tokenizer, weights = self._load()
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for start in range(0, len(texts), self._SLICE):
            batch = [clean(text) for text in texts[start : start + self._SLICE]]
            encodings = tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            for row, encoding in enumerate(encodings, start):
                if encoding.ids:
                    ids = np.minimum(encoding.ids, len(weights) - 1)
                    vectors[row] = weights[ids].mean(axis=0)
        return normalize(vectors)

    def trust(self, query: str) -> VectorTrust:
        return VectorTrust(weight=0.45, floor=0.2)

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
