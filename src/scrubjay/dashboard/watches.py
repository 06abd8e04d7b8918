"""Watches: sources that are looked at often, what they brought and how it scored, and the stories in it."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from scrubjay.app import Scrubjay
from scrubjay.dashboard.identifiers import Offset, StoryId, WatchId
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Order, Ordering, Visitor
from scrubjay.errors import InvalidRequest, NotFound, ScrubjayError, UrlBlocked
from scrubjay.model.tenant import Scope
from scrubjay.model.watching import WatchKind
from scrubjay.services.access import require

router = APIRouter(include_in_schema=False)

ROWS = 50
PLANS_TO_CHOOSE = 200


@router.get("/watches")
async def list_watches(request: Request, jay: Jay, visitor: Looking, offset: Offset = 0) -> Response:
    """All watches, newest first, and a form for another."""
    return await _list(request, jay, visitor, offset=offset)


async def _list(
    request: Request,
    jay: Scrubjay,
    visitor: Visitor,
    *,
    offset: int = 0,
    filled: Order | None = None,
    error: ScrubjayError | None = None,
) -> Response:
    who = visitor.who
    return show(
        request,
        "watches.html",
        visitor,
        status=200 if error is None else 400,
        page=await jay.watches.page(who, limit=ROWS, offset=offset),
        breaking=(await jay.watches.stories(who, breaking=True, limit=5)).items,
        throttle=await jay.watches.throttle(who),
        plans=(await jay.plans.page(who, limit=PLANS_TO_CHOOSE)).items,
        collections=await jay.collections.all(who),
        kinds=[str(kind) for kind in WatchKind],
        filled=filled,
        error=None if error is None else error.message,
    )


@router.post("/watches")
async def create_watch(request: Request, jay: Jay, order: Ordering) -> Response:
    """Watch a source; it is looked at at once."""
    require(order.who, Scope.WRITE)
    try:
        kind = order.text("kind")
        watch = await jay.watches.create(
            order.who,
            url=order.text("url"),
            name=order.text("name") or None,
            kind=WatchKind(kind) if kind in {str(each) for each in WatchKind} else None,
            plan_id=order.text("plan_id") or None,
            collection_id=order.text("collection_id") or None,
            poll_interval_seconds=_seconds(order),
        )
    except (InvalidRequest, UrlBlocked, NotFound) as error:
        return await _list(request, jay, order.visitor, filled=order, error=error)
    return RedirectResponse(f"/ui/watches/{watch.id}?done=created", status_code=303)


def _seconds(order: Order) -> int:
    try:
        return int(order.text("minutes") or "15") * 60
    except ValueError:
        raise InvalidRequest("The interval must be a whole number of minutes.", field="minutes") from None


@router.get("/watches/{watch_id}")
async def show_watch(request: Request, jay: Jay, visitor: Looking, watch_id: WatchId, offset: Offset = 0) -> Response:
    """One watch: how it is doing, and what it has seen with the score of each and why."""
    watch = await jay.watches.get(visitor.who, watch_id)
    page = await jay.watches.items(visitor.who, watch_id, limit=ROWS, offset=offset)
    return show(request, "watch.html", visitor, watch=watch, page=page)


@router.post("/watches/{watch_id}/poll")
async def poll_watch(jay: Jay, order: Ordering, watch_id: WatchId) -> Response:
    """Look at the source now."""
    await jay.watches.poll(order.who, watch_id)
    return RedirectResponse(f"/ui/watches/{watch_id}?done=polled", status_code=303)


@router.post("/watches/{watch_id}/switch")
async def switch_watch(jay: Jay, order: Ordering, watch_id: WatchId) -> Response:
    """Switch a watch on or off."""
    watch = await jay.watches.get(order.who, watch_id)
    await jay.watches.change(order.who, watch_id, enabled=not watch.enabled)
    return RedirectResponse(f"/ui/watches/{watch_id}?done=switched", status_code=303)


@router.post("/watches/{watch_id}/delete")
async def delete_watch(jay: Jay, order: Ordering, watch_id: WatchId) -> Response:
    """Remove a watch and what it has seen; the documents that came of it stay."""
    await jay.watches.delete(order.who, watch_id)
    return RedirectResponse("/ui/watches?done=deleted", status_code=303)


@router.get("/stories")
async def list_stories(
    request: Request, jay: Jay, visitor: Looking, breaking: bool = False, offset: Offset = 0
) -> Response:
    """Stories on a timeline, what grew last first."""
    page = await jay.watches.stories(visitor.who, breaking=True if breaking else None, limit=ROWS, offset=offset)
    return show(request, "stories.html", visitor, page=page, breaking=breaking)


@router.get("/stories/{story_id}")
async def show_story(request: Request, jay: Jay, visitor: Looking, story_id: StoryId) -> Response:
    """One story: who tells it, and what each said when."""
    details = await jay.watches.story(visitor.who, story_id)
    return show(request, "story.html", visitor, story=details.story, sources=details.sources, items=details.items)
