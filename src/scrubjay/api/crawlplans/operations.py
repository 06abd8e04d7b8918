"""Operations over `/v1.0`: the runs of a plan, what they amount to, and what each of them saw."""

from datetime import datetime
from typing import Annotated

from fastapi import Depends
from starlette.responses import FileResponse

from scrubjay.api.crawlplans.lists import EnvelopeResponse, Listed
from scrubjay.api.crawlplans.plans import PlanId
from scrubjay.api.crawlplans.routing import door_router
from scrubjay.api.crawlplans.schemas import Wire
from scrubjay.api.deps import Jay, Who, identifier
from scrubjay.model.plan import Operation, OperationState, Trigger
from scrubjay.services.operations import RunStatistics

router = door_router("/crawlplans/{plan_id}/operations", "crawl operations")

OperationId = Annotated[str, Depends(identifier("cop", "operation", "operation_id"))]


class CrawlOperationResponse(Wire):
    id: str
    tenant_id: str
    crawl_plan_id: str
    state: OperationState
    status_message: str | None = None
    objects_enumerated: int
    bytes_enumerated: int
    objects_added: int
    bytes_added: int
    objects_updated: int
    bytes_updated: int
    objects_deleted: int
    bytes_deleted: int
    objects_success: int
    bytes_success: int
    objects_failed: int
    bytes_failed: int
    objects_unchanged: int
    objects_withheld: int
    is_complete: bool
    trigger: Trigger
    job_id: str | None = None
    enumeration_file: str | None = None
    start_utc: datetime | None = None
    start_enumeration_utc: datetime | None = None
    finish_enumeration_utc: datetime | None = None
    start_retrieval_utc: datetime | None = None
    finish_retrieval_utc: datetime | None = None
    finish_utc: datetime | None = None
    created_utc: datetime
    last_update_utc: datetime


class StatisticsResponse(Wire):
    """Over the runs that are over; the averages are whole numbers."""

    last_run: datetime | None = None
    next_run: datetime | None = None
    failed_run_count: int
    successful_run_count: int
    min_runtime_ms: int
    max_runtime_ms: int
    avg_runtime_ms: int
    min_object_count: int
    max_object_count: int
    avg_object_count: int
    object_count: int
    min_bytes_crawled: int
    max_bytes_crawled: int
    avg_bytes_crawled: int
    bytes_crawled: int


# As they are called inside, where this door has another name for them.
_TIMES = {
    "start_utc": "started_at",
    "start_enumeration_utc": "enumeration_started_at",
    "finish_enumeration_utc": "enumeration_finished_at",
    "start_retrieval_utc": "retrieval_started_at",
    "finish_retrieval_utc": "retrieval_finished_at",
    "finish_utc": "finished_at",
    "created_utc": "created_at",
    "last_update_utc": "updated_at",
}
_RENAMED = {**_TIMES, "crawl_plan_id": "plan_id"}


def operation_response(operation: Operation) -> CrawlOperationResponse:
    values = {name: getattr(operation, _RENAMED.get(name, name)) for name in CrawlOperationResponse.model_fields}
    if operation.enumeration_file is not None:  # where it is on the disk of the server is nobody's business
        values["enumeration_file"] = f"{operation.plan_id}/{operation.id}.json"
    return CrawlOperationResponse(**values)


def _statistics(found: RunStatistics) -> StatisticsResponse:
    return StatisticsResponse(
        last_run=found.last_run,
        next_run=found.next_run,
        failed_run_count=found.failed_runs,
        successful_run_count=found.successful_runs,
        min_runtime_ms=found.runtime_ms.least,
        max_runtime_ms=found.runtime_ms.most,
        avg_runtime_ms=round(found.runtime_ms.mean),
        min_object_count=found.objects.least,
        max_object_count=found.objects.most,
        avg_object_count=round(found.objects.mean),
        object_count=found.objects.total,
        min_bytes_crawled=found.size_bytes.least,
        max_bytes_crawled=found.size_bytes.most,
        avg_bytes_crawled=round(found.size_bytes.mean),
        bytes_crawled=found.size_bytes.total,
    )


@router.get("", response_model=EnvelopeResponse[CrawlOperationResponse])
async def list_operations(
    jay: Jay, who: Who, plan_id: PlanId, listed: Listed
) -> EnvelopeResponse[CrawlOperationResponse]:
    page = await jay.operations.page(
        who, plan_id, limit=listed.limit, offset=listed.offset, newest_first=listed.newest_first
    )
    return listed.answer(page, operation_response)


@router.get("/statistics", response_model=StatisticsResponse)
async def show_statistics(jay: Jay, who: Who, plan_id: PlanId) -> StatisticsResponse:
    """What all runs of a plan amount to."""
    return _statistics(await jay.operations.statistics(who, plan_id))


@router.get("/{operation_id}", response_model=CrawlOperationResponse)
async def get_operation(jay: Jay, who: Who, plan_id: PlanId, operation_id: OperationId) -> CrawlOperationResponse:
    return operation_response(await jay.operations.get(who, plan_id, operation_id))


@router.get("/{operation_id}/statistics", response_model=StatisticsResponse)
async def show_operation_statistics(
    jay: Jay, who: Who, plan_id: PlanId, operation_id: OperationId
) -> StatisticsResponse:
    """What one run amounts to."""
    return _statistics(await jay.operations.operation_statistics(who, plan_id, operation_id))


@router.delete("/{operation_id}", status_code=204)
async def delete_operation(jay: Jay, who: Who, plan_id: PlanId, operation_id: OperationId) -> None:
    """Remove an operation that is over, and its file. What it did to documents stays."""
    await jay.operations.delete(who, plan_id, operation_id)


@router.get(
    "/{operation_id}/enumeration",
    response_class=FileResponse,
    responses={
        200: {"description": "The file", "content": {"application/json": {"schema": {"type": "object"}}}},
    },
)
async def show_enumeration(jay: Jay, who: Who, plan_id: PlanId, operation_id: OperationId) -> FileResponse:
    """What an operation saw and did: AllFiles, Added, Changed, Deleted, Unchanged, Success, Failed, Statistics."""
    path = await jay.operations.enumeration(who, plan_id, operation_id)
    return FileResponse(path, media_type="application/json")
