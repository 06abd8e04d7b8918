"""Webhooks and their deliveries over `/api/v1`: register, test, rotate, look at what was sent, send it again."""

import json
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator, Field, StrictBool, StringConstraints

from scrubjay.api.deps import Jay, Who
from scrubjay.api.rag.ids import DeliveryId, SourceId, SourceRef, WebhookId, WebhookRef, WireId
from scrubjay.api.rag.schemas import IsSet, Limit, ListResponse, Offset, RequestModel, ShownHeaders, field_values
from scrubjay.model.crawl_limits import HeaderName, HeaderValue
from scrubjay.model.page import Page
from scrubjay.model.webhook import DEFAULT_EVENTS, EVENTS, Delivery, DeliveryStatus, Webhook
from scrubjay.services.webhooks import GRACE_HOURS, HIDDEN, MAX_GRACE_HOURS, Created

router = APIRouter()

Address = Annotated[str, StringConstraints(min_length=1, max_length=2048)]
EventName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Events = Annotated[list[EventName], Field(min_length=1, max_length=20, description=f"Of: {', '.join(EVENTS)}.")]
Headers = Annotated[dict[HeaderName, HeaderValue], Field(max_length=50)]
# Not stripped: whoever signs with it uses it as it was given.
Secret = Annotated[str, StringConstraints(strip_whitespace=False, min_length=1, max_length=500)]


class SourceWebhookRequest(RequestModel):
    url: Address
    events: Events = Field(default_factory=lambda: list(DEFAULT_EVENTS))
    headers: Headers = Field(default_factory=dict)
    secret: Secret | None = Field(None, repr=False, description="Default: one is made, and shown in the answer.")
    is_active: StrictBool = True


class WebhookRequest(SourceWebhookRequest):
    source_id: SourceRef | None = Field(None, description="Only events of this source. Default: of everything.")


class ChangeWebhookRequest(RequestModel):
    """What is not given stays as it is."""

    url: Address | None = None
    events: Events | None = None
    headers: Headers | None = Field(None, description=f"All of them; '{HIDDEN}' keeps a value that is not shown.")
    secret: Secret | None = Field(None, repr=False, description="Void the old one at once; /rotate is gentler.")
    source_id: SourceRef | None = Field(None, description="null: events of everything.")
    is_active: StrictBool | None = None


class RotateRequest(RequestModel):
    secret: Secret | None = Field(None, repr=False, description="Default: one is made, and shown in the answer.")
    grace_hours: float = Field(
        GRACE_HOURS, ge=0, le=MAX_GRACE_HOURS, description="How long the old secret signs as well."
    )


class WebhookResponse(BaseModel):
    """Values of headers that authenticate are hidden. The secret is never shown again."""

    id: WireId
    source_id: WireId | None = Field(validation_alias="plan_id")
    job_id: WireId | None = Field(description="Whose `webhook_url` it is, if it belongs to one job.")
    url: str
    events: list[str]
    headers: ShownHeaders
    has_secret: IsSet = Field(validation_alias="sealed_secret")
    previous_secret_until: datetime | None = Field(description="Until then, two secrets are valid.")
    is_active: bool
    consecutive_failures: int = Field(validation_alias="failures")
    circuit_open: IsSet = Field(
        validation_alias="circuit_opened_at", description="It failed so often that it is only probed now and then."
    )
    next_attempt_at: datetime | None = Field(description="null: nothing waits.")
    created_at: datetime


class CreatedWebhookResponse(WebhookResponse):
    secret: str = Field(description="The secret that signs. It is shown this once.")


class DeliveryResponse(BaseModel):
    id: WireId
    webhook_id: WireId
    event_id: WireId = Field(description="The X-Webhook-Id that was sent; the same for every attempt and replay.")
    event: str
    replay: int = Field(description="0 is the first delivery of this event; each replay has the next number.")
    job_id: WireId | None
    job_type: str | None
    status: DeliveryStatus
    attempts: int
    max_attempts: int
    response_status: int | None
    response_body: str | None = Field(description="At most its first 1,024 bytes.")
    error: str | None
    last_attempt_at: datetime | None
    next_attempt_at: datetime | None
    created_at: datetime
    payload: Annotated[dict[str, Any], BeforeValidator(json.loads)] = Field(
        validation_alias="body", description="The body that is sent, parsed."
    )


def _with_secret(created: Created) -> dict[str, Any]:
    return field_values(created.webhook) | {"secret": created.secret}


