"""Host settings: how fast a host may be asked, when it is left alone, and which hosts are never asked."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import RedirectResponse, Response

from scrubjay.dashboard.forms import Field, Look, Problems, fields_of
from scrubjay.dashboard.identifiers import HostName, Offset
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Order, Ordering, Visitor
from scrubjay.dashboard.setup_form import REFUSALS, ROWS, SetupForm, read_model, show_form
from scrubjay.errors import InvalidRequest, ScrubjayError
from scrubjay.model import crawl_limits as limits
from scrubjay.model.crawling import HostSettings
from scrubjay.model.tenant import Scope
from scrubjay.services.access import require

router = APIRouter(include_in_schema=False)

HERE = "/ui/settings/hosts"


class HostForm(BaseModel):
    rate_limit_rps: limits.Rate = 1.0
    circuit_breaker_threshold: limits.BreakerThreshold = 5
    circuit_breaker_timeout_seconds: limits.BreakerSeconds = 300
    is_blocked: bool = False
    blocked_reason: limits.Reason | None = None


LOOK = Look(
    labels={
        "rate_limit_rps": "Requests a second",
        "circuit_breaker_threshold": "Failures before a pause",
        "circuit_breaker_timeout_seconds": "Pause (seconds)",
        "is_blocked": "Never ask this host",
        "blocked_reason": "Why it is blocked",
    }
)
NAMES = {"domain": "host"}


def _form(
    request: Request,
    visitor: Visitor,
    host: HostSettings | None,
    filled: Order | None = None,
    error: ScrubjayError | None = None,
) -> Response:
    known = host or HostSettings(tenant_id=visitor.who.tenant_id, host="")
    fields = fields_of(HostForm, asdict(known), look=LOOK)
    name = Field("host", "Host", "text", required=True, longest=253, hint="As in www.example.com")
    form = SetupForm(
        title="New host" if host is None else host.host,
        action=HERE if host is None else f"{HERE}/{host.host}/edit",
        back=HERE,
        noun="Hosts",
        groups=[("How it is treated", fields if host is not None else [name, *fields])],
    )
    return show_form(request, visitor, form, filled=filled, error=error, names=NAMES)


def _read(order: Order) -> dict[str, Any]:
    """InvalidRequest that names every field which cannot be read."""
    problems = Problems()
    said = read_model(order, HostForm, problems, LOOK)
    problems.raise_any()
    values: dict[str, Any] = said.model_dump()
    return values if said.is_blocked else values | {"blocked_reason": None}


@router.get("/settings/hosts")
async def list_hosts(request: Request, jay: Jay, visitor: Looking, offset: Offset = 0) -> Response:
    """The hosts that something is set for."""
    page = await jay.crawl_settings.hosts(visitor.who, limit=ROWS, offset=offset)
    return show(request, "hosts.html", visitor, page=page)


@router.get("/settings/hosts/new")
async def new_host(request: Request, visitor: Looking) -> Response:
    """The form for a host that nothing is set for yet."""
    require(visitor.who, Scope.WRITE)
    return _form(request, visitor, None)


@router.post("/settings/hosts")
async def create_host(request: Request, jay: Jay, order: Ordering) -> Response:
    """Set something for a host."""
    require(order.who, Scope.WRITE)
    try:
        if not order.text("host"):
            raise InvalidRequest("This is needed.", field="host")
        await jay.crawl_settings.set_host(order.who, order.text("host"), **_read(order))
    except REFUSALS as error:
        return _form(request, order.visitor, None, order, error)
    return RedirectResponse(f"{HERE}?done=saved", status_code=303)


@router.get("/settings/hosts/{host}/edit")
async def edit_host(request: Request, jay: Jay, visitor: Looking, host: HostName) -> Response:
    """The form of a host that something is set for."""
    require(visitor.who, Scope.WRITE)
    return _form(request, visitor, await jay.crawl_settings.known_host(visitor.who, host))


@router.post("/settings/hosts/{host}/edit")
async def save_host(request: Request, jay: Jay, order: Ordering, host: HostName) -> Response:
    """Change how a host is treated; running crawls hear of it within seconds."""
    require(order.who, Scope.WRITE)
    known = await jay.crawl_settings.known_host(order.who, host)
    try:
        await jay.crawl_settings.set_host(order.who, known.host, **_read(order))
    except REFUSALS as error:
        return _form(request, order.visitor, known, order, error)
    return RedirectResponse(f"{HERE}?done=saved", status_code=303)


@router.post("/settings/hosts/{host}/delete")
async def forget_host(jay: Jay, order: Ordering, host: HostName) -> Response:
    """Treat a host like any other again."""
    await jay.crawl_settings.forget_host(order.who, host)
    return RedirectResponse(f"{HERE}?done=deleted", status_code=303)
