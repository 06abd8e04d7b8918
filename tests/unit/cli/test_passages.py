"""What of a passage is shown in a terminal: text without marks, around the words that were looked for."""

import pytest

from scrubjay.cli.passages import HIGHLIGHT, shown_passage, shown_section
from scrubjay.index.passages import SHOWN_CHARACTERS


def ranges_of(content: str, *words: str) -> list[tuple[int, int]]:
    return [(content.index(word), content.index(word) + len(word)) for word in words]


def marked(content: str, *words: str, section: str | None = None) -> tuple[str, list[str]]:
    text = shown_passage(content, ranges_of(content, *words), section)
    return text.plain, [text.plain[span.start : span.end] for span in text.spans if span.style == HIGHLIGHT]


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("Read [the notes](http://jay.example/notes_(old).html) first.", "Read the notes first."),
        ("![a jay](jay.png) hides", "a jay hides"),
        ("**Bold** words and `code`", "Bold words and code"),
        ("## Winter\n\nThey find acorns.", "Winter: They find acorns."),
        ("- one\n- two", "• one • two"),
        ("| bird | food |\n|---|---|\n| jay | acorn |", "| bird | food | | jay | acorn |"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("a [bracket] stays", "a [bracket] stays"),
        ("one\n\n\ttwo\x1b[31m", "one two [31m"),
    ],
)
def test_marks_of_markdown_are_not_shown(markdown: str, shown: str) -> None:
    assert shown_passage(markdown, []).plain == shown


def test_words_are_marked_where_they_stand_once_marks_are_gone() -> None:
    content = "# Jays\n\nSee [how a **jay** hides](http://a.example/jay) its acorns."

    assert marked(content, "jay** hides"[:3], "acorns") == ("Jays: See how a jay hides its acorns.", ["jay", "acorns"])


def test_a_heading_that_the_section_says_is_left_out() -> None:
    content = "## This week\n\nThe first acorns are ripe."

    shown = marked(content, "week", "acorns", section="The Jay House > This week")

    assert shown == ("The first acorns are ripe.", ["acorns"])


def test_a_chunk_that_is_only_a_heading_is_shown() -> None:
    assert shown_passage("# Alone", [], "Alone").plain == "Alone"


def test_the_place_with_the_most_different_words_is_shown_between_whole_words() -> None:
    content = "jay " + "filler " * 100 + "where a jay hides acorns " + "padding " * 100

    text, words = marked(content, "jay", "hides", "acorns")

    assert words == ["hides", "acorns"]
    assert text.startswith("…filler ")
    assert text.endswith("padding…")
    assert len(text) <= SHOWN_CHARACTERS + 2


def test_one_endless_word_is_cut() -> None:
    text = shown_passage("x" * 5000, [(4000, 4001)]).plain

    assert SHOWN_CHARACTERS <= len(text) <= SHOWN_CHARACTERS + 2


@pytest.mark.parametrize(
    ("section", "title", "shown"),
    [
        ("Jays > Food > Acorns", "Jays", "Food › Acorns"),
        ("Jays", "Jays", ""),
        ("Food", "Jays", "Food"),
        (None, None, ""),
    ],
)
def test_a_section_does_not_repeat_the_title(section: str | None, title: str | None, shown: str) -> None:
    assert shown_section(section, title) == shown
