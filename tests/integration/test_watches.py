"""Watches on real sources: what is news and what is not, what it costs, and where it goes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
import pytest_asyncio
from tests.newsroom import (
    LONG,
    NOON,
    Article,
    Newsroom,
    conditional,
    open_newsroom,
    page,
    publish,
    reaching_loopback,
    rss,
    sitemap,
)
from tests.site import Reply, Site, SiteRequest, Wire, redirect, running_site
from tests.workshop import on_every_database, wait_until

from scrubjay.app import open_scrubjay
from scrubjay.errors import Conflict, Unavailable
from scrubjay.model.clock import utc_now
from scrubjay.model.job import JobPriority, JobState
from scrubjay.model.plan import IngestionSettings
from scrubjay.model.watching import ItemState, ThrottleLevel, Watch, WatchKind
from scrubjay.services.documents import DocumentQuery
from scrubjay.services.plans import PlanValues
from scrubjay.settings import Settings
from scrubjay.storage.jobs import JobRow, Jobs
from scrubjay.storage.watches import Watches
from scrubjay.watches.poll import PollOutcome, PollStatus
from scrubjay.watches.watcher import LEASE, OUR_FAULT

OLD = Article("/old", "Council meets on Tuesday", published_at=NOON - timedelta(hours=5))
SURROUNDINGS = (
    "<nav><a href='/'>Home</a> <a href='/x'>12 new offers</a></nav>"
    "<div class='ad-banner advertisement'><a href='/buy'>Buy our hat</a></div><footer>12:44, 9 comments</footer>"
)
FRESH = Article("/fresh", "Bridge at Ashford closed after crack is found", published_at=NOON + timedelta(minutes=10))


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site(hosts=8) as running:
        yield running


@pytest_asyncio.fixture
async def room(settings: Settings) -> AsyncIterator[Newsroom]:
    async with open_newsroom(settings) as opened:
        yield opened


# --- What is news


async def test_what_a_feed_has_already_is_remembered_and_what_comes_is_crawled_at_once(
    room: Newsroom, site: Site
) -> None:
    watch = await room.watch(publish(site, "/feed", [OLD]))
    first = await room.poll(watch)
    assert (first.status, first.remembered, first.tally.new) == (PollStatus.CHANGED, 1, 0)
    assert await room.jobs() == []

    room.clock.advance(minutes=15)
    publish(site, "/feed", [FRESH, OLD])
    second = await room.poll(watch)

    assert (second.tally.new, second.tally.triggered, second.requests) == (1, 1, 1)
    [job] = await room.jobs()
    assert (job.priority, job.state) == (JobPriority.HIGH, JobState.PENDING)
    assert job.payload["spec"]["start_urls"] == [site.url + "/fresh"]
    assert job.payload["collection_id"] is None
    item = (await room.items(watch))["fresh"]
    assert (item.state, item.job_id) == (ItemState.QUEUED, job.id)
    assert item.news_score is not None
    assert item.news_score >= 0.6
    assert {name: item.factors[name]["value"] for name in ("terms", "recency", "source", "novelty")} == {
        "terms": 0.5,
        "recency": pytest.approx(1.0, abs=0.01),
        "source": 0.5,
        "novelty": 1.0,
    }


async def test_what_was_published_after_the_watch_was_made_is_news_at_the_first_poll(
    room: Newsroom, site: Site
) -> None:
    watch = await room.watch(publish(site, "/feed", [FRESH, OLD]))
    room.clock.advance(minutes=20)
    outcome = await room.poll(watch)
    assert (outcome.remembered, outcome.tally.new) == (1, 1)


async def test_catching_up_takes_everything_for_news(room: Newsroom, site: Site) -> None:
    watch = await room.watch(publish(site, "/feed", [OLD, replace(FRESH, published_at=None)]), catch_up=True)
    assert (await room.poll(watch)).tally.new == 2


async def test_a_feed_that_did_not_change_costs_one_small_request_and_brings_nothing(
    room: Newsroom, site: Site
) -> None:
    watch = await room.watch(publish(site, "/feed", [OLD]))
    await room.poll(watch)
    room.clock.advance(minutes=15)
    assert (await room.poll(watch)).status is PollStatus.UNCHANGED
    assert [request.headers.get("if-none-match") is not None for request in site.requests] == [False, True]

    site.add("/feed", rss(site.url, [OLD]), "application/rss+xml")  # without an ETag: the bytes are compared
    room.clock.advance(minutes=15)
    await room.poll(watch)
    room.clock.advance(minutes=15)
    assert (await room.poll(watch)).status is PollStatus.UNCHANGED


@pytest.mark.parametrize(
    "changed",
    [
        replace(OLD, guid="another id"),
        replace(OLD, path="/old?session=2", guid=None),
        replace(OLD, title="COUNCIL meets  on Tuesday!", text=LONG + " 12 comments, updated 5 min ago"),
    ],
    ids=["guid", "address", "cosmetics"],
)
async def test_entries_whose_id_address_or_looks_change_are_not_news_every_time(
    room: Newsroom, site: Site, changed: Article
) -> None:
    watch = await room.watch(publish(site, "/feed", [replace(OLD, guid="first id")]))
    await room.poll(watch)
    for minute in range(3):
        room.clock.advance(minutes=15)
        publish(site, "/feed", [replace(changed, guid=changed.guid and f"{changed.guid} {minute}")])
        outcome = await room.poll(watch)
        assert (outcome.tally.new, outcome.tally.updated) == (0, 0)
    assert await room.jobs() == []


async def test_an_entry_that_says_something_else_is_an_update(room: Newsroom, site: Site) -> None:
    watch = await room.watch(publish(site, "/feed", [OLD]))
    await room.poll(watch)
    room.clock.advance(minutes=15)
    publish(site, "/feed", [replace(OLD, text="The council was evacuated. " + LONG)])
    outcome = await room.poll(watch)
    assert (outcome.tally.updated, outcome.tally.triggered) == (1, 1)
    item = (await room.items(watch))["old"]
    assert (item.updates, item.factors["novelty"]["update"]) == (1, True)


async def test_dates_in_the_future_are_not_believed(room: Newsroom, site: Site) -> None:
    watch = await room.watch(publish(site, "/feed", [replace(FRESH, published_at=NOON + timedelta(days=400))]))
    assert (await room.poll(watch)).tally.new == 0
    room.clock.advance(minutes=15)
    publish(site, "/feed", [replace(FRESH, path="/lie", title="A lie", published_at=NOON + timedelta(days=400))])
    await room.poll(watch)
    item = (await room.items(watch))["lie"]
    assert (item.published_at, item.factors["recency"]["age_hours"]) == (None, None)


async def test_what_is_not_worth_it_is_scored_and_not_crawled(room: Newsroom, site: Site) -> None:
    watch = await room.watch(publish(site, "/feed", [OLD]))
    await room.poll(watch)
    room.clock.advance(minutes=15)
    dull = Article("/dull", "Sponsored: horoscope and crossword of the week", published_at=room.clock.now)
    publish(site, "/feed", [dull])
    outcome = await room.poll(watch)
    assert (outcome.tally.new, outcome.tally.triggered) == (1, 0)
    item = (await room.items(watch))["dull"]
    assert (item.state, item.factors["terms"]["noise"]) == (ItemState.BELOW, ["sponsored", "horoscope", "crossword"])

    await room.jay.watches.change(room.who, watch.id, threshold=0.0)
    room.clock.advance(minutes=15)
    publish(site, "/feed", [replace(dull, path="/dull2", title="Sponsored: quiz of the day and other things")])
    assert (await room.poll(watch)).tally.triggered == 1


async def test_news_of_one_poll_is_one_job_and_goes_where_the_watch_says(room: Newsroom, site: Site) -> None:
    collection = await room.jay.collections.find_or_create(room.who, "news")
    watch = await room.watch(publish(site, "/feed", [OLD]), collection_id=collection.id)
    await room.poll(watch)
    room.clock.advance(minutes=15)
    publish(
        site,
        "/feed",
        [replace(FRESH, path=f"/n{n}", title=f"Ferry number {n} sinks", text=f"{n} {LONG}") for n in range(5)],
    )
    await room.poll(watch)
    [job] = await room.jobs()
    assert sorted(job.payload["spec"]["start_urls"]) == [f"{site.url}/n{n}" for n in range(5)]
    assert job.payload["collection_id"] == collection.id


async def test_a_collection_that_is_gone_costs_no_news(room: Newsroom, site: Site) -> None:
    collection = await room.jay.collections.find_or_create(room.who, "news")
    watch = await room.watch(publish(site, "/feed", [OLD]), collection_id=collection.id)
    await room.poll(watch)
    await room.jay.collections.delete(room.who, collection.id)
    room.clock.advance(minutes=15)
    publish(site, "/feed", [FRESH])
    assert (await room.poll(watch)).tally.triggered == 1
    assert "collection" in ((await room.look(watch)).notice or "")


# --- Debounce and duplicates


async def test_rapid_updates_of_one_address_are_debounced_and_not_lost(room: Newsroom, site: Site) -> None:
    watch = await room.watch(publish(site, "/feed", [OLD]))
    await room.poll(watch)
    room.clock.advance(minutes=15)
    publish(site, "/feed", [FRESH])
    assert (await room.poll(watch)).tally.new == 1
    last = FRESH
    for number in range(3):
        room.clock.advance(minutes=2)
        last = replace(FRESH, text=f"Version {number} of it says something else. {LONG}")
        publish(site, "/feed", [last])
        outcome = await room.poll(watch)
        assert (outcome.tally.updated, outcome.tally.debounced) == (0, 1)
    room.clock.advance(minutes=10)
    assert (await room.poll(watch)).tally.updated == 1  # though the feed says the same as before
    room.clock.advance(minutes=10)
    assert (await room.poll(watch)).status is PollStatus.UNCHANGED


async def test_the_same_address_or_text_in_another_source_is_suppressed(room: Newsroom, site: Site) -> None:
    first = await room.watch(publish(site, "/1/feed", [OLD]))
    second = await room.watch(publish(site, "/2/feed", [replace(OLD, path="/old2", text="Else. " + LONG)]))
    third = await room.watch(publish(site, "/3/feed", [replace(OLD, path="/old3", text="More. " + LONG)], host=2))
    for watch in (first, second, third):
        await room.poll(watch)
    room.clock.advance(minutes=15)
    publish(site, "/1/feed", [FRESH])
    publish(site, "/2/feed", [replace(FRESH, text="Teaser only, shorter. " + LONG)])
    publish(site, "/3/feed", [replace(FRESH, path="/syndicated")], host=2)
    outcomes = [await room.poll(watch) for watch in (first, second, third)]
    assert [each.tally.new for each in outcomes] == [1, 0, 0]
    assert [each.tally.suppressed for each in outcomes] == [0, 1, 1]
    assert await room.crawled() == [site.url + "/fresh"]
    assert "address" in ((await room.items(second))["fresh"].reason or "")
    assert "says the same" in ((await room.items(third))["syndicated"].reason or "")
    [story] = await room.stories()
    assert story.source_count == 2  # the same text from another site is another source of the story


@on_every_database
async def test_two_watches_that_find_the_same_at_once_crawl_it_once(room: Newsroom, site: Site) -> None:
    watches = [await room.watch(publish(site, f"/{number}/feed", [OLD])) for number in range(6)]
    for watch in watches:
        await room.poll(watch)
    room.clock.advance(minutes=15)
    for number in range(6):
        publish(site, f"/{number}/feed", [FRESH])
    await asyncio.gather(*(room.poll(watch) for watch in watches))
    assert await room.crawled() == [site.url + "/fresh"]


# --- Sitemaps and pages


async def test_a_sitemap_tells_what_is_new_and_what_changed_and_a_look_tells_whether_it_did(
    room: Newsroom, site: Site
) -> None:
    for name in ("a", "b", "c"):
        site.add(f"/{name}", page(f"Harbour news {name}", f"About {name}. {LONG}"))
    listed = {f"{site.url}/a": "2026-03-01", f"{site.url}/b": "2026-03-01"}
    site.add("/sitemap.xml", conditional(sitemap(listed), "application/xml"))
    watch = await room.watch(site.url + "/sitemap.xml")
    assert watch.kind is WatchKind.SITEMAP
    assert (await room.poll(watch)).remembered == 2

    room.clock.advance(minutes=15)
    listed |= {f"{site.url}/c": "2026-03-04T12:10:00Z", f"{site.url}/a": "2026-03-04"}
    site.add("/sitemap.xml", conditional(sitemap(listed), "application/xml"))
    outcome = await room.poll(watch)
    assert (outcome.tally.new, outcome.tally.updated) == (1, 1)
    items = await room.items(watch)
    assert (items["c"].title, items["b"].updates) == ("Harbour news c", 0)

    room.clock.advance(minutes=15)
    listed[f"{site.url}/a"] = "2026-03-04T12:29:00Z"  # but the article says what it said
    site.add("/sitemap.xml", conditional(sitemap(listed), "application/xml"))
    assert (await room.poll(watch)).tally.updated == 0
    assert await room.crawled() == sorted([f"{site.url}/a", f"{site.url}/c"])


async def test_of_a_sitemap_index_only_files_that_changed_are_read(room: Newsroom, site: Site) -> None:
    def index(lastmods: dict[str, str]) -> str:
        files = "".join(
            f"<sitemap><loc>{site.url}/{name}</loc><lastmod>{lastmod}</lastmod></sitemap>"
            for name, lastmod in lastmods.items()
        )
        return f"<sitemapindex>{files}</sitemapindex>"

    lastmods = {f"s{number}.xml": "2026-03-01" for number in range(15)}
    for name in lastmods:
        site.add(f"/{name}", sitemap({f"{site.url}/{name}-page": "2026-03-01"}), "application/xml")
    site.add("/sitemap.xml", index(lastmods), "application/xml")
    watch = await room.watch(site.url + "/sitemap.xml")
    await room.poll(watch)
    assert (await room.look(watch)).notice == "5 files of the index are read at the next polls."
    room.clock.advance(minutes=15)
    outcome = await room.poll(watch)
    assert (len(await room.items(watch)), outcome.tally.new) == (15, 0)

    site.forget()
    room.clock.advance(minutes=15)
    site.add("/new", page("A tunnel opens", LONG))
    site.add("/s3.xml", sitemap({f"{site.url}/new": None}), "application/xml")
    site.add("/s15.xml", sitemap({f"{site.url}/newer": "2026-03-04T12:20:00Z"}), "application/xml")
    site.add("/sitemap.xml", index({**lastmods, "s3.xml": "2026-03-04", "s15.xml": "2026-03-04"}), "application/xml")
    outcome = await room.poll(watch)
    assert outcome.tally.new == 2
    asked = {path for path in site.counts if path.endswith(".xml")}
    assert asked == {"/sitemap.xml", "/s3.xml", "/s15.xml"}


async def test_a_sitemap_whose_pages_all_changed_at_once_is_not_believed(room: Newsroom, site: Site) -> None:
    urls = [f"{site.url}/p{number}" for number in range(40)]
    site.add("/sitemap.xml", sitemap(dict.fromkeys(urls, "2026-03-01")), "application/xml")
    watch = await room.watch(site.url + "/sitemap.xml")
    await room.poll(watch)
    room.clock.advance(minutes=15)
    site.add("/sitemap.xml", sitemap(dict.fromkeys(urls, "2026-03-04")), "application/xml")
    outcome = await room.poll(watch)
    assert (outcome.tally.updated, outcome.requests) == (0, 1)
    assert "not believed" in ((await room.look(watch)).notice or "")
    room.clock.advance(minutes=15)
    site.add(
        "/sitemap.xml",
        sitemap({**dict.fromkeys(urls, "2026-03-04"), urls[0]: "2026-03-04T12:20:00Z"}),
        "application/xml",
    )
    site.add("/p0", page("The ferry is back", LONG))
    assert (await room.poll(watch)).tally.updated == 1


async def test_a_page_is_news_when_its_article_changes_and_not_when_its_surroundings_do(
    room: Newsroom, site: Site
) -> None:
    site.add("/status", page("Status", f"All lines run. {LONG}", "<footer>12:01, 5 comments</footer>"))
    watch = await room.watch(site.url + "/status", kind=WatchKind.PAGE)
    assert (await room.poll(watch)).remembered == 1
    for text in (f"All lines  RUN! {LONG}", f"All lines run. {LONG} Updated 5 min ago"):
        room.clock.advance(minutes=15)
        site.add("/status", page("Status", text, SURROUNDINGS))
        outcome = await room.poll(watch)
        assert (outcome.status, outcome.tally.updated) == (PollStatus.UNCHANGED, 0)
    room.clock.advance(minutes=15)
    site.add("/status", page("Status", f"Line 4 is closed after a crash. {LONG}"))
    outcome = await room.poll(watch)
    assert (outcome.tally.updated, outcome.tally.triggered) == (1, 1)
    assert await room.crawled() == [site.url + "/status"]


async def test_a_server_that_ignores_conditions_is_asked_by_head(room: Newsroom, site: Site) -> None:
    body = page("Status", f"All lines run. {LONG}").encode()

    async def answer(request: SiteRequest, wire: Wire) -> None:
        await wire.start("Content-Type: text/html", 'ETag: "same"', f"Content-Length: {len(body)}")
        await wire.send(b"" if request.method == "HEAD" else body)

    site.faults["/status"] = answer
    watch = await room.watch(site.url + "/status", kind=WatchKind.PAGE)
    for _ in range(3):
        await room.poll(watch)
        room.clock.advance(minutes=15)
    assert [request.method for request in site.requests_for("/status")] == ["GET", "GET", "HEAD"]


async def test_robots_txt_holds_for_pages(room: Newsroom, site: Site) -> None:
    site.robots = "User-agent: *\nDisallow: /status\n"
    site.add("/status", page("Status", LONG))
    watch = await room.watch(site.url + "/status", kind=WatchKind.PAGE)
    assert (await room.poll(watch)).status is PollStatus.FAILED
    assert "robots.txt" in ((await room.look(watch)).last_error or "")
    assert "/status" not in site.counts


# --- Budget, backoff, brake


async def test_every_request_counts_and_none_is_made_beyond_the_budget(room: Newsroom, site: Site) -> None:
    site.add("/moved", redirect("/feed"))
    publish(site, "/feed", [OLD])
    watch = await room.watch(site.url + "/moved", kind=WatchKind.FEED, daily_budget=9)
    await room.poll(watch)
    assert (await room.look(watch)).requests_today == 2
    room.clock.advance(minutes=15)
    short = [replace(FRESH, path=f"/n{number}", title=f"Ferry {number} sinks", text="") for number in range(10)]
    for each in short:
        site.add(each.path, page(each.title, f"{each.path} {LONG}"))
    publish(site, "/feed", short)
    outcome = await room.poll(watch)
    assert outcome.tally.new == 10  # some of them without a look
    used = (await room.look(watch)).requests_today
    assert used == len(site.requests)
    for _ in range(10):
        room.clock.advance(minutes=15)
        await room.poll(watch)
    assert (await room.poll(watch)).status is PollStatus.OVER_BUDGET
    assert len(site.requests) <= 9
    after = await room.look(watch)
    assert after.next_poll_at > NOON.replace(hour=0) + timedelta(days=1)

    room.clock.now = after.next_poll_at
    assert (await room.poll(watch)).requests > 0


async def test_failures_back_off_exponentially_and_retry_after_is_honoured(room: Newsroom, site: Site) -> None:
    site.add("/feed", Reply("down", status=500))
    watch = await room.watch(site.url + "/feed", kind=WatchKind.FEED, poll_interval_seconds=600)
    waits = []
    for _ in range(3):
        assert (await room.poll(watch)).status is PollStatus.FAILED
        now = await room.look(watch)
        waits.append((now.next_poll_at - room.clock.now).total_seconds() / 600)
        room.clock.now = now.next_poll_at
    assert [round(wait) for wait in waits] == [2, 4, 8]
    assert (await room.look(watch)).last_error == f"{site.url}/feed answered with HTTP status 500."

    site.add("/feed", Reply("busy", status=429, headers={"Retry-After": "40000"}))
    await room.poll(watch)
    asked = (await room.look(watch)).next_poll_at - room.clock.now
    assert asked >= timedelta(seconds=40_000)

    publish(site, "/feed", [OLD])
    room.clock.advance(days=1)
    await room.poll(watch)
    assert ((await room.look(watch)).failures, (await room.look(watch)).last_error) == (0, None)


async def test_the_brake_stops_and_slows_everything(room: Newsroom, site: Site) -> None:
    watch = await room.watch(publish(site, "/feed", [OLD]), poll_interval_seconds=600)
    await room.jay.watches.set_throttle(room.who, ThrottleLevel.STOP, "Somebody complained.")
    with pytest.raises(Conflict, match="Somebody complained"):
        await room.jay.watches.poll(room.who, watch.id)
    assert await room.watcher._begin_due() == 0
    assert site.requests == []

    await room.jay.watches.set_throttle(room.who, ThrottleLevel.SLOW)
    await room.poll(watch)
    assert (await room.look(watch)).next_poll_at - room.clock.now > timedelta(seconds=2000)


async def test_triggers_wait_while_the_queue_is_deep_and_are_sent_later(settings: Settings, site: Site) -> None:
    async with open_newsroom(settings, watch_queue_limit=3) as room:
        watch = await room.watch(publish(site, "/feed", [OLD]))
        await room.poll(watch)
        for number in range(3):
            await room.jay.jobs.submit(room.who, "diagnostic.steps", {"steps": number})
        room.clock.advance(minutes=15)
        publish(site, "/feed", [FRESH])
        outcome = await room.poll(watch)
        assert (outcome.tally.waiting, outcome.tally.triggered) == (1, 0)
        assert (await room.items(watch))["fresh"].state is ItemState.WAITING
        assert await room.watcher._desk.rules.trigger.send_waiting(room.clock.now) == 0

        async with room.jay.database.writing() as connection:
            for job in (await Jobs(connection).page(JobRow.kind == "diagnostic.steps")).items:
                await Jobs(connection).change(job.id, state=JobState.COMPLETED)
        trigger = room.watcher._desk.rules.trigger
        await room.jay.watches.set_throttle(room.who, ThrottleLevel.STOP)
        assert await trigger.send_waiting(room.clock.now) == 0
        await room.jay.watches.set_throttle(room.who, ThrottleLevel.OFF)
        assert [await trigger.send_waiting(room.clock.now) for _ in range(2)] == [1, 0]
        [job] = await room.jobs()
        item = (await room.items(watch))["fresh"]
        assert (item.state, item.job_id) == (ItemState.QUEUED, job.id)


# --- Bad input


async def _never_ends(_: SiteRequest, wire: Wire) -> None:
    await wire.start("Content-Type: application/rss+xml", "Transfer-Encoding: chunked")
    chunk = b"<item><title>x</title></item>" * 4000
    while True:
        await wire.send(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")


BAD_FEEDS = {
    "broken": (b"<rss><channel>\x00<<<", "no feed at"),
    "html": (page("Not a feed", LONG).encode(), "neither RSS nor Atom"),
    "empty": (b"", "neither RSS nor Atom"),
    "binary": (bytes(range(256)) * 50, "no feed at"),
    "json": (b'{"a": [1, 2', "JSON is broken"),
    "xxe": (
        b'<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
        b"<rss version='2.0'><channel><item><title>&x;</title></item></channel></rss>",
        "declares XML entities",
    ),
    "laughs": (
        b'<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
        b"<rss version='2.0'><channel><item><title>&b;</title></item></channel></rss>",
        "declares XML entities",
    ),
}


@pytest.mark.parametrize("name", BAD_FEEDS)
async def test_what_is_no_feed_is_a_failure_in_words_and_the_others_go_on(
    room: Newsroom, site: Site, name: str
) -> None:
    body, said = BAD_FEEDS[name]
    site.add("/bad", body, "application/rss+xml")
    bad = await room.watch(site.url + "/bad", kind=WatchKind.FEED)
    good = await room.watch(publish(site, "/feed", [OLD]))
    await room.watcher.poll_due()
    assert said in ((await room.look(bad)).last_error or "")
    assert (await room.look(bad)).failures == 1
    assert (await room.look(good)).last_success_at == room.clock.now


async def test_a_feed_without_an_end_is_cut_off(room: Newsroom, site: Site) -> None:
    site.faults["/endless"] = _never_ends
    watch = await room.watch(site.url + "/endless", kind=WatchKind.FEED)
    outcome = await room.poll(watch)
    assert (outcome.status, "larger than" in (outcome.error or "")) == (PollStatus.FAILED, True)


@pytest.mark.slow
async def test_ten_thousand_entries_are_remembered_and_a_flood_is_taken_in_portions(room: Newsroom, site: Site) -> None:
    many = [Article(f"/n{number}", f"Entry number {number}", text="") for number in range(10_050)]
    watch = await room.watch(publish(site, "/feed", many[:1]), threshold=1.0)
    await room.poll(watch)
    room.clock.advance(minutes=15)
    publish(site, "/feed", many)
    site.pages["/robots.txt"] = Reply("User-agent: *\nDisallow: /n", content_type="text/plain")
    outcome = await room.poll(watch)
    assert outcome.tally.new == 200
    notice = (await room.look(watch)).notice or ""
    assert "Only the first 10,000 of 10,050 entries" in notice
    assert "9,799 more entries" in notice
    room.clock.advance(minutes=15)
    assert (await room.poll(watch)).tally.new == 200


@pytest.mark.parametrize("charset", ["iso-8859-1", "utf-16"])
async def test_a_wrong_charset_is_read_as_well_as_can_be(room: Newsroom, site: Site, charset: str) -> None:
    body = rss(site.url, [replace(OLD, title="Überfall in Köln")]).replace("encoding='utf-8'", f"encoding='{charset}'")
    site.add("/feed", body.encode(charset), "application/rss+xml; charset=utf-8")
    watch = await room.watch(site.url + "/feed", kind=WatchKind.FEED)
    outcome = await room.poll(watch)
    assert outcome.status in (PollStatus.CHANGED, PollStatus.FAILED)
    if outcome.status is PollStatus.CHANGED:
        assert "berfall in K" in ((await room.items(watch))["old"].title or "")
    else:
        assert (await room.look(watch)).last_error


async def test_a_304_to_an_unconditional_question_is_a_failure(room: Newsroom, site: Site) -> None:
    site.add("/feed", Reply(status=304, content_type=None))
    watch = await room.watch(site.url + "/feed", kind=WatchKind.FEED)
    assert "was not asked for that" in ((await room.poll(watch)).error or "")


async def test_redirects_that_lead_inside_or_in_circles_are_failures(room: Newsroom, site: Site) -> None:
    site.add("/inside", redirect("http://10.0.0.1/feed"))
    site.add("/circle", redirect("/circle"))
    for path in ("/inside", "/circle"):
        watch = await room.watch(site.url + path, kind=WatchKind.FEED)
        outcome = await room.poll(watch)
        assert outcome.status is PollStatus.FAILED, path
        assert outcome.error


# --- Leases


async def test_a_watch_is_polled_by_one_at_a_time_and_a_lost_lease_writes_nothing(room: Newsroom, site: Site) -> None:
    watch = await room.watch(publish(site, "/feed", [FRESH]), catch_up=True)
    async with room.jay.database.writing() as connection:
        until = room.clock.now + timedelta(minutes=15)
        [taken] = await Watches(connection).lease_due("wrk_first", limit=5, now=room.clock.now, until=until)
    with pytest.raises(Conflict, match="being polled"):
        await room.poll(watch)
    room.clock.advance(minutes=16)  # its holder died
    assert (await room.poll(watch)).tally.new == 1
    assert (await room.poller.poll(taken)).status is PollStatus.LOST
    assert await room.crawled() == [site.url + "/fresh"]


async def test_a_changed_address_begins_anew(room: Newsroom, site: Site) -> None:
    watch = await room.watch(publish(site, "/feed", [OLD]))
    await room.poll(watch)
    changed = await room.jay.watches.change(
        room.who, watch.id, url=publish(site, "/other", [Article("/x", "Something else")])
    )
    assert (changed.etag, changed.last_success_at, changed.memory) == (None, None, {})
    room.clock.now = changed.next_poll_at
    assert (await room.poll(watch)).remembered == 1


async def test_a_poll_that_fails_on_our_side_is_given_back_and_the_others_go_on(
    room: Newsroom, site: Site, monkeypatch: pytest.MonkeyPatch, logged: None
) -> None:
    bad = await room.watch(publish(site, "/bad/feed", [OLD]))
    unlucky = await room.watch(publish(site, "/unlucky/feed", [OLD]))
    good = await room.watch(publish(site, "/good/feed", [replace(OLD, path="/else", title="Else")]))
    poll = room.poller.poll

    async def trip(watch: Watch) -> PollOutcome:
        if watch.id == bad.id:
            raise RuntimeError("nobody thought of this")
        if watch.id == unlucky.id:
            raise Unavailable("The cache is down.")
        return await poll(watch)

    monkeypatch.setattr(room.poller, "poll", trip)
    await room.watcher.start()

    async def done() -> bool:
        return (await room.look(good)).last_success_at is not None and not room.watcher._polls

    await wait_until(done, "the good one was polled")
    await room.watcher.stop()
    now = await room.look(bad)
    assert (now.failures, now.last_error, now.lease) == (1, OUR_FAULT, None)
    assert now.next_poll_at == room.clock.now + timedelta(seconds=now.poll_interval_seconds)
    held = await room.look(unlucky)
    assert (held.failures, held.last_error, held.lease) == (0, None, None)
    with pytest.raises(Unavailable):
        await room.poll(unlucky)
    assert (await room.look(unlucky)).lease is None


async def test_the_watcher_polls_what_is_due_and_nothing_else(room: Newsroom, site: Site) -> None:
    due = [await room.watch(publish(site, f"/{number}/feed", [], number + 1)) for number in range(8)]
    off = await room.watch(publish(site, "/off/feed", []), enabled=False)
    later = await room.set(await room.watch(publish(site, "/later/feed", [])), next_poll_at=NOON + timedelta(minutes=5))
    await room.watcher.start()

    async def done() -> bool:
        return all([(await room.look(watch)).last_success_at is not None for watch in due])

    await wait_until(done, "all that were due were polled")
    room.clock.advance(minutes=5)

    async def later_too() -> bool:
        return (await room.look(later)).last_success_at == room.clock.now

    await wait_until(later_too, "the later one was polled as well")
    await room.watcher.stop()
    assert (await room.look(off)).last_polled_at is None
    assert {path: number for path, number in site.counts.items() if number > 1} == {}


async def test_what_a_dead_process_held_is_freed_at_the_start_of_the_only_one(room: Newsroom, site: Site) -> None:
    watch = await room.watch(publish(site, "/feed", [OLD]))
    async with room.jay.database.writing() as connection:
        await Watches(connection).lease_one(watch, "wrk_dead", now=NOON, until=NOON + timedelta(hours=1))
    await room.watcher.start(alone=True)

    async def done() -> bool:
        return (await room.look(watch)).last_success_at is not None

    await wait_until(done, "it was polled")
    await room.watcher.stop()


async def test_leases_are_renewed_while_a_poll_takes_long(
    room: Newsroom, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.watches.watcher.RENEW_SECONDS", 0.0)
    site.latency_seconds = 20
    watch = await room.watch(publish(site, "/feed", [OLD]))
    await room.watcher.start()

    async def taken() -> bool:
        return (await room.look(watch)).lease is not None

    await wait_until(taken, "it is being polled")
    room.clock.advance(minutes=1)

    async def renewed() -> bool:
        return (await room.look(watch)).next_poll_at == room.clock.now + LEASE

    await wait_until(renewed, "its lease was renewed", seconds=5)
    await room.watcher.stop()  # it is cut off, and due again at once
    now = await room.look(watch)
    assert (now.lease, now.next_poll_at, now.last_polled_at) == (None, room.clock.now, None)


async def test_old_items_and_stories_are_forgotten_and_are_no_news_again(room: Newsroom, site: Site) -> None:
    watch = await room.watch(publish(site, "/feed", [OLD]))
    await room.poll(watch)
    room.clock.advance(minutes=15)
    publish(site, "/feed", [FRESH, OLD])
    await room.poll(watch)
    room.clock.advance(days=100)
    assert await room.watcher.tidy(room.clock.now) == 1
    room.clock.advance(days=100)
    assert await room.watcher.forget(room.clock.now) == 3
    assert (await room.items(watch), await room.stories()) == ({}, [])
    publish(site, "/feed", [FRESH, OLD, replace(OLD, path="/third", title="A third one")])
    outcome = await room.poll(watch)
    assert (outcome.tally.new, outcome.remembered) == (0, 3)


async def test_a_plans_watch_puts_news_where_the_plan_puts_documents(room: Newsroom, site: Site) -> None:
    collection = await room.jay.collections.find_or_create(room.who, "of the plan")
    values = PlanValues(
        name="plan",
        repository_settings={"start_url": site.url},
        ingestion_settings=IngestionSettings(collection_id=collection.id),
        is_active=False,
    )
    plan = await room.jay.plans.create(room.who, values)
    watch = await room.watch(publish(site, "/feed", [OLD]), plan_id=plan.id)
    await room.poll(watch)
    room.clock.advance(minutes=15)
    publish(site, "/feed", [FRESH])
    await room.poll(watch)
    [job] = await room.jobs()
    assert job.payload["collection_id"] == collection.id


@pytest.mark.slow
async def test_news_becomes_a_document_that_is_found(settings: Settings, site: Site) -> None:
    chosen = reaching_loopback(settings, extract_processes=1)
    publish(site, "/feed", [])
    async with open_scrubjay(chosen, working=True) as jay:
        who = await jay.access.open_as_admin(chosen.home)
        collection = await jay.collections.find_or_create(who, "news")
        watch = await jay.watches.create(who, url=site.url + "/feed", collection_id=collection.id)

        async def looked() -> bool:
            return (await jay.watches.get(who, watch.id)).last_success_at is not None

        await wait_until(looked, "the new watch was polled by itself")
        site.add("/wreck", page("Ferry Arcturus runs aground", f"The ferry Arcturus lies on a reef. {LONG}"))
        publish(site, "/feed", [Article("/wreck", "Ferry Arcturus runs aground", published_at=utc_now())])
        await jay.watches.poll(who, watch.id)

        async def indexed() -> bool:
            documents = await jay.documents.page(who, DocumentQuery(collection_id=collection.id))
            return any(document.is_found for document in documents.items)

        await wait_until(indexed, "the news is a document", seconds=60)
