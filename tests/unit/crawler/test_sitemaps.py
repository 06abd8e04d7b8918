"""Sitemaps of every kind, good and hostile, read from a real site."""

import gzip
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.site import Reply, Site

from scrubjay.crawler import sitemap_parsing
from scrubjay.crawler.fetcher import Fetcher
from scrubjay.crawler.sitemap_parsing import parse_lastmod, parse_sitemap
from scrubjay.crawler.sitemaps import SitemapEntry, SitemapLimits, SitemapProblem, read_sitemaps

SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
HERE = "https://a.example/sitemap.xml"


def urlset(*inner: str, head: str = '<?xml version="1.0" encoding="UTF-8"?>') -> str:
    return f"{head}<urlset {SPACE}>{''.join(f'<url>{each}</url>' for each in inner)}</urlset>"


def index(*addresses: str) -> str:
    inner = "".join(f"<sitemap><loc>{address}</loc></sitemap>" for address in addresses)
    return f"<sitemapindex {SPACE}>{inner}</sitemapindex>"


def urls(content: str | bytes, url: str = HERE) -> list[str]:
    parsed = parse_sitemap(content.encode() if isinstance(content, str) else content, url)
    assert parsed.problems == []
    return [entry.url for entry in parsed.entries]


def problems(content: str | bytes) -> list[str]:
    parsed = parse_sitemap(content.encode() if isinstance(content, str) else content, HERE)
    return [problem.error_type for problem in parsed.problems]


async def read(
    fetcher: Fetcher, *start: str, limits: SitemapLimits | None = None
) -> tuple[list[SitemapEntry], list[SitemapProblem]]:
    found: list[SitemapProblem] = []
    entries = [entry async for entry in read_sitemaps(fetcher, start, problems=found, limits=limits)]
    return entries, found


def test_an_entry_has_its_address_date_frequency_and_priority() -> None:
    parsed = parse_sitemap(
        urlset(
            "<loc> https://a.example/x </loc><lastmod>2024-05-01T10:00:00+02:00</lastmod>"
            "<changefreq>Weekly</changefreq><priority>0.8</priority>"
        ).encode(),
        HERE,
    )
    assert parsed.entries == [
        SitemapEntry("https://a.example/x", datetime(2024, 5, 1, 8, tzinfo=UTC), "weekly", 0.8, HERE)
    ]


def test_senseless_facts_about_an_entry_are_left_out() -> None:
    entry = parse_sitemap(
        urlset("<loc>/x</loc><lastmod>yesterday</lastmod><changefreq>now</changefreq><priority>7</priority>").encode(),
        HERE,
    ).entries[0]
    assert entry == SitemapEntry("https://a.example/x", None, None, None, HERE)


def test_image_and_news_extensions_are_passed_over() -> None:
    extended = urlset(
        "<loc>/x</loc><image:image><image:loc>https://cdn.example/i.png</image:loc></image:image>"
        "<news:news><news:title>T</news:title><news:publication_date>2024</news:publication_date></news:news>"
        '<xhtml:link rel="alternate" hreflang="de" href="https://a.example/de"/>'
    )
    assert urls(extended) == ["https://a.example/x"]


def test_a_prefix_on_every_tag_makes_no_difference() -> None:
    assert urls("<sm:urlset xmlns:sm='x'><sm:url><sm:loc>/x</sm:loc></sm:url></sm:urlset>") == ["https://a.example/x"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_the_declared_encoding_is_obeyed(encoding: str) -> None:
    name = encoding.removesuffix("-sig")
    content = urlset("<loc>/käse</loc>", head=f'<?xml version="1.0" encoding="{name}"?>').encode(encoding)
    assert urls(content) == ["https://a.example/k%C3%A4se"]


def test_blank_lines_before_the_declaration_do_no_harm() -> None:
    assert urls("\n\n  " + urlset("<loc>/x</loc>")) == ["https://a.example/x"]


def test_a_bare_ampersand_is_understood_also_beside_an_escaped_one() -> None:
    assert urls(urlset("<loc>/x?a=1&b=2</loc>", "<loc>/y?a=1&amp;b=2</loc>")) == [
        "https://a.example/x?a=1&b=2",
        "https://a.example/y?a=1&b=2",
    ]


def test_bare_ampersands_are_understood_wherever_a_chunk_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemap_parsing, "_CHUNK_BYTES", 7)
    content = urlset(*(f"<loc>/x?n={number}&b=2&amp;c=3&#38;d=4</loc>" for number in range(30)))
    assert urls(content) == [f"https://a.example/x?n={number}&b=2&c=3&d=4" for number in range(30)]


def test_an_ampersand_in_cdata_is_an_ampersand() -> None:
    assert urls(urlset("<loc><![CDATA[/x?a=1&b=2]]></loc>")) == ["https://a.example/x?a=1&b=2"]


def test_a_list_of_addresses_is_a_sitemap() -> None:
    assert urls("\ufeffhttps://a.example/1\r\n\r\nhttps://a.example/2\nhttps://a.example/3") == [
        f"https://a.example/{number}" for number in (1, 2, 3)
    ]