@router.post("/webhooks", tags=["webhooks"], status_code=201, response_model=CreatedWebhookResponse)
async def create_webhook(jay: Jay, who: Who, body: WebhookRequest) -> dict[str, Any]:
    """Have an address told of events. Its secret is in this answer and nowhere else."""
    values = body.model_dump()
    return _with_secret(await jay.webhooks.create(who, plan_id=values.pop("source_id"), **values))


@router.get("/webhooks", tags=["webhooks"], response_model=ListResponse[WebhookResponse])
async def list_webhooks(jay: Jay, who: Who, limit: Limit = 100, offset: Offset = 0) -> Page[Webhook]:
    """Newest first."""
    return await jay.webhooks.page(who, limit=limit, offset=offset)


@router.get("/webhooks/deliveries", tags=["webhooks"], response_model=ListResponse[DeliveryResponse])
async def list_deliveries(
    jay: Jay,
    who: Who,
    webhook_id: Annotated[WebhookRef | None, Query()] = None,
    status: DeliveryStatus | None = None,
    event: Annotated[str | None, Query(max_length=64)] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Page[Delivery]:
    """What was sent or waits to be, newest first."""
    return await jay.webhooks.deliveries(
        who, webhook_id=webhook_id, status=status, event=event, limit=limit, offset=offset
    )


@router.get("/webhooks/deliveries/{delivery_id}", tags=["webhooks"], response_model=DeliveryResponse)
async def get_delivery(jay: Jay, who: Who, delivery_id: DeliveryId) -> Delivery:
    return await jay.webhooks.delivery(who, delivery_id)


@router.post(
    "/webhooks/deliveries/{delivery_id}/replay", tags=["webhooks"], status_code=201, response_model=DeliveryResponse
)
async def replay_delivery(jay: Jay, who: Who, delivery_id: DeliveryId) -> Delivery:
    """Send the same body once more, also if it was delivered: a new delivery at the end of the queue."""
    return await jay.webhooks.replay(who, delivery_id)


@router.get("/webhooks/{webhook_id}", tags=["webhooks"], response_model=WebhookResponse)
async def get_webhook(jay: Jay, who: Who, webhook_id: WebhookId) -> Webhook:
    return await jay.webhooks.get(who, webhook_id)


@router.put("/webhooks/{webhook_id}", tags=["webhooks"], response_model=WebhookResponse)
async def change_webhook(jay: Jay, who: Who, webhook_id: WebhookId, body: ChangeWebhookRequest) -> Webhook:
    """Change what is given. Switched off, what waits for it has failed; switched on, its circuit is closed."""
    changes = {name: value for name, value in body.model_dump(exclude_unset=True).items() if value is not None}
    if "source_id" in body.model_fields_set:
        changes.pop("source_id", None)
        changes["plan_id"] = body.source_id
    return await jay.webhooks.change(who, webhook_id, **changes)


@router.delete("/webhooks/{webhook_id}", tags=["webhooks"], status_code=204)
async def delete_webhook(jay: Jay, who: Who, webhook_id: WebhookId) -> None:
    """Also its deliveries, sent or not."""
    await jay.webhooks.delete(who, webhook_id)


@router.post("/webhooks/{webhook_id}/rotate", tags=["webhooks"], response_model=CreatedWebhookResponse)
async def rotate_secret(jay: Jay, who: Who, webhook_id: WebhookId, body: RotateRequest | None = None) -> dict[str, Any]:
    """Another secret. For the grace time everything is signed with both."""
    values = (body or RotateRequest()).model_dump()
    return _with_secret(await jay.webhooks.rotate(who, webhook_id, **values))


@router.post("/webhooks/{webhook_id}/test", tags=["webhooks"], response_model=DeliveryResponse)
async def send_ping(jay: Jay, who: Who, webhook_id: WebhookId) -> Delivery:
    """Send a `ping` now, once; the answer says what came back."""
    return await jay.webhooks.test(who, webhook_id)


@router.post("/sources/{source_id}/webhooks", tags=["webhooks"], status_code=201, response_model=CreatedWebhookResponse)
async def create_source_webhook(jay: Jay, who: Who, source_id: SourceId, body: SourceWebhookRequest) -> dict[str, Any]:
    """Have an address told of events of one source."""
    return _with_secret(await jay.webhooks.create(who, plan_id=source_id, **body.model_dump()))


@router.get("/sources/{source_id}/webhooks", tags=["webhooks"], response_model=ListResponse[WebhookResponse])
async def list_source_webhooks(
    jay: Jay, who: Who, source_id: SourceId, limit: Limit = 100, offset: Offset = 0
) -> Page[Webhook]:
    return await jay.webhooks.page(who, plan_id=source_id, limit=limit, offset=offset)
