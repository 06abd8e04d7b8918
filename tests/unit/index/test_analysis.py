"""Text to terms: what is found by what."""

import time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrubjay.index.analysis import (
    MAX_WORD_CHARACTERS,
    analyze,
    contains_phrase,
    document_terms,
    highlight,
    inverse_frequency,
    query_terms,
    sparse_vector,
    term_id,
)

LANGUAGES = st.sampled_from([None, "en", "de", "fr-CA", "ru", "ja", "th", "tlh", "", "english"])
WORDS = st.text(st.characters(categories=["Lu", "Ll", "Nd"]), min_size=1, max_size=12)


def terms(text: str, language: str | None = "en") -> list[str]:
    return [term.text for term in analyze(text, language)]


def finds(query: str, text: str, language: str | None = "en") -> bool:
    wanted = {form for word in query_terms(query, [language or "en"]) for form in word.scoring}
    return bool(wanted & document_terms(text, language=language).keys())


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("server", "Many SERVERS"),
        ("connections", "it connected"),
        ("resume", "his résumé"),
        ("Zürich", "in Zurich"),
        ("nodejs", "with Node.js"),
        ("node.js", "with NodeJS"),
        ("node", "with node.js"),
        ("foobar", "call foo_bar()"),
        ("foo_bar", "the foo and the bar"),
        ("email", "an e-mail"),
        ("HTTPServer", "class HttpServer"),
        ("parser", "an HTMLParser"),
        ("usa", "the U.S.A. and others"),
        ("100000", "of 100,000 rows"),
        ("3.11", "Python 3.11."),
        ("c++", "written in C++."),
        ("c#", "C# code"),
        ("dont", "I don't know"),
        ("company", "the company's plan"),
        ("fine", "ﬁne print"),
        ("ABC", "ＡＢＣ"),
        ("softhyphen", "soft\u00adhyphen"),
        ("東京", "私は東京にいる"),
        ("猫", "黒猫がいる"),
        ("iPhone", "新しいiPhone15とiPhoneを買う"),
        ("книга", "новые книги"),
        ("example", "mail to someone@example.com"),
    ],
)
def test_a_query_finds_the_text(query: str, text: str) -> None:
    assert finds(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("c", "written in C++"),
        ("art", "party"),
        ("314", "pi is 3.14"),
        ("東京", "京都の東"),
        ("the", "nothing"),
        ("й", "и"),
    ],
)
def test_a_query_does_not_find_what_only_looks_like_it(query: str, text: str) -> None:
    assert not finds(query, text)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("de", "Häuser", "Haus"),
        ("de", "Müller", "Mueller"),
        ("fr", "chevaux", "cheval"),
        ("es", "canciones", "canción"),
        ("ru", "книгами", "книга"),
        ("sv", "flickorna", "flickor"),
        (None, "connections", "connected"),
        ("tlh", "connections", "connected"),
        ("ru", "servers", "server"),
        ("ja", "servers", "server"),
    ],
)
def test_forms_of_a_word_share_a_term(language: str | None, one: str, other: str) -> None:
    assert terms(one, language) == terms(other, language)


def test_a_query_word_has_the_forms_of_every_language() -> None:
    (word,) = query_terms("Häuser", ["en", "de"])

    assert set(word.scoring) == {*terms("Häuser", "en"), *terms("Häuser", "de")}
    assert len(set(word.scoring)) == 2


def test_words_that_say_nothing_are_asked_for_only_alone() -> None:
    assert [word.scoring for word in query_terms("what is the index")] == [("index",)]
    assert [word.scoring for word in query_terms("The Who")] == [("the",), ("who",)]


def test_titles_and_sections_count_more_than_text_and_repetition_less_each_time() -> None:
    plain = document_terms("owl")["owl"]
    twice = document_terms("owl owl")["owl"]
    titled = document_terms("owl", title="owl")["owl"]
    under = document_terms("owl", section_header="owl")["owl"]

    assert plain < twice < 2 * plain
    assert plain < under < titled


def test_a_word_in_a_long_text_counts_less() -> None:
    assert document_terms("owl " + "filler " * 500)["owl"] < document_terms("owl filler")["owl"]


