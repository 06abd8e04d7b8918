"""Proxies: servers that crawls go through. Their passwords are sealed and never shown."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.responses import RedirectResponse, Response

from scrubjay.app import Scrubjay
from scrubjay.dashboard.forms import Field, Look, Problems, fields_of
from scrubjay.dashboard.identifiers import Offset, ProxyId
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Order, Ordering, Visitor
from scrubjay.dashboard.setup_form import REFUSALS, ROWS, SetupForm, read_model, show_form
from scrubjay.errors import InvalidRequest, ScrubjayError, UrlBlocked
from scrubjay.model import crawl_limits as limits
from scrubjay.model.crawling import Proxy, ProxyRotation
from scrubjay.model.tenant import Scope
from scrubjay.services.access import require
from scrubjay.services.crawl_settings import ProxyCheck
from scrubjay.services.webhooks import HIDDEN

router = APIRouter(include_in_schema=False)

HERE = "/ui/settings/proxies"
SPARE_ROWS = 2  # for servers that are added
_USER: TypeAdapter[str] = TypeAdapter(limits.ProxyUser)
_PASSWORD: TypeAdapter[str] = TypeAdapter(limits.ProxyPassword)


class ProxyForm(BaseModel):
    name: limits.SettingName
    rotation: ProxyRotation = ProxyRotation.ROUND_ROBIN
    is_active: bool = True


LOOK = Look(labels={"rotation": "Which server is next", "is_active": "In use"}, required=("name",))


def _server_fields(number: int, server: Mapping[str, Any]) -> list[Field]:
    start, hint = f"server.{number}.", "As in http://host:3128" if number == 0 else ""
    label, url = f"Server {number + 1}", server.get("url")
    return [
        Field(f"{start}url", label, "text", url, required=number == 0, hint=hint),
        Field(f"{start}username", "User", "text", server.get("username"), longest=200),
        Field(f"{start}password", "Password", "secret", bool(server.get("password"))),
    ]


def _form(
    request: Request,
    visitor: Visitor,
    proxy: Proxy | None,
    filled: Order | None = None,
    error: ScrubjayError | None = None,
) -> Response:
    known = proxy or Proxy(tenant_id=visitor.who.tenant_id, name="", servers=())
    servers = [*known.servers, *({} for _ in range(SPARE_ROWS))][: limits.MAX_PROXY_SERVERS]
    values = {"name": known.name, "rotation": known.rotation, "is_active": known.is_active}
    form = SetupForm(
        title="New proxy" if proxy is None else proxy.name,
        action=HERE if proxy is None else f"{HERE}/{proxy.id}/edit",
        back=HERE,
        noun="Proxies",
        groups=[
            ("General", fields_of(ProxyForm, values, look=LOOK)),
            ("Servers", [field for number, each in enumerate(servers) for field in _server_fields(number, each)]),
        ],
    )
    names = {f"servers.{number}.url": f"server.{number}.url" for number in range(len(servers))}
    if isinstance(error, UrlBlocked):
        error = InvalidRequest(error.message, field="server.0.url")
    return show_form(request, visitor, form, filled=filled, error=error, names=names | {"servers": "server.0.password"})


def _read(order: Order, before: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """InvalidRequest that names every field which cannot be read."""
    problems = Problems()
    said = read_model(order, ProxyForm, problems, LOOK)
    servers = [_read_server(order, number, before, problems) for number in range(limits.MAX_PROXY_SERVERS)]
    given = [server for server in servers if server is not None]
    if not given:
        problems.add("server.0.url", "At least one server is needed.")
    problems.raise_any()
    return {**said.model_dump(), "servers": given}


def _read_server(
    order: Order, number: int, before: Sequence[Mapping[str, Any]], problems: Problems
) -> dict[str, Any] | None:
    """A server, or nothing where the row was left or made empty."""
    start = f"server.{number}."
    url, username, password = (order.text(start + name) for name in ("url", "username", "password"))
    if not url:
        return None
    for kind, name, value in ((_USER, "username", username), (_PASSWORD, "password", password)):
        try:
            kind.validate_python(value)
        except ValidationError:
            problems.add(start + name, "This is too long.")
    if not password and number < len(before) and before[number].get("password"):
        password = HIDDEN  # left empty, it stays
    return {"url": url, "username": username or None, "password": password or None}


@router.get("/settings/proxies")
async def list_proxies(request: Request, jay: Jay, visitor: Looking, offset: Offset = 0) -> Response:
    """All proxies."""
    return await _list(request, jay, visitor, offset=offset)


async def _list(
    request: Request,
    jay: Scrubjay,
    visitor: Visitor,
    *,
    offset: int = 0,
    tested: Proxy | None = None,
    checks: Sequence[ProxyCheck] = (),
) -> Response:
    page = await jay.crawl_settings.proxies(visitor.who, limit=ROWS, offset=offset)
    return show(request, "proxies.html", visitor, page=page, tested=tested, checks=checks)


@router.get("/settings/proxies/new")
async def new_proxy(request: Request, visitor: Looking) -> Response:
    """The form for a new proxy."""
    require(visitor.who, Scope.WRITE)
    return _form(request, visitor, None)


@router.post("/settings/proxies")
async def create_proxy(request: Request, jay: Jay, order: Ordering) -> Response:
    """Make a proxy."""
    require(order.who, Scope.WRITE)
    try:
        await jay.crawl_settings.create_proxy(order.who, **_read(order))
    except REFUSALS as error:
        return _form(request, order.visitor, None, order, error)
    return RedirectResponse(f"{HERE}?done=created", status_code=303)


@router.get("/settings/proxies/{proxy_id}/edit")
async def edit_proxy(request: Request, jay: Jay, visitor: Looking, proxy_id: ProxyId) -> Response:
    """The form of a proxy that there is."""
    require(visitor.who, Scope.WRITE)
    return _form(request, visitor, await jay.crawl_settings.proxy(visitor.who, proxy_id))


@router.post("/settings/proxies/{proxy_id}/edit")
async def save_proxy(request: Request, jay: Jay, order: Ordering, proxy_id: ProxyId) -> Response:
    """Change a proxy. A password that is left empty stays what it was, for the same server and user."""
    require(order.who, Scope.WRITE)
    proxy = await jay.crawl_settings.proxy(order.who, proxy_id)
    try:
        await jay.crawl_settings.change_proxy(order.who, proxy_id, **_read(order, proxy.servers))
    except REFUSALS as error:
        return _form(request, order.visitor, proxy, order, error)
    return RedirectResponse(f"{HERE}?done=saved", status_code=303)


@router.post("/settings/proxies/{proxy_id}/test")
async def check_proxy(request: Request, jay: Jay, order: Ordering, proxy_id: ProxyId) -> Response:
    """Fetch a page through each server of a proxy."""
    checks = await jay.crawl_settings.test_proxy(order.who, proxy_id)
    proxy = await jay.crawl_settings.proxy(order.who, proxy_id)
    return await _list(request, jay, order.visitor, tested=proxy, checks=checks)


@router.post("/settings/proxies/{proxy_id}/delete")
async def delete_proxy(jay: Jay, order: Ordering, proxy_id: ProxyId) -> Response:
    """Remove a proxy."""
    await jay.crawl_settings.delete_proxy(order.who, proxy_id)
    return RedirectResponse(f"{HERE}?done=deleted", status_code=303)
