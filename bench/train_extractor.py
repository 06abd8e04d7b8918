"""Trains the HTML extractor's model on labelled pages: `python bench/train_extractor.py ../shared/data/wcxb-dev`.

Pages are split by registrable domain wherever one model judges what another learned from, so a score is always about
hosts never seen. Gradient-boosted trees label the pages out of fold; small networks, which numpy runs fast, learn from
the truth and from the trees together. `--folds DIR` also writes one model per fold for `bench/extract.py`.
"""

import argparse
import gzip
import itertools
import json
import re
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import lightgbm
import numpy as np
import tldextract

from scrubjay.extract.blocks import BlockTree, cut_blocks
from scrubjay.extract.classifier import MODEL_PATH, TYPES, Classifier, NeuralNetwork, write_classifier
from scrubjay.extract.decoding import decode_html
from scrubjay.extract.features import (
    Lexicon,
    PageFeatures,
    PageHead,
    measure_page,
    read_phrase,
)
from scrubjay.extract.html import read_head
from scrubjay.extract.metadata import read_metadata
from scrubjay.extract.tree import parse_html
from scrubjay.extract.vocabulary import read_class_words, read_words

FOLDS = 5
INNER_FOLDS = 3
SEED = 7
NETWORKS = 1
HIDDEN = (72, 24)
TREES = 140
TEACHER_SHARE = 0.5  # how much of a network's target is the trees' opinion
_WORD = re.compile(r"\w+")
_SHINGLE = 4
LOOSE_LABEL = 0.2  # of a short block whose words are in the truth, but elsewhere
_LEAST_DOMAINS = (8, 4, 5)  # a word, phrase or class name must have been seen on as many
_domains = tldextract.TLDExtract(suffix_list_urls=())


@dataclass(slots=True)
class TruthPage:
    """A labelled page as the data folder has it."""

    id: str
    url: str
    page_type: str
    domain: str
    html: bytes
    content: str


@dataclass(slots=True)
class TrainPage:
    """A page cut and labelled: `labels` is each block's share of content, `leanings` what its words and classes say."""

    page_type: str
    domain: str
    tree: BlockTree
    head: PageHead
    labels: np.ndarray
    truth_words: int
    leanings: list[dict[str, float]] = field(default_factory=list)


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def read_pages(folder: Path) -> Iterator[TruthPage]:
    with gzip.open(folder / "truth.jsonl.gz", "rt") as lines:
        for line in lines:
            truth = json.loads(line)
            url = truth["url"] or ""
            name = _domains(url or truth["host"] or "").top_domain_under_public_suffix
            with gzip.open(folder / "html" / f"{truth['id']}.html.gz") as file:
                html = file.read()
            domain = name or truth["host"] or f"page-{truth['id']}"
            yield TruthPage(truth["id"], url, truth["page_type"], domain, html, truth["main_content"] or "")


def fold_of(domain: str, folds: int = FOLDS) -> int:
    return zlib.crc32(domain.encode()) % folds


def prepare(page: TruthPage) -> TrainPage | None:
    """None for a page without any text."""
    parsed = parse_html(decode_html(page.html))
    if parsed is None:
        return None
    title, metadata = read_metadata(parsed, page.url)
    tree = cut_blocks(parsed)
    if not tree.blocks:
        return None
    labels = label_blocks([block.text for block in tree.blocks], page.content)
    tree.elements = []
    for block in tree.blocks:
        block.parts, block.spans, block.link = [], [], None
    head = read_head(title, metadata, page.url)
    train = TrainPage(page.page_type, page.domain, tree, head, labels, len(words_of(page.content)))
    train.leanings = _leanings(train)
    return train


