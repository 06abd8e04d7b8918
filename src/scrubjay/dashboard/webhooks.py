"""Webhooks: who is told what, every delivery with what came back, and sending one once more."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from scrubjay.app import Scrubjay
from scrubjay.dashboard.identifiers import DeliveryId, Offset, WebhookId, Words
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Ordering, Visitor
from scrubjay.errors import InvalidRequest, ScrubjayError, UrlBlocked
from scrubjay.model.webhook import DEFAULT_EVENTS, EVENTS, DeliveryStatus

router = APIRouter(include_in_schema=False)

ROWS = 50
BADGES = {"delivered": "good", "failed": "bad", "pending": "busy"}


@router.get("/webhooks")
async def list_webhooks(request: Request, jay: Jay, visitor: Looking, offset: Offset = 0) -> Response:
    """All webhooks, and a form for another."""
    return await _list(request, jay, visitor, offset=offset)


async def _list(
    request: Request,
    jay: Scrubjay,
    visitor: Visitor,
    *,
    offset: int = 0,
    secret: str | None = None,
    error: ScrubjayError | None = None,
) -> Response:
    return show(
        request,
        "webhooks.html",
        visitor,
        status=200 if error is None else 400,
        page=await jay.webhooks.page(visitor.who, limit=ROWS, offset=offset),
        events=EVENTS,
        usual=DEFAULT_EVENTS,
        secret=secret,
        error=None if error is None else error.message,
    )


@router.post("/webhooks")
async def create_webhook(request: Request, jay: Jay, order: Ordering) -> Response:
    """Make a webhook. Its secret is on this one page and nowhere else afterwards."""
    try:
        created = await jay.webhooks.create(order.who, url=order.text("url"), events=order.texts("events"))
    except (InvalidRequest, UrlBlocked) as error:
        return await _list(request, jay, order.visitor, error=error)
    return await _list(request, jay, order.visitor, secret=created.secret)


@router.get("/webhooks/{webhook_id}")
async def show_webhook(
    request: Request, jay: Jay, visitor: Looking, webhook_id: WebhookId, status: Words = "", offset: Offset = 0
) -> Response:
    """One webhook and its deliveries, newest first."""
    webhook = await jay.webhooks.get(visitor.who, webhook_id)
    statuses = [str(each) for each in DeliveryStatus]
    wanted = DeliveryStatus(status) if status in statuses else None
    page = await jay.webhooks.deliveries(visitor.who, webhook_id=webhook_id, status=wanted, limit=ROWS, offset=offset)
    return show(request, "webhook.html", visitor, webhook=webhook, page=page, badges=BADGES, statuses=statuses)


@router.post("/webhooks/{webhook_id}/test")
async def test_webhook(jay: Jay, order: Ordering, webhook_id: WebhookId) -> Response:
    """Send a ping now."""
    await jay.webhooks.test(order.who, webhook_id)
    return RedirectResponse(f"/ui/webhooks/{webhook_id}?done=sent", status_code=303)


@router.post("/webhooks/{webhook_id}/switch")
async def switch_webhook(jay: Jay, order: Ordering, webhook_id: WebhookId) -> Response:
    """Switch a webhook on or off."""
    webhook = await jay.webhooks.get(order.who, webhook_id)
    await jay.webhooks.change(order.who, webhook_id, is_active=not webhook.is_active)
    return RedirectResponse(f"/ui/webhooks/{webhook_id}?done=switched", status_code=303)


@router.post("/webhooks/{webhook_id}/delete")
async def delete_webhook(jay: Jay, order: Ordering, webhook_id: WebhookId) -> Response:
    """Remove a webhook and its deliveries."""
    await jay.webhooks.delete(order.who, webhook_id)
    return RedirectResponse("/ui/webhooks?done=deleted", status_code=303)


@router.post("/webhooks/{webhook_id}/deliveries/{delivery_id}/replay")
async def replay_delivery(jay: Jay, order: Ordering, webhook_id: WebhookId, delivery_id: DeliveryId) -> Response:
    """Send a delivery once more."""
    await jay.webhooks.get(order.who, webhook_id)
    await jay.webhooks.replay(order.who, delivery_id)
    return RedirectResponse(f"/ui/webhooks/{webhook_id}?done=replayed", status_code=303)
