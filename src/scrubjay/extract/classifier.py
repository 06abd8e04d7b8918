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
_LIMIT = 4.0  # features are cut off this many deviations from their mean
_COPY_WORDS = 4  # longer texts that repeat within a page are taken once
_LEAST_WORDS = 6.0  # less expected content than this is none


@dataclass(frozen=True, slots=True)
class PageScores:
    """What the model thinks of a page: `scores` is each block's share of content, `kept` the blocks to take."""

    page_type: PageType
    type_chances: Floats
    scores: Floats
    kept: list[int]


@dataclass(frozen=True, slots=True)
class Network:
    """A feed-forward network whose last layer gives one log-odds (or one per class)."""

    weights: list[Floats]
    biases: list[Floats]

    def run(self, rows: Floats) -> Floats:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            rows = np.maximum(rows @ weight + bias, 0)
        return rows @ self.weights[-1] + self.biases[-1]


@dataclass(frozen=True, slots=True)
class Classifier:
    lexicon: Lexicon
    block_scale: tuple[Floats, Floats]  # mean and deviation of every block feature
    page_scale: tuple[Floats, Floats]
    type_network: Network
    block_networks: list[Network]

    def classify(self, tree: BlockTree, head: PageHead) -> PageScores:
        """The verdict on every block of a page that has at least one."""
        features = measure_page(tree, head, self.lexicon)
        page = _scaled(features.page[None, :], self.page_scale)
        chances = _softmax(self.type_network.run(page)[0])
        scores = self._score(_scaled(features.blocks, self.block_scale), page)
        kept = choose_blocks(scores, features, tree)
        return PageScores(TYPES[int(chances.argmax())], chances, scores, kept)

    def _score(self, rows: Floats, page: Floats) -> Floats:
        total = np.zeros(len(rows), np.float32)
        split = rows.shape[1]
        for network in self.block_networks:
            # The page's own features are the same for every block: their share of the first layer is added once.
            first = network.weights[0]
            inner = rows @ first[:split] + (page @ first[split:] + network.biases[0])
            rest = Network(network.weights[1:], network.biases[1:])
            total += 1 / (1 + np.exp(-rest.run(np.maximum(inner, 0))[:, 0]))
        return total / np.float32(len(self.block_networks))


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


def _without_copies(chosen: NDArray[np.int64], words: NDArray[np.int64], tree: BlockTree) -> list[int]:
    seen: set[str] = set()
    kept = []
    for number in chosen.tolist():
        block = tree.blocks[number]
        if words[number] >= _COPY_WORDS and tree.tags[block.node] != "pre":
            if block.text in seen:
                continue
            seen.add(block.text)
        kept.append(number)
    return kept


def _scaled(rows: Floats, scale: tuple[Floats, Floats]) -> Floats:
    mean, deviation = scale
    return np.clip((rows - mean) / deviation, -_LIMIT, _LIMIT)


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
        block_scale=(arrays["block_mean"], arrays["block_deviation"]),
        page_scale=(arrays["page_mean"], arrays["page_deviation"]),
        type_network=_read_network(arrays, "types"),
        block_networks=networks,
    )


def _read_network(arrays: dict[str, NDArray[np.generic]], name: str) -> Network:
    layers = sum(1 for key in arrays if key.startswith(f"{name}_weight"))
    weights = [arrays[f"{name}_weight{layer}"].astype(np.float32) for layer in range(layers)]
    biases = [arrays[f"{name}_bias{layer}"].astype(np.float32) for layer in range(layers)]
    return Network(weights, biases)


def _read_leanings(arrays: dict[str, NDArray[np.generic]], name: str) -> dict[str, float]:
    keys = arrays[name].tobytes().decode("utf-8").split("\n")
    return dict(zip(keys, arrays[f"{name}_leaning"].astype(np.float64).tolist(), strict=True))


def write_classifier(path: Path, classifier: Classifier) -> None:
    """Halves are precise enough for weights, and half the size."""
    arrays: dict[str, NDArray[np.generic]] = {"networks": np.array(len(classifier.block_networks))}
    for name in ("words", "phrases", "classes"):
        leanings = getattr(classifier.lexicon, name)
        arrays[name] = np.frombuffer("\n".join(leanings).encode(), np.uint8)
        arrays[f"{name}_leaning"] = np.array(list(leanings.values()), np.float16)
    arrays["block_mean"], arrays["block_deviation"] = classifier.block_scale
    arrays["page_mean"], arrays["page_deviation"] = classifier.page_scale
    named = [("types", classifier.type_network)]
    named += [(f"blocks{number}", network) for number, network in enumerate(classifier.block_networks)]
    for name, network in named:
        for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
            arrays[f"{name}_weight{layer}"] = weight.astype(np.float16)
            arrays[f"{name}_bias{layer}"] = bias.astype(np.float16)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, allow_pickle=False, **arrays)
