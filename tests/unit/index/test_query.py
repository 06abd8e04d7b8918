"""What somebody typed into a search box."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.errors import InvalidRequest
from scrubjay.index.query import MAX_QUERY_CHARACTERS, ParsedQuery, parse_query


@pytest.mark.parametrize(
    ("typed", "parsed"),
    [
        ("blue jay", ParsedQuery("blue jay")),
        ('a "scrub jay" nest', ParsedQuery("a scrub jay nest", phrases=("scrub jay",))),
        ('"acorn"', ParsedQuery("acorn")),  # one word stands side by side with itself
        ('open "wild yeast', ParsedQuery("open wild yeast", phrases=("wild yeast",))),
        ("jay -blue", ParsedQuery("jay", excluded=("blue",))),
        ('jay -"blue jay"', ParsedQuery("jay", excluded=("blue jay",))),
        ("jay site:Birds.Example.", ParsedQuery("jay", hosts=("birds.example",))),
        ("jay -site:birds.example", ParsedQuery("jay", excluded_hosts=("birds.example",))),
        ("jay SITE:a.example site:b.example", ParsedQuery("jay", hosts=("a.example", "b.example"))),
        ("well-known e-mail", ParsedQuery("well-known e-mail")),
        ("jay - nest", ParsedQuery("jay nest")),
        ('jay "" nest', ParsedQuery("jay nest")),
        ("C++ & C#", ParsedQuery("C++ C#")),
        ("松鸦 橡子", ParsedQuery("松鸦 橡子")),
    ],
)
def test_words_phrases_exclusions_and_hosts_are_told_apart(typed: str, parsed: ParsedQuery) -> None:
    assert parse_query(typed) == parsed


@pytest.mark.parametrize(
    "typed", ["", "   ", "-", '""', "-blue", "site:birds.example", '-"blue jay" site:a.example', "!?*", "😀"]
)
def test_a_query_of_operators_only_is_refused(typed: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_query(typed)
    assert caught.value.details["field"] == "query"


def test_a_query_has_a_greatest_length() -> None:
    assert parse_query("a" * MAX_QUERY_CHARACTERS).text == "a" * MAX_QUERY_CHARACTERS
    with pytest.raises(InvalidRequest, match=str(MAX_QUERY_CHARACTERS)):
        parse_query("a" * (MAX_QUERY_CHARACTERS + 1))


@given(st.text(max_size=MAX_QUERY_CHARACTERS))
def test_anything_typed_is_parsed_or_refused(typed: str) -> None:
    try:
        parsed = parse_query(typed)
    except InvalidRequest:
        return
    assert parsed.text.split()
    assert all(phrase in parsed.text for phrase in parsed.phrases)
