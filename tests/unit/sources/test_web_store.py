"""What is kept of a page can be read back, and tells whether it must be extracted anew."""

from dataclasses import replace

import pytest
from multidict import CIMultiDict

from scrubjay.crawler.page_store import (
    changed_at,
    hash_content,
    is_reusable,
    kept_headers,
    pack_details,
    pack_text,
    robots_directives,
    unpack_details,
    unpack_text,
)
from scrubjay.model.clock import utc_now
from scrubjay.model.crawling import KnownPage
from scrubjay.model.extraction import Anchor, Extraction, ExtractLimits

EXTRACTION = Extraction(
    markdown="acorns", title="Jay", method="scrubjay", anchors=(Anchor("http://a.org/x", "words", "around", True),),
    metadata={"robots": ["nofollow"], "odd": "a\ud800\0b"},
)  # fmt: skip


def known(strategy: str = "markdown") -> KnownPage:
    details = pack_details(EXTRACTION, {"ETag": '"1"'}, "http://a.org/", strategy)
    return KnownPage(
        url_hash="h", etag=None, last_modified=None, body_sha256="b", content_sha256="c", details=details,
        changed_at=utc_now(),
    )  # fmt: skip


def test_details_and_text_come_back_even_when_they_are_not_text() -> None:
    details = unpack_details(known().details)

    assert tuple(map(Anchor._make, details["links"])) == EXTRACTION.anchors
    assert (details["headers"], details["fetched_url"]) == ({"ETag": '"1"'}, "http://a.org/")
    assert unpack_text(pack_text("a\ud800b")) == "a?b"
    assert len(hash_content("a\ud800b")) == 64


def test_a_page_is_reusable_only_by_the_strategy_that_read_it_and_with_content() -> None:
    assert is_reusable(known(), "markdown")
    assert not is_reusable(known(), "mark")
    assert not is_reusable(known("raw"), "markdown")
    assert not is_reusable(replace(known(), details=None), "markdown")
    assert not is_reusable(replace(known(), content_sha256=None), "markdown")
    assert unpack_details(b"\x00another version") == {}


def test_a_page_that_was_cut_is_reusable_only_under_the_same_limits() -> None:
    limits = ExtractLimits(links=1)
    cut = replace(EXTRACTION, cuts=("links",))
    page = replace(known(), details=pack_details(cut, {}, "http://a.org/", "markdown", limits))

    assert is_reusable(page, "markdown", limits)
    assert not is_reusable(page, "markdown", ExtractLimits(links=2))
    assert unpack_details(page.details)["cuts"] == ["links"]
    assert is_reusable(known(), "markdown", limits)


def test_content_that_did_not_change_keeps_its_date() -> None:
    page, now = known(), utc_now()

    assert changed_at(page, "c", now) == page.changed_at
    assert changed_at(page, "other", now) == now
    assert changed_at(None, "c", now) == now


def test_headers_are_kept_without_sessions_all_values_and_up_to_a_limit() -> None:
    headers = CIMultiDict([("X-Robots-Tag", "noindex"), ("Set-Cookie", "a=b"), ("X-Robots-Tag", "nofollow")])

    assert kept_headers(headers) == {"X-Robots-Tag": "noindex, nofollow"}
    assert kept_headers({"A": "x", "B": "y" * 20_000, "C": "z"}) == {"A": "x"}


@pytest.mark.parametrize(
    ("meta", "header", "directives"),
    [
        (["nofollow"], "", {"nofollow"}),
        ([], "noindex, NOFOLLOW", {"noindex", "nofollow"}),
        ([], "otherbot: noindex", set()),
        (["none"], "", {"noindex", "nofollow", "none"}),
        ([], "", set()),
    ],
)
def test_directives_come_from_the_page_and_its_headers(meta: list[str], header: str, directives: set[str]) -> None:
    headers = [("x-robots-TAG", header)] if header else []

    assert robots_directives({"robots": meta}, headers) == directives
