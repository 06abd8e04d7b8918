"""What a crawl may be asked for; what it may not names its field."""

from typing import Any

import pytest

from scrubjay.errors import InvalidRequest
from scrubjay.model.crawl_spec import Extent, read_spec


def test_a_start_is_enough() -> None:
    spec = read_spec({"start_urls": ["  http://a.org/ "]})

    assert (spec.start_urls, spec.extent, spec.respect_robots) == (("http://a.org/",), Extent.HOST, True)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"start_urls": []}, "start_urls"),
        ({"start_urls": [""]}, "start_urls.0"),
        ({"start_urls": ["http://a.org/" + "x" * 3000]}, "start_urls.0"),
        ({"max_pages": 0}, "max_pages"),
        ({"max_depth": -1}, "max_depth"),
        ({"max_seconds": 0}, "max_seconds"),
        ({"rate_limit_rps": 0}, "rate_limit_rps"),
        ({"extent": "galaxy"}, "extent"),
        ({"extraction": "magic"}, "extraction"),
        ({"include": ["(("]}, "include"),
        ({"exclude": [""]}, "exclude.0"),
        ({"headers": {"Host": "a"}}, "headers"),
        ({"headers": {"A b": "a"}}, "headers"),
        ({"headers": {"A": "a\r\nB: c"}}, "headers"),
        ({"user_agent": "a\nb"}, "user_agent"),
        ({"auth": {"type": "magic", "secret": "x"}}, "auth.type"),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(values: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_spec({"start_urls": ["http://a.org/"], **values})

    assert refused.value.details["field"] == field


def test_a_secret_is_not_shown() -> None:
    spec = read_spec({"start_urls": ["http://a.org/"], "auth": {"type": "bearer", "secret": "acorn"}})

    assert "acorn" not in repr(spec)


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "api_key", "name": "Host", "secret": "x"},
        {"type": "api_key", "name": "X Key", "secret": "x"},
        {"type": "api_key", "name": "X-Key", "secret": "a\r\nX-Other: b"},
        {"type": "bearer", "secret": "a\nb"},
        {"type": "magic", "secret": "x"},
    ],
)
def test_credentials_that_cannot_be_sent_are_refused_before_the_job(auth: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_spec({"start_urls": ["http://example.org/"], "auth": auth})

    assert str(refused.value.details["field"]).startswith("auth")
    assert "a\r\n" not in refused.value.message
