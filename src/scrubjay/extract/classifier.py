"""The shipped model: guesses a page's type, scores its blocks and chooses those that are content."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scrubjay.extract.blocks import BlockTree
from scrubjay.extract.features import Floats, Lexicon, PageFeatures, PageHead, measure_page
from scrubjay.model.extraction import PageType

MODEL_PATH = Path(__file__).parent / "models" / "html.npz"
TYPES = tuple(PageType)
_COPY_WORDS = 4  # longer texts that repeat within a page are taken once
_LARGEST_PRODUCT = 250_000  # multiplications that OpenBLAS does not share among threads
_LEAST_WORDS = 6.0  # less expected content than this is none


@dataclass(frozen=True, slots=True)
class PageScores:
    """What the model thinks of a page: `scores` is each block's share of content, `kept` the blocks to take."""

    page_type: PageType
    type_chances: Floats
    scores: Floats
    kept: list[int]


@dataclass(frozen=True, slots=True)
class NeuralNetwork:
    """A feed-forward network whose last layer gives one log-odds (or one per class)."""

    weights: list[Floats]
    biases: list[Floats]

    def run(self, rows: Floats) -> Floats:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            rows = np.maximum(_multiply(rows, weight) + bias, 0)
        return _multiply(rows, self.weights[-1]) + self.biases[-1]


@dataclass(frozen=True, slots=True, eq=False)
class Classifier:
    """The networks take features as they are, cut off at their limits: scaling is in the weights."""

    lexicon: Lexicon
    block_limits: tuple[Floats, Floats]  # the least and the most of every block feature
    page_limits: tuple[Floats, Floats]
    type_network: NeuralNetwork
    block_networks: list[NeuralNetwork]

    def classify(self, tree: BlockTree, head: PageHead) -> PageScores:
        """The verdict on every block of a page that has at least one."""
        features = measure_page(tree, head, self.lexicon)
        page = _limit(features.page[:, None], self.page_limits).T
        chances = _softmax(self.type_network.run(page)[0])
        rows = _limit(features.blocks, self.block_limits)
        scores = self._score(rows.T, page)
        kept = choose_blocks(scores, features, tree)
        return PageScores(TYPES[int(chances.argmax())], chances, scores, kept)

    def _score(self, rows: Floats, page: Floats) -> Floats:
        """The mean of what the networks think. Their first layers are one product; the page's own features are the
        same for every block, so that their share of it is added once."""
        first, page_share, bias = self.joint
        inner = _multiply(rows, first) + (_multiply(page, page_share) + bias)
        np.maximum(inner, 0, out=inner)
        total = np.zeros(len(rows), np.float32)
        start = 0
        for network in self.block_networks:
            width = len(network.biases[0])
            rest = NeuralNetwork(network.weights[1:], network.biases[1:])
            total += 1 / (1 + np.exp(-rest.run(np.ascontiguousarray(inner[:, start : start + width]))[:, 0]))
            start += width
        return total / np.float32(len(self.block_networks))

    @property
    def joint(self) -> tuple[Floats, Floats, Floats]:
        """The networks' first layers side by side: for a block's features, for the page's, and the biases."""
        return _join_first_layers(self)


@lru_cache(maxsize=16)
def _join_first_layers(classifier: Classifier) -> tuple[Floats, Floats, Floats]:
    split = len(classifier.block_limits[0])
    weights = np.concatenate([network.weights[0] for network in classifier.block_networks], axis=1)
    bias = np.concatenate([network.biases[0] for network in classifier.block_networks])
    return np.ascontiguousarray(weights[:split]), np.ascontiguousarray(weights[split:]), bias


def choose_blocks(scores: Floats, features: PageFeatures, tree: BlockTree) -> list[int]:
    """The blocks whose choice gives the best expected F1: all above the page's own threshold, copies once."""
    words = features.words
    expected = scores * words
    total = float(expected.sum())
    if total < _LEAST_WORDS:
        return []
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(expected[order])
    taken = np.cumsum(words[order])
    best = int(np.argmax(2 * hits / (taken + total)))
    return _without_copies(np.sort(order[: best + 1]), words, tree)