def test_rss_items_are_entries() -> None:
    feed = (
        '<rss version="2.0"><channel><title>T</title><link>https://a.example/</link>'
        "<item><link>https://a.example/1</link><pubDate>Wed, 01 May 2024 10:00:00 GMT</pubDate></item>"
        '<item><guid isPermaLink="true">https://a.example/2</guid></item>'
        '<item><guid isPermaLink="false">urn:3</guid></item></channel></rss>'
    )
    parsed = parse_sitemap(feed.encode(), HERE)
    assert [(entry.url, entry.lastmod) for entry in parsed.entries] == [
        ("https://a.example/1", datetime(2024, 5, 1, 10, tzinfo=UTC)),
        ("https://a.example/2", None),
    ]
    assert parsed.problems == []


def test_atom_entries_are_entries() -> None:
    feed = (
        '<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://a.example/" rel="self"/>'
        '<entry><link rel="edit" href="/edit/1"/><link href="/1"/><updated>2024-05-01T00:00:00Z</updated></entry>'
        '<entry><link rel="alternate" href="/2"/></entry></feed>'
    )
    assert urls(feed) == ["https://a.example/1", "https://a.example/2"]


def test_gzip_is_recognised_by_its_first_bytes_also_in_several_members() -> None:
    content = urlset(*(f"<loc>/{number}</loc>" for number in range(1000))).encode()
    packed = gzip.compress(content[:5000], mtime=0) + gzip.compress(content[5000:], mtime=0) + b"\x00" * 10
    assert len(urls(packed)) == 1000


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("2024", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-05", datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024-05-07", datetime(2024, 5, 7, tzinfo=UTC)),
        ("2024-05-07T10:30Z", datetime(2024, 5, 7, 10, 30, tzinfo=UTC)),
        ("2024-05-07T10:30:15.25+02:00", datetime(2024, 5, 7, 8, 30, 15, 250000, tzinfo=UTC)),
        ("2024-05-07 10:30:15", datetime(2024, 5, 7, 10, 30, 15, tzinfo=UTC)),
        ("Tue, 07 May 2024 10:30:00 +0200", datetime(2024, 5, 7, 8, 30, tzinfo=UTC)),
        ("0001-01-01T00:00:00+10:00", None),
        ("2024-13-45", None),
        ("", None),
    ],
)
def test_dates_are_read_in_all_their_forms(text: str, when: datetime | None) -> None:
    assert parse_lastmod(text) == when


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("<html><body>Not here</body></html>", "not_a_sitemap"),
        ("Not found", "not_a_sitemap"),
        ("", "not_a_sitemap"),
        (b"\x89PNG\r\n\x1a\n" + bytes(1000), "not_a_sitemap"),
        ("x" * 100_000, "not_a_sitemap"),
        (f"<urlset {SPACE}><url><loc>/x</lo", "bad_xml"),
        (b"\x1f\x8b" + b"nothing packed at all", "bad_encoding"),
        (gzip.compress(b"<urlset>" * 1000, mtime=0)[:20], "bad_encoding"),
        (urlset("<loc>/x</loc>", "<loc>ftp://a.example/y</loc>", "<loc>http://</loc>"), "invalid_url"),
        (b"<urlset><url><loc>/\xff\xfe</loc></url></urlset>", "bad_xml"),
    ],
)
def test_a_bad_sitemap_is_one_problem(content: str | bytes, problem: str) -> None:
    assert problems(content) == [problem]


def test_what_came_before_a_mistake_is_kept() -> None:
    parsed = parse_sitemap(f"<urlset {SPACE}><url><loc>/x</loc></url><url><loc>/y</lo".encode(), HERE)
    assert [entry.url for entry in parsed.entries] == ["https://a.example/x"]
    assert [problem.error_type for problem in parsed.problems] == ["bad_xml"]


def test_of_one_file_fifty_thousand_addresses_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sitemap_parsing.MAX_SITEMAP_URLS == 50_000
    monkeypatch.setattr(sitemap_parsing, "MAX_SITEMAP_URLS", 500)
    parsed = parse_sitemap(urlset(*(f"<loc>/{number}</loc>" for number in range(510))).encode(), HERE)
    assert len(parsed.entries) == 500
    assert [problem.error_type for problem in parsed.problems] == ["too_many_urls"]


