"""Words as a person would type them, and the known word that a misspelt one probably meant."""

import re
from collections.abc import Iterator, Sequence

MIN_LENGTH = 4
MAX_LENGTH = 32
_WORD = re.compile(r"[^\W\d_]{4,}")


def vocabulary_of(text: str) -> Iterator[str]:
    """The words of a text that are worth guessing: letters only, neither short nor endless."""
    for match in _WORD.finditer(text):
        word = match.group().casefold()
        if MIN_LENGTH <= len(word) <= MAX_LENGTH:
            yield word


def nearest_word(word: str, known: Sequence[str]) -> str | None:
    """The known word that differs least: one change for short words, two for long ones."""
    asked = word.casefold()
    if len(asked) < MIN_LENGTH:
        return None
    from rapidfuzz import process  # here, because whoever indexes needs this module, too
    from rapidfuzz.distance import DamerauLevenshtein

    allowed = 1 if len(asked) < 8 else 2
    found = process.extractOne(asked, known, scorer=DamerauLevenshtein.distance, score_cutoff=allowed)
    return None if found is None else str(found[0])
