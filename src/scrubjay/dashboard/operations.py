"""A run of a crawler: what it saw, by its enumeration file, and what it did not take in, by its report."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from scrubjay.dashboard.identifiers import Offset, OperationId, PlanId, Words
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Ordering
from scrubjay.errors import NotFound
from scrubjay.model.page import Page
from scrubjay.model.plan import Operation
from scrubjay.plans.report import ItemOutcome, RunReport
from scrubjay.services.reports import problem_outcomes

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
}
# The sections of items that were not taken in, which the report lists.
PROBLEMS = {
    "Failed": ItemOutcome.FAILED,
    "Denied": ItemOutcome.DENIED,
    "Skipped": ItemOutcome.SKIPPED,
    "Cut": ItemOutcome.CUT,
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
    """One run: how it went, and the items of one section."""
    who = visitor.who
    plan = await jay.plans.get(who, plan_id)
    operation = await jay.operations.get(who, plan_id, operation_id)
    report = (await jay.reports.of_operation(who, operation_id, outcomes=problem_outcomes(), limit=1)).report
    section = section if section in (*SECTIONS, *PROBLEMS) else _first_section(report)
    counts, sizes = _counts(operation)
    page: Page[Any] = Page((), 0, ROWS, offset)
    missing = None
    try:
        found = await jay.operations.enumerated(
            who, plan_id, operation_id, section, contains=q.strip(), limit=ROWS, offset=offset
        )
        counts, sizes = {**counts, **found.counts}, found.sizes
        page = Page(found.shown.entries, found.shown.total, ROWS, offset)
    except NotFound as error:
        missing = error.message
    if section in PROBLEMS:
        items = await jay.reports.of_operation(
            who, operation_id, outcomes=[PROBLEMS[section]], contains=q.strip(), limit=ROWS, offset=offset
        )
        page, missing = Page(items.items, items.total, ROWS, offset), None
    return show(
        request,
        "operation.html",
        visitor,
        plan=plan,
        operation=operation,
        report=report,
        sections={**SECTIONS, **dict(zip(PROBLEMS, PROBLEMS, strict=True))},
        section=section,
        counts={**counts, **{name: report.counts.get(outcome, 0) for name, outcome in PROBLEMS.items()}},
        sizes={name: size for name, size in sizes.items() if name in SECTIONS},
        is_problem=section in PROBLEMS,
        missing=missing,
        page=page,
    )


def _first_section(report: RunReport) -> str:
    """The section that is shown first: what went wrong, if something did."""
    return next((name for name, outcome in PROBLEMS.items() if report.counts.get(outcome)), "AllFiles")


def _counts(operation: Operation) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Number and bytes of the items of each section, for a run without an enumeration file."""
    counts = {
        "AllFiles": operation.objects_enumerated,
        "Added": operation.objects_added,
        "Changed": operation.objects_updated,
        "Deleted": operation.objects_deleted,
        "Unchanged": operation.objects_unchanged,
        "Success": operation.objects_success,
    }
    sizes = {
        "AllFiles": operation.bytes_enumerated,
        "Added": operation.bytes_added,
        "Changed": operation.bytes_updated,
        "Deleted": operation.bytes_deleted,
        "Success": operation.bytes_success,
    }
    return counts, sizes


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
