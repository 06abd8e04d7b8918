"""The audit log over `/api/v1`, for admins."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from scrubjay.api.deps import Jay, Who
from scrubjay.api.rag.ids import KeyRef, wire
from scrubjay.api.rag.schemas import Limit, ListResponse, Offset, list_response
from scrubjay.model.audit import AuditEntry

router = APIRouter()


class AuditEntryResponse(BaseModel):
    """Who did what. The key's name is what it was then; a job has neither door nor address."""

    id: str
    at: datetime
    key_id: str | None
    key_name: str
    action: str
    target_id: str | None
    details: dict[str, Any]
    door: str | None
    remote_address: str | None
    request_id: str | None


def audit_response(entry: AuditEntry) -> AuditEntryResponse:
    return AuditEntryResponse(
        id=wire(entry.id),
        at=entry.at,
        key_id=None if entry.key_id is None else wire(entry.key_id),
        key_name=entry.key_name,
        action=entry.action,
        target_id=entry.target_id,
        details=dict(entry.details),
        door=entry.door,
        remote_address=entry.remote_address,
        request_id=entry.request_id,
    )


@router.get("/audit", tags=["keys"], response_model=ListResponse[AuditEntryResponse])
async def list_acts(
    jay: Jay,
    who: Who,
    action: Annotated[str | None, Query(max_length=64, description="Such as key.created.")] = None,
    key_id: KeyRef | None = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> ListResponse[AuditEntryResponse]:
    """Administrative acts, the newest first."""
    page = await jay.audit.page(who, action=action, key_id=key_id, limit=limit, offset=offset)
    return list_response(page, audit_response)
