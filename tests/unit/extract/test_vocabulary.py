"""Words as hashes: cut where training cuts them, told apart, and found again wherever they stand."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.extract.features import Lexicon
from scrubjay.extract.vocabulary import (
    BREAK_HASH,
    END_OF_NAMES,
    HashedVocabulary,
    RunHashes,
    cut_names,
    cut_words,
    lower_codes,
    read_codes,
    read_words,
)

LONG = 40_000  # characters: more than the table of powers has


@given(st.text(alphabet="abAB.,'’“-é߀😀\x00 \ud800", max_size=40))
def test_the_words_of_a_text_are_those_that_training_reads(text: str) -> None:
    lowered = text.lower().encode("utf-8", "replace").decode()
    starts, ends = cut_words(read_codes(lowered))
    assert [lowered[start:end] for start, end in zip(starts, ends, strict=True)] == read_words(lowered)


@given(st.text(alphabet="abABCd-_9é \n", max_size=40))
def test_class_names_are_cut_at_capitals_as_training_does(text: str) -> None:
    text += END_OF_NAMES
    starts, ends, _, list_ends = cut_names(read_codes(text))
    assert [text[start:end] for start, end in zip(starts, ends, strict=True)] == re.findall(
        r"[A-Z]?[a-z]+|[A-Z]+", text
    )
    assert list_ends.tolist() == [len(text) - 1]


@pytest.mark.parametrize("filler", ["", "x" * LONG])
def test_a_word_is_found_wherever_it_stands(filler: str) -> None:
    known = HashedVocabulary(["jay", "acorn", "yaj"])
    codes = read_codes(f"{filler} acorn jay\nother yaj")
    hashes = RunHashes(codes).of(*cut_words(codes))
    found = [known.words[number - 1] if number else None for number in known.find(hashes).tolist()]
    assert found[-5:] == ["acorn", "jay", None, None, "yaj"]
    assert hashes[-3] == BREAK_HASH


def test_a_vocabulary_of_nothing_knows_no_word() -> None:
    assert HashedVocabulary([]).find(np.array([0, 1, -1, 2**62])).tolist() == [0, 0, 0, 0]


def test_a_word_counts_once_per_class_name() -> None:
    lexicon = Lexicon(classes={"jay": 3.0, "nest": -1.0})
    read = lexicon.read_attributes(["jay-jay", "jay jay", "myNest JAY", "unheardof", ""])
    assert [leaning for leaning, _ in read] == [3 / 2, 6 / 3, 2 / 3, 0, 0]


@pytest.mark.parametrize("text", ["", "ACORN", "Ärger’s ÉCOLE", "ΟΔΟΣ", "İstanbul", "\U0001f426 \U00010400 Ǆ ẞ Ω"])
def test_characters_become_small_letters_as_strings_do(text: str) -> None:
    assert lower_codes(text, read_codes(text)).tolist() == [ord(letter) for letter in text.lower()]


def test_every_letter_beside_the_special_ones_has_one_small_form() -> None:
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)])).replace("İ", "").replace("Σ", "")
    assert np.array_equal(lower_codes(text, read_codes(text)), read_codes(text.lower()))


def test_class_names_read_again_and_after_many_others_say_the_same() -> None:
    lexicon = Lexicon(classes={"jay": 3.0})
    first = lexicon.read_attributes(["nav jay", "jay", "nav jay"])
    lexicon.read_attributes([f"other{number}" for number in range(5_000)])
    assert first[0] == first[2] != first[1]
    assert lexicon.read_attributes(["jay", "nav jay"]) == [first[1], first[0]]
