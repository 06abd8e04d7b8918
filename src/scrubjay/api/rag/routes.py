"""Routes of `/api/v1`: health, API keys and jobs here, the rest in one file for each noun."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from starlette.responses import JSONResponse

from scrubjay.api.deps import Jay, Who
from scrubjay.api.rag import audit, collections, crawls, documents, search, settings, webhooks
from scrubjay.api.rag.ids import JobId, KeyId
from scrubjay.api.rag.schemas import (
    ChangeKeyRequest,
    CreatedKeyResponse,
    CreateKeyRequest,
    ErrorResponse,
    HealthResponse,
    JobEventResponse,
    JobResponse,
    KeyResponse,
    Limit,
    ListResponse,
    Offset,
    ReadyResponse,
    field_values,
)
from scrubjay.model.job import Job, JobEvent, JobRequest, JobState
from scrubjay.model.page import Page
from scrubjay.model.tenant import ApiKey

# With these, FastAPI does not document its own shape of a 422, which this door never sends.
router = APIRouter(
    prefix="/api/v1",
    responses={
        "4XX": {"model": ErrorResponse, "description": "The request is wrong, not allowed, or too early"},
        "5XX": {"model": ErrorResponse, "description": "Something is wrong on the server"},
    },
)

for part in (documents, collections, search, crawls, settings, webhooks, audit):
    router.include_router(part.router)


@router.head("/health", include_in_schema=False)
@router.get("/health", tags=["health"], response_model=HealthResponse)
async def show_health() -> HealthResponse:
    """Whether the process is up. Needs no key."""
    return HealthResponse()


@router.head("/health/ready", include_in_schema=False)
@router.get("/health/ready", tags=["health"], response_model=ReadyResponse, responses={503: {"model": ReadyResponse}})
async def show_readiness(jay: Jay) -> Response:
    """Whether everything that requests need answers now. Needs no key."""
    checks = await jay.health.ready()
    is_ready = all(checks.values())
    body = ReadyResponse(status="ready" if is_ready else "not_ready", checks=dict(checks))
    return JSONResponse(body.model_dump(), status_code=200 if is_ready else 503)


@router.post("/api-keys", tags=["keys"], status_code=201, response_model=CreatedKeyResponse)
async def create_key(jay: Jay, who: Who, body: CreateKeyRequest) -> dict[str, Any]:
    """Make a key. Its text is in this answer and nowhere else."""
    record, text = await jay.access.create_key(who, **body.model_dump())
    return field_values(record) | {"key": text}


@router.get("/api-keys", tags=["keys"], response_model=ListResponse[KeyResponse])
async def list_keys(jay: Jay, who: Who, limit: Limit = 100, offset: Offset = 0) -> Page[ApiKey]:
    return await jay.access.list_keys(who, limit=limit, offset=offset)


@router.get("/api-keys/{key_id}", tags=["keys"], response_model=KeyResponse)
async def get_key(jay: Jay, who: Who, key_id: KeyId) -> ApiKey:
    return await jay.access.get_key(who, key_id)


@router.patch("/api-keys/{key_id}", tags=["keys"], response_model=KeyResponse)
async def change_key(jay: Jay, who: Who, key_id: KeyId, body: ChangeKeyRequest) -> ApiKey:
    """Rename, rescope, limit, disable or enable a key."""
    changes: dict[str, Any] = body.model_dump(exclude_none=True)
    if not changes:
        return await jay.access.get_key(who, key_id)
    return await jay.access.change_key(who, key_id, **changes)


@router.post("/api-keys/{key_id}/rotate", tags=["keys"], response_model=CreatedKeyResponse)
async def rotate_key(jay: Jay, who: Who, key_id: KeyId) -> dict[str, Any]:
    """Give a key another text, which is in this answer and nowhere else. The one that it had is refused from now on."""
    record, text = await jay.access.rotate_key(who, key_id)
    return field_values(record) | {"key": text}


@router.delete("/api-keys/{key_id}", tags=["keys"], status_code=204)
async def delete_key(jay: Jay, who: Who, key_id: KeyId) -> None:
    await jay.access.delete_key(who, key_id)


@router.get("/jobs", tags=["jobs"], response_model=ListResponse[JobResponse])
async def list_jobs(
    jay: Jay,
    who: Who,
    status: JobState | None = None,
    kind: Annotated[str | None, Query(max_length=64, pattern=r"^[\w.-]+$")] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Page[Job]:
    """Newest first."""
    return await jay.jobs.page(who, state=status, kind=kind, limit=limit, offset=offset)


@router.get("/jobs/failed", tags=["jobs"], response_model=ListResponse[JobResponse])
async def list_failed_jobs(jay: Jay, who: Who, limit: Limit = 100, offset: Offset = 0) -> Page[Job]:
    return await jay.jobs.page(who, state=JobState.FAILED, limit=limit, offset=offset)


@router.get("/jobs/{job_id}", tags=["jobs"], response_model=JobResponse)
async def get_job(jay: Jay, who: Who, job_id: JobId) -> Job:
    return await jay.jobs.get(who, job_id)


@router.get("/jobs/{job_id}/events", tags=["jobs"], response_model=list[JobEventResponse])
async def list_job_events(
    jay: Jay, who: Who, job_id: JobId, after: Offset = 0, limit: Limit = 500
) -> Sequence[JobEvent]:
    """The job's log after event number `after`."""
    return await jay.jobs.events(who, job_id, after=after, limit=limit)


@router.post("/jobs/{job_id}/{request}", tags=["jobs"], response_model=JobResponse)
async def steer_job(jay: Jay, who: Who, job_id: JobId, request: JobRequest) -> Job:
    """Pause, resume, cancel or retry a job."""
    return await jay.jobs.make_request(who, job_id, request)


@router.delete("/jobs/{job_id}", tags=["jobs"], status_code=204)
async def delete_job(jay: Jay, who: Who, job_id: JobId) -> None:
    """Delete a finished job and its log."""
    await jay.jobs.delete(who, job_id)
