"""How well a link fits some keywords, 0 to 1: which page a best-first crawl fetches next, and what discovery keeps.

Each keyword is worth the same. What a keyword earns is that of the best place where it is found:

    place                     whole word    beginning of a word
    anchor text                     1.00                   0.70
    URL path or query               0.80                   0.56
    text around the link            0.40                   0.28

The score is half the mean over all keywords and half the best keyword, so that one good hit already leads somewhere
and every further hit leads further. More matches never make a score lower. A URL alone is scored the same way, with
the URL counting fully.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote

ANCHOR_WEIGHT = 1.0
URL_WEIGHT = 0.8
CONTEXT_WEIGHT = 0.4
PREFIX_SHARE = 0.7
MIN_PREFIX_LENGTH = 3  # shorter beginnings are beginnings of everything
MAX_KEYWORDS = 32
_LONGEST_CONTEXT = 400
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=256)
def keywords_of(query: str) -> tuple[str, ...]:
    """The distinct words of a query, folded; single letters and digits are dropped when there is more."""
    words = list(dict.fromkeys(_WORD.findall(query.casefold())))
    longer = [word for word in words if len(word) > 1]
    return tuple((longer or words)[:MAX_KEYWORDS])


def words_of_url(url: str) -> list[str]:
    """The words of a URL's path and query: %-decoded, split at every sign and inside camelCase. Not its host."""
    start = url.find("/", url.find("://") + 3)
    if start < 0:
        return []
    path = url[start:]
    if "%" in path:
        path = unquote(path)
    if not path.islower():
        path = _CAMEL.sub(" ", path).casefold()
    return _WORD.findall(path)


class Relevance:
    """Scores links against fixed keywords. Made once per crawl; a score takes a few microseconds."""

    def __init__(self, keywords: str | Iterable[str]) -> None:
        text = keywords if isinstance(keywords, str) else " ".join(keywords)
        self.keywords = keywords_of(text)

    def score_url(self, url: str) -> float:
        """A URL by itself, as discovery knows it."""
        return self._combine([_found_in(words_of_url(url), self.keywords)], [1.0])

    def score_link(self, url: str, anchor: str = "", context: str = "") -> float:
        """A link on a page: its URL, its words, and the words around it."""
        places = [_found_in(words_of_url(url), self.keywords)]
        weights = [URL_WEIGHT]
        if anchor:
            places.append(_found_in(_WORD.findall(anchor[:_LONGEST_CONTEXT].casefold()), self.keywords))
            weights.append(ANCHOR_WEIGHT)
        if context:
            places.append(_found_in(_WORD.findall(context[:_LONGEST_CONTEXT].casefold()), self.keywords))
            weights.append(CONTEXT_WEIGHT)
        return self._combine(places, weights)

    def _combine(self, places: list[list[float]], weights: list[float]) -> float:
        if not self.keywords:
            return 0.0
        best = [0.0] * len(self.keywords)
        for found, weight in zip(places, weights, strict=True):
            for index, share in enumerate(found):
                if share * weight > best[index]:
                    best[index] = share * weight
        return round(0.5 * sum(best) / len(best) + 0.5 * max(best), 4)


def _found_in(words: list[str], keywords: tuple[str, ...]) -> list[float]:
    """For each keyword: 1 for the word itself, less for a word that begins with it, 0 when it is not there."""
    if not words:
        return [0.0] * len(keywords)
    known = set(words)
    joined = " " + " ".join(words)
    found = []
    for keyword in keywords:
        if keyword in known:
            found.append(1.0)
        elif len(keyword) >= MIN_PREFIX_LENGTH and f" {keyword}" in joined:
            found.append(PREFIX_SHARE)
        else:
            found.append(0.0)
    return found
