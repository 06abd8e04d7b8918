"""Routes of the control door, one file for each noun."""

from fastapi import APIRouter

from scrubjay.api.control import bus, compat, jobs, watches
from scrubjay.api.rag.schemas import ErrorResponse

router = APIRouter(
    responses={
        "4XX": {"model": ErrorResponse, "description": "The request is wrong, not allowed, or too early"},
        "5XX": {"model": ErrorResponse, "description": "Something is wrong on the server"},
    }
)

for part in (jobs, compat, bus, watches):
    router.include_router(part.router)
