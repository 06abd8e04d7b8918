"""Text to terms: the one analysis that all engines, highlights and phrases share.

A word becomes its stem. A joined word (`foo_bar`, `node.js`, `CamelCase`) becomes the whole without its joints and
its parts, so that either finds it. Scripts that are written without spaces become pairs of characters.
"""

import math
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

from scrubjay.index.stems import algorithm_for, stem_word

K1 = 1.2
B = 0.75
# Fixed, so that a chunk's weights never depend on what else is indexed.
AVERAGE_WORDS = 200
TITLE_WEIGHT = 2.0
SECTION_WEIGHT = 1.0
DEFAULT_LANGUAGES = ("en",)
MAX_WORD_CHARACTERS = 64
_MAX_JOINED_CHARACTERS = 1024
_REMEMBERED_WORDS = 65_536

STOPWORDS = frozenset(
    """a about above after again all am an and any are as at be because been before being below between both but by
    can could did do does doing down during each few for from further had has have having he her here hers him his how
    i if in into is it its just me more most my no nor not now of off on once only or other our ours out over own s
    same she should so some such t than that the their theirs them then there these they this those through to too
    under until up very was we were what when where which while who whom why will with would you your yours dont
    doesnt didnt isnt arent wasnt werent cant wont""".split()  # noqa: SIM905 - words are read more easily as a text
)


def _mark_ranges() -> str:
    """The characters that continue a word without being letters: marks, and joiners that cannot be seen."""
    marks = [each for each in map(chr, range(0x300, 0xFE30)) if unicodedata.category(each) in ("Mn", "Mc")]
    return "".join([*marks, "\u00ad\u200c\u200d\u2060"])


