"""How newsworthy something is: an interface, and the scorer that comes with us.

A model of one's own is a class behind an entry point in the group `scrubjay.news_scorers`, chosen by the setting
`watch_scorer`. One that fails or is too slow for an item is replaced by our own for that item, and says so.
"""

import asyncio
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.metadata import entry_points
from typing import Any, Protocol, runtime_checkable

from scrubjay.errors import ConfigurationError
from scrubjay.telemetry import get_logger

GROUP = "scrubjay.news_scorers"
BUILT_IN = "built-in"
SCORE_SECONDS = 5.0
PREVIEW_CHARACTERS = 2048
FUTURE_ALLOWED = timedelta(hours=1)  # clocks differ; more than that is a lie, and says nothing
WEIGHTS: Mapping[str, float] = {"terms": 0.35, "recency": 0.25, "source": 0.15, "novelty": 0.25}
_HALF_LIFE_HOURS = 18.0
_UNDATED_RECENCY = 0.7
_NEUTRAL_TERMS = 0.5
_SIGNAL_STEP = 0.15
_NOISE_STEP = 0.3
_INDEXED_NOVELTY = 0.5
_UPDATE_NOVELTY = 0.7

log = get_logger(__name__)

_SIGNALS = re.compile(
    r"\b(breaking|urgent|alert|dies|dead|death|killed|killing|wounded|attack\w*|explosion|blast|shooting|earthquake|quake"
    r"|tsunami|hurricane|flood\w*|wildfire\w*|crash\w*|collapse\w*|evacuat\w*|emergency|outage|breach\w*|hacked|leak\w*"
    r"|vulnerabilit\w+|exploit\w*|recall\w*|lawsuit|sues|sued|arrest\w*|convict\w*|verdict|sentenced|resign\w*|ousted"
    r"|elected|election|wins|won|defeat\w*|ceasefire|invasion|sanction\w*|strike|merger|acqui\w+|takeover|bankrupt\w*"
    r"|layoffs?|announc\w+|launch\w*|unveil\w*|approv\w+|ban(?:s|ned)?|warn\w*|discover\w*|breakthrough|record"
    r"|eilmeldung|tote|tot|anschlag|explosion|erdbeben|unwetter|überschwemmung\w*|brand|absturz|rücktritt|wahl|gewählt"
    r"|urteil|festnahme|warnung|übernahme|insolvenz|datenleck|störung"
    r"|alerte|mort\w*|attentat|séisme|inondation\w*|incendie|démission\w*|élu|condamn\w+|rachat|faillite|panne"
    r"|alerta|muert\w*|atentado|terremoto|inundaci\w+|incendio|dimisi\w+|elegid\w+|condenad\w+|quiebra|apagón)\b",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"\b(sponsored|advertisement|advertorial|promo(?:tion)?|coupons?|giveaway|horoscopes?|quiz|crossword|sudoku|podcast"
    r"|newsletter|subscribe|best deals?|deals of|buying guide|gift guide|shopping|recipes?|gallery|photos of|opinion"
    r"|editorial|letters to|obituar\w+|lottery|weather forecast|tv guide|how to"
    r"|anzeige|gewinnspiel|horoskop|rätsel|rezepte?|kommentar|meinung|gutschein\w*"
    r"|publicité|concours|mots croisés|recette\w*|publicidad|sorteo|horóscopo|crucigrama|receta\w*)\b",
    re.IGNORECASE,
)
_MOST_MATCHES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is known of a piece of news before it is crawled."""

    url: str
    title: str | None
    lead: str = ""  # of the listing or of a preview, at most 2 KB
    published_at: datetime | None = None
    seen_at: datetime
    source_weight: float = 1.0
    similarity: float = 0.0  # to the recent story that is most like it
    told_by: int = 0  # how many independent sources told that story before
    is_indexed: bool = False  # there is a document of this address
    is_update: bool = False


@dataclass(frozen=True, slots=True)
class NewsScore:
    value: float  # 0–1
    factors: Mapping[str, Any] = field(default_factory=dict)  # every factor with its value, and what explains it


@runtime_checkable
class NewsScorer(Protocol):
    """Says how newsworthy something is. Called for every candidate, so it must be quick."""

    name: str

    async def score(self, candidate: Candidate) -> NewsScore: ...


class BuiltInScorer:
    """Title and lead terms, recency, the source's weight, and novelty; a weighted sum, with every factor shown."""

    name = BUILT_IN

    async def score(self, candidate: Candidate) -> NewsScore:
        terms, signals, noise = _terms(candidate)
        recency, age_hours = _recency(candidate)
        values = {
            "terms": terms,
            "recency": recency,
            "source": _source(candidate.source_weight),
            "novelty": _novelty(candidate),
        }
        total = sum(WEIGHTS[name] * value for name, value in values.items())
        factors: dict[str, Any] = {
            name: {"value": round(value, 4), "weight": WEIGHTS[name]} for name, value in values.items()
        }
        factors["terms"] |= {"signals": signals, "noise": noise}
        factors["recency"] |= {"age_hours": age_hours}
        factors["source"] |= {"source_weight": candidate.source_weight}
        factors["novelty"] |= {
            "similarity": round(candidate.similarity, 4),
            "told_by": candidate.told_by,
            "indexed": candidate.is_indexed,
            "update": candidate.is_update,
        }
        return NewsScore(round(min(1.0, max(0.0, total)), 4), {"scorer": self.name, **factors})


