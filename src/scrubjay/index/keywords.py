"""A keyword query as sparse vectors, for the engines that rank words by them."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from scrubjay.index.analysis import QueryWord, query_terms, term_id
from scrubjay.model.search import KeywordQuery

Forms = tuple[int, ...]  # the ids of one term's forms: one of them is enough

# Outweighs whatever else a chunk has, even where nearly every chunk has the excluded word and its IDF is tiny.
EXCLUDED_WEIGHT = -1e15
_FEW = 1_000
_ALL = 10_000_000


@dataclass(frozen=True, slots=True)
class KeywordPlan:
    """What a hit has: one of `scoring`, all of `required`, none of `excluded`, and no list of `together` in whole."""

    scoring: tuple[int, ...]
    required: tuple[Forms, ...] = ()
    excluded: tuple[int, ...] = ()
    together: tuple[tuple[Forms, ...], ...] = ()

    @property
    def sparse(self) -> tuple[list[int], list[float]]:
        """The query as indices and values: excluded words push a chunk's score below nothing."""
        excluded = set(self.excluded)
        asked = [term for term in self.scoring if term not in excluded]
        return [*asked, *excluded], [1.0] * len(asked) + [EXCLUDED_WEIGHT] * len(excluded)


class Lookup(NamedTuple):
    """Which points have one of these terms, among those within."""

    forms: Forms
    within: set[UUID] | None
    limit: int


def plan_keywords(query: KeywordQuery) -> KeywordPlan:
    """Phrases rank only where there is no other word: whoever has all their words has them equally."""
    words = query_terms(query.text, query.languages)
    phrases = [word for phrase in query.phrases for word in query_terms(phrase, query.languages)]
    excluded = [word.exact for text in query.excluded for word in query_terms(text, query.languages)]
    return KeywordPlan(
        scoring=_unique(form for word in words or phrases for form in word.scoring),
        required=tuple(dict.fromkeys(forms for word in phrases for forms in _parts(word))),
        excluded=_unique(form for exact in excluded if len(exact) == 1 for form in exact[0]),
        together=tuple(tuple(_ids(forms) for forms in exact) for exact in excluded if len(exact) > 1),
    )


def find_all(groups: Sequence[Forms]) -> Generator[Lookup, list[UUID], set[UUID]]:
    """The points that have a form of every group, found by lookups that the caller makes and sends back.

    The first lookups are short: whichever comes back complete and smallest is where the others are looked for.
    """
    found: set[UUID] | None = None
    for forms in groups:
        ids = yield Lookup(forms, None, _FEW)
        if len(ids) < _FEW and (found is None or len(ids) < len(found)):
            found = set(ids)
    if found is None:
        found = set((yield Lookup(groups[0], None, _ALL)))
    for forms in groups:
        if not found:
            break
        found = set((yield Lookup(forms, found, len(found))))
    return found


def _parts(word: QueryWord) -> Iterable[Forms]:
    return (_ids(forms) for forms in word.parts)


def _ids(forms: Iterable[str]) -> Forms:
    return tuple(map(term_id, forms))


def _unique(forms: Iterable[str]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(term_id, forms)))
