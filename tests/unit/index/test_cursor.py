"""Where the next page begins."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.errors import InvalidRequest
from scrubjay.index.cursor import MAX_OFFSET, Cursor, read_cursor

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
REQUEST = '{"query": "jay"}'


def forge(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def mark() -> str:
    encoded = Cursor(0, NOON).encode(REQUEST)
    return str(json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))[2])


@given(st.integers(0, MAX_OFFSET), st.datetimes(timezones=st.just(UTC)), st.text())
def test_a_cursor_comes_back_as_it_went(offset: int, moment: datetime, request: str) -> None:
    cursor = Cursor(offset, moment)
    assert read_cursor(cursor.encode(request), request) == cursor


def test_a_cursor_of_another_query_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="another query") as caught:
        read_cursor(Cursor(10, NOON).encode(REQUEST), '{"query": "owl"}')
    assert caught.value.details["field"] == "cursor"


@pytest.mark.parametrize(
    "offset_and_moment",
    [
        (-1, NOON.isoformat()),
        (MAX_OFFSET + 1, NOON.isoformat()),
        (float("inf"), NOON.isoformat()),
        (float("nan"), NOON.isoformat()),
        (None, NOON.isoformat()),
        (10, "2026-05-01T12:00:00"),
        (10, "yesterday"),
        (10, 5),
    ],
)
def test_a_forged_place_is_refused(offset_and_moment: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidRequest):
        read_cursor(forge([*offset_and_moment, mark()]), REQUEST)


@pytest.mark.parametrize(
    "text", ["", "x", "ä", "%%%", "////", forge({}), forge([1, 2]), forge("abc"), forge(None), "W" * 2000]
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_cursor(text, REQUEST)


@given(st.text(max_size=200))
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_cursor(text, REQUEST)
