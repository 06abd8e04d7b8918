"""The front door: what this is, sign-in by link, and metrics."""

from html import escape
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse

from scrubjay import __version__
from scrubjay.api.deps import SESSION_COOKIE, Jay, Who
from scrubjay.errors import Unauthenticated
from scrubjay.model.clock import utc_now
from scrubjay.telemetry import registry

router = APIRouter(responses={"4XX": {"description": "The request is wrong or not allowed"}})

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Scrubjay</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><main><h1>Scrubjay {version}</h1>{body}</main></body></html>"""
_SIGNED_OUT = (
    "<p>The server is running. To sign in, open the one-time link that <code>scrubjay serve</code> printed, "
    "or make another with <code>scrubjay keys link</code>.</p>"
)


@router.head("/", include_in_schema=False)
@router.get("/", tags=["front door"], summary="What this is")
async def show_product(request: Request, jay: Jay) -> Response:
    """Programs get JSON, browsers a page."""
    if "text/html" not in request.headers.get("accept", ""):
        now = utc_now().isoformat().replace("+00:00", "Z")
        return JSONResponse({"Product": "Scrubjay", "Version": __version__, "Timestamp": now})
    return HTMLResponse(_PAGE.format(version=escape(__version__), body=await _front_page(request, jay)))


async def _front_page(request: Request, jay: Jay) -> str:
    session = request.cookies.get(SESSION_COOKIE)
    if not session:
        return _SIGNED_OUT
    try:
        who = await jay.access.authenticate_session(session)
    except Unauthenticated:
        return _SIGNED_OUT
    rows = "".join(
        f"<tr><th scope='row'>{escape(state)}</th><td>{count}</td></tr>"
        for state, count in (await jay.jobs.counts(who)).items()
    )
    return f"<p>Signed in.</p><table><caption>Jobs</caption>{rows}</table>"


@router.get("/signin", tags=["front door"], summary="Sign a browser in with a one-time link")
async def sign_in(jay: Jay, request: Request, token: Annotated[str, Query(max_length=128)]) -> Response:
    session = await jay.access.sign_in(token)
    response = RedirectResponse("/", status_code=303)
    response.set_cookie(
        SESSION_COOKIE, session, httponly=True, samesite="lax", secure=request.url.scheme == "https", path="/"
    )
    return response


@router.get("/metrics", tags=["front door"], summary="Prometheus metrics")
async def show_metrics(_: Who) -> Response:
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
