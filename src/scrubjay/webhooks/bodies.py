"""What is sent: an event as JSON. The text is made once, kept with the delivery, and signed and sent as it is."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scrubjay.errors import InvalidRequest
from scrubjay.model.content import OutboxEvent
from scrubjay.model.ids import uuid_from_id

OWN_WEBHOOK = "webhook"  # in the payload of a job and of its end: the address that this job alone tells


def make_body(event_id: str, event: str, created_at: datetime, data: Mapping[str, Any]) -> str:
    """Ids are UUIDs, as at `/api/v1`; every door takes them."""
    body = {"id": _as_uuid(event_id), "event": event, "created_at": created_at.isoformat(), "data": _wired(data)}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def data_of(event: OutboxEvent) -> dict[str, Any]:
    """An outbox event's payload as receivers see it: a plan is a source there, and nothing of ours is told."""
    data = {name: value for name, value in event.payload.items() if name != OWN_WEBHOOK}
    if "plan_id" in data:
        data["source_id"] = data.pop("plan_id")
    return data


def _wired(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        return {key: _wired(item, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_wired(item, name.removesuffix("s")) for item in value]
    return _as_uuid(value) if isinstance(value, str) and (name == "id" or name.endswith("_id")) else value


def _as_uuid(identifier: str) -> str:
    try:
        return str(uuid_from_id(identifier))
    except InvalidRequest:
        return identifier  # somebody else's id, as a job's result may hold
