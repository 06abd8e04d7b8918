"""When the files of a sitemap index changed."""

from datetime import UTC, datetime

import pytest

from scrubjay.watches.index_dates import read_index_dates

URL = "https://example.org/sitemap.xml"
INDEX = (
    b'<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    b"<sitemap><loc> /a.xml </loc><lastmod>2026-03-04</lastmod></sitemap>"
    b"<sitemap><loc>https://example.org/b.xml?x=1&amp;y=2</loc><lastmod>2026-03-04T10:00:00+02:00</lastmod></sitemap>"
    b"<sitemap><loc>https://example.org/c.xml</loc></sitemap>"
    b"<sitemap><loc>https://example.org/d.xml</loc><lastmod>soon</lastmod></sitemap>"
    b"<sitemap><loc>mailto:x</loc><lastmod>2026-03-04</lastmod></sitemap></sitemapindex>"
)
DATES = {
    "https://example.org/a.xml": datetime(2026, 3, 4, tzinfo=UTC),
    "https://example.org/b.xml?x=1&y=2": datetime(2026, 3, 4, 8, tzinfo=UTC),
}


def test_each_file_that_says_when_it_changed_is_known_by_its_whole_address() -> None:
    assert read_index_dates(INDEX, URL) == DATES
    assert read_index_dates(b"\n  " + INDEX, URL) == DATES


@pytest.mark.parametrize("end", [b"", b"<sitemap><loc>", b"\x00", b"</wrong>"])
def test_what_came_before_a_mistake_holds(end: bytes) -> None:
    assert read_index_dates(INDEX.removesuffix(b"</sitemapindex>") + end, URL) == DATES


def test_entities_are_refused() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">]>' + INDEX.replace(b'<?xml version="1.0"?>', b"")
    assert read_index_dates(bomb, URL) == {}
