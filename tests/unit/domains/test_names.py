"""Names that become folders: whatever somebody sends, nothing leaves its place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.domains.names import MAX_NAME, check_name, is_safe_name, label_of
from scrubjay.errors import InvalidRequest


@pytest.mark.parametrize(
    "good", ["a", "TEST01", "A b", "a.b", "a-b_c", "_x", "x" * MAX_NAME, "console", "com", "nul-1", "lpt"]
)
def test_plain_names_are_taken_as_they_are(good: str) -> None:
    assert check_name(good, "domain_id") == good


@pytest.mark.parametrize(
    "bad",
    [
        "",
        ".",
        "..",
        "a..b",
        "a/b",
        "a\\b",
        "CON",
        "con",
        "nul.txt",
        "COM1",
        "LPT9.x",
        "a.",
        "a ",
        " a",
        "-a",
        "a\0b",
        "a\nb",
        "x" * (MAX_NAME + 1),
        "🦜",
        "ä",
        "a:b",
        "a*",
        "~",
        "%2e%2e",
        "a\u202eb",
        "C:",
    ],
)
def test_odd_names_are_refused_by_the_name_of_their_field(bad: str) -> None:
    with pytest.raises(InvalidRequest, match="Parameter 'domain_id'") as caught:
        check_name(bad, "domain_id")
    assert caught.value.details == {"field": "domain_id"}


@given(st.text(max_size=100))
def test_a_safe_name_is_one_step_below_its_folder(text: str) -> None:
    if is_safe_name(text):
        assert (Path("/root") / text).resolve() == Path("/root") / text
        assert Path("/root").joinpath(text).parent == Path("/root")
    label = label_of(text)
    assert len(label) <= MAX_NAME
    assert not set(label) & set("/\\[]\0 ")
    assert not label.startswith(".")
