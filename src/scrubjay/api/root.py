"""The front door: what this is, sign-in by link, and metrics."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, RedirectResponse

from scrubjay import __version__
from scrubjay.api.deps import Jay, Who
from scrubjay.dashboard.home import show_home
from scrubjay.dashboard.session import find_visitor
from scrubjay.dashboard.signing_in import keep_session, signed_out_page
from scrubjay.model.clock import utc_now

router = APIRouter(responses={"4XX": {"description": "The request is wrong or not allowed"}})


@router.head("/", include_in_schema=False)
@router.get("/", tags=["front door"], summary="What this is")
async def show_product(request: Request, jay: Jay) -> Response:
    """Programs get JSON, browsers the dashboard."""
    if "text/html" not in request.headers.get("accept", ""):
        now = utc_now().isoformat().replace("+00:00", "Z")
        return JSONResponse({"Product": "Scrubjay", "Version": __version__, "Timestamp": now})
    visitor = await find_visitor(request, jay)
    return signed_out_page(request) if visitor is None else await show_home(request, jay, visitor)


@router.get("/signin", tags=["front door"], summary="Sign a browser in with a one-time link")
async def sign_in(jay: Jay, request: Request, token: Annotated[str, Query(max_length=128)]) -> Response:
    session = await jay.access.sign_in(token)
    response = RedirectResponse("/", status_code=303)
    keep_session(request, response, session)
    return response


@router.get("/metrics", tags=["front door"], summary="Prometheus metrics")
async def show_metrics(jay: Jay, who: Who) -> Response:
    """They speak of every tenant's jobs and hosts, so they are for keys of the tenant that runs the house."""
    return Response(await jay.metrics.exposition(who), media_type=CONTENT_TYPE_LATEST)