def label_blocks(texts: Sequence[str], content: str) -> np.ndarray:
    """The share of each block's words that the truth has, in runs of four. A shorter block must stand in the truth as a
    line of its own or beside what it stands beside on the page: a lone word is somewhere in every long text."""
    truth = words_of(content)
    shingles = set(zip(*(truth[shift:] for shift in range(_SHINGLE)), strict=False))
    whole = f" {' '.join(truth)} "
    lines = {" ".join(words_of(line)) for line in content.split("\n")}
    blocks = [words_of(text) for text in texts]
    copies = Counter(" ".join(words) for words in blocks)
    labels = np.zeros(len(blocks), np.float32)
    for number, words in enumerate(blocks):
        joined = " ".join(words)
        if not words:
            continue
        if len(words) < _SHINGLE:
            before = blocks[number - 1][-_SHINGLE:] if number else []
            after = blocks[number + 1][:_SHINGLE] if number + 1 < len(blocks) else []
            labels[number] = _label_short(joined, before, after, whole, lines)
        else:
            covered = np.zeros(len(words), bool)
            for start in range(len(words) - _SHINGLE + 1):
                if tuple(words[start : start + _SHINGLE]) in shingles:
                    covered[start : start + _SHINGLE] = True
            labels[number] = covered.mean()
        if copies[joined] > 1 and len(words) <= 2 * _SHINGLE and labels[number] > 0.5:
            # Of a label that a page repeats, the truth may have only some.
            labels[number] = min(labels[number], whole.count(f" {joined} ") / copies[joined])
    return labels


def _label_short(joined: str, before: list[str], after: list[str], whole: str, lines: set[str]) -> float:
    if f" {joined} " not in whole:
        return 0.0
    if joined in lines:
        return 1.0
    beside = (f" {' '.join([*before, joined])} ", f" {' '.join([joined, *after])} ")
    return 1.0 if any(text in whole for text in beside if text.strip() != joined) else LOOSE_LABEL


def _leanings(page: TrainPage) -> list[dict[str, float]]:
    """Per word, short phrase and class name of a page: the share of content among what has it."""
    sums: list[dict[str, list[float]]] = [defaultdict(lambda: [0.0, 0.0]) for _ in range(3)]
    sizes = []
    for block, label in zip(page.tree.blocks, page.labels.tolist(), strict=True):
        words = read_words(block.text)
        sizes.append(len(words))
        phrase = read_phrase(block.text)
        for kind, keys in ((0, set(words)), (1, {phrase} if phrase else set())):
            for key in keys:
                sums[kind][key][0] += label
                sums[kind][key][1] += 1
    total = np.concatenate(([0], np.cumsum(sizes)))
    hits = np.concatenate(([0], np.cumsum(np.array(sizes) * page.labels)))
    tree = page.tree
    for attributes, first, last in zip(tree.attributes, tree.first_block, tree.last_block, strict=True):
        if attributes and total[last] > total[first]:
            for key in read_class_words(attributes):
                sums[2][key][0] += hits[last] - hits[first]
                sums[2][key][1] += total[last] - total[first]
    return [{key: hit / count for key, (hit, count) in kind.items() if count} for kind in sums]


class LexiconBuilder:
    """Counts every domain once; the lexicon for a page that was counted leaves its own domain out."""

    def __init__(self, pages: Sequence[TrainPage]) -> None:
        by_domain: dict[str, list[TrainPage]] = defaultdict(list)
        for page in pages:
            by_domain[page.domain].append(page)
        self.votes = {
            domain: [_mean_of(p.leanings[k] for p in group) for k in range(3)] for domain, group in by_domain.items()
        }
        self.sums: list[dict[str, list[float]]] = [defaultdict(lambda: [0.0, 0]) for _ in range(3)]
        for votes in self.votes.values():
            for kind in range(3):
                for key, share in votes[kind].items():
                    self.sums[kind][key][0] += share
                    self.sums[kind][key][1] += 1
        self.full = [
            {key: _log_odds(*value) for key, value in sums.items() if value[1] >= least}
            for sums, least in zip(self.sums, _LEAST_DOMAINS, strict=True)
        ]

    def lexicon(self, without: str | None = None) -> Lexicon:
        tables = [dict(table) for table in self.full]
        for kind, votes in enumerate(self.votes.get(without or "", ())):
            for key, share in votes.items():
                if key in tables[kind]:
                    hit, count = self.sums[kind][key]
                    if count - 1 >= _LEAST_DOMAINS[kind]:
                        tables[kind][key] = _log_odds(hit - share, count - 1)
                    else:
                        del tables[kind][key]
        return Lexicon(*tables)


