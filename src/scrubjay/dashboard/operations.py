"""A run of a crawler: what it did, and what it saw section by section, as its enumeration file says."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from scrubjay.dashboard.identifiers import Offset, OperationId, PlanId, Words
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Ordering
from scrubjay.errors import NotFound
from scrubjay.model.page import Page
from scrubjay.plans.report import RunReport

router = APIRouter(include_in_schema=False)

ROWS = 50
# What the sections of an enumeration file are called here.
SECTIONS = {
    "AllFiles": "All",
    "Added": "New",
    "Changed": "Changed",
    "Deleted": "Deleted",
    "Unchanged": "Unchanged",
    "Success": "Taken in",
    "Failed": "Failed",
    "Warnings": "Warnings",
    "Skipped": "Skipped",
}


@router.get("/plans/{plan_id}/operations/{operation_id}")
async def show_operation(
    request: Request,
    jay: Jay,
    visitor: Looking,
    plan_id: PlanId,
    operation_id: OperationId,
    section: Words = "",
    q: Words = "",
    offset: Offset = 0,
) -> Response:
    """One run: how it went, and the objects of one section."""
    who = visitor.who
    plan = await jay.plans.get(who, plan_id)
    operation = await jay.operations.get(who, plan_id, operation_id)
    report = RunReport.load(operation.report) or RunReport()
    section = section if section in SECTIONS else _telling(operation.objects_failed, report)
    enumeration, missing = None, None
    try:
        enumeration = await jay.operations.enumerated(
            who, plan_id, operation_id, section, contains=q.strip(), limit=ROWS, offset=offset
        )
    except NotFound as error:
        missing = error.message
    shown = enumeration.shown if enumeration is not None else None
    return show(
        request,
        "operation.html",
        visitor,
        plan=plan,
        operation=operation,
        report=report,
        sections=SECTIONS,
        section=section,
        enumeration=enumeration,
        missing=missing,
        page=Page(shown.entries if shown else (), shown.total if shown else 0, ROWS, offset),
    )


def _telling(failed: int, report: RunReport) -> str:
    """The section that is shown first: what went wrong, if something did."""
    if failed:
        return "Failed"
    return "Warnings" if report.has_faults and not report.got else "AllFiles"


@router.post("/plans/{plan_id}/operations/{operation_id}/retry")
async def retry_failures(jay: Jay, order: Ordering, plan_id: PlanId, operation_id: OperationId) -> Response:
    """Request again what failed, was denied or was cut, as a new run."""
    await jay.operations.get(order.who, plan_id, operation_id)
    job = await jay.reports.retry(order.who, operation_id)
    return RedirectResponse(f"/ui/jobs/{job.id}?done=started", status_code=303)


@router.post("/plans/{plan_id}/operations/{operation_id}/delete")
async def delete_operation(jay: Jay, order: Ordering, plan_id: PlanId, operation_id: OperationId) -> Response:
    """Remove a run that is over, and its file. What it did to documents stays."""
    await jay.operations.delete(order.who, plan_id, operation_id)
    return RedirectResponse(f"/ui/plans/{plan_id}?done=deleted", status_code=303)
