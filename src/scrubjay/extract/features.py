"""Describes every block of a page as a row of numbers: what it says, where it stands, and what stands around it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scrubjay.extract.blocks import BlockTree
from scrubjay.extract.hints import (
    ANCESTOR_TAGS,
    BLOCK_TAGS,
    CLASS_HINTS,
    LD_TYPES,
    STOPWORDS,
    URL_HINTS,
    WORD_HINT_KINDS,
    WORD_HINTS,
)

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_BLANKED = bytes(32 if chr(code) in ".,:;!?()[]/|&-\"'" else code for code in range(256))
_BREAK_WORD = "\x00"
_CLASS_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_DIGITS = re.compile(r"\d+")
_LEVELS = (0, 1, 2, 3, 5)
_PHRASE_WORDS = 6
_LOOKED_AT = 120  # characters of a block; their number fits a byte
_SENTENCE_ENDS = frozenset(".!?…。！？")
_PHRASE_CHARACTERS = 48
_BREAK = 1  # the number of the line break among the tokens
_MAX_ATTRIBUTES = 50_000
_TAG_KINDS = max(BLOCK_TAGS.values()) + 1
_ANCESTOR_KINDS = max(ANCESTOR_TAGS.values()).bit_length()


CLASS_HINTS_BY_WORD: dict[str, int] = {}
for _position, _words in enumerate(CLASS_HINTS):
    for _word in _words:
        CLASS_HINTS_BY_WORD[_word] = CLASS_HINTS_BY_WORD.get(_word, 0) | 1 << _position


@dataclass(frozen=True, slots=True)
class PageHead:
    """What a page says about itself outside of its body."""

    url: str = ""
    title: str = ""
    description: str = ""
    kind: str = ""  # og:type
    ld_types: frozenset[str] = frozenset()


class Lexicon:
    """Learned leanings (log-odds of standing in content) of words, whole short texts and class names."""

    def __init__(
        self,
        words: Mapping[str, float] | None = None,
        phrases: Mapping[str, float] | None = None,
        classes: Mapping[str, float] | None = None,
    ) -> None:
        self.words = words or {}
        self.phrases = phrases or {}
        self.classes = classes or {}
        known = dict.fromkeys([*STOPWORDS, *WORD_HINTS, *self.words])
        self.ids = {_BREAK_WORD: _BREAK, **{word: number for number, word in enumerate(known, 2)}}
        self.leaning = np.array([0.0, 0.0, *(self.words.get(word, 0.0) for word in known)])
        self.stopword = np.array([False, False, *(word in STOPWORDS for word in known)])
        self.hints = np.array([0, 0, *(WORD_HINTS.get(word, 0) for word in known)], np.int64)
        self._class_words = {
            word: (self.classes.get(word, 0.0), int(word in self.classes), CLASS_HINTS_BY_WORD.get(word, 0))
            for word in [*self.classes, *CLASS_HINTS_BY_WORD]
        }
        self._names: dict[str, tuple[float, int, int]] = {}
        self._read: dict[str, tuple[float, int]] = {"": (0.0, 0)}

    def read_attributes(self, attributes: Iterable[str]) -> tuple[list[float], list[int]]:
        """Per element: the leaning of its class names, and which kinds of hints they hold."""
        read = self._read
        found = [read.get(attribute) or self._learn(attribute) for attribute in attributes]
        return [lean for lean, _ in found], [bits for _, bits in found]

    def _learn(self, attribute: str) -> tuple[float, int]:
        total, count, hints = 0.0, 1, 0
        known = self._names
        for name in attribute.split():
            lean, size, bits = known.get(name) or self._learn_name(name)
            total += lean
            count += size
            hints |= bits
        if len(self._read) > _MAX_ATTRIBUTES:
            self._read = {"": (0.0, 0)}
        read = self._read[attribute] = (total / count, hints)
        return read

    def _learn_name(self, name: str) -> tuple[float, int, int]:
        """Of one class name: the sum of its words' leanings, how many of them have one, and their hints."""
        total, count, hints = 0.0, 0, 0
        for word in read_class_words(name):
            known = self._class_words.get(word)
            if known is not None:
                total += known[0]
                count += known[1]
                hints |= known[2]
        if len(self._names) > _MAX_ATTRIBUTES:
            self._names.clear()
        read = self._names[name] = (total, count, hints)
        return read


