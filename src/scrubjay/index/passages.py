"""A passage of a document for people: Markdown without its marks, around the words that were looked for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

SHOWN_CHARACTERS = 320
_LEAD_SHARE = 5  # of what is shown, a fifth stands before the first word that was looked for
_HEADING = re.compile(r"#{1,6}[ \t]+(.+?)[ \t#]*(?:\n+|$)")
_MARKS = re.compile(
    r"""
      (?P<fence>   ^[ \t]*(?:```|~~~).*$ )
    | (?P<rule>    ^[ \t]*\|?[ \t]*:?-{3,}[-:| \t]*$ )   # under the head of a table, or between paragraphs
    | (?P<heading> ^\#{1,6}[ \t]+ )
    | (?P<item>    ^[ \t]*[-*+][ \t]+ )
    | (?P<open>    !?\[(?=[^\[\]]*\]\() )
    | (?P<target>  \]\((?:[^()\s]|\([^()\s]*\))*(?:\s+"[^"]*")?\) )
    | (?P<bold>    \*\*|` )
    | (?P<space>   \s+ )
    """,
    re.VERBOSE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Passage:
    """Text on one line, and the places in it of the words that were looked for."""

    text: str
    marked: tuple[tuple[int, int], ...]
    begins_late: bool
    ends_early: bool


def find_passage(
    content: str, ranges: Sequence[Sequence[int]], section: str | None = None, *, characters: int = SHOWN_CHARACTERS
) -> Passage:
    """The part of a chunk with the most of the words that were looked for.

    A heading that the chunk begins with is left out where the section already says it.
    """
    head = _HEADING.match(content)
    if head is not None and head.end() < len(content) and section and section.endswith(head[1]):
        shift = head.end()
        content = content[shift:]
        ranges = [(begin - shift, end - shift) for begin, end in ranges if end > shift]
    plain, places = _without_marks(content)
    marked = [(places[max(0, begin)], places[min(end, len(content))]) for begin, end in ranges]
    start, end = _window(plain, marked, characters)
    shown = [
        (max(0, begin - start), min(finish, end) - start) for begin, finish in marked if finish > start and begin < end
    ]
    return Passage(plain[start:end], tuple(shown), start > 0, end < len(plain.rstrip()))


def plain_text(markdown: str) -> str:
    """All of it on one line, without marks."""
    return _without_marks(markdown)[0].strip()


def _without_marks(markdown: str) -> tuple[str, list[int]]:
    """Text without marks, and for every place in the Markdown its place in the text."""
    text = ""
    places: list[int] = []
    done, heading = 0, False
    for mark in _MARKS.finditer(markdown):
        places += range(len(text), len(text) + mark.start() - done)
        text += markdown[done : mark.start()]
        instead = ""
        if mark.lastgroup == "space":
            ends_heading, heading = heading and "\n" in mark[0], heading and "\n" not in mark[0]
            instead = ": " if ends_heading and text[-1:].isalnum() else " "
            instead = instead if text and not text.endswith(" ") else ""
        elif mark.lastgroup == "item":
            instead = "• "
        heading = heading or mark.lastgroup == "heading"
        places += [len(text)] * (mark.end() - mark.start())
        text += instead
        done = mark.end()
    places += range(len(text), len(text) + len(markdown) - done + 1)
    text += markdown[done:]
    return "".join(character if character.isprintable() else " " for character in text), places


def _window(text: str, marked: Sequence[tuple[int, int]], characters: int) -> tuple[int, int]:
    """Where to begin and end, between words, so that the most different words are seen."""
    text_end, lead = len(text.rstrip()), characters // _LEAD_SHARE
    if text_end <= characters:
        return 0, text_end
    starts = [max(0, begin - lead) for begin, _ in marked] or [0]

    def words_from(start: int) -> int:
        end = start + characters
        return len({text[first:last].casefold() for first, last in marked if start <= first and last <= end})

    start = max(starts, key=lambda each: (words_from(each), -each))
    start = min(start, text_end - characters)
    end = start + characters
    if start:
        start = text.find(" ", start, start + lead) + 1 or start
    if end < text_end and " " in text[end - lead : end]:
        end = text.rindex(" ", end - lead, end)
    return start, min(end, text_end)
