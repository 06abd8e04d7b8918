"""Describes every block of a page as a row of numbers: what it says, where it stands, and what stands around it."""

import re
from collections.abc import Iterable, Mapping, Sequence
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
_CLASS_WORD_OR_END = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\n")
_DIGITS = re.compile(r"\d+")
_LEVELS = (0, 1, 2, 3, 5)
_PHRASE_WORDS = 6
_LOOKED_AT = 96  # characters of a block; their number fits a byte
_SENTENCE_ENDS = frozenset(".!?…。！？")
_PHRASE_CHARACTERS = 48
_NAMED = (0, 1 << 8, 1 << 16, 1 << 8 | 1 << 16)
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
        self.stopword = np.array([0, 0, *(word in STOPWORDS for word in known)], np.int32)
        self.hints = np.array([0, 0, *(WORD_HINTS.get(word, 0) for word in known)], np.int64)
        self._class_words: dict[str, tuple[str, float, int, int]] = {}
        for word in {*self.classes, *CLASS_HINTS_BY_WORD}:
            hints = CLASS_HINTS_BY_WORD.get(word, 0)
            entry = (word, self.classes.get(word, 0.0), int(word in self.classes), hints)
            self._class_words |= dict.fromkeys((word, word.capitalize(), word.upper()), entry)
        self._names: dict[str, tuple[float, int, int]] = {}
        self._read: dict[str, tuple[float, int]] = {}

    def read_attributes(self, attributes: Sequence[str]) -> tuple[Sequence[float], Sequence[int]]:
        """Per element: the leaning of its class names, and which kinds of hints they hold."""
        if len(self._read) > _MAX_ATTRIBUTES:
            self._read = {}  # another thread may still look into the old one
        read = self._read
        strange = set(attributes).difference(read)
        if strange:
            read.update(self._learn(strange))
        leanings, hints = zip(*map(read.__getitem__, attributes), strict=True)
        return leanings, hints

    def _learn(self, attributes: set[str]) -> dict[str, tuple[float, int]]:
        if len(self._names) > _MAX_ATTRIBUTES:
            self._names = {}
        known = self._names
        names = {attribute: attribute.split() for attribute in attributes}
        strange = set().union(*names.values()).difference(known)
        if strange:
            known.update(self._learn_names(list(strange)))
        read = {}
        for attribute in attributes:
            total, count, hints = 0.0, 1, 0
            for name in names[attribute]:
                lean, size, bits = known[name]
                total += lean
                count += size
                hints |= bits
            read[attribute] = (total / count, hints)
        return read

    def _learn_names(self, names: list[str]) -> Iterable[tuple[str, tuple[float, int, int]]]:
        """Of every class name: the sum of its words' leanings, how many of them have one, and their hints."""
        known = self._class_words.get
        read = []
        total, count, hints = 0.0, 0, 0
        seen: list[str] = []
        for found in _CLASS_WORD_OR_END.findall("\n".join(names) + "\n"):
            if found == "\n":
                read.append((total, count, hints))
                total, count, hints = 0.0, 0, 0
                seen = []
                continue
            entry = known(found)
            if entry is not None and entry[0] not in seen:
                word, lean, size, bits = entry
                seen.append(word)
                total += lean
                count += size
                hints |= bits
        return zip(names, read, strict=True)


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
        """Of long texts, only the beginning is looked at letter by letter and word by word: it tells enough."""
        blocks, count = self.tree.blocks, self.count
        self.texts = texts = [block.text for block in blocks]
        self.chars = np.fromiter(map(len, texts), np.float64, count)
        self.words = np.fromiter([text.count(" ") for text in texts], np.float64, count) + 1
        self.link_chars = np.fromiter([block.link_chars for block in blocks], np.float64, count)
        self.link_chars = np.minimum(self.link_chars, self.chars)
        self.link_share = self.link_chars / self.chars
        self.joined = "\n".join([text[:_LOOKED_AT] for text in texts]) + "\n"
        codes = np.frombuffer(self.joined.encode("utf-32-le", "replace"), np.uint32)
        kinds = _CHARACTERS.take(codes, mode="clip")
        self.looked_at = np.minimum(self.chars, _LOOKED_AT)
        bounds = np.zeros(count, np.int64)
        np.cumsum(self.looked_at[:-1] + 1, out=bounds[1:], dtype=np.int64)
        counted = np.add.reduceat(kinds, bounds)
        self.kinds = (counted >> _KIND_SHIFTS & np.uint64(255)).astype(np.float64)
        self.ends_sentence = np.fromiter([text[-1] in _SENTENCE_ENDS for text in texts], np.bool_, count)
        self.starts_upper = kinds[bounds] >> np.uint64(8 * _CAPITAL) & np.uint64(1) != 0

    def _tokens(self) -> None:
        tokens = read_words(self.joined)
        lexicon = self.lexicon
        ids = np.fromiter(map(lexicon.ids.get, tokens, repeat(0)), np.int64, len(tokens))
        ends = np.flatnonzero(ids == _BREAK)
        starts = np.zeros(self.count, np.int64)
        starts[1:] = ends[:-1] + 1
        self.tokens = np.maximum(ends - starts, 1).astype(np.float64)
        leaning = lexicon.leaning[ids]
        title = dict.fromkeys(read_words(self.head.title), 1)
        named = dict.fromkeys(read_words(self.head.description), 2)
        named.update({word: 3 if word in named else 1 for word in title})
        counted = np.add.reduceat(self._find_named(tokens, ids, named), starts)
        self.stopwords = (counted & 255).astype(np.float64)
        self.titled = (counted >> 8 & 255).astype(np.float64)
        self.summed = (counted >> 16).astype(np.float64)
        self.leaning = np.add.reduceat(leaning, starts)
        self.low = np.minimum.reduceat(leaning, starts)
        self.high = np.maximum.reduceat(leaning, starts)
        self.word_bits = _unpack(np.bitwise_or.reduceat(lexicon.hints[ids], starts), len(WORD_HINT_KINDS))
        self.title_size = len(title)
        self.phrase = np.zeros(self.count)
        short = np.flatnonzero(self.chars <= _PHRASE_CHARACTERS)
        if len(short):
            texts = self.texts
            phrases = _DIGITS.sub("0", "\n".join([texts[number] for number in short.tolist()]).lower()).split("\n")
            self.phrase[short] = np.fromiter(map(lexicon.phrases.get, phrases, repeat(0.0)), np.float64, len(short))

    def _find_named(self, tokens: list[str], ids: Ints, named: dict[str, int]) -> NDArray[np.int32]:
        """Of each token: whether it is a stopword, and (in bytes of their own, to be counted by one sum) whether the
        page's title and description have it. Most words are known by number, which is quicker to look up."""
        number_of = self.lexicon.ids
        flags = self.lexicon.stopword.copy()
        strange = {}
        for word, bits in named.items():
            number = number_of.get(word)
            if number is None:
                strange[word] = _NAMED[bits]
            else:
                flags[number] |= _NAMED[bits]
        about = flags[ids]
        if strange:
            unknown = np.flatnonzero(ids == 0).tolist()
            for position in [position for position in unknown if tokens[position] in strange]:
                about[position] = strange[tokens[position]]
        return about

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
        codes = np.fromiter(map(BLOCK_TAGS.get, down.tags, repeat(0)), np.int64, count)
        self.tag_codes = codes[own]
        own_hints = np.fromiter(down.own_hints, np.int64, count)
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
        stats = _container_stats(sums[:, last[around]] - sums[:, first[around]], totals)
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
        words, chars, links, dots, stopwords, prose, blocks, leaning, tokens = self.totals
        groups = np.bincount(self.group)
        groups = groups[groups > 0]
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
        self.leans, self.own_hints = lexicon.read_attributes(attributes)
        self._inherit(outer)

    def _inherit(self, outer: list[int]) -> None:
        count = len(outer)
        self.depths, self.tag_bits, self.hints = depths, tag_bits, hints = [0] * count, [0] * count, [0] * count
        self.totals, self.lows, self.highs = totals, lows, highs = [0.0] * count, [0.0] * count, [0.0] * count
        for i, (parent, tag, own, hint) in enumerate(zip(outer, self.tags, self.leans, self.own_hints, strict=True)):
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
