"""The Feed connector: RSS, Atom and JSON Feed, entries by whatever they can be known by, and the pages behind them."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.site import Reply, Site, redirect
from tests.sources import Workplace

from scrubjay.crawler.page_store import hash_content
from scrubjay.documents.identity import document_address
from scrubjay.errors import ExtractionFailed, FetchFailed
from scrubjay.model.source import SourceContent, SourceItem, hash_key
from scrubjay.sources.feed import BATCH, FEED
from scrubjay.sources.feed_parsing import Feed, parse_feed

pytestmark = pytest.mark.asyncio(loop_scope="module")

RSS = "application/rss+xml"
ARTICLE = "A jay buries acorns in autumn and finds most of them again in the snow of the winter. " * 5
NOT_FEEDS = {
    "a page": b"<!DOCTYPE html><html><body><p>Welcome</p></body></html>",
    "a login page": b"<html><body><form action='/login'><input type='password'></form></body></html>",
    "an XHTML page": b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><body>x</body></html>",
    "broken XML": b"<rss version='2.0'><channel><title>Jay",
    "other XML": b"<?xml version='1.0'?><catalogue><book/></catalogue>",
    "other JSON": b'{"items": [{"id": 1}]}',
    "broken JSON": b'{"version": "https://jsonfeed.org/version/1.1", "items": [',
    "a list": b"[1, 2]",
    "words": b"just words",
    "nothing": b"",
    "entities": b"<!DOCTYPE x [<!ENTITY a 'b'>]><rss version='2.0'><channel><item><guid>1</guid></item></channel>",
}


def rss(*items: str, more: str = "") -> bytes:
    inside = "".join(f"<item>{item}</item>" for item in items)
    return f"<rss version='2.0'><channel><title>Jay news</title>{more}{inside}</channel></rss>".encode()


def parsed(data: bytes, url: str = "https://jay.example/news/feed.xml") -> Feed:
    return parse_feed(data, url)


async def read_all(
    house: Workplace, site: Site, body: str | bytes, content_type: str = RSS, **settings: Any
) -> tuple[dict[str, SourceItem], dict[str, SourceContent], list[str]]:
    site.add("/feed", body, content_type)
    async with house.opened(FEED, url=f"{site.url}/feed", **settings) as connector:
        items = await house.by_key(connector)
        contents = {key: await connector.read(item) for key, item in items.items()}
        return items, contents, connector.problems


async def test_an_rss_entry_becomes_markdown_with_its_facts(house: Workplace, site: Site) -> None:
    body = rss(
        "<guid isPermaLink='false'>jay-1</guid><title>Acorns &amp; snow</title><link>/acorns</link>"
        "<author>ada@jay.example (Ada)</author><category>birds</category><category>food</category>"
        "<pubDate>Mon, 06 Jan 2025 10:00:00 +0200</pubDate>"
        "<description>&lt;p&gt;They &lt;b&gt;hide&lt;/b&gt; them &lt;a href='/where'&gt;here&lt;/a&gt;.&lt;/p&gt;"
        "&lt;ul&gt;&lt;li&gt;oak&lt;/li&gt;&lt;/ul&gt;</description>",
        more="<language>en-gb</language>",
    )

    items, contents, problems = await read_all(house, site, body)

    item, content = items["jay-1"], contents["jay-1"]
    assert content.markdown == f"# Acorns & snow\n\nThey **hide** them [here]({site.url}/where).\n\n- oak"
    assert item.text_sha256 == hash_content(content.markdown)
    assert item.content_length == content.size_bytes == len(content.markdown.encode())
    assert item.last_modified_at == datetime(2025, 1, 6, 8, tzinfo=UTC)
    assert (content.url, content.title, content.language) == (f"{site.url}/acorns", "Acorns & snow", "en-gb")
    assert content.parent_url == f"{site.url}/feed"
    assert content.details == {
        "feed_url": f"{site.url}/feed",
        "feed_title": "Jay news",
        "link": f"{site.url}/acorns",
        "published": "2025-01-06T08:00:00+00:00",
        "author": "ada@jay.example (Ada)",
        "tags": ["birds", "food"],
    }
    assert problems == []


async def test_an_atom_entry_gives_its_longest_text_and_its_later_date(house: Workplace, site: Site) -> None:
    body = (
        "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='https://jay.example/x/'><title>Jay</title>"
        "<entry><id>urn:jay:1</id><title>Text</title><link href='p1'/><updated>2025-01-02T00:00:00Z</updated>"
        "<published>2025-01-01T00:00:00Z</published><summary>Short.</summary>"
        "<content type='text'>If a &lt; b\nthen *c*.</content></entry>"
        "<entry><id>urn:jay:2</id><title>Markup</title><updated>2025-01-02T00:00:00Z</updated><content type='xhtml'>"
        "<div xmlns='http://www.w3.org/1999/xhtml'><p>Jays <em>plan</em>.</p></div></content></entry></feed>"
    )

    items, contents, _ = await read_all(house, site, body, "application/atom+xml")

    assert contents["urn:jay:1"].markdown == "# Text\n\nIf a < b\nthen *c*."
    assert contents["urn:jay:1"].url == "https://jay.example/x/p1"
    assert items["urn:jay:1"].last_modified_at == datetime(2025, 1, 2, tzinfo=UTC)
    assert contents["urn:jay:1"].details["published"] == "2025-01-01T00:00:00+00:00"
    assert contents["urn:jay:2"].markdown == "# Markup\n\nJays *plan*."
    assert "link" not in contents["urn:jay:2"].details


async def test_a_json_feed_is_read_like_the_others(house: Workplace, site: Site) -> None:
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "Jay",
        "language": "de",
        "items": [
            {
                "id": 7,
                "url": "/seven",
                "title": "Seven",
                "content_html": "<p>Seven <b>acorns</b></p>",
                "content_text": "Seven",
                "date_published": "2025-01-06T10:00:00+02:00",
                "authors": [{"name": "Ada"}, {"name": "Bo"}, "odd"],
                "tags": ["nuts", 3, None],
            },
            {"id": "b", "content_text": "Plain <b>as it is</b>", "date_modified": "2025-02-01T00:00:00Z"},
            {"url": "https://jay.example/c", "summary": "Known by its link"},
            {"content_text": "Known by nothing"},
            "odd",
        ],
    }

    items, contents, problems = await read_all(house, site, json.dumps(feed), "application/feed+json")

    assert list(items) == ["7", "b", "https://jay.example/c"]
    assert contents["7"].markdown == "# Seven\n\nSeven **acorns**"
    assert contents["7"].url == f"{site.url}/seven"
    assert contents["7"].details["author"] == "Ada, Bo"
    assert contents["7"].details["tags"] == ["nuts", "3"]
    assert items["7"].last_modified_at == datetime(2025, 1, 6, 8, tzinfo=UTC)
    assert contents["b"].markdown == "Plain <b>as it is</b>"
    assert items["b"].last_modified_at == datetime(2025, 2, 1, tzinfo=UTC)
    assert contents["b"].language == "de"
    assert problems == ["2 entries have neither an id nor a link, title or date, and were left out."]


async def test_an_entry_is_known_by_its_id_else_its_link_else_its_title_and_date() -> None:
    feed = parsed(
        rss(
            "<guid isPermaLink='false'>one</guid><link>/1</link>",
            "<link>/2#part</link><title>Two</title>",
            "<title>Three</title><pubDate>Mon, 06 Jan 2025 10:00:00 GMT</pubDate>",
            "<title>Three</title><pubDate>Tue, 07 Jan 2025 10:00:00 GMT</pubDate>",
            "<description>Nothing to know it by</description>",
            "<guid isPermaLink='false'>one</guid><title>Once more</title>",
        )
    )

    one, two, three, four = feed.entries
    assert (one, two) == ("one", "https://jay.example/2#part")
    assert three.startswith("sha256:")
    assert three != four
    assert feed.entries["one"].title is None
    assert feed.problems == [
        "1 entries have neither an id nor a link, title or date, and were left out.",
        "1 entries have the id of another one and were left out.",
    ]


async def test_entries_that_share_a_page_or_have_none_are_documents_of_their_own(house: Workplace, site: Site) -> None:
    body = rss(
        "<guid isPermaLink='false'>v1</guid><link>/changes#1</link><description>One.</description>",
        "<guid isPermaLink='false'>v2</guid><link>/changes#2</link><description>Two.</description>",
        "<guid isPermaLink='false'>n1</guid><description>Three.</description>",
        "<guid isPermaLink='false'>n 2/é</guid><description>Four.</description>",
        "<guid isPermaLink='false'>h1</guid><link>/</link><description>Five.</description>",
        "<guid isPermaLink='false'>h2</guid><link>/</link><description>Six.</description>",
        "<guid isPermaLink='false'>own</guid><link>/own?b=1&amp;a=2</link><description>Seven.</description>",
        "<guid isPermaLink='false'>odd</guid><link>mailto:jay@jay.example</link><description>Eight.</description>",
    )

    _, contents, _ = await read_all(house, site, body)

    addresses = {key: document_address(content.url)[0] for key, content in contents.items()}
    assert len(set(addresses.values())) == 8
    assert contents["own"].url == f"{site.url}/own?b=1&a=2"
    assert contents["n 2/é"].url == f"feed:{site.url}/feed#n%202%2F%C3%A9"
    assert contents["v1"].details["link"] == f"{site.url}/changes#1"


@pytest.mark.parametrize("name", NOT_FEEDS)
async def test_what_is_not_a_feed_is_refused_and_not_taken_for_an_empty_one(
    house: Workplace, site: Site, name: str
) -> None:
    site.add("/feed", NOT_FEEDS[name])
    async with house.opened(FEED, url=f"{site.url}/feed") as connector:
        with pytest.raises(FetchFailed) as failed:
            await house.list(connector)
        connectivity = await connector.check()

    assert failed.value.error_type == "not_a_feed"
    assert not connectivity.works
    assert f"no feed at {site.url}/feed" in connectivity.message


@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_an_error_is_told_with_its_status(house: Workplace, site: Site, status: int) -> None:
    site.pages["/feed"] = Reply(rss("<guid>1</guid>"), status)
    async with house.opened(FEED, url=f"{site.url}/feed") as connector:
        with pytest.raises(FetchFailed, match=f"HTTP status {status}"):
            await house.list(connector)


async def test_a_site_that_does_not_answer_is_told(house: Workplace, site: Site) -> None:
    url = f"{site.url}/feed"
    await site.stop()
    async with house.opened(FEED, url=url) as connector:
        connectivity = await connector.check()
        with pytest.raises(FetchFailed) as failed:
            await house.list(connector)

    assert not connectivity.works
    assert failed.value.error_type == "connection"


async def test_a_feed_that_breaks_off_gives_what_came_before_and_says_so() -> None:
    feed = parsed(rss("<guid isPermaLink='false'>one</guid>", "<guid isPermaLink='false'>two</guid>")[:-30])

    assert "one" in feed.entries
    assert "not well-formed" in feed.problems[0]


@pytest.mark.parametrize(
    "body",
    [
        rss(),
        b"<feed xmlns='http://www.w3.org/2005/Atom'><title>Jay</title></feed>",
        b'{"version": "https://jsonfeed.org/version/1", "title": "Jay", "items": []}',
    ],
)
async def test_a_feed_without_entries_is_a_feed(body: bytes) -> None:
    assert parsed(body).entries == {}
    assert parsed(body).problems == []


async def test_dates_that_no_calendar_has_are_none() -> None:
    feed = parsed(rss("<guid isPermaLink='false'>one</guid><pubDate>Mon, 99 Foo 2025 99:99:99 GMT</pubDate>"))

    assert feed.entries["one"].published_at is None


async def test_a_redirected_feed_resolves_its_links_where_it_was_found(house: Workplace, site: Site) -> None:
    site.add("/deep/feed", rss("<guid isPermaLink='false'>one</guid><link>page</link>"), RSS)
    site.pages["/feed"] = redirect("/deep/feed")
    async with house.opened(FEED, url=f"{site.url}/feed") as connector:
        (item,) = await house.list(connector)
        content = await connector.read(item)

    assert content.url == f"{site.url}/deep/page"
    assert content.details["feed_url"] == f"{site.url}/feed"


async def test_a_changed_title_or_text_changes_the_hash_and_nothing_else_does(house: Workplace, site: Site) -> None:
    async def text_sha256(title: str, text: str, more: str = "") -> str | None:
        entry = f"<guid isPermaLink='false'>1</guid><title>{title}</title><description>{text}</description>{more}"
        items, _, _ = await read_all(house, site, rss(entry))
        return items["1"].text_sha256

    first = await text_sha256("Jay", "&lt;p&gt;Acorns&lt;/p&gt;")
    assert first is not None
    assert await text_sha256("Jay", "&lt;div&gt;Acorns&lt;/div&gt;", "<comments>/c</comments>") == first
    assert await text_sha256("Jays", "&lt;p&gt;Acorns&lt;/p&gt;") != first
    assert await text_sha256("Jay", "&lt;p&gt;Beetles&lt;/p&gt;") != first


async def test_many_readings_fetch_the_feed_once(house: Workplace, site: Site) -> None:
    url = site.add("/feed", rss("<guid isPermaLink='false'>there</guid><title>Jay</title>"), RSS)
    gone = [SourceItem(key=f"gone{number}", key_hash=hash_key(f"gone{number}")) for number in range(5)]
    there = SourceItem(key="there", key_hash=hash_key("there"))
    async with house.opened(FEED, url=url) as connector:
        outcomes = await asyncio.gather(*(connector.read(item) for item in [*gone, there]), return_exceptions=True)

    assert [getattr(each, "error_type", None) for each in outcomes] == ["not_found"] * 5 + [None]
    assert len(site.requests_for("/feed")) == 1


async def test_no_more_entries_are_taken_than_the_plan_allows(house: Workplace, site: Site) -> None:
    body = rss(*(f"<guid isPermaLink='false'>{number}</guid>" for number in range(10)))

    items, _, _ = await read_all(house, site, body, max_entries=4)

    assert list(items) == ["0", "1", "2", "3"]


async def test_a_cancelled_listing_stops_between_two_batches(house: Workplace, site: Site) -> None:
    site.add("/feed", rss(*(f"<guid isPermaLink='false'>{number}</guid>" for number in range(3 * BATCH))), RSS)
    async with house.opened(FEED, url=f"{site.url}/feed") as connector:
        seen = await house.list_until_cancelled(connector)

    assert len(seen) == BATCH


async def test_the_site_sees_the_user_agent_that_the_plan_asks_for(house: Workplace, site: Site) -> None:
    await read_all(house, site, rss("<guid isPermaLink='false'>1</guid>"), user_agent="JayReader/1")

    assert {request.headers["user-agent"] for request in site.requests} == {"JayReader/1"}


def page(title: str, more: str = "") -> str:
    story = f"<article><h1>{title}</h1><p>{ARTICLE}</p></article>"
    return f"<html lang='en'><head><title>{title}</title>{more}</head><body>{story}</body></html>"


async def test_full_pages_are_fetched_extracted_and_kept(house: Workplace, site: Site) -> None:
    site.add("/acorns", page("The whole story"))
    body = rss(
        "<guid isPermaLink='false'>1</guid><title>Story</title><link>/acorns</link><description>Teaser.</description>",
        "<guid isPermaLink='false'>2</guid><title>No link</title><description>All there is.</description>",
    )

    items, contents, _ = await read_all(house, site, body, full_pages=True)

    assert ARTICLE.strip() in (contents["1"].markdown or "")
    assert "Teaser" not in (contents["1"].markdown or "")
    assert (contents["1"].url, contents["1"].title) == (f"{site.url}/acorns", "The whole story")
    assert contents["1"].details["feed_title"] == "Jay news"
    original = contents["1"].original_sha256
    assert original is not None
    assert await house.tools.crawler.blobs.get(original) == page("The whole story").encode()
    # What the feed says is no hash of what the page says, but tells that it changed.
    assert items["1"].text_sha256 is None
    assert items["1"].etag == hash_content("# Story\n\nTeaser.")
    assert contents["2"].markdown == "# No link\n\nAll there is."
    assert items["2"].text_sha256 == hash_content("# No link\n\nAll there is.")


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        (Reply("gone", 410), "http_error"),
        (Reply(page("Hidden", "<meta name='robots' content='noindex'>")), "noindex"),
        (Reply("<html><body></body></html>"), "empty_page"),
        (redirect("/private/page"), "robots_disallowed"),
        (redirect("http://10.0.0.1/inside"), "blocked_address"),
    ],
)
async def test_a_page_that_cannot_be_had_fails_for_its_entry_alone(
    house: Workplace, site: Site, answer: Reply, error_type: str
) -> None:
    site.robots = "User-agent: *\nDisallow: /private\n"
    site.add("/private/page", page("Private"))
    site.pages["/page"] = answer
    site.add("/feed", rss("<guid isPermaLink='false'>1</guid><link>/page</link>"), RSS)
    async with house.opened(FEED, url=f"{site.url}/feed", full_pages=True) as connector:
        (item,) = await house.list(connector)
        with pytest.raises((FetchFailed, ExtractionFailed)) as failed:
            await connector.read(item)

    assert failed.value.error_type == error_type
    assert not site.requests_for("/private/page")


@pytest.mark.parametrize("url", ["ftp://jay.example/feed", "jay", "https://me:hunter2@jay.example/feed"])
async def test_an_address_that_cannot_be_fetched_or_has_a_password_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        FEED.read_settings({"url": url})
