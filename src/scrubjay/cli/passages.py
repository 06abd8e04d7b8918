"""A passage of a document for a terminal."""

from collections.abc import Sequence

from rich.text import Text

from scrubjay.index.passages import find_passage

HIGHLIGHT = "bold magenta"


def shown_passage(content: str, ranges: Sequence[Sequence[int]], section: str | None = None) -> Text:
    """The part of a chunk with the most of the words that were looked for, on one line, with the words marked."""
    passage = find_passage(content, ranges, section)
    text = Text(passage.text)
    for begin, end in passage.marked:
        text.stylize(HIGHLIGHT, begin, end)
    return Text.assemble("…" if passage.begins_late else "", text, "…" if passage.ends_early else "")


def shown_section(section: str | None, title: str | None) -> str:
    """The path to a section, without the title that stands before it."""
    names = (section or "").split(" > ")
    if names[0] == (title or ""):
        names = names[1:]
    return " › ".join(name for name in names if name)
