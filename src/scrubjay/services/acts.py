"""Noting administrative acts, in the transaction of the act: neither is ever there without the other."""

from contextvars import ContextVar
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.model.audit import AuditEntry
from scrubjay.model.tenant import Principal
from scrubjay.storage.audit_log import AuditLog
from scrubjay.storage.keys import ApiKeys
from scrubjay.telemetry import redact, request_id

COMMAND_LINE = "command line"
NOBODY = "scrubjay"  # what the program does by itself
MOST_NAME = 255

# Through which door, and from which address, whatever runs now was asked for. A job was asked for earlier.
asked_from: ContextVar[tuple[str, str | None] | None] = ContextVar("asked_from", default=None)


async def note_act(
    connection: AsyncConnection, principal: Principal, action: str, target_id: str | None = None, **details: Any
) -> None:
    """Note that somebody does something. `details` say how, and never hold a secret: names of fields, not values."""
    key = await ApiKeys(connection).find_by_id(principal.key_id) if principal.key_id else None
    door, address = asked_from.get() or (None, None)
    entry = AuditEntry(
        tenant_id=principal.tenant_id,
        key_id=principal.key_id or None,
        key_name=NOBODY if key is None else key.name,
        action=action,
        target_id=None if target_id is None else target_id[:MOST_NAME],
        details=redact(details),
        door=door,
        remote_address=address,
        request_id=request_id.get(),
    )
    await AuditLog(connection).add(entry)
