"""Stories across sources: one that many tell at once breaks, once; its sources are looked at more often then."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest_asyncio
from tests.news_samples import MERGER, QUAKE, UNRELATED
from tests.newsroom import Article, Newsroom, open_newsroom, publish
from tests.site import Site, running_site
from tests.workshop import on_postgres

from scrubjay.model.watching import ThrottleLevel, Watch
from scrubjay.settings import Settings

SOURCES = 10


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site(hosts=SOURCES) as running:
        yield running


@pytest_asyncio.fixture
async def room(settings: Settings) -> AsyncIterator[Newsroom]:
    async with open_newsroom(settings) as opened:
        yield opened


async def watches_of(room: Newsroom, site: Site, number: int = SOURCES, **values: object) -> list[Watch]:
    """One watch for each host, which has looked once."""
    watches = [await room.watch(publish(site, f"/{host}/feed", [], host), **values) for host in range(1, number + 1)]
    await asyncio.gather(*(room.poll(watch) for watch in watches))
    return watches


def articles(room: Newsroom, told: list[tuple[str, str]], first: int = 0) -> list[Article]:
    return [
        Article(f"/a{first + number}", title, text=f"{lead} {'Background follows. ' * 10}", published_at=room.clock.now)
        for number, (title, lead) in enumerate(told)
    ]


async def test_a_story_of_five_sources_breaks_once_and_fifty_unrelated_ones_do_not(room: Newsroom, site: Site) -> None:
    watches = await watches_of(room, site)
    chance = random.Random(4)
    feeds: dict[int, list[Article]] = {host: [] for host in range(1, SOURCES + 1)}
    unrelated = articles(room, UNRELATED, first=100)
    chance.shuffle(unrelated)
    for number, each in enumerate(unrelated):
        feeds[number % SOURCES + 1].append(each)
    quake = articles(room, QUAKE)
    for step in range(5):
        room.clock.advance(minutes=15)
        feeds[step + 1].append(quake[step])
        share = {host: entries[: 1 + (step + 1) * 10] for host, entries in feeds.items()}
        for host, entries in share.items():
            publish(site, f"/{host}/feed", entries, host)
        # One after the other: which of two alike stories is there first decides where a third belongs.
        for watch in watches:
            await room.poll(watch)

    [story] = await room.stories(breaking=True)
    assert story.source_count == 5
    assert (story.breaking_at, story.ended_at) == (room.clock.now - timedelta(minutes=15), None)
    [event] = await room.told()
    assert (event["story_id"], event["source_count"]) == (story.id, 4)
    assert event["sources"] == ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"]
    assert sorted(event["urls"]) == [f"{site.url_at(host)}/a{host - 1}" for host in range(1, 5)]
    assert len(await room.stories()) == 51
    assert max(each.source_count for each in await room.stories(breaking=False)) == 1


async def test_one_source_that_repeats_itself_breaks_nothing(room: Newsroom, site: Site) -> None:
    [watch] = await watches_of(room, site, 1)
    room.clock.advance(minutes=15)
    publish(site, "/1/feed", articles(room, QUAKE))
    await room.poll(watch)
    [story] = await room.stories()
    assert (story.source_count, story.breaking_at) == (1, None)


async def test_sources_that_tell_it_over_days_break_nothing(room: Newsroom, site: Site) -> None:
    watches = await watches_of(room, site, 5, poll_interval_seconds=3600)
    for number, watch in enumerate(watches):
        room.clock.advance(hours=1.5)
        publish(site, f"/{number + 1}/feed", articles(room, QUAKE)[number : number + 1], number + 1)
        await room.poll(watch)
    assert await room.told() == []
    [story] = await room.stories()
    assert story.source_count == 5


async def test_old_articles_that_are_caught_up_with_break_nothing(room: Newsroom, site: Site) -> None:
    old = articles(room, QUAKE)
    room.clock.advance(days=4)
    for host in range(1, 6):
        watch = await room.watch(publish(site, f"/{host}/feed", [old[host - 1]], host), catch_up=True)
        assert (await room.poll(watch)).tally.new == 1
    assert (await room.told(), await room.stories()) == ([], [])


async def break_story(room: Newsroom, site: Site, watches: list[Watch]) -> None:
    room.clock.advance(minutes=15)
    for host, article in enumerate(articles(room, QUAKE)[:4], start=1):
        publish(site, f"/{host}/feed", [article], host)
    for watch in watches[:4]:
        await room.poll(watch)
    assert len(await room.told()) == 1


async def test_the_sources_of_a_breaking_story_are_looked_at_more_often_until_it_is_quiet(
    room: Newsroom, site: Site
) -> None:
    watches = await watches_of(room, site, 5)
    await break_story(room, site, watches)
    now = [await room.look(watch) for watch in watches]
    waits = [(each.next_poll_at - room.clock.now).total_seconds() for each in now]
    assert all(wait <= 60 for wait in waits[:3])
    assert now[4].escalated_until is None

    room.clock.advance(minutes=1)
    await room.poll(watches[0])
    wait = (await room.look(watches[0])).next_poll_at - room.clock.now
    assert timedelta(seconds=200) < wait <= timedelta(seconds=225)

    room.clock.advance(hours=1)
    assert await room.watcher.tidy(room.clock.now) == 0
    room.clock.advance(hours=1.1)
    assert await room.watcher.tidy(room.clock.now) == 1
    [story] = await room.stories(breaking=True)
    assert story.ended_at == room.clock.now
    await room.poll(watches[0])
    wait = (await room.look(watches[0])).next_poll_at - room.clock.now
    assert wait > timedelta(seconds=800)

    # What comes now is another story.
    publish(site, "/5/feed", articles(room, QUAKE)[4:], 5)
    await room.poll(watches[4])
    assert len(await room.stories()) == 2
    assert len(await room.told()) == 1


async def test_the_brake_keeps_sources_from_being_escalated(room: Newsroom, site: Site) -> None:
    watches = await watches_of(room, site, 5)
    await room.jay.watches.set_throttle(room.who, ThrottleLevel.SLOW)
    await break_story(room, site, watches)
    assert {(await room.look(watch)).escalated_until for watch in watches} == {None}


async def test_tenants_do_not_share_stories(room: Newsroom, site: Site) -> None:
    other = await room.jay.access.create_tenant(room.who, "another")
    mine, theirs = await watches_of(room, site, 3), []
    for host in (1, 2, 3):
        watch = await room.jay.watches.create(other, url=f"{site.url_at(host)}/{host}/feed")
        theirs.append(await room.set(watch, created_at=room.clock.now, next_poll_at=room.clock.now))
    for watch in theirs:
        await room.watcher.poll_now(watch)
    room.clock.advance(minutes=15)
    for host, article in enumerate(articles(room, MERGER)[:3], start=1):
        publish(site, f"/{host}/feed", [article], host)
    for watch in mine:
        await room.poll(watch)
    for watch in theirs:
        await room.watcher.poll_now(watch)
    assert [story.source_count for story in await room.stories()] == [3]
    found = await room.jay.watches.stories(other)
    assert [story.source_count for story in found.items] == [3]
    assert await room.told() == []


@on_postgres
async def test_sources_polled_at_once_by_two_processes_break_a_story_once(settings: Settings, site: Site) -> None:
    async with open_newsroom(settings) as one, open_newsroom(settings) as other:
        watches = await watches_of(one, site, 5)
        one.clock.advance(minutes=15)
        other.clock.now = one.clock.now
        for host, article in enumerate(articles(one, QUAKE), start=1):
            publish(site, f"/{host}/feed", [article], host)
        rooms = [one, other, one, other, one]
        outcomes = await asyncio.gather(*(room.poll(watch) for room, watch in zip(rooms, watches, strict=True)))
        assert sum(outcome.tally.breaking for outcome in outcomes) == 1
        assert [story.source_count for story in await one.stories()] == [5]
        assert len(await one.told()) == 1


@on_postgres
async def test_two_processes_share_what_is_due(settings: Settings, site: Site) -> None:
    async with open_newsroom(settings) as one, open_newsroom(settings) as other:
        for number in range(40):
            host = number % SOURCES + 1
            await one.watch(publish(site, f"/{number}/feed", [], host), name=f"watch {number}")
        first, second = await asyncio.gather(one.watcher.poll_due(), other.watcher.poll_due())
        assert len(first) + len(second) == 40
        assert min(len(first), len(second)) > 0
        assert max(site.counts.values()) == 1
