"""Operations over `/v1.0`: the runs of a plan, what they amount to, and what each of them saw."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Query
from pydantic import AliasPath, BeforeValidator, Field
from starlette.responses import FileResponse

from scrubjay.api.crawlplans.lists import EnvelopeResponse, Listed
from scrubjay.api.crawlplans.plans import PlanId
from scrubjay.api.crawlplans.routing import door_router
from scrubjay.api.crawlplans.schemas import Wire
from scrubjay.api.deps import Jay, Who, identifier
from scrubjay.model.page import Page
from scrubjay.model.plan import Operation, OperationState, Trigger
from scrubjay.plans.report import ItemOutcome, RunReport
from scrubjay.services.operations import RunStatistics

router = door_router("/crawlplans/{plan_id}/operations", "crawl operations")

EVERY_OUTCOME: list[ItemOutcome] = []
Rounded = Annotated[int, BeforeValidator(round)]
OperationId = Annotated[str, Depends(identifier("cop", "operation", "operation_id"))]


class CrawlOperationResponse(Wire):
    id: str
    tenant_id: str
    crawl_plan_id: str = Field(validation_alias="plan_id")
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
    objects_denied: int = 0
    objects_skipped: int = 0
    objects_warned: int = Field(0, description="Links that answered with HTTP 4xx or 5xx.")
    is_complete: bool
    limits: dict[str, int] | None = Field(None, description="Limits that cut the run, and how often.")
    reasons: dict[str, int] | None = Field(None, description="Number of objects that were not taken in, by reason.")
    trigger: Trigger
    job_id: str | None = None
    enumeration_file: str | None = None
    start_utc: datetime | None = Field(None, validation_alias="started_at")
    start_enumeration_utc: datetime | None = Field(None, validation_alias="enumeration_started_at")
    finish_enumeration_utc: datetime | None = Field(None, validation_alias="enumeration_finished_at")
    start_retrieval_utc: datetime | None = Field(None, validation_alias="retrieval_started_at")
    finish_retrieval_utc: datetime | None = Field(None, validation_alias="retrieval_finished_at")
    finish_utc: datetime | None = Field(None, validation_alias="finished_at")
    created_utc: datetime = Field(validation_alias="created_at")
    last_update_utc: datetime = Field(validation_alias="updated_at")


class StatisticsResponse(Wire):
    """Over the runs that are over; the averages are whole numbers."""

    last_run: datetime | None = None
    next_run: datetime | None = None
    failed_run_count: int = Field(validation_alias="failed_runs")
    successful_run_count: int = Field(validation_alias="successful_runs")
    min_runtime_ms: int = Field(validation_alias=AliasPath("runtime_ms", "least"))
    max_runtime_ms: int = Field(validation_alias=AliasPath("runtime_ms", "most"))
    avg_runtime_ms: Rounded = Field(validation_alias=AliasPath("runtime_ms", "mean"))
    min_object_count: int = Field(validation_alias=AliasPath("objects", "least"))
    max_object_count: int = Field(validation_alias=AliasPath("objects", "most"))
    avg_object_count: Rounded = Field(validation_alias=AliasPath("objects", "mean"))
    object_count: int = Field(validation_alias=AliasPath("objects", "total"))
    min_bytes_crawled: int = Field(validation_alias=AliasPath("size_bytes", "least"))
    max_bytes_crawled: int = Field(validation_alias=AliasPath("size_bytes", "most"))
    avg_bytes_crawled: Rounded = Field(validation_alias=AliasPath("size_bytes", "mean"))
    bytes_crawled: int = Field(validation_alias=AliasPath("size_bytes", "total"))


def _of_report(operation: Operation) -> dict[str, Any]:
    report = RunReport.load(operation.report) or RunReport()
    return {
        "objects_denied": report.denied,
        "objects_skipped": report.counts.get(ItemOutcome.SKIPPED, 0),
        "objects_warned": report.warnings,
        "limits": report.limits or None,
        "reasons": report.reasons or None,
    }


def operation_response(operation: Operation) -> CrawlOperationResponse:
    shown = operation
    if operation.enumeration_file is not None:  # the path on the server's disk is not shown
        shown = replace(operation, enumeration_file=f"{operation.plan_id}/{operation.id}.json")
    answer = CrawlOperationResponse.model_validate(shown, from_attributes=True)
    return answer.model_copy(update=_of_report(operation))


@router.get("", response_model=EnvelopeResponse[CrawlOperationResponse])
async def list_operations(
    jay: Jay, who: Who, plan_id: PlanId, listed: Listed
) -> EnvelopeResponse[CrawlOperationResponse]:
    page = await jay.operations.page(
        who, plan_id, limit=listed.limit, offset=listed.offset, newest_first=listed.newest_first
    )
    return listed.answer(page, operation_response)


@router.get("/statistics", response_model=StatisticsResponse)
async def show_statistics(jay: Jay, who: Who, plan_id: PlanId) -> RunStatistics:
    """What all runs of a plan amount to."""
    return await jay.operations.statistics(who, plan_id)


@router.get("/{operation_id}", response_model=CrawlOperationResponse)
async def get_operation(jay: Jay, who: Who, plan_id: PlanId, operation_id: OperationId) -> CrawlOperationResponse:
    return operation_response(await jay.operations.get(who, plan_id, operation_id))


@router.get("/{operation_id}/statistics", response_model=StatisticsResponse)
async def show_operation_statistics(jay: Jay, who: Who, plan_id: PlanId, operation_id: OperationId) -> RunStatistics:
    """What one run amounts to."""
    return await jay.operations.operation_statistics(who, plan_id, operation_id)


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


class OperationReportItemResponse(Wire):
    """One object of a run, what became of it, and what to do about it."""

    key: str
    outcome: ItemOutcome
    reason: str | None = None
    message: str | None = None
    next_step: str | None = None
    http_status: int | None = None
    attempts: int
    document_id: str | None = None


@router.get("/{operation_id}/report", response_model=EnvelopeResponse[OperationReportItemResponse])
async def show_report(
    jay: Jay,
    who: Who,
    plan_id: PlanId,
    operation_id: OperationId,
    listed: Listed,
    outcome: Annotated[list[ItemOutcome], Query(description="Only objects of these outcomes.")] = EVERY_OUTCOME,
) -> EnvelopeResponse[OperationReportItemResponse]:
    """What became of every object, problems first. Unchanged objects are counted and not listed."""
    await jay.operations.get(who, plan_id, operation_id)
    found = await jay.reports.of_operation(
        who, operation_id, outcomes=outcome, limit=listed.limit, offset=listed.offset
    )
    page = Page(items=found.items, total=found.total, limit=listed.limit, offset=listed.offset)
    return listed.answer(page, lambda item: OperationReportItemResponse(**item.record()))


@router.post("/{operation_id}/retry", response_model=CrawlOperationResponse)
async def retry_failures(jay: Jay, who: Who, plan_id: PlanId, operation_id: OperationId) -> CrawlOperationResponse:
    """Retrieve the objects that failed again, as a new operation."""
    await jay.operations.get(who, plan_id, operation_id)
    job = await jay.reports.retry(who, operation_id)
    return operation_response(await jay.reports.operation_of(who, job.id))