def test_a_file_full_of_other_tags_takes_little_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "junk.xml"
    path.write_bytes(b"<urlset><url>" + b"<x/>" * 1_000_000 + b"<loc>/x</loc>" + b"y" * 1_000_000 + b"</url></urlset>")
    tracemalloc.start()
    parsed = parse_sitemap(path, HERE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [entry.url for entry in parsed.entries] == ["https://a.example/x"]
    assert peak < 3_000_000


async def test_an_index_is_followed_and_an_address_listed_twice_comes_once(site: Site, fetcher: Fetcher) -> None:
    site.add("/a.xml", urlset("<loc>/1</loc>", "<loc>/2</loc>"))
    site.add("/b.xml.gz", gzip.compress(urlset("<loc>/2</loc>", "<loc>/3</loc>").encode(), mtime=0), "text/plain")
    site.add("/c.txt", f"{site.url}/4\n", "text/plain")
    site.sitemap = index("/a.xml", "/b.xml.gz", "/c.txt", "/a.xml#again")
    entries, found = await read(fetcher, f"{site.url}/sitemap.xml")
    assert [entry.url for entry in entries] == [f"{site.url}/{number}" for number in (1, 2, 3, 4)]
    assert found == []
    assert site.counts["/a.xml"] == 1


async def test_each_bad_sitemap_is_one_problem_and_the_good_ones_are_read(site: Site, fetcher: Fetcher) -> None:
    site.add("/good.xml", urlset("<loc>/good</loc>"))
    bad = {
        "/fault/sitemap-laughs.xml": "xml_entities",
        "/fault/sitemap-external.xml": "xml_entities",
        "/fault/sitemap-broken.xml": "bad_xml",
        "/fault/sitemap-page.xml": "not_a_sitemap",
        "/fault/broken-gzip": "bad_encoding",
        "/fault/reset-midway": "incomplete",
        "/fault/redirect-metadata": "blocked_address",
        "/nowhere.xml": "http_404",
        "/status/503": "http_503",
    }
    site.sitemap = index(*bad, "file:///etc/passwd", "/good.xml")
    entries, found = await read(fetcher, f"{site.url}/sitemap.xml")
    assert [entry.url for entry in entries] == [f"{site.url}/good"]
    told = {problem.url.removeprefix(site.url): problem.error_type for problem in found}
    assert told == bad | {"/sitemap.xml": "invalid_url"}
    assert len(found) == len(told)


async def test_a_gzip_bomb_ends_at_the_limit_and_keeps_what_it_listed_first(site: Site, fetcher: Fetcher) -> None:
    before = time.perf_counter()
    entries, found = await read(fetcher, f"{site.url}/fault/sitemap-bomb.xml.gz")
    assert time.perf_counter() - before < 15
    assert [entry.url for entry in entries] == [f"{site.url}/first"]
    assert [problem.error_type for problem in found] == ["too_large"]


async def test_a_body_over_the_limit_is_cut_and_read_as_far_as_it_goes(
    site: Site, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.crawler.sitemaps.MAX_SITEMAP_BYTES", 100_000)
    site.sitemap = urlset(*(f"<loc>/{number}</loc>" for number in range(10_000)))
    entries, found = await read(fetcher, f"{site.url}/sitemap.xml")
    assert 1000 < len(entries) < 10_000
    assert [problem.error_type for problem in found] == ["too_large"]


async def test_indexes_that_list_each_other_are_read_once_each(site: Site, fetcher: Fetcher) -> None:
    entries, found = await read(fetcher, f"{site.url}/fault/sitemap-loop-a.xml")
    assert entries == []
    assert [problem.error_type for problem in found] == ["sitemap_loop"]
    assert sum(site.counts.values()) == 2


async def test_indexes_are_followed_three_levels_deep(site: Site, fetcher: Fetcher) -> None:
    _, found = await read(fetcher, f"{site.url}/fault/sitemap-endless.xml")
    assert {problem.error_type for problem in found} == {"nested_too_deep"}
    assert sum(site.counts.values()) == 1 + 3 + 9 + 27


async def test_files_and_addresses_have_an_overall_limit(site: Site, fetcher: Fetcher) -> None:
    for number in range(10):
        site.add(f"/{number}.xml", urlset(*(f"<loc>/{number}/{each}</loc>" for each in range(10))))
    site.sitemap = index(*(f"/{number}.xml" for number in range(10)))
    start = f"{site.url}/sitemap.xml"
    entries, found = await read(fetcher, start, limits=SitemapLimits(max_files=4))
    assert (len(entries), [problem.error_type for problem in found]) == (30, ["too_many_files"])
    entries, found = await read(fetcher, start, limits=SitemapLimits(max_urls=25))
    assert (len(entries), [problem.error_type for problem in found]) == (25, ["too_many_urls"])
    entries, found = await read(fetcher, start, limits=SitemapLimits(max_urls=100))
    assert (len(entries), found) == (100, [])


async def test_a_sitemap_that_takes_too_long_is_a_problem(site: Site, fetcher: Fetcher) -> None:
    _, found = await read(fetcher, f"{site.url}/fault/slow-body", limits=SitemapLimits(timeout_seconds=0.3))
    assert [problem.error_type for problem in found] == ["timeout"]


async def test_a_large_sitemap_leaves_no_file_behind(
    site: Site, fetcher: Fetcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher._network, "spool_folder", tmp_path)
    long = "x" * 1500
    site.sitemap = Reply(urlset(*(f"<loc>/{long}/{number}</loc>" for number in range(1500))), content_type="text/xml")
    entries, _ = await read(fetcher, f"{site.url}/sitemap.xml")
    assert len(entries) == 1500
    assert list(tmp_path.iterdir()) == []
