"""Words as a person would type them, and the one that was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.index.words import MAX_LENGTH, MIN_LENGTH, nearest_word, vocabulary_of

KNOWN = ["acorn", "brakes", "engine", "sourdough", "squirrel"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("acron", "acorn"),  # two letters that changed places are one change
        ("Acorm", "acorn"),
        ("acorns", "acorn"),
        ("sourdoug", "sourdough"),
        ("suordoughs", "sourdough"),  # long words may have two changes
        ("squirel", "squirrel"),
        ("acxrm", None),  # short ones may not
        ("car", None),
        ("zebra", None),
        ("", None),
    ],
)
def test_the_known_word_that_differs_least_is_meant(typed: str, meant: str | None) -> None:
    assert nearest_word(typed, KNOWN) == meant


def test_nothing_is_meant_where_nothing_is_known() -> None:
    assert nearest_word("acorn", []) is None


def test_a_known_word_is_nearest_to_itself() -> None:
    assert all(nearest_word(word.upper(), KNOWN) == word for word in KNOWN)


def test_the_vocabulary_has_words_of_letters_that_are_neither_short_nor_endless() -> None:
    text = f"The JAY hides 4 acorns, über 2026 snake_case x2yz {'a' * (MAX_LENGTH + 1)} Ähren"
    assert list(vocabulary_of(text)) == ["hides", "acorns", "über", "snake", "case", "ähren"]


@given(st.text())
def test_any_text_has_a_vocabulary_of_such_words(text: str) -> None:
    for word in vocabulary_of(text):
        assert MIN_LENGTH <= len(word) <= MAX_LENGTH
        assert word == word.casefold()
