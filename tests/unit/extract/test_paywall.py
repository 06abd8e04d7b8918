"""A paywall takes evidence; the word "subscribe" is none."""

from typing import Any

import pytest

from scrubjay.extract.paywall import is_paywalled

TEXT = "The town council met for four hours and decided to meet again. " * 60
SHORT = "The town council met for four hours and decided to meet again. " * 5


@pytest.mark.parametrize(
    ("metadata", "markdown", "expected"),
    [
        ({"json_ld": [{"@type": "NewsArticle", "isAccessibleForFree": False}]}, TEXT, True),
        ({"json_ld": [{"@graph": [{"isAccessibleForFree": "False"}]}]}, TEXT, True),
        ({"json_ld": [{"hasPart": {"isAccessibleForFree": "http://schema.org/False"}}]}, TEXT, True),
        ({"json_ld": [{"isAccessibleForFree": True}]}, TEXT, False),
        ({"json_ld": [{"isAccessibleForFree": "maybe"}]}, TEXT, False),
        ({"open_graph": {"article:content_tier": "locked"}}, TEXT, True),
        ({"open_graph": {"article:content_tier": "free"}}, TEXT, False),
        ({}, SHORT + "Subscribe to continue reading.", True),
        ({}, SHORT + "This article is only for subscribers.", True),
        ({}, SHORT + "Already a subscriber? Sign in.", True),
        ({}, SHORT + "Subscribe to our newsletter.", False),
        ({}, TEXT + "Subscribe to continue reading.", False),  # a long text does not break off
        ({}, "How to write 'subscribe to continue reading' well. " + TEXT[:2000], False),  # not where it ends
        ({}, "", False),
    ],
)
def test_what_counts_as_a_paywall(metadata: dict[str, Any], markdown: str, expected: bool) -> None:
    assert is_paywalled(metadata, markdown) is expected


def test_structured_data_without_end_is_not_followed_to_its_end() -> None:
    deep: dict[str, Any] = {"isAccessibleForFree": False}
    for _ in range(1000):
        deep = {"x": deep}
    assert is_paywalled({"json_ld": [deep]}, TEXT) is False
