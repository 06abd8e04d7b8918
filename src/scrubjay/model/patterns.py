"""Patterns that users write for addresses: regular expressions that cannot be made to run or grow without end.

Matched by the Rust engine inside pydantic-core, which never backtracks: its time grows with the length of the address
times that of the pattern, and a pattern that would compile to more than 10 MB is refused. Python's `re` takes years
over `(a+)+b`; the `regex` package has a time limit for matching, but compiling `((a{999}){999}){999}` takes all memory.
"""

import time

from pydantic_core import SchemaError, SchemaValidator, core_schema

from scrubjay.errors import InvalidRequest

MAX_PATTERN_LENGTH = 500
# A pattern of the largest size can still take a good part of a second over a long address.
_PATIENCE_SECONDS = 1.0
_SLOW_SECONDS = 0.001


class UrlPattern:
    """A compiled pattern. It may match anywhere in the address, as `re.search` does; look-around and backreferences
    are not supported."""

    def __init__(self, pattern: str, *, field: str = "pattern") -> None:
        self.pattern = pattern
        self._field = field
        self._spent_seconds = 0.0
        self._searches = 0
        if len(pattern) > MAX_PATTERN_LENGTH:
            raise InvalidRequest(f"{field}: a pattern has at most {MAX_PATTERN_LENGTH} characters.", field=field)
        try:
            self._validator = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
        except (SchemaError, UnicodeEncodeError) as error:
            raise InvalidRequest(f"{field}: this is not a usable pattern: {_reason(error)}.", field=field) from None

    def search(self, url: str) -> bool:
        before = time.perf_counter()
        found = self._validator.isinstance_python(url)
        self._spent_seconds += time.perf_counter() - before
        self._searches += 1
        if self._spent_seconds > _PATIENCE_SECONDS and self._spent_seconds / self._searches > _SLOW_SECONDS:
            raise InvalidRequest(f"{self._field}: this pattern takes too long to match.", field=self._field)
        return found


def _reason(error: Exception) -> str:
    """The engine's own sentence: the last line of its message, which has the pattern and a marker before it."""
    last = str(error).strip().splitlines()[-1].strip()
    return last.removeprefix("SchemaError: ").removeprefix("error: ").rstrip(".")
