"""The errors: a tree that is drawn as it is, and messages that are sentences."""

import inspect
import re

import pytest

from scrubjay import errors
from scrubjay.errors import NotFound, RateLimited, ScrubjayError

CLASSES = [
    kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, ScrubjayError)
]  # fmt: skip


def drawn_tree() -> dict[str, str | None]:
    """Each name in the drawing with the name it hangs from."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.fullmatch(r"(?P<branch>[│├└─ ]*)(?P<name>[A-Z][a-zA-Z]+)(?:  .*)?", line)
        if found is None:
            continue
        depth = len(found["branch"]) // 4
        path = [*path[:depth], found["name"]]
        parents[found["name"]] = path[depth - 1] if depth else None
    return parents


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert len(CLASSES) > 20
    real = {kind.__name__: None if kind is ScrubjayError else kind.__bases__[0].__name__ for kind in CLASSES}
    assert drawn_tree() == real


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_docstring_of_an_error_is_one_sentence_and_its_default_message(kind: type[ScrubjayError]) -> None:
    sentence = kind.__doc__ or ""
    assert re.fullmatch(r"[A-Z][^\n]+\.", sentence), sentence
    options = {"limit": 1, "retry_after_seconds": 1} if kind is RateLimited else {}
    error = kind(**options)
    assert (error.message, str(error)) == (sentence, sentence)


def test_an_error_carries_its_own_message_and_facts() -> None:
    error = NotFound("Job 'x' does not exist.", job_id="x")
    assert (error.message, str(error), error.details) == ("Job 'x' does not exist.",) * 2 + ({"job_id": "x"},)


def test_a_limit_says_when_to_come_back() -> None:
    error = RateLimited(limit=60, retry_after_seconds=7)
    assert error.details == {"limit": 60, "retry_after_seconds": 7}
    with pytest.raises(TypeError):
        RateLimited("without the facts")  # type: ignore[call-arg]
