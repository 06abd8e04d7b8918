"""The application: every door mounted in one place."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from scrubjay import __version__
from scrubjay.api import root
from scrubjay.api.middleware import RequestMiddleware
from scrubjay.api.problems import problem_of, problem_response
from scrubjay.api.rag import routes as rag
from scrubjay.bootstrap import Scrubjay, open_scrubjay
from scrubjay.errors import ScrubjayError
from scrubjay.settings import Settings
from scrubjay.telemetry import configure_logging

DOORS = (root.router, rag.router)


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


def _assemble(app: FastAPI) -> FastAPI:
    for router in DOORS:
        app.include_router(router)
    for kind in (ScrubjayError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _answer_problem)
    app.add_middleware(RequestMiddleware)
    return app


async def _answer_problem(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem.status >= 500 and problem.code == "INTERNAL_ERROR":
        raise error
    return problem_response(request.url.path, problem)
