"""What a page says about itself, from one tree."""

import json
from typing import Any

import pytest

from scrubjay.extract.metadata import MAX_JSON_LD_CHARACTERS, read_metadata
from scrubjay.extract.tree import parse_html

URL = "https://www.example.com/news/item"


def read(html: str, url: str = URL) -> tuple[str | None, dict[str, Any]]:
    page = parse_html(html)
    assert page is not None
    return read_metadata(page, url)


ARTICLE = {
    "@context": "https://schema.org",
    "@graph": [
        {"@type": "Organization", "name": "Example"},
        {
            "@type": "NewsArticle",
            "headline": "H",
            "author": [{"@type": "Person", "name": "Ada Byron"}],
            "datePublished": "2026-02-03T04:05:06Z",
            "dateModified": "2026-02-04",
            "keywords": ["birds", "memory"],
        },
    ],
}


def test_a_page_with_everything_is_read_completely() -> None:
    title, metadata = read(f"""<html lang="en_us"><head><title>Jays remember | Example News</title>
        <meta name="description" content="  About   jays ">
        <meta property="og:site_name" content="Example News"><meta property="og:title" content="Jays remember">
        <meta property="og:image" content="/jay.jpg"><meta name="robots" content="NOINDEX, follow">
        <link rel="canonical" href="/news/item/?b=2&amp;a=1#top">
        <script type="application/ld+json">{json.dumps(ARTICLE)}</script></head>
        <body><h1>Jays <em>remember</em></h1><h2>Where</h2><h2> </h2></body></html>""")
    assert title == "Jays remember"
    assert metadata["description"] == "About jays"
    assert metadata["author"] == "Ada Byron"
    assert metadata["published_at"] == "2026-02-03T04:05:06+00:00"
    assert metadata["modified_at"] == "2026-02-04"
    assert metadata["language"] == "en-US"
    assert metadata["keywords"] == ["birds", "memory"]
    assert metadata["canonical_url"] == "https://www.example.com/news/item/?b=2&a=1"
    assert metadata["site_name"] == "Example News"
    assert metadata["image"] == "https://www.example.com/jay.jpg"
    assert metadata["open_graph"] == {"site_name": "Example News", "title": "Jays remember", "image": "/jay.jpg"}
    assert metadata["json_ld"] == [ARTICLE]
    assert metadata["headings"] == [(1, "Jays remember"), (2, "Where")]
    assert metadata["robots"] == ["noindex"]


def test_what_a_page_does_not_say_is_left_out() -> None:
    assert read("<p>Hello</p>") == (None, {})


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title>Fix a pump | Acme</title>", "Fix a pump"),
        ("<title>Fix a pump - Example</title>", "Fix a pump"),
        ("<title>Example: home - tips and tricks</title>", "Example: home - tips and tricks"),
        ("<title>Pumps - a story about water</title>", "Pumps - a story about water"),
        ("<title>Example | Fix a pump</title>", "Fix a pump"),
        ("<title>Home | Acme</title><h1>Welcome to us</h1>", "Home | Acme"),
        ("<title>Fix a pump – Docs – Acme</title><h1>Fix a pump</h1>", "Fix a pump"),
        ("<title>x</title><svg><title>icon</title></svg>", "x"),
        ("<h1>Only a heading</h1>", "Only a heading"),
        ('<meta property="og:title" content="OG"><title>Other words</title>', "OG"),
    ],
)
def test_the_title_is_the_pages_own_without_the_sites_name(html: str, title: str) -> None:
    assert read(html)[0] == title


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02", "2026-01-02"),
        ("2026-01-02T03:04:05+01:00", "2026-01-02T03:04:05+01:00"),
        ("Fri, 02 Jan 2026 03:04:05 GMT", "2026-01-02T03:04:05+00:00"),
        ("2026/1/2", "2026-01-02"),
        ("January 2, 2026", "2026-01-02T00:00:00"),
        ("0001-01-01", None),
        ("yesterday", None),
        ("9" * 5000, None),
    ],
)
def test_dates_become_iso_or_nothing(text: str, expected: str | None) -> None:
    _, metadata = read(f'<meta property="article:published_time" content="{text}">')
    assert metadata.get("published_at") == expected


def test_a_time_element_dates_the_page_unless_it_is_one_of_many() -> None:
    assert read('<time datetime="2026-05-06">May</time>')[1]["published_at"] == "2026-05-06"
    many = "".join(f'<time datetime="2026-05-0{day}">x</time>' for day in range(1, 8))
    assert "published_at" not in read(many)[1]
    assert read(many + '<time itemprop="datePublished" datetime="2026-06-01">')[1]["published_at"] == "2026-06-01"


@pytest.mark.parametrize("href", ["javascript:alert(1)", "ftp://e.com/x", "data:text/html,x", "http://[broken"])
def test_a_canonical_address_that_cannot_be_fetched_is_left_out(href: str) -> None:
    assert "canonical_url" not in read(f'<link rel="canonical" href="{href}">')[1]


def test_broken_and_oversized_json_ld_is_left_out_and_the_rest_stays() -> None:
    large = json.dumps({"@type": "Article", "text": "x" * MAX_JSON_LD_CHARACTERS})
    _, metadata = read(
        f"""<script type="application/ld+json">{{"broken": </script>
        <script type="application/ld+json">{large}</script>
        <script type="application/ld+json">{"[" * 30_000}</script>
        <script type="application/ld+json">{{"@type": "Product", "description": "Good"}}</script>"""
    )
    assert metadata["json_ld"] == [{"@type": "Product", "description": "Good"}]
    assert metadata["description"] == "Good"


def test_json_ld_of_unexpected_shapes_is_harmless() -> None:
    odd = '[1, null, "x", {"@type": ["Article", 3], "author": [], "keywords": [1, {}], "datePublished": {"a": 1}}]'
    _, metadata = read(f'<script type="application/ld+json">{odd}</script>')
    assert "author" not in metadata
    assert "keywords" not in metadata
    assert "published_at" not in metadata


def test_noindex_and_nofollow_are_told_also_when_written_as_none() -> None:
    assert read('<meta name="ROBOTS" content="none">')[1]["robots"] == ["nofollow", "noindex", "none"]
