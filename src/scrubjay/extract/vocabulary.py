"""Words as numbers: those of a text are cut and hashed all at once, and looked up in tables of hashes.

A page has thousands of words; as strings in a dictionary, each of them is a walk through cold memory.
"""

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

END_OF_NAMES = "\x00"
_SEPARATORS = ".,:;!?()[]/|&-\"'’“”\x00"
_BLANKED = str.maketrans(_SEPARATORS, " " * len(_SEPARATORS))
_CLASS_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_LAST_CASED = 0x1E943
_SPECIAL_CAPITALS = "İΣ"
_WORD, _BREAK = 1, 2
_SMALL, _CAPITAL, _BLANK, _END = 1, 2, 3, 4
_FACTOR = 0x5851F42D4C957F2D  # odd, so that one can divide by it modulo 2⁶⁴
_INVERSE = pow(_FACTOR, -1, 1 << 64)
_SPREAD = 0x9E3779B97F4A7C15  # the hash of a run of one character is this many times the character
BREAK_HASH = (ord("\n") * _SPREAD + (1 << 63)) % (1 << 64) - (1 << 63)
_TABLE_CHARACTERS = 1 << 15  # more than most pages have
_BUCKETS_PER_WORD = 2


def read_words(text: str) -> list[str]:
    """The words of a text in lower case, as `cut_words` finds them: for training."""
    return text.lower().translate(_BLANKED).split()


def read_class_words(attributes: str) -> set[str]:
    """The words in class names in lower case, as `cut_names` finds them: for training."""
    return {word.lower() for word in set(_CLASS_WORD.findall(attributes)) if len(word) > 1}


def _tabulate(otherwise: int, **kinds: int) -> NDArray[np.uint8]:
    table = np.full(1 << 16, otherwise, np.uint8)
    for characters, kind in kinds.items():
        table[[ord(character) for character in characters]] = kind
    return table


def _raise_to_powers(first: int, base: int, count: int) -> Ints:
    powers = np.full(count, base, np.uint64)
    powers[:1] = first
    return np.multiply.accumulate(powers).view(np.int64)


_TEXT_KINDS = _tabulate(_WORD, **{f" {_SEPARATORS}": 0, "\n": _BREAK})
_NAME_KINDS = _tabulate(0, **{_LETTERS: _SMALL, _LETTERS.upper(): _CAPITAL, " \t\n\r\f\v": _BLANK, END_OF_NAMES: _END})


def _list_powers(count: int) -> tuple[Ints, Ints]:
    return _raise_to_powers(1, _FACTOR, count), _raise_to_powers(_SPREAD, _INVERSE, count)


_POWERS, _INVERSES = _list_powers(_TABLE_CHARACTERS)


def read_codes(text: str) -> Ints:
    """The characters of a text as numbers; half of a surrogate pair becomes a question mark."""
    return np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32).astype(np.int64)


def _tabulate_small_letters() -> Ints:
    table = np.arange(_LAST_CASED + 1, dtype=np.int64)
    letters = "".join([chr(code) for code in range(_LAST_CASED + 1) if not 0xD800 <= code < 0xE000])
    letters = "".join(re.split(f"[{_SPECIAL_CAPITALS}]", letters))
    table[read_codes(letters)] = read_codes(letters.lower())
    return table


_SMALL_LETTERS = _tabulate_small_letters()


def lower_codes(text: str, codes: Ints) -> Ints:
    """The characters of a text in lower case, from those of the text as it is: `str.lower` takes ten times as long for
    a text that is not all ASCII, but knows what to make of letters that depend on others or become two."""
    if any(letter in text for letter in _SPECIAL_CAPITALS):
        return read_codes(text.lower())
    return np.where(codes > _LAST_CASED, codes, _SMALL_LETTERS.take(codes, mode="clip"))


def cut_words(codes: Ints) -> tuple[Ints, Ints]:
    """Where the words of a text in lower case start and end; a line break counts as one."""
    kinds = _TEXT_KINDS.take(codes, mode="clip")
    letters = kinds == _WORD
    breaks = kinds == _BREAK
    starts, ends = letters.copy(), letters.copy()
    starts[1:] &= ~letters[:-1]
    ends[:-1] &= ~letters[1:]
    return np.flatnonzero(starts | breaks), np.flatnonzero(ends | breaks) + 1


def cut_names(codes: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Where the words in class names start and end (`fooBar` has two), where the names end, and where lists of names
    do, after each of which stands END_OF_NAMES."""
    kinds = _NAME_KINDS.take(codes, mode="clip")
    small, capital = kinds == _SMALL, kinds == _CAPITAL
    alone = capital.copy()  # a capital that the small letters behind it belong to
    alone[1:] &= ~capital[:-1]
    starts = alone | small
    starts[1:] &= ~(small[1:] & (small | alone)[:-1])
    ends = small | capital
    ends[:-1] &= starts[1:] | ~ends[1:]
    name_ends = np.flatnonzero(kinds >= _BLANK)
    return starts.nonzero()[0], ends.nonzero()[0] + 1, name_ends, name_ends[kinds[name_ends] == _END]


class RunHashes:
    """Hashes of runs of characters, the same wherever a run stands: the difference of two running sums, in which every
    character counts times the power of its place, divided by the power of the first one's place."""

    def __init__(self, codes: Ints) -> None:
        count = len(codes)
        powers, self.inverses = _POWERS, _INVERSES
        if count > _TABLE_CHARACTERS:
            powers, self.inverses = _list_powers(count)
        self.sums = np.zeros(count + 1, np.int64)
        np.cumsum(codes * powers[:count], out=self.sums[1:])

    def of(self, starts: Ints, ends: Ints) -> Ints:
        return (self.sums[ends] - self.sums[starts]) * self.inverses[starts]


class HashedVocabulary:
    """Known words by their hashes. A word's number is its place in the table, from 1; a word not in it has 0."""

    def __init__(self, words: Iterable[str]) -> None:
        words = list(words)
        codes = read_codes("".join(f"{word}\n" for word in words))
        ends = np.flatnonzero(codes == ord("\n"))
        starts = np.zeros_like(ends)
        starts[1:] = ends[:-1] + 1
        hashes = RunHashes(codes).of(starts, ends)
        order = np.argsort(hashes)
        self.words = [words[place] for place in order.tolist()]
        self._hashes = np.append(hashes[order], np.iinfo(np.int64).max)
        # Where the hashes with the same highest bits start: a few steps from there are faster than a binary search.
        bits = max(len(words) * _BUCKETS_PER_WORD, 2).bit_length()
        self._shift, self._middle = 64 - bits, 1 << bits - 1
        buckets = (hashes >> self._shift) + self._middle
        sizes = np.bincount(buckets, minlength=1 << bits)
        self._starts = (np.cumsum(sizes) - sizes).astype(np.int32)
        self._steps = int(sizes.max())

    def find(self, hashes: Ints) -> Ints:
        places = self._starts.take((hashes >> self._shift) + self._middle).astype(np.int64)
        for _ in range(self._steps):
            places += self._hashes.take(places) < hashes
        return np.where(self._hashes.take(places) == hashes, places + 1, 0)
