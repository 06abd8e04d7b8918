"""Keyword relevance of URLs and links."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.crawler.relevance import Relevance, keywords_of, words_of_url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://a.example/docs/getting-started_guide", ["docs", "getting", "started", "guide"]),
        ("https://a.example/UserGuide/apiKeys", ["user", "guide", "api", "keys"]),
        ("https://a.example/caf%C3%A9/%6Denu", ["café", "menu"]),
        ("https://a.example/search?topic=acorns&page=2", ["search", "topic", "acorns", "page", "2"]),
        ("https://acorns.example/", []),
        ("https://acorns.example", []),
        ("https://a.example/100%/x%zz", ["100", "x", "zz"]),
    ],
)
def test_a_url_is_split_into_the_words_of_its_path_and_query(url: str, words: list[str]) -> None:
    assert words_of_url(url) == words


def test_the_words_of_a_host_say_nothing_about_a_page() -> None:
    assert Relevance("acorns").score_url("https://acorns.example/imprint") == 0


def test_a_url_with_every_keyword_scores_one_and_with_none_scores_zero() -> None:
    relevance = Relevance("acorn storage")
    assert relevance.score_url("https://a.example/acorn/storage") == 1
    assert relevance.score_url("https://a.example/imprint") == 0
    assert 0 < relevance.score_url("https://a.example/storage") < 1


def test_the_beginning_of_a_word_counts_less_than_the_word() -> None:
    relevance = Relevance("acorn")
    assert 0 < relevance.score_url("https://a.example/acorns") < relevance.score_url("https://a.example/acorn")
    assert Relevance("ac").score_url("https://a.example/acorn") == 0, "two letters begin too many words"


def test_an_anchor_tells_more_than_the_url_and_the_url_more_than_the_text_around() -> None:
    relevance = Relevance("acorn")
    anchor = relevance.score_link("https://a.example/x", "acorn")
    url = relevance.score_link("https://a.example/acorn")
    context = relevance.score_link("https://a.example/x", "here", "where the acorn is")
    assert 1 == anchor > url > context > 0


def test_without_keywords_nothing_is_relevant() -> None:
    assert keywords_of(" - ! ") == ()
    assert Relevance("").score_link("https://a.example/acorn", "acorn", "acorn") == 0


def test_a_score_does_not_depend_on_the_order_of_the_keywords_or_their_case() -> None:
    url = "https://a.example/Acorn-storage"
    assert Relevance("ACORN storage").score_url(url) == Relevance("storage acorn").score_url(url)


WORDS = st.lists(st.sampled_from(["acorn", "acorns", "oak", "tree", "winter", "x"]), max_size=6)


@given(path=WORDS, anchor=WORDS, context=WORDS, more=WORDS)
def test_more_matches_never_lower_a_score(
    path: list[str], anchor: list[str], context: list[str], more: list[str]
) -> None:
    relevance = Relevance("acorn oak winter")

    def score(path: list[str], anchor: list[str], context: list[str]) -> float:
        return relevance.score_link("https://a.example/" + "/".join(path), " ".join(anchor), " ".join(context))

    before = score(path, anchor, context)
    assert 0 <= before <= 1
    assert score([*path, *more], anchor, context) >= before
    assert score(path, [*anchor, *more], context) >= before
    assert score(path, anchor, [*context, *more]) >= before


@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=500))
def test_any_text_gets_a_score_between_zero_and_one(query: str, url: str, text: str) -> None:
    assert 0 <= Relevance(query).score_link(url, text, text) <= 1


def test_a_link_is_scored_within_20_microseconds() -> None:
    relevance = Relevance("acorn storage winter")
    context = "Where jays keep their acorns in the winter, and how they find them again " * 2

    def microseconds() -> float:
        before = time.thread_time()
        for number in range(200):
            relevance.score_link(f"https://a.example/docs/guide-{number}/Acorns", "Acorns in winter", context)
        return (time.thread_time() - before) * 5000

    # Of this thread alone, and one of many, because the machine is shared with others.
    assert any(microseconds() < 20 for _ in range(500))
