"""Whether a page keeps its article behind a paywall. It takes evidence; the word "subscribe" is none."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_MAX_DEPTH = 6
_SHORT_CHARACTERS = 2_500  # an article that was cut off is not longer
_LOCKED_TIERS = frozenset({"locked", "premium", "metered"})
# What stands where an article was cut off: it asks for something in return for the rest.
_CUT_OFF = re.compile(
    r"\b((to|and) (continue|keep|finish) reading|read the (full|rest of the|whole) (article|story)"
    r"|(article|story|content) is (only )?(for|available to|reserved for|exclusively for) (\w+ )?(subscribers|members)"
    r"|(subscribers|members)[- ]only|already a (subscriber|member)\?|unlock this (article|story)"
    r"|weiterlesen mit|artikel ist (nur )?für abonnenten|réservé aux abonnés|solo para suscriptores)",
    re.IGNORECASE,
)


def is_paywalled(metadata: Mapping[str, Any], markdown: str) -> bool:
    """By the page's own structured data, or because its text breaks off where payment is asked for."""
    if any(_says_not_free(node) for node in _nodes(metadata.get("json_ld") or (), _MAX_DEPTH)):
        return True
    tier = (metadata.get("open_graph") or {}).get("article:content_tier") or metadata.get("content_tier")
    if isinstance(tier, str) and tier.strip().lower() in _LOCKED_TIERS:
        return True
    text = markdown.rstrip()
    return len(text) <= _SHORT_CHARACTERS and _CUT_OFF.search(text[-600:]) is not None


def _says_not_free(node: Mapping[str, Any]) -> bool:
    value = node.get("isAccessibleForFree")
    return value is False or (isinstance(value, str) and value.strip().lower().rsplit("/", 1)[-1] in ("false", "no"))


def _nodes(value: Any, depth: int) -> Iterable[Mapping[str, Any]]:
    if depth <= 0:
        return
    if isinstance(value, Mapping):
        yield value
        for item in value.values():
            yield from _nodes(item, depth - 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _nodes(item, depth - 1)