def _mean_of(tables: Iterator[dict[str, float]]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for table in tables:
        for key, value in table.items():
            values[key].append(value)
    return {key: sum(value) / len(value) for key, value in values.items()}


def _log_odds(hits: float, count: float) -> float:
    return float(np.float16(np.log((hits + 0.8) / (count - hits + 1.2))))


def page_weights(page: TrainPage, features: PageFeatures) -> np.ndarray:
    """A word counts as much as it can move its page's F1."""
    return features.words / (page.truth_words + 0.25 * features.words.sum() + 20)


def stack(features: Sequence[PageFeatures]) -> np.ndarray:
    return np.concatenate([np.hstack([f.blocks.T, np.tile(f.page, (len(f.words), 1))]) for f in features])


def fit_trees(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> lightgbm.Booster:
    settings = {
        "objective": "cross_entropy", "num_leaves": 31, "learning_rate": 0.12, "min_data_in_leaf": 60,
        "feature_fraction": 0.25, "bagging_fraction": 0.5, "bagging_freq": 1, "lambda_l2": 5, "max_bin": 63,
        "min_sum_hessian_in_leaf": 0.01, "seed": SEED, "num_threads": 1, "deterministic": True, "verbose": -1,
    }  # fmt: skip
    return lightgbm.train(settings, lightgbm.Dataset(rows, labels, weight=weights), TREES)


def judge_out_of_fold(pages: Sequence[TrainPage], features: Sequence[PageFeatures], weights: np.ndarray) -> np.ndarray:
    """What trees that never saw a block's domain think of it."""
    rows = stack(features)
    labels = np.concatenate([page.labels for page in pages])
    folds = np.concatenate([np.full(len(p.labels), fold_of("inner " + p.domain, INNER_FOLDS)) for p in pages])
    opinions = np.zeros(len(rows), np.float32)
    for fold in range(INNER_FOLDS):
        known = folds != fold
        opinions[~known] = fit_trees(rows[known], labels[known], weights[known]).predict(rows[~known])
    return opinions


def fit_network(
    rows: np.ndarray, targets: np.ndarray, weights: np.ndarray, *, hidden: Sequence[int], epochs: int, seed: int
) -> NeuralNetwork:
    """Adam on weighted cross-entropy, with dropout and a rate that falls to nothing."""
    random = np.random.default_rng(seed)
    sizes = [rows.shape[1], *hidden, targets.shape[1]]
    shapes = list(itertools.pairwise(sizes))
    layers = [(random.standard_normal(shape) * np.sqrt(2 / shape[0])).astype(np.float32) for shape in shapes]
    layers[-1] *= 0.1
    biases = [np.zeros(shape[1], np.float32) for shape in shapes]
    optimizer = _Adam([*layers, *biases])
    batch = min(2048, len(rows) // 8)
    steps = epochs * (len(rows) // batch)
    for step in range(steps):
        if step % (len(rows) // batch) == 0:
            order = random.permutation(len(rows))
            position = 0
        chosen = order[position : position + batch]
        position += batch
        slopes = _slopes(rows[chosen], targets[chosen], weights[chosen], layers, biases, random)
        rate = 2e-3 * min(1, (step + 1) / 200) * (0.505 + 0.495 * np.cos(np.pi * step / steps))
        optimizer.step(slopes, rate)
    return NeuralNetwork(layers, biases)


def _slopes(
    rows: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    layers: list[np.ndarray],
    biases: list[np.ndarray],
    random: np.random.Generator,
    dropout: float = 0.1,
) -> list[np.ndarray]:
    values, gates = [rows], []
    scale = np.float32(1 / (1 - dropout))
    for layer, bias in zip(layers[:-1], biases[:-1], strict=True):
        inner = values[-1] @ layer + bias
        gate = ((inner > 0) & (random.random(inner.shape, np.float32) > dropout)) * scale
        gates.append(gate)
        values.append(inner * gate)
    guess = 1 / (1 + np.exp(-(values[-1] @ layers[-1] + biases[-1])))
    slope = ((guess - targets) * weights[:, None] / len(rows)).astype(np.float32)
    by_layer, by_bias = [], []
    for number in range(len(layers) - 1, -1, -1):
        by_layer.insert(0, values[number].T @ slope + np.float32(1e-5) * layers[number])
        by_bias.insert(0, slope.sum(axis=0))
        if number:
            slope = (slope @ layers[number].T) * gates[number - 1]
    return [*by_layer, *by_bias]


class _Adam:
    def __init__(self, parameters: list[np.ndarray]) -> None:
        self.parameters = parameters
        self.means = [np.zeros_like(parameter) for parameter in parameters]
        self.squares = [np.zeros_like(parameter) for parameter in parameters]
        self.steps = 0

    def step(self, slopes: list[np.ndarray], rate: float) -> None:
        self.steps += 1
        for parameter, slope, mean, square in zip(self.parameters, slopes, self.means, self.squares, strict=True):
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope * slope - square)
            unbiased = np.sqrt(square / (1 - 0.999**self.steps)) + 1e-8
            parameter -= np.float32(rate) * (mean / (1 - 0.9**self.steps)) / unbiased


@dataclass(slots=True)
class Scaling:
    """Features as deviations from their mean, cut off at four."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> "Scaling":
        mean, deviation = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64) + 1e-3
        return cls(mean.astype(np.float32), deviation.astype(np.float32))

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        return self.mean - 4 * self.deviation, self.mean + 4 * self.deviation

    def apply(self, rows: np.ndarray) -> np.ndarray:
        return np.clip((rows - self.mean) / self.deviation, -4, 4).astype(np.float32)

    def into(self, network: NeuralNetwork) -> NeuralNetwork:
        """The network that takes features unscaled."""
        first = network.weights[0] / self.deviation[:, None]
        bias = network.biases[0] - (self.mean / self.deviation) @ network.weights[0]
        return NeuralNetwork([first, *network.weights[1:]], [bias, *network.biases[1:]])


def train(pages: Sequence[TrainPage], say: Callable[[str], None] = print) -> Classifier:
    started = time.monotonic()
    builder = LexiconBuilder(pages)
    dict.fromkeys(builder.votes)
    features = [measure_page(page.tree, page.head, builder.lexicon(page.domain)) for page in pages]
    weights = np.concatenate([page_weights(p, f) for p, f in zip(pages, features, strict=True)])
    weights = np.minimum(weights * len(weights) / weights.sum(), 50).astype(np.float32)
    opinions = judge_out_of_fold(pages, features, weights)
    say(f"  trees: {time.monotonic() - started:.0f} s, {len(builder.votes)} domains, {len(weights)} blocks")
    labels = np.concatenate([page.labels for page in pages])
    targets = ((1 - TEACHER_SHARE) * labels + TEACHER_SHARE * opinions)[:, None].astype(np.float32)
    blocks = Scaling.of(np.concatenate([f.blocks.T for f in features]))
    page = Scaling.of(np.stack([f.page for f in features]))
    both = Scaling(np.concatenate([blocks.mean, page.mean]), np.concatenate([blocks.deviation, page.deviation]))
    rows = both.apply(stack(features))
    networks = [
        both.into(fit_network(rows, targets, weights, hidden=HIDDEN, epochs=10, seed=SEED + number))
        for number in range(NETWORKS)
    ]
    types = np.array([[p.page_type == kind for kind in TYPES] for p in pages], np.float32)
    flat = page.apply(np.stack([f.page for f in features]))
    type_network = fit_network(flat, types, np.ones(len(flat), np.float32), hidden=(48,), epochs=60, seed=SEED)
    say(f"  networks: {time.monotonic() - started:.0f} s")
    return Classifier(builder.lexicon(), blocks.limits, page.limits, page.into(type_network), networks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=MODEL_PATH, help="where the model trained on all pages goes")
    parser.add_argument("--folds", type=Path, help="a folder for one model per fold, each without its fold's domains")
    parser.add_argument("--only-folds", action="store_true", help="leave the model on all pages out")
    arguments = parser.parse_args()
    pages = [page for truth in read_pages(arguments.data) if (page := prepare(truth)) is not None]
    print(f"{len(pages)} pages of {len({page.domain for page in pages})} domains")
    for fold in range(FOLDS) if arguments.folds else ():
        print(f"fold {fold}")
        write_classifier(arguments.folds / f"fold{fold}.npz", train([p for p in pages if fold_of(p.domain) != fold]))
    if not arguments.only_folds:
        print("all pages")
        write_classifier(arguments.out, train(pages))


if __name__ == "__main__":
    main()
