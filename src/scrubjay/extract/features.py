"""Describes every block of a page as a row of numbers: what it says, where it stands, and what stands around it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import log1p
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
from scrubjay.extract.vocabulary import (
    BREAK_HASH,
    END_OF_NAMES,
    HashedVocabulary,
    Ints,
    RunHashes,
    cut_names,
    cut_words,
    lower_codes,
    read_codes,
)

Floats = NDArray[np.float32]

_URL_WORD = re.compile(r"[a-z]+")
_DIGITS = re.compile(r"\d+")
_LEVELS = (0, 1, 2, 3, 5)
_PHRASE_WORDS = 6
_LOOKED_AT = 96  # characters of a block; their number fits a byte
_SENTENCE_ENDS = frozenset(".!?…。！？")
_PHRASE_CHARACTERS = 48
_WORD_BITS = 24  # more than the number of a word needs
_MANY_ATTRIBUTES = 2_048  # more than most sites have; a larger table would not stay in the processor's cache
_TITLED, _SUMMED = 8, 16  # the bits from which words are counted that the page's title or description has
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
        self.known_words = HashedVocabulary(dict.fromkeys([*STOPWORDS, *WORD_HINTS, *self.words]))
        known = self.known_words.words
        self.leaning = np.array([0.0, *(self.words.get(word, 0.0) for word in known)])
        self.stopword = np.array([0, *(word in STOPWORDS for word in known)], np.int32)
        self.hints = np.array([0, *(WORD_HINTS.get(word, 0) for word in known)], np.int64)
        self.known_phrases = HashedVocabulary(self.phrases)
        self.phrase_leaning = np.array([0.0, *(self.phrases[phrase] for phrase in self.known_phrases.words)])
        self._class_words = HashedVocabulary(dict.fromkeys([*self.classes, *CLASS_HINTS_BY_WORD]))
        known = self._class_words.words
        self._class_leaning = np.array([0.0, *(self.classes.get(word, 0.0) for word in known)])
        self._class_learned = np.array([0, *(word in self.classes for word in known)], np.int64)
        self._known_attributes: dict[str, tuple[float, int]] = {}
        self._class_hints = np.array([0, *(CLASS_HINTS_BY_WORD.get(word, 0) for word in known)], np.int64)

    def read_attributes(self, attributes: Sequence[str]) -> list[tuple[float, int]]:
        """Per element: the mean leaning of the words in its class names, and which kinds of hints they hold. The pages
        of a site share most of their class names."""
        known = self._known_attributes
        unread = list(set(attributes).difference(known))
        if unread:
            if len(known) > _MANY_ATTRIBUTES:
                known = self._known_attributes = {}
                unread = list(set(attributes))
            leanings, hints = self._read_new_attributes(unread)
            known.update(zip(unread, zip(leanings.tolist(), hints.tolist(), strict=True), strict=True))
        return list(map(known.__getitem__, attributes))

    def _read_new_attributes(self, attributes: Sequence[str]) -> tuple[NDArray[np.float64], Ints]:
        codes = read_codes(END_OF_NAMES.join(attributes) + END_OF_NAMES)
        starts, ends, name_ends, list_ends = cut_names(codes)
        numbers = self._class_words.find(RunHashes(codes | 32).of(starts, ends))
        known = np.flatnonzero(numbers)
        count = len(attributes)
        hints = np.zeros(count, np.int64)
        if not len(known):
            return np.zeros(count), hints
        # A word counts once per name: both as one number, each kept once.
        pairs = np.sort(name_ends.searchsorted(starts[known]) << _WORD_BITS | numbers[known])
        pairs = pairs[_find_changes(pairs)]
        words = pairs & (1 << _WORD_BITS) - 1
        elements = list_ends.searchsorted(name_ends[pairs >> _WORD_BITS])
        totals = np.bincount(elements, self._class_leaning[words], count)
        firsts = _find_changes(elements)
        hints[elements[firsts]] = np.bitwise_or.reduceat(self._class_hints[words], firsts)
        return totals / (1 + np.bincount(elements, self._class_learned[words], count)), hints


@dataclass(slots=True)
class PageFeatures:
    """One row per feature and one column per block, the page's own vector, and the words of each block."""

    blocks: Floats
    page: Floats
    words: NDArray[np.float64]  # per block


