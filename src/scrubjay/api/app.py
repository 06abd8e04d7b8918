"""The application: every door mounted in one place."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Response
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket, WebSocketState

from scrubjay import __version__
from scrubjay.api import mcp, root
from scrubjay.api.actions import routes as actions
from scrubjay.api.control import routes as control
from scrubjay.api.crawlplans import routes as crawlplans
from scrubjay.api.middleware import BodyLimitMiddleware, RequestMiddleware
from scrubjay.api.openai import routes as openai
from scrubjay.api.problems import answer_problem, problem_of
from scrubjay.api.rag import routes as rag
from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.dashboard import routes as dashboard
from scrubjay.errors import ScrubjayError
from scrubjay.settings import Settings
from scrubjay.telemetry import configure_logging

DOORS = (
    root.router, rag.router, crawlplans.router, control.router, actions.router, mcp.router, openai.router,
    dashboard.router,
)  # fmt: skip


def create_app(settings: Settings, *, working: bool = True) -> FastAPI:
    """An application that opens its own Scrubjay when it starts. With `working`, it runs jobs too."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        configure_logging(settings.log_level, settings.log_format)
        async with open_scrubjay(settings, working=working) as jay:
            await jay.access.open_as_admin(settings.home)
            app.state.scrubjay = jay
            yield

    return _assemble(FastAPI(lifespan=lifespan, title="Scrubjay", version=__version__, docs_url=None, redoc_url=None))


def app_around(jay: Scrubjay) -> FastAPI:
    """An application around a Scrubjay that somebody else opened and closes."""
    app = _assemble(FastAPI(title="Scrubjay", version=__version__, docs_url=None, redoc_url=None))
    app.state.scrubjay = jay
    return app


def metrics_app_around(jay: Scrubjay) -> FastAPI:
    """For a worker: its metrics, behind a key as everywhere, and nothing else."""
    app = FastAPI(title="Scrubjay", version=__version__, openapi_url=None, docs_url=None, redoc_url=None)
    app.add_api_route("/metrics", root.show_metrics)
    app.state.scrubjay = jay
    return _surround(app)


def _assemble(app: FastAPI) -> FastAPI:
    for router in DOORS:
        app.include_router(router)
    return _surround(app)


def _surround(app: FastAPI) -> FastAPI:
    for kind in (ScrubjayError, HTTPException, RequestValidationError, WebSocketRequestValidationError):
        app.add_exception_handler(kind, _answer_problem)
    app.add_middleware(BodyLimitMiddleware)
    app.add_middleware(RequestMiddleware)  # around the other, so that its answers have an id too
    return app


async def _answer_problem(request: HTTPConnection, error: Exception) -> Response:
    problem = problem_of(error)
    if problem.status >= 500 and problem.code == "INTERNAL_ERROR":
        raise error
    response = answer_problem(request, problem)
    if isinstance(request, WebSocket):
        await _refuse_socket(request, response, problem.message)
    return response


async def _refuse_socket(socket: WebSocket, response: Response, reason: str) -> None:
    """Before the handshake, the answer that any request would get; after it, only a close can be sent."""
    is_open = socket.application_state is not WebSocketState.CONNECTING
    if not is_open and "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(response)
    else:
        await socket.close(code=1011 if is_open else 1008, reason=reason.encode()[:120].decode(errors="ignore"))