def _terms(candidate: Candidate) -> tuple[float, list[str], list[str]]:
    """Words of news for it, words of what is no news against it; the title's count double."""
    title, lead = candidate.title or "", candidate.lead[:PREVIEW_CHARACTERS]
    signals, noise = _matches(_SIGNALS, title, lead), _matches(_NOISE, title, lead)
    value = _NEUTRAL_TERMS + sum(_SIGNAL_STEP * weight for weight in signals.values())
    value -= sum(_NOISE_STEP * weight for weight in noise.values())
    if not title and not lead:
        value = 0.0
    return min(1.0, max(0.0, value)), list(signals)[:_MOST_MATCHES], list(noise)[:_MOST_MATCHES]


def _matches(pattern: re.Pattern[str], title: str, lead: str) -> dict[str, float]:
    found = {match.group(0).casefold(): 1.0 for match in pattern.finditer(title)}
    for match in pattern.finditer(lead):
        found.setdefault(match.group(0).casefold(), 0.5)
    return found


def _recency(candidate: Candidate) -> tuple[float, float | None]:
    published = candidate.published_at
    if published is None or published > candidate.seen_at + FUTURE_ALLOWED:
        return _UNDATED_RECENCY, None
    hours = max(0.0, (candidate.seen_at - published).total_seconds() / 3600)
    return math.exp(-math.log(2) * hours / _HALF_LIFE_HOURS), round(hours, 2)


def _source(weight: float) -> float:
    return weight / (weight + 1.0) if weight > 0 else 0.0


def _novelty(candidate: Candidate) -> float:
    """Less for every source that told it before, for what has a document already, and for an update."""
    value = 1.0 - candidate.similarity * (1.0 - 1.0 / (1.0 + candidate.told_by))
    if candidate.is_indexed and not candidate.is_update:
        value *= _INDEXED_NOVELTY
    return value * _UPDATE_NOVELTY if candidate.is_update else value


def open_scorer(name: str) -> NewsScorer:
    """The scorer of this name: our own, or what an entry point brings."""
    if name == BUILT_IN:
        return BuiltInScorer()
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        known = ", ".join(sorted({BUILT_IN, *points}))
        raise ConfigurationError(f"The setting 'watch_scorer' names '{name}'; known are {known}.")
    try:
        made = points[name].load()()
    except Exception as error:
        raise ConfigurationError(f"The news scorer '{name}' cannot be loaded: {error}.") from error
    if not isinstance(made, NewsScorer):
        raise ConfigurationError(f"The news scorer '{name}' has no name, or cannot score.")
    return made


async def score_safely(scorer: NewsScorer, candidate: Candidate) -> NewsScore:
    """What the scorer says, kept to 0–1; our own score when it fails, is too slow or says nonsense."""
    if isinstance(scorer, BuiltInScorer):
        return await scorer.score(candidate)
    try:
        async with asyncio.timeout(SCORE_SECONDS):
            told = await scorer.score(candidate)
        value, factors = _checked(told.value), {"scorer": scorer.name, **told.factors}
    except Exception as error:  # noqa: BLE001 - somebody else's model must not keep us from watching
        log.warning("the news scorer failed; ours is used", scorer=scorer.name, url=candidate.url, reason=repr(error))
        own = await BuiltInScorer().score(candidate)
        return NewsScore(own.value, {**own.factors, "instead_of": scorer.name, "because": repr(error)[:200]})
    return NewsScore(value, factors)


def _checked(value: float) -> float:
    if not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{value} is not between 0 and 1")
    return round(float(value), 4)
