"""Settings: keys, collections and tags, and whether every part works."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from scrubjay.app import Scrubjay
from scrubjay.dashboard.identifiers import CollectionId, KeyId, TagId
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Order, Ordering, Visitor
from scrubjay.errors import Conflict, InvalidRequest, ScrubjayError
from scrubjay.model.tenant import Scope
from scrubjay.services.access import MAX_RATE_RPM, require

router = APIRouter(include_in_schema=False)

SHOWN_KEYS = 200
HERE = "/ui/settings"


@router.get("/settings")
async def show_settings(request: Request, jay: Jay, visitor: Looking) -> Response:
    """Everything that is set up, as far as one may see it."""
    return await _page(request, jay, visitor)


async def _page(
    request: Request,
    jay: Scrubjay,
    visitor: Visitor,
    *,
    new_key: str | None = None,
    error: ScrubjayError | None = None,
) -> Response:
    who = visitor.who
    keys = await jay.access.list_keys(who, limit=SHOWN_KEYS) if visitor.may_administer else None
    stats, counts = await asyncio.gather(jay.health.stats(who), jay.collections.document_counts(who))
    return show(
        request,
        "settings.html",
        visitor,
        status=200 if error is None else 409 if isinstance(error, Conflict) else 400,
        keys=keys,
        new_key=new_key,
        error=None if error is None else error.message,
        scopes=[str(scope) for scope in Scope],
        collections=await jay.collections.all(who),
        counts=counts,
        tags=await jay.collections.list_tags(who),
        usage=await jay.collections.tag_usage(who),
        checks=await jay.health.ready(),
        stats=stats,
    )


@router.post("/settings/keys")
async def create_key(request: Request, jay: Jay, order: Ordering) -> Response:
    """Make a key. Its text is on this one page and nowhere else afterwards."""
    require(order.who, Scope.ADMIN)
    try:
        _, text = await jay.access.create_key(
            order.who, name=order.text("name"), scopes=_scopes(order), rate_limit_rpm=_rate(order)
        )
    except InvalidRequest as error:
        return await _page(request, jay, order.visitor, error=error)
    return await _page(request, jay, order.visitor, new_key=text)


def _scopes(order: Order) -> list[Scope]:
    wanted = order.text("scope")
    if wanted not in {str(scope) for scope in Scope}:
        raise InvalidRequest("scope must be read, write or admin.", field="scope")
    return [Scope(wanted)]


def _rate(order: Order) -> int:
    text = order.text("rate_limit_rpm") or "60"
    if not text.isdecimal() or len(text) > 6 or not 1 <= int(text) <= MAX_RATE_RPM:
        raise InvalidRequest(f"The requests per minute must be 1 to {MAX_RATE_RPM}.", field="rate_limit_rpm")
    return int(text)


async def _do(request: Request, jay: Scrubjay, order: Order, notice: str, action: Any) -> Response:
    """Do it and come back; what it refuses is said on the same page."""
    try:
        await action
    except (InvalidRequest, Conflict) as error:
        return await _page(request, jay, order.visitor, error=error)
    return RedirectResponse(f"{HERE}?done={notice}", status_code=303)


@router.post("/settings/keys/{key_id}/switch")
async def switch_key(request: Request, jay: Jay, order: Ordering, key_id: KeyId) -> Response:
    """Switch a key on or off."""
    key = await jay.access.get_key(order.who, key_id)
    action = jay.access.change_key(order.who, key_id, is_active=not key.is_active)
    return await _do(request, jay, order, "switched", action)


@router.post("/settings/keys/{key_id}/delete")
async def delete_key(request: Request, jay: Jay, order: Ordering, key_id: KeyId) -> Response:
    """Delete a key; its sessions end with it."""
    return await _do(request, jay, order, "deleted", jay.access.delete_key(order.who, key_id))


@router.post("/settings/collections")
async def create_collection(request: Request, jay: Jay, order: Ordering) -> Response:
    """Make a collection."""
    action = jay.collections.create(order.who, name=order.text("name"), description=order.text("description") or None)
    return await _do(request, jay, order, "created", action)


@router.post("/settings/collections/{collection_id}/delete")
async def delete_collection(request: Request, jay: Jay, order: Ordering, collection_id: CollectionId) -> Response:
    """Remove a collection; one with documents only if told so, and they stay."""
    action = jay.collections.delete(order.who, collection_id, force=order.checked("force"))
    return await _do(request, jay, order, "deleted", action)


@router.post("/settings/tags")
async def create_tag(request: Request, jay: Jay, order: Ordering) -> Response:
    """Make a tag."""
    return await _do(request, jay, order, "created", jay.collections.create_tag(order.who, order.text("name")))


@router.post("/settings/tags/{tag_id}/delete")
async def delete_tag(request: Request, jay: Jay, order: Ordering, tag_id: TagId) -> Response:
    """Remove a tag from everything that has it."""
    return await _do(request, jay, order, "deleted", jay.collections.delete_tag(order.who, tag_id))
