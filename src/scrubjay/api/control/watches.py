"""Watches, their items, stories and the brake over HTTP: `/watches…` and `/stories…`."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field, StrictBool

from scrubjay.api.deps import Jay, Who, identifier
from scrubjay.api.rag.schemas import ErrorResponse, Limit, ListResponse, Offset, RequestModel, field_values
from scrubjay.model.page import Page
from scrubjay.model.watching import ItemState, Story, Throttle, ThrottleLevel, Watch, WatchItem, WatchKind
from scrubjay.services.watches import NAME_LENGTH, REASON_LENGTH

router = APIRouter(
    tags=["watches"],
    responses={
        "4XX": {"model": ErrorResponse, "description": "The request is wrong, not allowed, or too early"},
        "5XX": {"model": ErrorResponse, "description": "Something is wrong on the server"},
    },
)

WatchId = Annotated[str, Depends(identifier("watch", "watch", "watch_id"))]
StoryId = Annotated[str, Depends(identifier("story", "story", "story_id"))]
Name = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH)]
Url = Annotated[str, Field(min_length=1, max_length=2048)]
Interval = Annotated[int, Field(strict=True, ge=60, le=604_800, description="Seconds between two polls.")]
Budget = Annotated[int, Field(strict=True, ge=1, le=100_000, description="Requests a day, previews included.")]
Weight = Annotated[float, Field(ge=0, le=10, description="How much the source counts; 1 is usual.")]
Threshold = Annotated[float, Field(ge=0, le=1, description="The least news score that triggers a crawl.")]
Reference = Annotated[str, Field(min_length=1, max_length=64)]


class ChangeWatchRequest(RequestModel):
    name: Name | None = None
    url: Url | None = None
    kind: WatchKind | None = None
    plan_id: Reference | None = Field(None, description="News goes where this plan's documents go.")
    collection_id: Reference | None = Field(None, description="News goes into this collection.")
    enabled: StrictBool | None = None
    poll_interval_seconds: Interval | None = None
    daily_budget: Budget | None = None
    weight: Weight | None = None
    threshold: Threshold | None = None
    catch_up: StrictBool | None = Field(None, description="What the source has at the first poll is news too.")


class WatchRequest(ChangeWatchRequest):
    url: Url


class WatchResponse(BaseModel):
    id: str
    name: str
    url: str
    kind: WatchKind
    plan_id: str | None
    collection_id: str | None
    enabled: bool
    poll_interval_seconds: int
    daily_budget: int
    requests_today: int = Field(description="Requests on `budget_day`.")
    budget_day: str | None
    weight: float
    threshold: float | None
    catch_up: bool
    failures: int = Field(description="Polls that failed in a row.")
    last_error: str | None
    notice: str | None = Field(description="What was odd about the last poll that did not fail.")
    escalated_until: datetime | None
    last_polled_at: datetime | None
    last_success_at: datetime | None
    next_poll_at: datetime
    created_at: datetime


class PollResponse(BaseModel):
    status: str = Field(examples=["unchanged", "changed", "failed", "over_budget"])
    requests: int
    remembered: int = Field(description="Entries that were there before and are no news.")
    new: int
    updated: int
    suppressed: int
    debounced: int
    triggered: int
    waiting: int
    breaking: int
    error: str | None


class ItemResponse(BaseModel):
    watch_id: str
    url: str
    url_hash: str
    site: str
    title: str | None
    lead: str | None
    state: ItemState
    reason: str | None
    news_score: float | None
    factors: dict[str, Any] = Field(description="Every factor of the score, with what explains it.")
    fingerprint: str | None
    story_id: str | None
    job_id: str | None
    updates: int
    published_at: datetime | None
    news_at: datetime | None
    seen_at: datetime


class StoryResponse(BaseModel):
    id: str
    title: str
    source_count: int = Field(description="Different registrable domains.")
    is_breaking: bool = Field(description="It broke, and has not ended.")
    first_seen_at: datetime
    last_seen_at: datetime
    breaking_at: datetime | None
    ended_at: datetime | None


class StoryDetailsResponse(StoryResponse):
    sources: list[str]
    items: list[ItemResponse]


class ThrottleRequest(RequestModel):
    level: ThrottleLevel
    reason: Annotated[str, Field(max_length=REASON_LENGTH)] | None = None


class ThrottleResponse(BaseModel):
    level: ThrottleLevel
    reason: str | None
    changed_at: datetime


@router.post("/watches", status_code=201, response_model=WatchResponse)
async def create_watch(jay: Jay, who: Who, body: WatchRequest) -> Watch:
    """Watch a feed, sitemap or page. What it has already is remembered, and is no news."""
    return await jay.watches.create(who, **body.model_dump(exclude_none=True))


@router.get("/watches", response_model=ListResponse[WatchResponse])
async def list_watches(
    jay: Jay,
    who: Who,
    kind: WatchKind | None = None,
    enabled: bool | None = None,
    name: Annotated[str | None, Query(max_length=NAME_LENGTH)] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Page[Watch]:
    """Newest first."""
    return await jay.watches.page(who, kind=kind, enabled=enabled, name=name, limit=limit, offset=offset)


@router.get("/watches/throttle", response_model=ThrottleResponse)
async def get_throttle(jay: Jay, who: Who) -> Throttle:
    """The brake of all watches: the stricter of the setting and the switch."""
    return await jay.watches.throttle(who)


@router.put("/watches/throttle", response_model=ThrottleResponse)
async def set_throttle(jay: Jay, who: Who, body: ThrottleRequest) -> Throttle:
    """Set the brake for the whole deployment. Needs an admin key of the default tenant."""
    return await jay.watches.set_throttle(who, body.level, body.reason)


@router.get("/watches/{watch_id}", response_model=WatchResponse)
async def get_watch(jay: Jay, who: Who, watch_id: WatchId) -> Watch:
    return await jay.watches.get(who, watch_id)


@router.patch("/watches/{watch_id}", response_model=WatchResponse)
async def change_watch(jay: Jay, who: Who, watch_id: WatchId, body: ChangeWatchRequest) -> Watch:
    """Change what is given; `null` takes plan, collection or threshold away."""
    return await jay.watches.change(who, watch_id, **body.model_dump(exclude_unset=True))


@router.delete("/watches/{watch_id}", status_code=204)
async def delete_watch(jay: Jay, who: Who, watch_id: WatchId) -> None:
    """Remove a watch and what it has seen. Documents stay."""
    await jay.watches.delete(who, watch_id)


@router.post("/watches/{watch_id}/poll", response_model=PollResponse)
async def poll_watch(jay: Jay, who: Who, watch_id: WatchId) -> dict[str, Any]:
    """Look at the source now, within the day's budget; what is wrong with it is in the answer."""
    return (await jay.watches.poll(who, watch_id)).dump()


@router.get("/watches/{watch_id}/items", response_model=ListResponse[ItemResponse])
async def list_items(
    jay: Jay, who: Who, watch_id: WatchId, state: ItemState | None = None, limit: Limit = 100, offset: Offset = 0
) -> Page[WatchItem]:
    """What a watch has seen, with scores and their factors."""
    return await jay.watches.items(who, watch_id, state=state, limit=limit, offset=offset)


@router.get("/stories", response_model=ListResponse[StoryResponse])
async def list_stories(
    jay: Jay, who: Who, breaking: bool | None = None, limit: Limit = 100, offset: Offset = 0
) -> Page[Story]:
    """What grew last comes first."""
    return await jay.watches.stories(who, breaking=breaking, limit=limit, offset=offset)


@router.get("/stories/{story_id}", response_model=StoryDetailsResponse)
async def get_story(jay: Jay, who: Who, story_id: StoryId) -> dict[str, Any]:
    """A story with its sources and what they say."""
    details = await jay.watches.story(who, story_id)
    facts = {"is_breaking": details.story.is_breaking, "sources": details.sources, "items": details.items}
    return field_values(details.story) | facts
