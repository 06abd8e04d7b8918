"""OpenAI's filters on attributes: comparisons, joined by `and` and `or`. Checked whole before anything is searched."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scrubjay.errors import InvalidRequest

MAX_DEPTH = 8
MAX_PARTS = 200

Matches = Callable[[Mapping[str, Any]], bool]


def read_filters(filters: object, field: str = "filters") -> Matches:
    """Whether attributes suit a filter. A file that lacks the key suits only `ne` and `nin`."""
    return _Reader().read(filters, field, 0)


class _Reader:
    def __init__(self) -> None:
        self._parts = 0

    def read(self, filters: object, field: str, depth: int) -> Matches:
        if not isinstance(filters, Mapping):
            raise InvalidRequest(f"{field}: a filter is an object with a type.", field=field)
        self._parts += 1
        if depth > MAX_DEPTH or self._parts > MAX_PARTS:
            raise InvalidRequest(f"{field}: more than {MAX_PARTS} parts, or {MAX_DEPTH} levels.", field=field)
        kind = filters.get("type")
        if kind in ("and", "or"):
            return self._compound(filters, field, depth)
        if not isinstance(kind, str) or kind not in _COMPARISONS:
            known = ", ".join([*_COMPARISONS, "and", "or"])
            raise InvalidRequest(f"{field}.type: one of {known}.", field=f"{field}.type")
        return _comparison(kind, filters, field)

    def _compound(self, filters: Mapping[str, Any], field: str, depth: int) -> Matches:
        inner = filters.get("filters")
        if not isinstance(inner, Sequence) or isinstance(inner, str) or not inner:
            raise InvalidRequest(f"{field}.filters: a list of filters.", field=f"{field}.filters")
        parts = [self.read(each, f"{field}.filters.{number}", depth + 1) for number, each in enumerate(inner)]
        join = all if filters["type"] == "and" else any
        return lambda attributes: join(part(attributes) for part in parts)


def _comparison(kind: str, filters: Mapping[str, Any], field: str) -> Matches:
    key, value = filters.get("key"), filters.get("value")
    if not isinstance(key, str) or not 1 <= len(key) <= 64:
        raise InvalidRequest(f"{field}.key: the name of an attribute.", field=f"{field}.key")
    if kind in ("in", "nin"):
        good = isinstance(value, list) and all(isinstance(each, str | int | float) for each in value)
    elif kind in ("eq", "ne"):
        good = isinstance(value, str | int | float)
    else:
        good = isinstance(value, str | int | float) and not isinstance(value, bool)
    if not good:
        what = "a list of texts or numbers" if kind in ("in", "nin") else "a text or a number"
        raise InvalidRequest(f"{field}.value: {what}.", field=f"{field}.value")
    compare = _COMPARISONS[kind]
    absent = kind in ("ne", "nin")
    return lambda attributes: compare(attributes[key], value) if key in attributes else absent


def _same(left: Any, right: Any) -> bool:
    """True is not 1, and 1 is 1.0."""
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def _ordered(left: Any, right: Any, compare: Callable[[Any, Any], bool]) -> bool:
    if isinstance(left, bool) or isinstance(left, str) is not isinstance(right, str):
        return False  # a text is neither more nor less than a number
    return compare(left, right)


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": _same,
    "ne": lambda left, right: not _same(left, right),
    "gt": lambda left, right: _ordered(left, right, lambda one, other: one > other),
    "gte": lambda left, right: _ordered(left, right, lambda one, other: one >= other),
    "lt": lambda left, right: _ordered(left, right, lambda one, other: one < other),
    "lte": lambda left, right: _ordered(left, right, lambda one, other: one <= other),
    "in": lambda left, right: any(_same(left, each) for each in right),
    "nin": lambda left, right: not any(_same(left, each) for each in right),
}
