"""Addresses: one reading, one normal form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.errors import UrlInvalid
from scrubjay.model.urls import (
    MAX_URL_LENGTH,
    canonical_form,
    hash_url,
    host_of,
    normal_form,
    normalize_url,
    parse_url,
    register_tracking_parameters,
    registrable_domain,
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("HTTP://Example.ORG", "http://example.org/"),
        ("http://example.org:80/", "http://example.org/"),
        ("https://example.org:443/a", "https://example.org/a"),
        ("https://example.org:8443/a/", "https://example.org:8443/a"),
        ("http://example.org/a/b/", "http://example.org/a/b"),
        ("http://example.org//", "http://example.org/"),
        ("http://example.org/a#part", "http://example.org/a"),
        ("http://example.org/?b=2&a=1", "http://example.org/?a=1&b=2"),
        ("http://example.org/a?", "http://example.org/a"),
        ("http://example.org/a/?b=2&a=1&&", "http://example.org/a?a=1&b=2"),
        ("http://example.org/a/../b/./c", "http://example.org/b/c"),
        ("http://example.org/a/%2e%2e/b", "http://example.org/b"),
        ("  http://example.org/a\n", "http://example.org/a"),
        ("http://bücher.example/ü?q=ü", "http://xn--bcher-kva.example/%C3%BC?q=%C3%BC"),
        ("http://example.org./a", "http://example.org/a"),
        ("http://user:secret@example.org/a", "http://example.org/a"),
        ("http://example.org\\@10.0.0.1/", "http://example.org/@10.0.0.1"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://017700000001/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
        ("http://①②⑦.⓪.⓪.①/", "http://127.0.0.1/"),
    ],
)
def test_an_address_has_one_normal_form(text: str, normal: str) -> None:
    assert normalize_url(text) == normal
    assert normalize_url(normal) == normal


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("?utm_source=x", ""),
        ("?UTM_Source=x&utm_medium=y", ""),
        ("?fbclid=1", ""),
        ("?fbclid", ""),
        ("?id=7&gclid=a&utm_campaign=b", "?id=7"),
        ("?b=2&msclkid=x&a=1", "?a=1&b=2"),
        ("?utm=1", "?utm=1"),
        ("?gclid2=x", "?gclid2=x"),
        ("?q=utm_source", "?q=utm_source"),
        ("?ref=home", "?ref=home"),
    ],
)
def test_tracking_parameters_are_no_part_of_the_normal_form(query: str, kept: str) -> None:
    assert normalize_url(f"https://example.org/a/{query}") == f"https://example.org/a{kept}"
    assert normalize_url(f"https://example.org/{query}") == f"https://example.org/{kept}"


def test_a_setting_names_more_tracking_parameters() -> None:
    register_tracking_parameters(("ref", "source_*"))
    try:
        assert normalize_url("https://example.org/a?ref=x&source_id=1&reference=2&utm_id=3") == (
            "https://example.org/a?reference=2"
        )
    finally:
        register_tracking_parameters(())
    assert normalize_url("https://example.org/a?ref=x") == "https://example.org/a?ref=x"


@pytest.mark.parametrize(
    ("url", "declared", "canonical"),
    [
        ("https://example.org/print/a", "https://example.org/a", "https://example.org/a"),
        ("https://example.org/a?sort=1", "https://example.org/a/?utm_source=x", "https://example.org/a"),
        ("https://m.example.org/a", "https://www.example.org/a", "https://www.example.org/a"),
        ("http://example.org/a", "https://example.org/a", "https://example.org/a"),
        ("https://example.org/a", "https://example.com/a", "https://example.org/a"),  # another site
        ("https://example.org/a", "https://example.org/", "https://example.org/a"),  # the home page
        ("https://example.org/a", "https://example.org/?utm_source=x", "https://example.org/a"),
        ("https://example.org/a", "https://www.example.org/", "https://example.org/a"),
        ("https://example.org/a", "http://[", "https://example.org/a"),
        ("https://example.org/a?fbclid=1", None, "https://example.org/a"),
        ("https://a.github.io/x", "https://b.github.io/x", "https://a.github.io/x"),  # anyone can have a name there
    ],
)
def test_a_declared_canonical_address_is_believed_within_the_site(
    url: str, declared: str | None, canonical: str
) -> None:
    assert canonical_form(url, declared) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "example.org", "/path", "//example.org/", "http://", "http://./", "http://.example.org/",
        "http://exa mple.org/", "http://example.org:99999/", "http://example.org:port/", "http://[::1/",
        "http://1.2.3.4.5/", "http://a..b/", "http://%00/", "http://ex%23ample.org/", "http://256.256.256.256/",
        "\ud800",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_by_field(text: str) -> None:
    with pytest.raises(UrlInvalid) as refused:
        parse_url(text, field="start_url")

    assert refused.value.details["field"] == "start_url"


@pytest.mark.parametrize(
    "text",
    [
        "file:///etc/passwd", "FILE:/etc/passwd", "ftp://example.org/", "gopher://example.org:70/_x",
        "data:text/html,x", "javascript:alert(1)", "dict://localhost:11211/stat", "jar:http://a!/b",
        "ws://example.org/", "mailto:a@b.c",
    ],
)  # fmt: skip
def test_only_http_and_https_are_fetched(text: str) -> None:
    with pytest.raises(UrlInvalid):
        parse_url(text)


def test_an_over_long_address_is_refused_whichever_form_is_too_long() -> None:
    with pytest.raises(UrlInvalid, match="longer than"):
        parse_url("http://example.org/" + "a" * MAX_URL_LENGTH)
    with pytest.raises(UrlInvalid, match="longer than"):
        parse_url("http://example.org/" + "ü" * 600)


def test_credentials_are_taken_out_of_the_address_and_kept_apart() -> None:
    url = parse_url("https://jay:p%40ss@example.org/nest?x=1#y")

    assert (url.text, url.username, url.password) == ("https://example.org/nest?x=1", "jay", "p@ss")
    assert url.origin == ("https", "example.org", 443)


def test_a_relative_address_is_read_from_its_base() -> None:
    assert parse_url("../b?c", "https://example.org/a/x/").text == "https://example.org/a/b?c"
    with pytest.raises(UrlInvalid):
        parse_url("file:///etc/passwd", "https://example.org/")


def test_domains_end_at_the_public_suffix() -> None:
    assert registrable_domain("www.shop.example.co.uk") == "example.co.uk"
    assert registrable_domain("someone.github.io") in ("someone.github.io", "github.io")
    assert registrable_domain("127.0.0.1") == "127.0.0.1"
    assert registrable_domain("::1") == "::1"
    assert registrable_domain("localhost") == "localhost"


@given(st.text(max_size=200))
def test_reading_any_text_gives_an_address_or_says_why_not(text: str) -> None:
    try:
        url = parse_url("http://example.org/" + text)
    except UrlInvalid:
        return
    assert parse_url(url.text) == url
    normal = normal_form(url.text)
    assert normal_form(parse_url(normal).text) == normal
    assert host_of(url.text) == url.host == "example.org"
    assert hash_url(normal) == hash_url(normalize_url(url.text))


@given(st.text(alphabet="abc.:@[]/\\?#%01 \t\u3002\uff0f\u2100", max_size=30))
def test_no_authority_is_read_in_two_ways(text: str) -> None:
    """Whatever passes names one host, with no user and no separators in it."""
    try:
        url = parse_url("http://" + text)
    except UrlInvalid:
        return
    assert not set("/\\?#@ \t") & set(url.host)
    assert url.text.startswith(("http://" + url.host, f"http://[{url.host}]"))
