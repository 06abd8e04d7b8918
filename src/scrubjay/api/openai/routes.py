"""Routes of `/openai/v1`, and the same without the version, as some clients are configured."""

from fastapi import APIRouter

from scrubjay.api.openai import files, models, vector_stores
from scrubjay.api.openai.schemas import OpenAiErrorResponse

# With these, FastAPI does not document its own shape of a 422, which this door never sends.
router = APIRouter(
    responses={
        "4XX": {"model": OpenAiErrorResponse, "description": "The request is wrong, not allowed, or too early"},
        "5XX": {"model": OpenAiErrorResponse, "description": "Something is wrong on the server, or behind it"},
    }
)

for prefix in ("/openai/v1", "/openai"):
    for part in (files, vector_stores, models):
        router.include_router(part.router, prefix=prefix)
