"""Which addresses belong to a crawl, for every extent and for starts of every form."""

import pytest

from scrubjay.crawler.scope import UrlScope
from scrubjay.model.crawl_spec import Extent
from scrubjay.model.urls import parse_url


def belongs(start: str, extent: Extent, url: str) -> bool:
    return UrlScope([parse_url(start).text], extent).refusal(parse_url(url).text) is None


@pytest.mark.parametrize(
    ("start", "inside", "outside"),
    [
        ("http://a.org/docs/", "http://a.org/docs/deep/x", "http://a.org/docs-old/x"),
        ("http://a.org/docs", "http://a.org/docs", "http://a.org/docs-old"),
        ("http://a.org/docs", "http://a.org/docs/x", "http://a.org/documents"),
        ("http://a.org/docs/intro.html", "http://a.org/docs/next.html", "http://a.org/blog"),
        ("http://a.org/3.12", "http://a.org/3.12/library", "http://a.org/3.11/library"),
        ("http://a.org/docs?page=/a", "http://a.org/docs/x", "http://a.org/a"),
        ("http://a.org", "http://a.org/anything", "http://b.org/"),
        ("http://A.org:80/Docs", "http://a.org/Docs/x", "http://a.org/docs/x"),
    ],
)
def test_children_are_the_starts_folder_and_below(start: str, inside: str, outside: str) -> None:
    assert belongs(start, Extent.CHILDREN, inside)
    assert not belongs(start, Extent.CHILDREN, outside)


@pytest.mark.parametrize(
    ("start", "inside", "outside"),
    [
        ("http://a.org/x", "https://a.org/y?z=//b.org/", "http://www.a.org/"),
        ("http://a.org:8080/", "http://a.org:8080/y", "http://a.org/y"),
        ("http://[2001:db8::1]:81/", "http://[2001:db8:0::1]:81/x", "http://[2001:db8::2]:81/"),
    ],
)
def test_the_host_is_name_and_port(start: str, inside: str, outside: str) -> None:
    assert belongs(start, Extent.HOST, inside)
    assert not belongs(start, Extent.HOST, outside)


@pytest.mark.parametrize(
    ("start", "inside", "outside"),
    [
        ("http://www.a.co.uk/", "http://deep.docs.a.co.uk/", "http://b.co.uk/"),
        ("http://a.org/", "https://www.a.org:8443/", "http://a.org.evil.com/"),
        ("http://[2001:db8::1]:81/", "http://[2001:db8::1]:82/", "http://[2001:db8::2]/"),
        ("http://192.0.2.1/", "http://192.0.2.1:81/", "http://192.0.2.2/"),
    ],
)
def test_the_domain_has_all_its_hosts_and_ports(start: str, inside: str, outside: str) -> None:
    assert belongs(start, Extent.DOMAIN, inside)
    assert not belongs(start, Extent.DOMAIN, outside)


def test_an_added_root_widens_every_extent() -> None:
    scope = UrlScope(["http://a.org/old/"], Extent.CHILDREN)
    scope.add_root("https://www.a.org/new/")

    assert scope.refusal("https://www.a.org/new/x") is None
    assert scope.refusal("https://www.a.org/old/x") == "out_of_scope"
    assert scope.roots == ["http://a.org/old/", "https://www.a.org/new/"]


def test_patterns_are_asked_after_the_extent_and_exclusion_wins() -> None:
    scope = UrlScope(["http://a.org/"], Extent.HOST, include=["/docs/"], exclude=["secret"])

    assert scope.refusal("http://b.org/docs/") == "out_of_scope"
    assert scope.refusal("http://a.org/docs/x.PNG?a=1") == "not_a_page"
    assert scope.refusal("http://a.org/docs/secret") == "excluded"
    assert scope.refusal("http://a.org/blog") == "not_included"
    assert scope.refusal("http://a.org/docs/x?file=a.png") is None