def test_term_ids_stay_what_they_are() -> None:
    assert (term_id("owl"), term_id("東京"), term_id("c++")) == (2_561_709_901, 2_451_981_039, 1_864_149_058)
    assert sparse_vector({"owl": 1.5}) == ([2_561_709_901], [1.5])


def test_rare_terms_weigh_more() -> None:
    assert inverse_frequency(1, 1000) > inverse_frequency(500, 1000) > inverse_frequency(1000, 1000) > 0


def test_highlights_are_the_words_and_neighbours_are_one() -> None:
    text = "The vector search engine searched foo_bar, not VECTORS."
    wanted = {form for word in query_terms("vector searching bar") for form in word.scoring}

    found = [text[start:end] for start, end in highlight(text, wanted, "en")]

    assert found == ["vector search", "searched", "bar", "VECTORS"]
    assert highlight(text, (), "en") == ()


@pytest.mark.parametrize(
    ("text", "phrase", "expected"),
    [
        ("The red kites fly", "red kite", True),
        ("The red and kite", "red kite", False),
        ("kite red", "red kite", False),
        ("uses Node.js here", "node js", True),
        ("uses node js here", "Node.js", True),
        ("to be or not to be", "to be, or not", True),
        ("東京タワーに", "京タワ", True),
        ("東京タワーに", "ー", True),
        ("東京タワーに", "タ東", False),
        ("what !!! now", "!!!", True),
        ("what now", "!!!", False),
        ("redkite", "red kite", False),
    ],
)
def test_a_phrase_is_words_side_by_side(text: str, phrase: str, expected: bool) -> None:
    assert contains_phrase(text, phrase, "en") is expected


@given(st.text(max_size=300), LANGUAGES)
@example("\x00\ud800a'\ud83d'b", "en")
@example("İIıi ß ﷺ ½ ①", "tr")
def test_any_text_can_be_analysed(text: str, language: str | None) -> None:
    found = analyze(text, language)

    assert all(0 <= term.start < term.end <= len(text) for term in found)
    assert all(term.text and not any(map(str.isspace, term.text)) for term in found)
    assert document_terms(text, text, text, language).keys() == {term.text for term in found}
    assert all(weight > 0 for weight in document_terms(text, language=language).values())


@given(st.text(max_size=200), LANGUAGES)
def test_a_text_has_every_word_of_itself(text: str, language: str | None) -> None:
    known = document_terms(text, language=language).keys()

    for word in query_terms(text, [language or ""]):
        assert set(word.scoring) <= known
        assert all(forms[0] in known for forms in (*word.parts, *word.exact))


@given(st.lists(WORDS, min_size=1, max_size=12), st.data())
def test_a_text_contains_every_stretch_of_itself(words: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))

    assert contains_phrase(" ".join(words), " ".join(words[start:end]), "en")


@given(st.text(max_size=200), st.text(max_size=20), LANGUAGES)
def test_highlights_are_ordered_and_apart(text: str, query: str, language: str | None) -> None:
    wanted = {form for word in query_terms(text[:50] + query, [language or ""]) for form in word.scoring}
    ranges = highlight(text, wanted, language)

    assert all(0 <= start < end <= len(text) for start, end in ranges)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(ranges))


@given(st.text(max_size=40))
def test_case_does_not_matter(text: str) -> None:
    swapped = text.lower()
    if swapped.upper().lower() == swapped:  # there are letters that do not come back
        assert finds(swapped, swapped) == finds(swapped, swapped.upper())


@pytest.mark.parametrize(
    "unit", ["a", "a.", "a ", "东", "\0", "👍", "'", "n't", "a\u0301", "aB", "_a", "1,000", "\u0301", "ไ", "-", "a-"]
)
def test_time_grows_with_the_text_and_not_faster(unit: str) -> None:
    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        # Of this thread alone: others, left by other tests, may be at work.
        started = time.thread_time()
        document_terms(text, language="en")
        contains_phrase(text, "x y")
        return time.thread_time() - started

    seconds(1_000)
    small, large = max(seconds(25_000), 0.002), seconds(100_000)

    assert large < small * 4 * 6


def test_what_no_person_wrote_is_left_out() -> None:
    assert terms("x" * (MAX_WORD_CHARACTERS + 1) + " word") == ["word"]
    assert len(document_terms("a" * 5_000_000 + " owl")) == 1
