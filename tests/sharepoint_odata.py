"""The part of OData that SharePoint's listings understand: `$filter`, `$select`, `$expand`. Wrong ones are refused."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

Row = Mapping[str, Any]
Test = Callable[[Row], Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<datetime>datetime'[^']*')|(?P<guid>guid'[^']*')|(?P<string>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<word>[A-Za-z_][\w/]*)|(?P<mark>[(),]))"
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a is not None and a > b,
    "ge": lambda a, b: a is not None and a >= b,
    "lt": lambda a, b: a is not None and a < b,
    "le": lambda a, b: a is not None and a <= b,
}
_FUNCTIONS: dict[str, Callable[[str, str], bool]] = {
    "startswith": lambda text, start: text.lower().startswith(start.lower()),
    "endswith": lambda text, end: text.lower().endswith(end.lower()),
    "substringof": lambda part, text: part.lower() in text.lower(),
}


class BadQueryError(Exception):
    """What SharePoint answers with 400."""


@lru_cache(maxsize=256)
def parse_filter(text: str) -> Test:
    parser = _Parser(text)
    test = parser.either()
    if parser.kind is not None:
        raise BadQueryError(f'The query string "$filter" is invalid: what follows is not expected: {parser.value}')
    return test


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.kind: str | None = None
        self.value = ""
        self._next()

    def _next(self) -> None:
        rest = self._text[self._at :]
        if not rest.strip():
            self.kind, self.value = None, ""
            return
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise BadQueryError(f'The query string "$filter" is invalid at {rest[:20]!r}.')
        self._at = found.end()
        self.kind, self.value = found.lastgroup, found[found.lastgroup or 0]

    def _take(self, value: str) -> bool:
        if self.value == value and self.kind in ("word", "mark"):
            self._next()
            return True
        return False

    def _expect(self, value: str) -> None:
        if not self._take(value):
            raise BadQueryError(f'The query string "$filter" is invalid: {value!r} is missing.')

    def either(self) -> Test:
        tests = [self.both()]
        while self._take("or"):
            tests.append(self.both())
        return tests[0] if len(tests) == 1 else lambda row: any(test(row) for test in tests)

    def both(self) -> Test:
        tests = [self.one()]
        while self._take("and"):
            tests.append(self.one())
        return tests[0] if len(tests) == 1 else lambda row: all(test(row) for test in tests)

    def one(self) -> Test:
        if self._take("not"):
            test = self.one()
            return lambda row: not test(row)
        if self._take("("):
            inner = self.either()
            self._expect(")")
            return inner
        if self.kind == "word" and self.value in _FUNCTIONS:
            return self._call()
        left = self._operand()
        compare = _COMPARISONS.get(self.value)
        if compare is None:
            raise BadQueryError(f'The query string "$filter" is invalid: {self.value!r} compares nothing.')
        self._next()
        right = self._operand()
        return lambda row: compare(left(row), right(row))

    def _call(self) -> Test:
        function = _FUNCTIONS[self.value]
        self._next()
        self._expect("(")
        first = self._operand()
        self._expect(",")
        second = self._operand()
        self._expect(")")
        return lambda row: function(str(first(row)), str(second(row)))

    def _operand(self) -> Test:
        kind, text = self.kind, self.value
        self._next()
        if kind == "string":
            value: Any = text[1:-1].replace("''", "'")
        elif kind == "number":
            value = float(text)
        elif kind == "datetime":
            value = datetime.fromisoformat(text[9:-1])
        elif kind == "guid":
            value = text[5:-1].lower()
        elif kind == "word" and text in ("true", "false", "null"):
            value = {"true": True, "false": False, "null": None}[text]
        elif kind == "word":
            return lambda row: _column(row, text)
        else:
            raise BadQueryError(f'The query string "$filter" is invalid at {text!r}.')
        return lambda row: value


def _column(row: Row, name: str) -> Any:
    value: Any = row
    for part in name.split("/"):
        if not isinstance(value, Mapping) or part not in value:
            raise BadQueryError(f"Column '{name}' does not exist. It may have been deleted by another user.")
        value = value[part]
    if isinstance(value, str) and len(value) >= 20 and value[4] == "-" and value.endswith("Z"):
        return datetime.fromisoformat(value)
    return value


def project(row: Row, select: str | None, expand: str | None, deferred: Sequence[str] = ()) -> dict[str, Any]:
    """A row with what was selected. `deferred` columns must be expanded, or only their ids are told."""
    expanded = {name for name in (expand or "").split(",") if name}
    names = [name for name in (select or "*").split(",") if name]
    shown: dict[str, Any] = {}
    for name in names:
        if name == "*":
            shown |= {key: value for key, value in row.items() if key not in deferred and not key.startswith("File")}
            continue
        head, _, part = name.partition("/")
        if head not in row:
            raise BadQueryError(f"The field or property '{head}' does not exist.")
        if head in deferred and head not in expanded:
            raise BadQueryError(f"The query to field '{name}' is not valid. The $select query string must specify the "
                                f"target fields and the $expand query string must contain {head}.")  # fmt: skip
        if not part:
            shown[head] = row[head]
        else:
            shown[head] = _parts(row[head], part, shown.get(head))
    return shown


def _parts(value: Any, part: str, so_far: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        earlier = so_far or [{} for _ in value]
        return [{**before, part: each.get(part)} for before, each in zip(earlier, value, strict=True)]
    return {**(so_far or {}), part: value.get(part)}