def read_phrase(text: str) -> str | None:
    """A short text in the form in which the lexicon knows it."""
    if len(text) > _PHRASE_CHARACTERS or text.count(" ") >= _PHRASE_WORDS:
        return None
    text = text.lower()
    return text if text.isalpha() else _DIGITS.sub("0", text)


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
    """The rows are gathered group by group; their order is fixed by `run`."""

    def __init__(self, tree: BlockTree, head: PageHead, lexicon: Lexicon) -> None:
        self.tree = tree
        self.head = head
        self.lexicon = lexicon
        self.count = len(tree.blocks)
        self.node = np.fromiter([block.node for block in tree.blocks], np.int64, self.count)
        self.parents = np.fromiter(tree.parents, np.int64, len(tree.parents))
        self.rows: list[NDArray[Any]] = []  # one per feature, or several one after the other

    def run(self) -> PageFeatures:
        self._characters()
        self._tokens()
        self._own_rows()
        self._node_rows()
        self._container_rows()
        self._group_rows()
        self._heading_rows()
        self._neighbour_rows()
        rows = np.concatenate([row.reshape(-1) for row in self.rows], dtype=np.float32, casting="unsafe")
        return PageFeatures(rows.reshape(-1, self.count), self._page_vector(), self.words)

    def _characters(self) -> None:
        """Of long texts, only the beginning is looked at letter by letter and word by word: it tells enough. The title
        and the description stand behind the blocks."""
        blocks, count = self.tree.blocks, self.count
        self.texts = texts = [block.text for block in blocks]
        self.chars = np.fromiter(map(len, texts), np.float64, count)
        self.words = np.fromiter([block.words for block in blocks], np.float64, count)
        self.link_chars = np.fromiter([block.link_chars for block in blocks], np.float64, count)
        self.link_chars = np.minimum(self.link_chars, self.chars)
        self.link_share = self.link_chars / self.chars
        self.joined = "\n".join([*[text[:_LOOKED_AT] for text in texts], self.head.title, self.head.description, ""])
        self.codes = read_codes(self.joined)
        self.looked_at = np.minimum(self.chars, _LOOKED_AT)
        kinds = _CHARACTERS.take(self.codes[: int(self.looked_at.sum()) + count], mode="clip")
        bounds = np.zeros(count, np.int64)
        np.cumsum(self.looked_at[:-1] + 1, out=bounds[1:], dtype=np.int64)
        counted = np.add.reduceat(kinds, bounds)
        self.kinds = (counted >> _KIND_SHIFTS & np.uint64(255)).astype(np.float64)
        self.ends_sentence = np.fromiter([text[-1] in _SENTENCE_ENDS for text in texts], np.bool_, count)
        self.starts_upper = kinds[bounds] >> np.uint64(8 * _CAPITAL) & np.uint64(1) != 0

    def _tokens(self) -> None:
        """The words of the blocks, and of the title and the description behind them."""
        lexicon, count = self.lexicon, self.count
        codes = lower_codes(self.joined, self.codes)
        runs = RunHashes(codes)
        first, last = cut_words(codes)
        hashes = runs.of(first, last)
        breaks = np.flatnonzero(hashes == BREAK_HASH)
        ends = breaks[:count]
        starts = np.zeros(count, np.int64)
        starts[1:] = ends[:-1] + 1
        title, description = hashes[ends[-1] + 1 : breaks[count]], hashes[breaks[count] + 1 : -1]
        hashes = hashes[: ends[-1] + 1]
        ids = lexicon.known_words.find(hashes)
        self.tokens = np.maximum(ends - starts, 1).astype(np.float64)
        leaning = lexicon.leaning[ids]
        flags = lexicon.stopword[ids] | _find_among(hashes, title) << _TITLED
        flags |= _find_among(hashes, description) << _SUMMED
        counted = np.add.reduceat(flags, starts)
        self.stopwords = (counted & 255).astype(np.float64)
        self.titled = (counted >> _TITLED & 255).astype(np.float64)
        self.summed = (counted >> _SUMMED).astype(np.float64)
        self.leaning = np.add.reduceat(leaning, starts)
        self.low = np.minimum.reduceat(leaning, starts)
        self.high = np.maximum.reduceat(leaning, starts)
        self.word_bits = _unpack(np.bitwise_or.reduceat(lexicon.hints[ids], starts), len(WORD_HINT_KINDS))
        self.title_size = len(set(title.tolist()))
        self._phrases(runs, first[ends])

    def _phrases(self, runs: RunHashes, ends: Ints) -> None:
        """What the lexicon thinks of whole short texts. Only those with numbers, which it does not tell apart, have to
        be looked at as strings."""
        starts = np.zeros(self.count, np.int64)
        starts[1:] = ends[:-1] + 1
        short = self.chars <= _PHRASE_CHARACTERS
        self.phrase = self.lexicon.phrase_leaning[self.lexicon.known_phrases.find(runs.of(starts, ends))] * short
        numbered = np.flatnonzero(short & (self.kinds[0] > 0)).tolist()
        if numbered:
            phrases = _DIGITS.sub("0", "\n".join([self.texts[number] for number in numbered]).lower()).split("\n")
            self.phrase[numbered] = list(map(self.lexicon.phrases.get, phrases, repeat(0.0)))

    def _own_rows(self) -> None:
        digits, stops, commas, uppers, symbols, money = self.kinds
        words = self.tokens
        self.rows += [
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
            self.stopwords / words,
            self.titled / words,
            self.titled / max(self.title_size, 1),
            self.summed / words,
            self.leaning / words,
            np.minimum(np.maximum(self.leaning, -20), 20),
            self.low,
            self.high,
            self.phrase,
            self.word_bits,
        ]

    def _node_rows(self) -> None:
        up = self.parents[self.node]
        above = self.parents[up]
        down = _Descent(self.tree, self.lexicon)
        count = len(down.paths)
        places = np.fromiter(down.places, np.int64, count)
        children = np.fromiter(down.children, np.int64, count)
        paths = np.fromiter(down.paths, np.int64, count)
        self.group = own = paths[self.node]
        self.group_above = over = paths[up]
        count = len(down.tags)
        leans = np.fromiter(down.leans, np.float64, count)
        own_hints = np.fromiter(down.own_hints, np.int64, count)
        codes = np.fromiter(map(BLOCK_TAGS.get, down.tags, repeat(0)), np.int64, count)
        self.tag_codes = codes[own]
        self.near = _unpack(own_hints[own] | own_hints[over], len(CLASS_HINTS))
        kinds = np.arange(_TAG_KINDS)[:, None]
        self.rows += [
            np.fromiter(down.depths, np.int64, count)[own],
            places[self.node],
            places[up],
            children[up],
            children[above],
            np.fromiter(down.totals, np.float64, count)[own],
            np.fromiter(down.lows, np.float64, count)[own],
            np.fromiter(down.highs, np.float64, count)[own],
            leans[own],
            leans[over],
            leans[paths[above]],
            leans[paths[self.parents[above]]],
            self.tag_codes == kinds,
            codes[over] == kinds,
            _unpack(np.fromiter(down.tag_bits, np.int64, count)[own], _ANCESTOR_KINDS),
            self.near,
            _unpack(np.fromiter(down.hints, np.int64, count)[own], len(CLASS_HINTS)),
        ]

    def _container_rows(self) -> None:
        count = self.count
        first = np.fromiter(self.tree.first_block, np.int64, len(self.parents))
        last = np.fromiter(self.tree.last_block, np.int64, len(self.parents))
        prose = ((self.words >= 12) & (self.link_share < 0.5)) * self.words
        sums = np.zeros((9, count + 1))
        table = [
            self.words,
            self.chars,
            self.link_chars,
            self.kinds[1],
            self.stopwords,
            prose,
            np.ones(count),
            self.leaning,
            self.tokens,
        ]
        np.cumsum(np.array(table), axis=1, out=sums[:, 1:])
        self.totals = totals = sums[:, -1]
        ancestors = [self.node]
        for _ in range(_LEVELS[-1]):
            ancestors.append(self.parents[ancestors[-1]])
        around = np.concatenate([ancestors[level] for level in _LEVELS])
        stats = _container_stats(sums.take(last[around], axis=1) - sums.take(first[around], axis=1), totals)
        order = np.arange(count)
        distance = np.log1p(order)
        self.rows += [
            stats.reshape(-1, len(_LEVELS), count).swapaxes(0, 1),
            order / count,
            distance,
            distance[::-1],
            sums[0, :-1] / max(totals[0], 1),
            sums[5, :-1] / max(totals[5], 1),
        ]

    def _group_rows(self) -> None:
        for group in (self.group, self.group_above):
            size = np.bincount(group)
            words = np.bincount(group, self.words)[group]
            links = np.bincount(group, self.link_share)[group]
            size = size[group]
            self.rows += [np.log1p(size), words / size, links / size, words / max(self.totals[0], 1)]
        texts: dict[str, int] = {}
        ids = np.fromiter([texts.setdefault(text, len(texts)) for text in self.texts], np.int64, self.count)
        first_seen = np.ones(self.count)
        first_seen[1:] = np.diff(np.maximum.accumulate(ids)) > 0
        self.rows += [np.log(np.bincount(ids)[ids]), first_seen]

    def _heading_rows(self) -> None:
        order = np.arange(self.count)
        level = self.tag_codes - BLOCK_TAGS["h1"]
        heading = (level >= 0) & (level < 6)
        last = np.maximum.accumulate(np.where(heading, order, -1))
        known = last >= 0
        last = np.maximum(last, 0)
        titled = self.titled / self.tokens
        about = np.array([self.phrase, self.leaning / self.tokens, self.low, titled])
        match = titled * np.minimum(self.titled, 8) * (self.link_share < 0.9)
        top = level == 0
        lead = int((match + 2.0 * top).argmax())
        prose = np.flatnonzero((self.words >= 20) & (self.link_share < 0.4))
        first, final = (int(prose[0]), int(prose[-1])) if len(prose) else (0, self.count - 1)
        tops = np.cumsum(top)
        self.rows += [
            known,
            np.where(known, np.minimum(order - last, 99), 99),
            np.where(known, level[last], 9),
            *(np.minimum(np.maximum(order - mark, -50), 50) for mark in (lead, first, final)),
            tops,
            tops[-1] - tops,
            about[:, last] * known,
        ]

    def _neighbour_rows(self) -> None:
        leaning = self.leaning / self.tokens
        prose = np.minimum(self.words, 60) * (1 - self.link_share)
        table = np.array([np.log1p(self.words), self.link_share, leaning, self.phrase, self.tag_codes, self.group])
        shifted = {shift: _shift(table, shift) for shift in (-2, -1, 1, 2)}
        sums = np.zeros((3, self.count + 1))
        np.cumsum(np.array([prose, self.link_share, leaning]), axis=1, out=sums[:, 1:])
        self.rows += [near[:5] for near in shifted.values()]
        self.rows += [window for reach in (4, 12) for window in _windows(sums, reach)]
        self.rows += [shifted[shift][5] == self.group for shift in (-1, 1)]

    def _page_vector(self) -> Floats:
        words, chars, links, dots, stopwords, prose, blocks, leaning, tokens = self.totals.tolist()
        groups = np.bincount(self.group)
        groups = groups[groups > 0]
        numbers = [
            log1p(words),
            log1p(blocks),
            links / max(chars, 1),
            dots / tokens,
            stopwords / tokens,
            prose / max(words, 1),
            log1p(prose),
            leaning / tokens,
            log1p(self.kinds[5].sum()),
            np.count_nonzero(self.kinds[5]) / blocks,
            self.kinds[0].sum() / max(chars, 1),
            log1p(groups.max()),
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
    """What every container inherits from those around it; parents come before their children. Containers with the same
    tags and attributes all the way up, like the items of a list, share a path and are looked at once."""

    def __init__(self, tree: BlockTree, lexicon: Lexicon) -> None:
        self.paths = paths = [0]  # per container
        self.places = places = [1]
        self.children = children = [1] + [0] * (len(tree.tags) - 1)
        numbers = {(0, "", ""): 0}
        outer, self.tags, attributes = [0], tree.tags[:1], tree.attributes[:1]  # per path
        containers = zip(tree.parents, tree.tags, tree.attributes, strict=True)
        next(containers)
        for parent, tag, names in containers:
            key = (paths[parent], tag, names)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(numbers)
                outer.append(key[0])
                self.tags.append(tag)
                attributes.append(names)
            paths.append(number)
            place = children[parent] + 1
            children[parent] = place
            places.append(place)
        self.leans, self.own_hints = zip(*lexicon.read_attributes(attributes), strict=True)
        self._inherit(outer)

    def _inherit(self, outer: list[int]) -> None:
        count = len(outer)
        self.depths, self.tag_bits, self.hints = depths, tag_bits, hints = [0] * count, [0] * count, [0] * count
        self.totals, self.lows, self.highs = totals, lows, highs = [0.0] * count, [0.0] * count, [0.0] * count
        rows = zip(outer, self.tags, self.leans, self.own_hints, strict=True)
        for i, (parent, tag, own, hint) in enumerate(rows):
            depths[i] = depths[parent] + 1
            tag_bits[i] = tag_bits[parent] | ANCESTOR_TAGS.get(tag, 0)
            hints[i] = hints[parent] | hint
            totals[i] = totals[parent] * 0.8 + own
            low, high = lows[parent], highs[parent]
            lows[i] = own if own < low else low
            highs[i] = own if own > high else high


def _container_stats(sums: NDArray[np.float64], totals: NDArray[np.float64]) -> NDArray[np.float64]:
    words, chars, links, dots, stopwords, prose, blocks, leaning, tokens = sums
    return np.array(
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
    url_words = set(_URL_WORD.findall(address.lower()))
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


def _find_among(hashes: Ints, wanted: Ints) -> NDArray[np.int32]:
    """1 for every hash that is one of a few others."""
    table = np.sort(wanted)
    if not len(table):
        return np.zeros(len(hashes), np.int32)
    return np.equal(table.take(table.searchsorted(hashes), mode="clip"), hashes).astype(np.int32)


def _find_changes(values: Ints) -> Ints:
    """Where something else stands than before, from the first on."""
    changed = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return np.flatnonzero(changed)


def _unpack(bits: Ints, count: int) -> NDArray[np.uint8]:
    """One row per bit, from the lowest."""
    octets = bits.astype("<i8", copy=False).view(np.uint8).reshape(-1, 8)
    return np.unpackbits(octets, axis=1, count=count, bitorder="little").T


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
    before, after = sums[:, :-1] - sums.take(low, axis=1), sums.take(high, axis=1) - sums[:, 1:]
    return before / reach, after / reach
