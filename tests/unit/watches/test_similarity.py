"""Which pieces of news tell the same story, and which only use the same words."""

import random

import pytest
from tests.news_samples import MERGER, OUTAGE, QUAKE, UNRELATED

from scrubjay.watches.similarity import (
    MOST_MEMBERS,
    SAME_STORY,
    Rarity,
    Telling,
    members_of,
    read_telling,
    similarity,
    with_member,
)


def cluster(news: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """As stories grow: each piece goes to the story that is most like it."""
    stories: list[tuple[list[Telling], list[tuple[str, str]]]] = []
    for piece in news:
        telling = read_telling(*piece)
        rarity = Rarity(frozenset[str]().union(*(each.all for each in members)) for members, _ in stories)
        alike = [max(similarity(telling, each, rarity) for each in members) for members, _ in stories]
        best = max(range(len(stories)), key=alike.__getitem__, default=None)
        if best is not None and alike[best] >= SAME_STORY:
            stories[best][0].append(telling)
            stories[best][1].append(piece)
        else:
            stories.append(([telling], [piece]))
    return [pieces for _, pieces in stories]


@pytest.mark.parametrize("told", [QUAKE, MERGER, OUTAGE], ids=["quake", "merger", "outage"])
def test_five_sources_that_tell_one_story_in_their_own_words_are_one_story(told: list[tuple[str, str]]) -> None:
    assert [len(story) for story in cluster(told)] == [5]


@pytest.mark.parametrize("seed", range(5))
def test_fifty_unrelated_stories_in_the_same_words_stay_fifty(seed: int) -> None:
    news = list(UNRELATED)
    random.Random(seed).shuffle(news)
    assert [len(story) for story in cluster(news)] == [1] * 50


@pytest.mark.parametrize("seed", range(8))
def test_stories_are_found_among_others_in_any_order(seed: int) -> None:
    news = [*QUAKE, *MERGER, *OUTAGE, *UNRELATED]
    random.Random(seed).shuffle(news)
    stories = [story for story in cluster(news) if len(story) > 1]
    for told in (QUAKE, MERGER, OUTAGE):
        sizes = [len(story) for story in stories if set(story) <= set(told)]
        assert max(sizes, default=0) >= 4, told[0][0]
    assert all(any(set(story) <= set(told) for told in (QUAKE, MERGER, OUTAGE)) for story in stories)


def test_nothing_is_like_nothing() -> None:
    nothing, rarity = read_telling(None, ""), Rarity([])
    assert similarity(nothing, nothing, rarity) == 0.0
    assert similarity(nothing, read_telling(*QUAKE[0]), rarity) == 0.0


def test_a_telling_survives_being_stored() -> None:
    telling = read_telling(*QUAKE[0])
    assert "chile" in telling.names
    assert members_of(with_member({}, telling)) == [telling]


def test_a_story_keeps_its_first_and_its_newest_members() -> None:
    tellings = [read_telling(f"Title number{number} word{number}", "") for number in range(MOST_MEMBERS + 5)]
    features: dict[str, object] = {}
    for telling in tellings:
        features = with_member(features, telling)
    assert members_of(features) == [tellings[0], *tellings[-(MOST_MEMBERS - 1) :]]


def test_scripts_without_spaces_are_compared_by_pairs_of_characters() -> None:
    one = read_telling("東京で大きな地震、津波警報", "気象庁は東京湾に津波警報を出した。")
    other = read_telling("東京湾に津波警報 地震で", "東京で強い地震があり、津波警報が出された。")
    weather = read_telling("明日は全国的に晴れ", "気温は平年より高くなる見込み。")
    rarity = Rarity([])
    assert similarity(one, other, rarity) >= SAME_STORY
    assert similarity(one, weather, rarity) < SAME_STORY / 2
