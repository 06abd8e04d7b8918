"""The audit log over `/api/v1`, for admins."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from scrubjay.api.deps import Jay, Who
from scrubjay.api.rag.ids import KeyRef, WireId
from scrubjay.api.rag.schemas import Limit, ListResponse, Offset
from scrubjay.model.audit import AuditEntry
from scrubjay.model.page import Page

router = APIRouter()


class AuditEntryResponse(BaseModel):
    """Who did what. The key's name is what it was then; a job has neither door nor address."""

    id: WireId
    at: datetime
    key_id: WireId | None
    key_name: str
    action: str
    target_id: str | None
    details: dict[str, Any]
    door: str | None
    remote_address: str | None
    request_id: str | None


@router.get("/audit", tags=["keys"], response_model=ListResponse[AuditEntryResponse])
async def list_acts(
    jay: Jay,
    who: Who,
    action: Annotated[str | None, Query(max_length=64, description="Such as key.created.")] = None,
    key_id: KeyRef | None = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Page[AuditEntry]:
    """Administrative acts, the newest first."""
    return await jay.audit.page(who, action=action, key_id=key_id, limit=limit, offset=offset)