@dataclass(slots=True)
class PageFeatures:
    """One row per feature and one column per block, the page's own vector, and the words of each block."""

    blocks: Floats
    page: Floats
    words: NDArray[np.float64]  # per block


def read_words(text: str) -> list[str]:
    """The words of a text in lower case; a line break becomes a word of its own."""
    text = text.lower().replace(_BREAK_WORD, " ").replace("\n", f" {_BREAK_WORD} ")
    text = text.replace("’", " ").replace("“", " ").replace("”", " ")
    return text.encode("utf-8", "replace").translate(_BLANKED).decode().split()


def read_phrase(text: str) -> str | None:
    """A short text in the form in which the lexicon knows it."""
    if len(text) > _PHRASE_CHARACTERS or text.count(" ") >= _PHRASE_WORDS:
        return None
    text = text.lower()
    return text if text.isalpha() else _DIGITS.sub("0", text)


def read_class_words(attributes: str) -> set[str]:
    return {word.lower() for word in set(_CLASS_WORD.findall(attributes)) if len(word) > 1}


def _character_classes() -> NDArray[np.uint8]:
    table = np.full(65536, 1, np.uint8)  # 1 letter
    table[:128] = 64
    for low, high in ((65, 91), (97, 123)):
        table[low:high] = 1
    table[65:91] |= 32
    table[48:58] = 2
    table[[9, 10, 13, 32, 160]] = 4
    table[[ord(c) for c in _SENTENCE_ENDS]] = 8
    table[[ord(c) for c in ",;:、，"]] = 16
    table[[ord(c) for c in "$€£¥₹"]] = 128
    table[[ord(c) for c in "|·•→»«›‹–—“”‘’©®™×"]] = 64
    return table


_KINDS = (2, 8, 16, 32, 64, 128)  # digits, ends of sentences, commas, capitals, symbols, money
_CAPITAL = 3


