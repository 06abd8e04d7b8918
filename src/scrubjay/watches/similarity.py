"""Whether two pieces of news tell the same story: stems of title and lead, weighted by how rare they are.

Rare means rare among the recent stories of the tenant, so that "mayor" says little in a week of elections. Words
that all news share say little from the beginning.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scrubjay.index.analysis import STOPWORDS, analyze
from scrubjay.index.stems import stem_word

LEAD_CHARACTERS = 500
MOST_TERMS = 50
MOST_MEMBERS = 5
SAME_STORY = 0.255
_SHARED_TERMS = 3
_SHARED_TITLE_TERMS = 2
_TITLE_WEIGHT = 2.0
_COMMON_WEIGHT = 0.2
_NUMBER_WEIGHT = 0.6
_FEWEST_STORIES = 25  # as if there were so many: with two stories, every word is rare
_NAME_WEIGHT = 2.0
_CAPITALS_OF_HEADLINE = 0.6
_NAMELESS = 1.5  # how much more alike must be what shares no name
_LETTERS = re.compile(r"[^\W\d_]")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;\"“„»(]\s?)$")

_COMMON_WORDS = """
    accord accuse action add after agency ago ahead aim allow amid announce announcement annual another appeal area ask
    attack back big boss bring build business call campaign case center central chair challenge chance change charge
    chief child city claim close club come commission committee community company concern confirm control cost council
    country county court crisis cut data date day deal death decision decline demand department despite detail
    development die director district draw drop early east economy effort election end event ever executive expand
    expect expert face fact fail fall family fan fear federal fight file final find fire firm first follow force former
    found free friday full fund future game general get give global go good government great group grow growth head
    health hear help high hit hold home hope host hour house impact include increase industry inform international issue
    job join judge july june keep key kill know large last late latest law lead leader least leave left less let level
    life like likely line little live local long look lose loss low lower major make man manager many mark market may
    mayor meet member might million billion minister minute monday month morning move much name nation national near
    need new news next night north number offer office official old one open order part party pass pay people percent
    place plan play point police policy political poll pose president press price prime problem process product
    program project propose protest provide public push put question quarter raise rate reach read ready record region
    release remain report research residents result return reveal rise role rule run sale saturday say school season
    second sector secretary see seek sell senate senior service set several share show side sign site six south
    spokesman spokesperson staff stand start state statement stay step still stop story street strong study sunday
    support survey system take talk tax team tell term test thousand three thursday time today told tomorrow top total
    toward town trade tuesday turn two university update use vote wait want war warn watch wednesday week weekend west
    win woman work worker world year yesterday young
    der die das und ist ein eine einer mit von für auf den dem des nicht auch sich nach bei aus wird wurde sind hat
    zum zur über mehr neue neuen le la les des une dans pour sur avec est par plus qui que el los las del una por con
    para más que
"""
_COMMON = frozenset(stem_word(word, "english") for word in _COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class Telling:
    """One source's way to tell a story: the stems of its title and of its lead, and which of them are names."""

    title: frozenset[str]
    lead: frozenset[str]
    names: frozenset[str]
    all: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "all", self.title | self.lead)

    def dump(self) -> list[list[str]]:
        return [sorted(self.title), sorted(self.lead), sorted(self.names)]

    @classmethod
    def read(cls, value: Sequence[Sequence[str]]) -> "Telling":
        title, lead, names = value
        return cls(frozenset(title), frozenset(lead), frozenset(names))


def read_telling(title: str | None, lead: str) -> Telling:
    """Names are words with a capital where a sentence gives none; headlines in capitals tell nothing of that."""
    title_terms, title_names = _terms(title or "")
    lead_terms, lead_names = _terms(lead[:LEAD_CHARACTERS])
    names = set(lead_names)
    if len(title_names) <= len(title_terms) * _CAPITALS_OF_HEADLINE:
        names.update(title_names)
    return Telling(frozenset(title_terms), frozenset(lead_terms), frozenset(names) - _COMMON)


def _terms(text: str) -> tuple[list[str], list[str]]:
    found, names = [], []
    for term in analyze(text):
        word = text[term.start : term.end]
        if word.casefold() in STOPWORDS or (len(term.text) < 2 and term.text.isascii()):
            continue
        found.append(term.text)
        if word[:1].isupper() and not _SENTENCE_START.search(text[max(0, term.start - 2) : term.start]):
            names.append(term.text)
    return found[:MOST_TERMS], names[:MOST_TERMS]


class Rarity:
    """How much each term says, given the stories of late."""

    def __init__(self, stories: Iterable[Iterable[str]]) -> None:
        counts: Counter[str] = Counter()
        number = 0
        for terms in stories:
            number += 1
            counts.update(set(terms))
        self._counts = counts
        self._total = max(number, _FEWEST_STORIES)
        self._full = math.log(1 + self._total)

    def weight(self, term: str) -> float:
        rare = math.log(1 + self._total / max(1, self._counts[term])) / self._full
        if term in _COMMON:
            return rare * _COMMON_WEIGHT
        return rare if _LETTERS.search(term) else rare * _NUMBER_WEIGHT

    def says_much(self, term: str) -> bool:
        """Whether sharing this term is a sign at all."""
        return term not in _COMMON and self._counts[term] <= max(4, self._total // 8)


def similarity(one: Telling, other: Telling, rarity: Rarity) -> float:
    """0–1: how much of what the two say, weighted, they both say. 0 when they share too little to tell."""
    shared = one.all & other.all
    if sum(map(rarity.says_much, shared)) < _SHARED_TERMS:
        return 0.0
    if sum(rarity.says_much(term) for term in shared if term in one.title or term in other.title) < _SHARED_TITLE_TERMS:
        return 0.0
    weigh = _weights(one, other, rarity)
    both = sum(min(weigh(term, one), weigh(term, other)) for term in shared)
    smaller = min(sum(weigh(term, each) for term in each.all) for each in (one, other))
    whole = sum(max(weigh(term, one), weigh(term, other)) for term in one.all | other.all)
    if not smaller or not whole:
        return 0.0
    # Between containment, which forgives that one tells more, and Jaccard, which does not.
    alike = math.sqrt((both / smaller) * (both / whole))
    return alike / _NAMELESS if one.names and other.names and not one.names & other.names else alike


def _weights(one: Telling, other: Telling, rarity: Rarity) -> Callable[[str, Telling], float]:
    names = one.names | other.names
    known = {term: rarity.weight(term) * (_NAME_WEIGHT if term in names else 1.0) for term in one.all | other.all}

    def weigh(term: str, telling: Telling) -> float:
        if term not in telling.all:
            return 0.0
        return known[term] * (_TITLE_WEIGHT if term in telling.title else 1.0)

    return weigh


def members_of(features: Mapping[str, Any]) -> list[Telling]:
    return [Telling.read(each) for each in features.get("members", ())]


def with_member(features: Mapping[str, Any], telling: Telling) -> dict[str, Any]:
    """A story's features with one more way to tell it; the first and the newest are kept."""
    members = [*features.get("members", ()), telling.dump()]
    if len(members) > MOST_MEMBERS:
        members = [members[0], *members[-(MOST_MEMBERS - 1) :]]
    return {"members": members}
