"""Routes of `/v1.0`, one file for each noun."""

from fastapi import APIRouter

from scrubjay.api.crawlplans import documents, operations, plans, rules
from scrubjay.api.crawlplans.schemas import ProblemResponse

# With these, FastAPI does not document its own shape of a 422, which this door never sends.
router = APIRouter(
    prefix="/v1.0",
    responses={
        "4XX": {"model": ProblemResponse, "description": "The request is wrong, not allowed, or too early"},
        "5XX": {"model": ProblemResponse, "description": "Something is wrong on the server"},
    },
)

for part in (plans, operations, rules, documents):
    router.include_router(part.router)