def _pack_classes(classes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Every kind in a byte of its own, so that one sum counts all of them: no block has more than 255 letters here."""
    packed = np.zeros(len(classes), np.uint64)
    for position, bit in enumerate(_KINDS):
        packed |= ((classes & bit) != 0).astype(np.uint64) << np.uint64(8 * position)
    return packed


_CHARACTERS = _pack_classes(_character_classes())
_KIND_SHIFTS = (8 * np.arange(len(_KINDS), dtype=np.uint64))[:, None]


def measure_page(tree: BlockTree, head: PageHead, lexicon: Lexicon) -> PageFeatures:
    """All features of a page that has at least one block."""
    return _Measure(tree, head, lexicon).run()


class _Measure:
    """The columns are gathered group by group; their order is fixed by `run`."""

    def __init__(self, tree: BlockTree, head: PageHead, lexicon: Lexicon) -> None:
        self.tree = tree
        self.head = head
        self.lexicon = lexicon
        self.count = len(tree.blocks)
        self.node = np.array([block.node for block in tree.blocks], np.int64)
        self.parents = np.array(tree.parents, np.int64)
        self.columns: list[NDArray[Any]] = []  # tables of one row per feature

    def run(self) -> PageFeatures:
        self._characters()
        self._tokens()
        self._own_columns()
        self._node_columns()
        self._container_columns()
        self._group_columns()
        self._heading_columns()
        self._neighbour_columns()
        rows = np.concatenate(self.columns, dtype=np.float32, casting="unsafe")
        page = self._page_vector()
        return PageFeatures(rows, page, self.words)

    def _characters(self) -> None:
        """Of long texts, only the beginning is looked at letter by letter and word by word: it tells enough."""
        self.texts = texts = [block.text for block in self.tree.blocks]
        self.chars = np.array(list(map(len, texts)), np.float64)
        self.words = np.array([text.count(" ") for text in texts], np.float64) + 1
        self.link_chars = np.array([block.link_chars for block in self.tree.blocks], np.float64)
        self.link_chars = np.minimum(self.link_chars, self.chars)
        self.link_share = self.link_chars / self.chars
        self.joined = "\n".join([text[:_LOOKED_AT] for text in texts]) + "\n"
        codes = np.frombuffer(self.joined.encode("utf-32-le", "replace"), np.uint32)
        kinds = _CHARACTERS[np.minimum(codes, 65535)]
        self.looked_at = np.minimum(self.chars, _LOOKED_AT)
        bounds = np.concatenate(([0], np.cumsum(self.looked_at[:-1] + 1))).astype(np.int64)
        counted = np.add.reduceat(kinds, bounds)
        self.kinds = (counted >> _KIND_SHIFTS & np.uint64(255)).astype(np.float64)
        self.ends_sentence = np.array([text[-1] in _SENTENCE_ENDS for text in texts])
        self.starts_upper = kinds[bounds] >> np.uint64(8 * _CAPITAL) & np.uint64(1) != 0

    def _tokens(self) -> None:
        tokens = read_words(self.joined)
        lexicon = self.lexicon
        ids = np.fromiter(map(lexicon.ids.get, tokens, repeat(0)), np.int32, len(tokens))
        ends = np.flatnonzero(ids == _BREAK)
        starts = np.concatenate(([0], ends[:-1] + 1))
        self.tokens = np.maximum(ends - starts, 1).astype(np.float64)
        leaning = lexicon.leaning[ids]
        title = dict.fromkeys(read_words(self.head.title), 1)
        named = dict.fromkeys(read_words(self.head.description), 2)
        named.update({word: 3 if word in named else 1 for word in title})
        about = self._find_named(tokens, ids, named)
        table = np.stack([lexicon.stopword[ids], about & 1, about >> 1, leaning])
        self.sums = np.add.reduceat(table, starts, axis=1)
        self.low = np.minimum.reduceat(leaning, starts)
        self.high = np.maximum.reduceat(leaning, starts)
        self.word_bits = _unpack(np.bitwise_or.reduceat(lexicon.hints[ids], starts), len(WORD_HINT_KINDS))
        self.title_size = len(title)
        self.phrase = np.zeros(self.count)
        short = [number for number, text in enumerate(self.texts) if len(text) <= _PHRASE_CHARACTERS]
        if short:
            phrases = _DIGITS.sub("0", "\n".join([self.texts[number] for number in short]).lower()).split("\n")
            self.phrase[short] = list(map(lexicon.phrases.get, phrases, repeat(0.0)))

    def _find_named(self, tokens: list[str], ids: NDArray[np.int32], named: dict[str, int]) -> NDArray[np.int8]:
        """What the page's head says of each token. Most words are known by number, which is quicker to look up."""
        number_of = self.lexicon.ids
        flags = np.zeros(len(self.lexicon.leaning), np.int8)
        strange = {}
        for word, bits in named.items():
            number = number_of.get(word)
            if number is None:
                strange[word] = bits
            else:
                flags[number] = bits
        about = flags[ids]
        if strange:
            unknown = np.flatnonzero(ids == 0).tolist()
            for position in [position for position in unknown if tokens[position] in strange]:
                about[position] = strange[tokens[position]]
        return about

    def _own_columns(self) -> None:
        digits, stops, commas, uppers, symbols, money = self.kinds
        stopwords, titled, summed, leaning = self.sums
        words = self.tokens
        own = [
            np.log1p(self.words),
            np.log1p(self.chars),
            self.looked_at / words,
            self.link_share,
            digits / self.looked_at,
            uppers / self.looked_at,
            symbols / self.looked_at,
            money,
            stops / words,
            commas / words,
            self.ends_sentence,
            self.starts_upper,
            stopwords / words,
            titled / words,
            titled / max(self.title_size, 1),
            summed / words,
            leaning / words,
            np.clip(leaning, -20, 20),
            self.low,
            self.high,
            self.phrase,
        ]
        self.columns += [np.stack(own), self.word_bits]

    def _node_columns(self) -> None:
        tree, node = self.tree, self.node
        lean, hints = self.lexicon.read_attributes(tree.attributes)
        down = _Descent(tree, lean, hints)
        up = self.parents[node]
        above = self.parents[up]
        self.up = up
        self.paths = np.array(down.paths, np.int64)
        leans = np.array(lean)
        place, children = np.array(down.places), np.array(down.children)
        codes = np.array([BLOCK_TAGS.get(tag, 0) for tag in tree.tags], np.int64)
        self.tag_codes = codes[node]
        own_hints = np.array(hints, np.int64)
        self.near = _unpack(own_hints[node] | own_hints[up], len(CLASS_HINTS))
        lead, _ = self.lexicon.read_attributes([block.lead for block in tree.blocks])
        numbers = [
            np.array(down.depths)[node],
            place[node],
            place[up],
            children[up],
            children[above],
            np.array(down.totals)[node],
            np.array(down.lows)[node],
            np.array(down.highs)[node],
            leans[node],
            leans[up],
            leans[above],
            leans[self.parents[above]],
            np.array(lead),
        ]
        kinds = np.arange(_TAG_KINDS)[:, None]
        self.columns += [
            np.stack(numbers),
            self.tag_codes == kinds,
            codes[up] == kinds,
            _unpack(np.array(down.tag_bits, np.int64)[node], _ANCESTOR_KINDS),
            self.near,
            _unpack(np.array(down.hints, np.int64)[node], len(CLASS_HINTS)),
        ]

    def _container_columns(self) -> None:
        first = np.array(self.tree.first_block, np.int64)
        last = np.array(self.tree.last_block, np.int64)
        prose = ((self.words >= 12) & (self.link_share < 0.5)) * self.words
        ones = np.ones(self.count)
        table = np.stack(
            [
                self.words,
                self.chars,
                self.link_chars,
                self.kinds[1],
                self.sums[0],
                prose,
                ones,
                self.sums[3],
                self.tokens,
            ]
        )
        sums = np.zeros((len(table), self.count + 1))
        np.cumsum(table, axis=1, out=sums[:, 1:])
        self.totals = totals = sums[:, -1]
        ancestor, level = self.node, 0
        for wanted in _LEVELS:
            while level < wanted:
                ancestor = self.parents[ancestor]
                level += 1
            start, end = first[ancestor], last[ancestor]
            self.columns.append(_container_stats(sums[:, end] - sums[:, start], totals))
        order = np.arange(self.count)
        places = [
            order / self.count,
            np.log1p(order),
            np.log1p(order[::-1]),
            sums[0, :-1] / max(totals[0], 1),
            sums[5, :-1] / max(totals[5], 1),
        ]
        self.columns.append(np.stack(places))

    def _group_columns(self) -> None:
        _, self.group = np.unique(self.paths[self.node], return_inverse=True)
        _, above = np.unique(self.paths[self.up], return_inverse=True)
        columns = []
        for group in (self.group, above):
            size = np.bincount(group).astype(np.float64)
            words = np.bincount(group, self.words)
            links = np.bincount(group, self.link_share)
            columns += [np.log1p(size), words / size, links / size, words / max(self.totals[0], 1)]
        texts: dict[str, int] = {}
        ids = np.array([texts.setdefault(text, len(texts)) for text in self.texts])
        first_seen = np.concatenate(([1], np.diff(np.maximum.accumulate(ids)) > 0))
        spread = [column[self.group if number < 4 else above] for number, column in enumerate(columns)]
        self.columns.append(np.stack([*spread, np.log(np.bincount(ids)[ids]), first_seen]))

    def _heading_columns(self) -> None:
        order = np.arange(self.count)
        level = self.tag_codes - BLOCK_TAGS["h1"]
        heading = (level >= 0) & (level < 6)
        last = np.maximum.accumulate(np.where(heading, order, -1))
        known = last >= 0
        last = np.maximum(last, 0)
        words = self.tokens
        about = np.stack([self.phrase, self.sums[3] / words, self.low, self.sums[1] / words])
        match = self.sums[1] / words * np.minimum(self.sums[1], 8) * (self.link_share < 0.9)
        lead = int(np.argmax(match + 2.0 * (level == 0)))
        prose = np.flatnonzero((self.words >= 20) & (self.link_share < 0.4))
        first, final = (int(prose[0]), int(prose[-1])) if len(prose) else (0, self.count - 1)
        tops = np.cumsum(level == 0)
        distances = [np.clip(order - mark, -50, 50) for mark in (lead, first, final)]
        since = np.where(known, np.minimum(order - last, 99), 99)
        self.columns += [
            np.stack([known, since, np.where(known, level[last], 9), *distances, tops, tops[-1] - tops]),
            about[:, last] * known,
        ]

    def _neighbour_columns(self) -> None:
        leaning = self.sums[3] / self.tokens
        prose = np.minimum(self.words, 60) * (1 - self.link_share)
        table = np.stack([np.log1p(self.words), self.link_share, leaning, self.phrase, self.tag_codes, self.group])
        shifted = {shift: _shift(table, shift) for shift in (-2, -1, 1, 2)}
        sums = np.zeros((3, self.count + 1))
        np.cumsum(np.stack([prose, self.link_share, leaning]), axis=1, out=sums[:, 1:])
        self.columns += [near[:5] for near in shifted.values()]
        self.columns += [window for reach in (4, 12) for window in _windows(sums, reach)]
        self.columns.append(np.stack([shifted[shift][5] == self.group for shift in (-1, 1)]))

    def _page_vector(self) -> Floats:
        words, chars, links, dots, stopwords, prose, blocks, leaning, tokens = self.totals
        groups = np.bincount(self.group)
        numbers = [
            np.log1p(words),
            np.log1p(blocks),
            links / max(chars, 1),
            dots / tokens,
            stopwords / tokens,
            prose / max(words, 1),
            np.log1p(prose),
            leaning / tokens,
            np.log1p(self.kinds[5].sum()),
            np.count_nonzero(self.kinds[5]) / blocks,
            self.kinds[0].sum() / max(chars, 1),
            np.log1p(groups.max()),
            len(groups) / blocks,
        ]
        parts = [
            np.array(numbers),
            np.bincount(self.tag_codes, self.words, minlength=_TAG_KINDS) / max(words, 1),
            np.bincount(self.tag_codes, minlength=_TAG_KINDS) / blocks,
            (self.near * self.words).sum(axis=1) / max(words, 1),
            np.array(_describe_head(self.head), np.float64),
            np.minimum(self.word_bits.sum(axis=1), 20),
        ]
        return np.concatenate(parts).astype(np.float32)


class _Descent:
    """What every container inherits from those around it; parents come before their children."""

    def __init__(self, tree: BlockTree, lean: list[float], own_hints: list[int]) -> None:
        count = len(tree.tags)
        depths, places, children = [0] * count, [0] * count, [0] * count
        tag_bits, hints, paths = [0] * count, own_hints[:1] * count, [0] * count
        totals, lows, highs = [0.0] * count, [0.0] * count, [0.0] * count
        rows = zip(tree.parents, tree.tags, tree.attributes, lean, own_hints, strict=True)
        for i, (parent, tag, attributes, own, hint) in enumerate(rows):
            depths[i] = depths[parent] + 1
            place = children[parent] + 1
            children[parent] = place
            places[i] = place
            tag_bits[i] = tag_bits[parent] | ANCESTOR_TAGS.get(tag, 0)
            hints[i] = hints[parent] | hint
            totals[i] = totals[parent] * 0.8 + own
            low, high = lows[parent], highs[parent]
            lows[i] = own if own < low else low
            highs[i] = own if own > high else high
            paths[i] = hash((paths[parent], tag, attributes))
        self.depths, self.places, self.children = depths, places, children
        self.tag_bits, self.hints, self.paths = tag_bits, hints, paths
        self.totals, self.lows, self.highs = totals, lows, highs


def _container_stats(sums: NDArray[np.float64], totals: NDArray[np.float64]) -> NDArray[np.float64]:
    words, chars, links, dots, stopwords, prose, blocks, leaning, tokens = sums
    return np.stack(
        [
            np.log1p(words),
            words / max(totals[0], 1),
            links / np.maximum(chars, 1),
            dots / tokens,
            stopwords / tokens,
            prose / words,
            prose / max(totals[5], 1),
            np.log1p(blocks),
            words / np.maximum(blocks, 1),
            leaning / tokens,
        ]
    )


def _describe_head(head: PageHead) -> list[float]:
    address = head.url.split("?")[0]
    url_words = set(_CLASS_WORD.findall(address.lower()))
    path = address.rstrip("/").split("/")[3:]
    last = path[-1] if path else ""
    return [
        len(path),
        len(last),
        last.count("-"),
        any(character.isdigit() for character in last),
        *(not hint.isdisjoint(url_words) for hint in URL_HINTS),
        *(kind in head.kind for kind in ("article", "product", "website", "profile", "video")),
        head.kind != "",
        *(kind in head.ld_types for kind in LD_TYPES),
    ]


def _unpack(bits: Ints, count: int) -> NDArray[np.int64]:
    return (bits >> np.arange(count)[:, None]) & 1


def _shift(table: NDArray[np.float64], by: int) -> NDArray[np.float64]:
    moved = np.full(table.shape, -1.0)
    if abs(by) >= table.shape[1]:
        return moved
    if by > 0:
        moved[:, :-by] = table[:, by:]
    else:
        moved[:, -by:] = table[:, :by]
    return moved


def _windows(sums: NDArray[np.float64], reach: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The means over as many blocks before and after each, from running sums."""
    count = sums.shape[1] - 1
    order = np.arange(count)
    low = np.maximum(order - reach, 0)
    high = np.minimum(order + 1 + reach, count)
    return (sums[:, order] - sums[:, low]) / reach, (sums[:, high] - sums[:, order + 1]) / reach
