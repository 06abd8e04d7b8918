"""What somebody typed into a search box: words, "phrases", -exclusions, and site: filters."""

import re
from dataclasses import dataclass

from scrubjay.errors import InvalidRequest

MAX_QUERY_CHARACTERS = 500
_PART = re.compile(r"""(?P<minus>-?)(?:site:(?P<site>[^\s"]+)|"(?P<phrase>[^"]*)"?|(?P<word>\S+))""", re.IGNORECASE)
_MEANING = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """`text` is what is looked for, in the order in which it was typed; phrases are part of it."""

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    excluded_hosts: tuple[str, ...] = ()


def parse_query(query: str) -> ParsedQuery:
    if len(query) > MAX_QUERY_CHARACTERS:
        raise InvalidRequest(f"query must have 1 to {MAX_QUERY_CHARACTERS} characters.", field="query")
    words: list[str] = []
    phrases: list[str] = []
    excluded: list[str] = []
    hosts: dict[bool, list[str]] = {False: [], True: []}
    for part in _PART.finditer(query):
        negative = bool(part["minus"])
        if part["site"] is not None:
            hosts[negative].append(part["site"].lower().strip("./"))
        elif part["phrase"] is not None:
            _take(part["phrase"], negative, phrases, words, excluded)
        else:
            _take(part["word"], negative, None, words, excluded)
    text = " ".join(words)
    if not _MEANING.search(text):
        raise InvalidRequest("query has no words to look for.", field="query")
    return ParsedQuery(text, tuple(phrases), tuple(excluded), tuple(hosts[False]), tuple(hosts[True]))


def _take(text: str, negative: bool, phrases: list[str] | None, words: list[str], excluded: list[str]) -> None:
    if not _MEANING.search(text):
        return
    if negative:
        excluded.append(text)
        return
    words.append(text)
    if phrases is not None and len(text.split()) > 1:
        phrases.append(text)
