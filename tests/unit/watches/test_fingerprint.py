"""What counts as a change of an article, and what does not."""

import time

import pytest

from scrubjay.watches.fingerprint import (
    FINGERPRINT_CHARACTERS,
    article_text,
    fingerprint,
    hash_entry,
    normal_text,
    plain_text,
    telling_fingerprint,
)

TEXT = "The ferry ran aground at Ashford. Forty passengers were taken off by helicopter."


@pytest.mark.parametrize(
    "cosmetic",
    [
        TEXT.upper(),
        TEXT.replace(" ", "\n\t  "),
        TEXT.replace(".", " …"),
        f"Updated: 5 min ago. {TEXT}",
        f"Last updated 2026-03-04T12:30:00Z {TEXT}",
        f"{TEXT} 1,204 comments · 3k shares · 4 min read",
        f"March 4, 2026 {TEXT} 12:44 PM",
        f"4. März 2026, 14:05 Uhr {TEXT}",
        f"vor 5 Minuten {TEXT}",
        f"Il y a 2 heures {TEXT}",
        f"hace 3 horas {TEXT}",
        TEXT.replace("Ashford", "[Ashford](https://example.org/a?utm=1)"),
        TEXT.replace("f", "\uff46"),  # a full-width letter
    ],
)
def test_cosmetic_changes_leave_the_fingerprint_as_it_is(cosmetic: str) -> None:
    assert fingerprint(cosmetic) == fingerprint(TEXT)


@pytest.mark.parametrize(
    "changed",
    [
        TEXT.replace("Forty", "Fifty"),
        TEXT.replace("Forty", "40"),
        TEXT + " Two are missing.",
        TEXT.replace("Ashford", "Milton"),
        "Not " + TEXT,
    ],
)
def test_other_words_and_other_numbers_are_another_fingerprint(changed: str) -> None:
    assert fingerprint(changed) != fingerprint(TEXT)


def test_numbers_that_mean_something_count() -> None:
    assert fingerprint("The quake killed 30 people") != fingerprint("The quake killed 40 people")


def test_only_the_beginning_counts_and_what_is_left_out_does_not_move_its_end() -> None:
    words = " ".join(f"word{number}" for number in range(2000))
    assert fingerprint(words) == fingerprint(words[: FINGERPRINT_CHARACTERS * 2] + " something else")
    assert fingerprint(words) == fingerprint("Updated 5 min ago " + words)


def test_what_says_nothing_has_none_and_what_says_little_is_not_compared() -> None:
    assert fingerprint(" … 12:30 — ") is None
    assert telling_fingerprint("Please enable JavaScript.") is None
    assert telling_fingerprint(TEXT * 4) is not None
    assert hash_entry(None, "") is None
    assert hash_entry("a", "") != hash_entry("", "a")


def test_lines_of_links_are_left_out_unless_they_are_all_there_is() -> None:
    links = "\n".join(f"- [Headline {number}](https://example.org/{number})" for number in range(3))
    assert article_text(f"{TEXT * 3}\n\n{links}") == f"{TEXT * 3}\n"
    assert article_text(links) == links


def test_markup_of_feeds_is_taken_out() -> None:
    assert plain_text("<p>Fish &amp; chips<br/>are <b>back</b></p>") == "Fish & chips are back"


@pytest.mark.parametrize("hostile", ["<" * 500_000, "1" * 500_000, "12:" * 100_000, "[](" * 200_000, "a b " * 200_000])
def test_no_text_takes_long(hostile: str) -> None:
    started = time.perf_counter()
    normal_text(hostile)
    article_text(hostile)
    plain_text(hostile)
    assert time.perf_counter() - started < 1.0
