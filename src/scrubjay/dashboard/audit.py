"""The audit log: who did what, for admins."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from scrubjay.dashboard.identifiers import Offset
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking
from scrubjay.dashboard.setup_form import ROWS
from scrubjay.model.audit import ACTIONS
from scrubjay.model.tenant import Scope
from scrubjay.services.access import require

router = APIRouter(include_in_schema=False)


@router.get("/settings/audit")
async def list_acts(
    request: Request,
    jay: Jay,
    visitor: Looking,
    offset: Offset = 0,
    action: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Administrative acts, the newest first."""
    require(visitor.who, Scope.ADMIN)
    chosen = action if action in ACTIONS else ""
    page = await jay.audit.page(visitor.who, action=chosen or None, limit=ROWS, offset=offset)
    options = [(name, name) for name in ACTIONS]
    return show(request, "audit.html", visitor, page=page, actions=options, chosen=chosen, meanings=ACTIONS)
