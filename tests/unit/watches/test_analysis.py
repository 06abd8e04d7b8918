"""The news score: each factor does what it says, and a scorer of one's own is kept in check."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from scrubjay.errors import ConfigurationError
from scrubjay.watches import analysis
from scrubjay.watches.analysis import (
    WEIGHTS,
    BuiltInScorer,
    Candidate,
    NewsScore,
    open_scorer,
    score_safely,
)

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
PLAIN = Candidate(
    url="https://example.org/a",
    title="Library opens in Ashford",
    lead="It has a garden.",
    published_at=NOW,
    seen_at=NOW,
)


async def value(**changes: Any) -> float:
    return (await BuiltInScorer().score(replace(PLAIN, **changes))).value


async def test_the_score_is_the_weighted_sum_of_the_factors_that_it_shows() -> None:
    told = await BuiltInScorer().score(PLAIN)
    shown = {name: told.factors[name]["value"] for name in WEIGHTS}
    assert told.value == pytest.approx(sum(WEIGHTS[name] * each for name, each in shown.items()))
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)
    assert told.factors["scorer"] == "built-in"


async def test_words_of_news_raise_it_and_words_of_what_is_none_lower_it() -> None:
    assert await value(title="Explosion at Ashford library") > await value() > await value(title="Quiz: the library")
    assert await value(title="Explosion at library") > await value(lead="There was an explosion.")
    assert await value(title=None, lead="") < 0.6 <= await value()


async def test_what_is_older_is_less_of_news_and_a_date_in_the_future_says_nothing() -> None:
    ages = [await value(published_at=NOW - timedelta(hours=hours)) for hours in (0, 6, 24, 96)]
    assert ages == sorted(ages, reverse=True)
    assert await value(published_at=NOW + timedelta(days=3)) == await value(published_at=None) < ages[0]


async def test_a_weightier_source_counts_more() -> None:
    assert await value(source_weight=0) < await value(source_weight=1) < await value(source_weight=5)


async def test_what_was_told_before_is_less_novel() -> None:
    told = [await value(similarity=0.6, told_by=sources) for sources in (0, 1, 3, 10)]
    assert told == sorted(told, reverse=True)
    assert told[0] == await value()
    assert await value(is_indexed=True) < await value()
    assert await value(is_update=True) < await value()


async def test_every_score_is_between_nothing_and_one() -> None:
    loud = "Breaking: explosion kills dozens, earthquake, tsunami, outage, breach, verdict, resigns"
    best = await value(title=loud, source_weight=10)
    worst = await value(
        title=None, lead="", source_weight=0, similarity=1, told_by=1000, published_at=datetime.min.replace(tzinfo=UTC)
    )
    assert 0.0 <= worst < 0.1
    assert 0.9 < best <= 1.0


class Model:
    name = "model"

    def __init__(self, told: Any) -> None:
        self.told = told

    async def score(self, candidate: Candidate) -> NewsScore:
        if isinstance(self.told, Exception):
            raise self.told
        if self.told is None:
            await asyncio.sleep(60)
        return NewsScore(self.told, {"model": 1})


async def test_a_model_of_ones_own_is_asked() -> None:
    assert await score_safely(Model(0.25), PLAIN) == NewsScore(0.25, {"scorer": "model", "model": 1})


@pytest.mark.parametrize("told", [RuntimeError("no GPU"), 7.0, float("nan"), "much", None])
async def test_a_model_that_fails_is_replaced_for_that_item_and_the_factors_say_so(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "SCORE_SECONDS", 0.05)
    score = await score_safely(Model(told), PLAIN)
    assert score.value == (await BuiltInScorer().score(PLAIN)).value
    assert score.factors["instead_of"] == "model"
    assert score.factors["because"]


def made() -> Model:
    return Model(0.5)


def unusable() -> object:
    return object()


def test_scorers_come_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint(name, f"{__name__}:{attribute}", analysis.GROUP)
        for name, attribute in {"mine": "made", "wrong": "unusable", "gone": "missing"}.items()
    ]
    monkeypatch.setattr(analysis, "entry_points", lambda group: points if group == analysis.GROUP else [])
    monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.attr])
    assert open_scorer("mine").name == "model"
    assert isinstance(open_scorer("built-in"), BuiltInScorer)
    for name, said in {
        "wrong": "cannot score",
        "gone": "cannot be loaded",
        "other": "known are built-in, gone",
    }.items():
        with pytest.raises(ConfigurationError, match=said):
            open_scorer(name)
