"""Filters on attributes, value by value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.errors import InvalidRequest
from scrubjay.openai.filters import MAX_DEPTH, MAX_PARTS, read_filters


@pytest.mark.parametrize(
    ("kind", "value", "suiting"),
    [
        ("eq", 1, {1}), ("eq", True, {True}), ("eq", "1", {"1"}), ("ne", 1, {"1", True, 0, "b", "a", 2.5}),
        ("gt", 1, {2.5}), ("gte", 1, {1, 2.5}), ("lt", 1, {0}), ("lte", 1.0, {0, 1}), ("gt", "a", {"b"}),
        ("in", [1, "a"], {1, "a"}), ("nin", [1, "a"], {"1", True, 0, "b", 2.5}),
    ],
)  # fmt: skip
def test_comparisons_tell_texts_numbers_and_truths_apart(kind: str, value: Any, suiting: set[Any]) -> None:
    matches = read_filters({"type": kind, "key": "x", "value": value})
    values = ["1", 1, True, 0, "a", "b", 2.5]
    found = [each for each in values if matches({"x": each})]
    expected = [each for each in values if any(each == one and isinstance(each, bool) == isinstance(one, bool) for one in suiting)]  # noqa: E501 # fmt: skip
    assert found == expected


def test_a_missing_attribute_suits_only_what_denies() -> None:
    for kind, value in (("eq", 1), ("gt", 1), ("gte", 1), ("lt", 1), ("lte", 1), ("in", [1])):
        assert not read_filters({"type": kind, "key": "x", "value": value})({"y": 1})
    assert read_filters({"type": "ne", "key": "x", "value": 1})({})
    assert read_filters({"type": "nin", "key": "x", "value": [1]})({})


def test_compounds_are_joined_at_any_depth_up_to_a_limit() -> None:
    inner: dict[str, Any] = {"type": "eq", "key": "x", "value": 1}
    for number in range(MAX_DEPTH):
        inner = {"type": "and" if number % 2 else "or", "filters": [inner]}
    assert read_filters(inner)({"x": 1})
    with pytest.raises(InvalidRequest):
        read_filters({"type": "and", "filters": [inner]})
    wide = {"type": "or", "filters": [{"type": "eq", "key": "x", "value": 1}] * MAX_PARTS}
    with pytest.raises(InvalidRequest):
        read_filters(wide)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["eq", "gt", "in", "and", "or", "x"])},
            optional={"key": inner, "value": inner, "filters": st.lists(inner, max_size=3)},
        )
    ),
    max_leaves=10,
)


@given(ANYTHING, st.dictionaries(st.text(max_size=2), st.text() | st.booleans() | st.floats() | st.integers()))
def test_whatever_is_given_is_a_filter_or_an_error_that_names_the_field(filters: Any, attributes: Any) -> None:
    field, matches = "filters", None
    try:
        matches = read_filters(filters)
    except InvalidRequest as error:
        field = str(error.details["field"])
    assert field.startswith("filters")
    assert matches is None or matches(attributes) in (True, False)