# Han, kana, Hangul, Thai, Lao, Myanmar, Khmer: words are not told apart by spaces, or carry particles.
_UNSPACED = "\u0e01-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u31ff\u3400-\u9fff"
_UNSPACED += "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U0003ffff"
_JOINED = r"(?:[-.'’&\u2010\u2011]{letter}|(?<=\d),\d{{3}}(?!\d)){{0,15}}(?:\+\+|\#(?!\w))?"
_PLAIN_LETTERS = r"\w+"
_PLAIN_WORD = re.compile(_PLAIN_LETTERS + _JOINED.format(letter=_PLAIN_LETTERS), re.ASCII)
_RUN = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_UNSPACED_CHARACTER = re.compile(rf"[{_UNSPACED}]")
_APOSTROPHE_END = re.compile(r"['’](?:s|ll|re|ve|d|m)$", re.IGNORECASE)
_NOT = re.compile(r"n['’]t$", re.IGNORECASE)
_PART = re.compile(r"[^-_.,'’&\u2010\u2011]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_JOINT = re.compile(r"[-_'’&,\u2010\u2011]|(?<!\d)\.|\.(?!\d)")


class Term(NamedTuple):
    """What is indexed, and which characters of the text it stands for."""

    text: str
    start: int
    end: int


class AnalyzedWord(NamedTuple):
    """One word of a text, taken apart; spans count from its beginning. A plain word is its own only part."""

    whole: Term | None  # of a joined word
    parts: tuple[Term, ...]  # what stands side by side in a phrase
    pairs: tuple[Term, ...]  # of characters, where words are not told apart

    @property
    def terms(self) -> tuple[Term, ...]:
        if self.whole is None:
            return self.parts + self.pairs if self.pairs else self.parts
        return (self.whole, *self.parts)


class QueryWord(NamedTuple):
    """A word that is asked for. Each inner tuple holds a term's forms in the query's languages: one is enough."""

    whole: tuple[str, ...]  # empty where there is nothing but parts
    parts: tuple[tuple[str, ...], ...]

    @property
    def scoring(self) -> tuple[str, ...]:
        """What to rank by: the whole, and the parts that say something."""
        telling = [forms for forms in self.parts if not self.whole or len(forms[0]) > 1]
        return tuple(dict.fromkeys([*self.whole, *(form for forms in telling for form in forms)]))

    @property
    def exact(self) -> tuple[tuple[str, ...], ...]:
        """What a text with this very word has, all of it."""
        return (self.whole,) if self.whole else self.parts


def analyze(text: str, language: str | None = None) -> list[Term]:
    """Every term of a text in order, with the characters that it stands for."""
    algorithm = algorithm_for(language)
    found = []
    for match in _words(text):
        start = match.start()
        for term, begin, end in _dissect(match.group(), algorithm).terms:
            found.append(Term(term, start + begin, start + end))
    return found


def document_terms(
    text: str, title: str | None = None, section_header: str | None = None, language: str | None = None
) -> dict[str, float]:
    """The document's half of BM25: term → weight. A query's half is the term's IDF."""
    algorithm = algorithm_for(language)
    frequencies: dict[str, float] = {}
    length = _count_terms(text, algorithm, 1.0, frequencies)
    if title:
        _count_terms(title, algorithm, TITLE_WEIGHT, frequencies)
    if section_header:
        _count_terms(section_header, algorithm, SECTION_WEIGHT, frequencies)
    norm = K1 * (1 - B + B * length / AVERAGE_WORDS)
    return {term: frequency * (K1 + 1) / (frequency + norm) for term, frequency in frequencies.items()}


def query_terms(text: str, languages: Sequence[str] = ()) -> list[QueryWord]:
    """The words of a query, each in the forms of every language; words that say nothing are left out if others do."""
    algorithms = dict.fromkeys(algorithm_for(each) for each in languages or DEFAULT_LANGUAGES)
    words: dict[QueryWord, bool] = {}
    for match in _words(text):
        raw = match.group()
        forms = [_dissect(raw, algorithm) for algorithm in algorithms]
        word = _query_word(forms)
        if word.parts:
            words[word] = raw.casefold().replace("'", "").replace("’", "") in STOPWORDS
    telling = [word for word, stop in words.items() if not stop]
    return telling or list(words)


def highlight(text: str, terms: Collection[str], language: str | None = None) -> tuple[tuple[int, int], ...]:
    """The ranges of the words that are asked for; those with at most a character between them are one."""
    algorithm = algorithm_for(language)
    known: dict[str, tuple[tuple[int, int], ...]] = {}  # a word that was looked at → what of it is asked for
    asked: list[tuple[int, int]] = []
    for match in _words(text):
        raw = match.group()
        spans = known.get(raw)
        if spans is None:
            found = _dissect(raw, algorithm).terms
            spans = known[raw] = tuple((term.start, term.end) for term in found if term.text in terms)
        if spans:
            base = match.start()
            asked += [(base + start, base + end) for start, end in spans]
    merged: list[tuple[int, int]] = []
    for start, end in sorted(asked):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def contains_phrase(text: str, phrase: str, language: str | None = None) -> bool:
    """Whether the phrase's words stand in the text side by side; without any word, whether its characters do."""
    algorithm = algorithm_for(language)
    wanted = _sequence(phrase, algorithm)
    if len(wanted) < 2:
        return phrase.strip().casefold() in text.casefold()
    return wanted in _sequence(text, algorithm)


def term_id(term: str) -> int:
    """A term as a dimension of a sparse vector: the same on every machine and in every release."""
    return crc32(term.encode())


def inverse_frequency(containing: float, total: float) -> float:
    """BM25's IDF, as Qdrant reckons it too."""
    return math.log(1 + (total - containing + 0.5) / (containing + 0.5))


@lru_cache(maxsize=1)
def _marked_word() -> re.Pattern[str]:
    """A word among all the letters there are. To list the marks takes a moment, and most commands search nothing."""
    letters = rf"\w[\w{_mark_ranges()}]*"
    return re.compile(letters + _JOINED.format(letter=letters))


def _words(text: str) -> Iterator[re.Match[str]]:
    return (_PLAIN_WORD if text.isascii() else _marked_word()).finditer(text)


def _count_terms(text: str, algorithm: str, weight: float, frequencies: dict[str, float]) -> int:
    """Add a text's terms to the frequencies; the number of its words."""
    pattern = _PLAIN_WORD if text.isascii() else _marked_word()
    length = 0
    for raw, count in Counter(pattern.findall(text)).items():
        terms, words = _counted(raw, algorithm) if len(raw) <= MAX_WORD_CHARACTERS else _count_word(raw, algorithm)
        length += count * words
        for term, times in terms:
            frequencies[term] = frequencies.get(term, 0.0) + weight * count * times
    return length


def _count_word(raw: str, algorithm: str) -> tuple[tuple[tuple[str, int], ...], int]:
    """How often a word has each of its terms, and how many words it is: pairs are what an unspaced text is long by."""
    word = _take_apart(raw, algorithm)
    terms = word.terms
    if len(terms) == 1:
        return ((terms[0].text, 1),), 1
    return tuple(Counter(term.text for term in terms).items()), max(len(word.pairs), len(word.parts), 1)


_counted = lru_cache(_REMEMBERED_WORDS)(_count_word)


def _dissect(raw: str, algorithm: str) -> AnalyzedWord:
    return _remembered(raw, algorithm) if len(raw) <= MAX_WORD_CHARACTERS else _take_apart(raw, algorithm)


def _take_apart(raw: str, algorithm: str) -> AnalyzedWord:
    if raw.isascii() and raw.isalnum() and (raw.islower() or raw[1:].islower() or raw.isupper()):
        return AnalyzedWord(None, _as_term(raw, algorithm, 0, len(raw)), ())
    if not raw.isascii() and _UNSPACED_CHARACTER.search(raw):
        return _take_unspaced(raw, algorithm)
    if len(raw) > _MAX_JOINED_CHARACTERS:
        return AnalyzedWord(None, (), ())
    bare = _NOT.sub("nt", _APOSTROPHE_END.sub("", raw))
    if bare[-1] in "+#":
        return AnalyzedWord(None, (Term(bare.casefold(), 0, len(raw)),), ())
    parts = [term for start, end in _part_spans(bare) for term in _as_term(bare[start:end], algorithm, start, end)]
    if len(parts) == 1:
        return AnalyzedWord(None, (Term(parts[0].text, 0, len(raw)),), ())
    whole = _as_term(_JOINT.sub("", bare), algorithm, 0, len(raw))
    return AnalyzedWord(whole[0] if whole else None, tuple(parts), ())


_remembered = lru_cache(_REMEMBERED_WORDS)(_take_apart)


def _take_unspaced(raw: str, algorithm: str) -> AnalyzedWord:
    parts: list[Term] = []
    pairs: list[Term] = []
    for run in _RUN.finditer(raw):
        start, end = run.span()
        if not _UNSPACED_CHARACTER.match(run.group()):
            for match in _words(run.group()):
                inner = _dissect(match.group(), algorithm)
                at = start + match.start()
                parts += [Term(each.text, at + each.start, at + each.end) for each in inner.parts]
            continue
        parts += [Term(_compatible(raw[at]), at, at + 1) for at in range(start, end)]
        pairs += [Term(_compatible(raw[at : at + 2]), at, at + 2) for at in range(start, end - 1)]
    return AnalyzedWord(None, tuple(parts), tuple(pairs))


def _compatible(characters: str) -> str:
    return sys.intern("".join(unicodedata.normalize("NFKC", characters).split()))


def _part_spans(word: str) -> Iterator[tuple[int, int]]:
    for part in _PART.finditer(word):
        text, start = part.group(), part.start()
        edges = [0, *(hump.start() for hump in _HUMP.finditer(text)), len(text)]
        for begin, end in pairwise(edges):
            yield start + begin, start + end


def _as_term(word: str, algorithm: str, start: int, end: int) -> tuple[Term, ...]:
    """The word's one term, or none: what is very long was not written by people, and is not looked for by them."""
    if len(word) > MAX_WORD_CHARACTERS:
        return ()
    stem = stem_word(word, algorithm)
    return (Term(sys.intern(stem), start, end),) if stem else ()


def _query_word(forms: Sequence[AnalyzedWord]) -> QueryWord:
    """The forms of one word in several languages, place by place."""
    wholes = tuple(dict.fromkeys(form.whole.text for form in forms if form.whole is not None))
    places = [_asked_parts(form) for form in forms]
    # Languages stem words differently, but they take them apart alike.
    parts = tuple(tuple(dict.fromkeys(place)) for place in zip(*places, strict=True))
    return QueryWord(wholes, parts)


def _asked_parts(word: AnalyzedWord) -> list[str]:
    if not word.pairs:
        return [part.text for part in word.parts]
    paired = {at for pair in word.pairs for at in (pair.start, pair.start + 1)}
    single = [part.text for part in word.parts if part.start not in paired]
    return [*single, *(pair.text for pair in word.pairs)]


def _sequence(text: str, algorithm: str) -> str:
    """The words as one string in which other strings of words can be looked for."""
    words = [part.text for match in _words(text) for part in _dissect(match.group(), algorithm).parts]
    return "\0".join(["", *words, ""])


def sparse_vector(weights: Mapping[str, float]) -> tuple[list[int], list[float]]:
    """Weighted terms as a sparse vector. Terms that share an id, which is rare, share its weight."""
    vector: dict[int, float] = {}
    for term, weight in weights.items():
        identifier = term_id(term)
        vector[identifier] = max(weight, vector.get(identifier, 0.0))
    return list(vector), list(vector.values())