def _without_copies(chosen: NDArray[np.int64], words: NDArray[np.float64], tree: BlockTree) -> list[int]:
    seen: set[str] = set()
    kept = []
    for number, size in zip(chosen.tolist(), words[chosen].tolist(), strict=True):
        block = tree.blocks[number]
        if size >= _COPY_WORDS and tree.tags[block.node] != "pre":
            if block.text in seen:
                continue
            seen.add(block.text)
        kept.append(number)
    return kept


def _limit(rows: Floats, limits: tuple[Floats, Floats]) -> Floats:
    """One row per feature, in place; `np.clip` takes three times as long."""
    np.maximum(rows, limits[0][:, None], out=rows)
    return np.minimum(rows, limits[1][:, None], out=rows)


def _multiply(rows: Floats, weight: Floats) -> Floats:
    """A product in pieces so small that BLAS keeps to this thread: waking others costs more than it gains here."""
    if len(rows) == 1:
        return np.add.reduce(rows.T * weight, axis=0, keepdims=True)
    if weight.shape[1] == 1:
        return np.add.reduce(rows * weight.T, axis=1, keepdims=True)
    count = len(rows)
    pieces = -(-count * weight.size // _LARGEST_PRODUCT)
    product = np.empty((count, weight.shape[1]), np.float32)
    for piece in range(pieces):
        # Pieces of nearly the same height: OpenBLAS would share even a small product with a single row.
        part = slice(count * piece // pieces, count * (piece + 1) // pieces)
        np.matmul(rows[part], weight, out=product[part])
    return product


def _softmax(values: Floats) -> Floats:
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum(), np.float32)


@lru_cache(maxsize=1)
def load_classifier() -> Classifier:
    """The model that the package ships."""
    return read_classifier(MODEL_PATH)


def read_classifier(path: Path) -> Classifier:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    networks = [_read_network(arrays, f"blocks{number}") for number in range(int(arrays["networks"]))]
    return Classifier(
        lexicon=Lexicon(*(_read_leanings(arrays, name) for name in ("words", "phrases", "classes"))),
        block_limits=(arrays["block_low"], arrays["block_high"]),
        page_limits=(arrays["page_low"], arrays["page_high"]),
        type_network=_read_network(arrays, "types"),
        block_networks=networks,
    )


def _read_network(arrays: dict[str, NDArray[np.generic]], name: str) -> NeuralNetwork:
    layers = sum(1 for key in arrays if key.startswith(f"{name}_weight"))
    weights = [arrays[f"{name}_weight{layer}"].astype(np.float32) for layer in range(layers)]
    biases = [arrays[f"{name}_bias{layer}"].astype(np.float32) for layer in range(layers)]
    return NeuralNetwork(weights, biases)


def _read_leanings(arrays: dict[str, NDArray[np.generic]], name: str) -> dict[str, float]:
    keys = arrays[name].tobytes().decode("utf-8").split("\n")
    return dict(zip(keys, arrays[f"{name}_leaning"].astype(np.float64).tolist(), strict=True))


def write_classifier(path: Path, classifier: Classifier) -> None:
    """Leanings and later layers are precise enough as halves; the first layer carries the scale of the features."""
    arrays: dict[str, NDArray[np.generic]] = {"networks": np.array(len(classifier.block_networks))}
    for name in ("words", "phrases", "classes"):
        leanings = getattr(classifier.lexicon, name)
        arrays[name] = np.frombuffer("\n".join(leanings).encode(), np.uint8)
        arrays[f"{name}_leaning"] = np.array(list(leanings.values()), np.float16)
    arrays["block_low"], arrays["block_high"] = classifier.block_limits
    arrays["page_low"], arrays["page_high"] = classifier.page_limits
    named = [("types", classifier.type_network)]
    named += [(f"blocks{number}", network) for number, network in enumerate(classifier.block_networks)]
    for name, network in named:
        for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
            arrays[f"{name}_weight{layer}"] = weight.astype(np.float16 if layer else np.float32)
            arrays[f"{name}_bias{layer}"] = bias.astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, allow_pickle=False, **arrays)
