"""Signing in with an API key, and out. The one-time link of `scrubjay serve` leads to the same session."""

import hmac
import secrets

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import STALE_FORM, TOKEN_FIELD, Jay, Ordering
from scrubjay.errors import Forbidden, Unauthenticated
from scrubjay.services.access import SESSION_COOKIE

router = APIRouter(include_in_schema=False)

# Before there is a session, a form is ours when it carries what only its own browser's cookie says.
DOOR_COOKIE = "scrubjay_door"
MAX_NEXT = 2000


def signed_out_page(request: Request, message: str | None = None, *, status: int = 200) -> HTMLResponse:
    token = request.cookies.get(DOOR_COOKIE, "")
    if not _is_token(token):
        token = secrets.token_urlsafe(32)
    target = request.url.path if request.method == "GET" else "/"
    if request.method == "GET" and request.url.query:
        target = f"{target}?{request.url.query}"
    if request.url.path.startswith("/ui/signin"):
        target = request.query_params.get("next", "/")
    page = show(request, "signin.html", status=status, form_token=token, message=message, next=_own_address(target))
    page.set_cookie(DOOR_COOKIE, token, httponly=True, samesite="strict", secure=_is_secure(request), path="/")
    return page


@router.get("/signin")
async def ask_for_key(request: Request) -> Response:
    """The form that takes an API key."""
    return signed_out_page(request)


@router.post("/signin")
async def sign_in_with_key(request: Request, jay: Jay) -> Response:
    """Exchange an API key for a session."""
    form = await request.form(max_files=0, max_fields=10)
    given, expected = form.get(TOKEN_FIELD), request.cookies.get(DOOR_COOKIE, "")
    if not isinstance(given, str) or not expected or not hmac.compare_digest(given.encode(), expected.encode()):
        raise Forbidden(STALE_FORM)
    key = form.get("key")
    try:
        session = await jay.access.open_session(key.strip() if isinstance(key, str) else None)
    except Unauthenticated as error:
        return signed_out_page(request, error.message, status=401)
    target = form.get("next")
    response = RedirectResponse(_own_address(target if isinstance(target, str) else "/"), status_code=303)
    keep_session(request, response, session)
    response.delete_cookie(DOOR_COOKIE, path="/")
    return response


@router.post("/signout")
async def sign_out(request: Request, jay: Jay, order: Ordering) -> Response:
    """End the session."""
    await jay.access.sign_out(order.visitor.session)
    response = RedirectResponse("/ui/signin?done=signed-out", status_code=303)
    response.delete_cookie(SESSION_COOKIE, path="/")
    return response


def keep_session(request: Request, response: Response, session: str) -> None:
    response.set_cookie(SESSION_COOKIE, session, httponly=True, samesite="lax", secure=_is_secure(request), path="/")


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"


def _is_token(text: str) -> bool:
    return 40 <= len(text) <= 64 and text.replace("-", "").replace("_", "").isalnum() and text.isascii()


def _own_address(target: str) -> str:
    """A page of this dashboard: anything else that was asked for leads home, not to another site."""
    fits = target == "/" or target.startswith(("/ui/", "/v2/", "/?"))
    plain = target.isprintable() and target.isascii() and "\\" not in target and not target.startswith("//")
    return target if fits and plain and len(target) <= MAX_NEXT and not target.startswith("/ui/sign") else "/"
