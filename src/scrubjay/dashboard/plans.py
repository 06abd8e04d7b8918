"""Crawlers, as people call plans: the list, the form, one with its runs, and the buttons that start and stop it."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from scrubjay.bootstrap import Scrubjay
from scrubjay.connectors.registry import connector_type, connector_types
from scrubjay.dashboard import plan_form
from scrubjay.dashboard.identifiers import Offset, OperationId, PlanId
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Order, Ordering, Visitor
from scrubjay.errors import Conflict, InvalidRequest, NotFound, ScrubjayError, Unavailable, UrlBlocked
from scrubjay.model.plan import ENDED_STATES, Plan, RepositoryType
from scrubjay.model.source import Connectivity
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require

router = APIRouter(include_in_schema=False)

ROWS = 50
RUNS = 25
LOOKED_AT = 100
MAX_RULES = 200
# What is wrong with what somebody filled in, and is shown beside it.
REFUSALS = (InvalidRequest, UrlBlocked, NotFound)


def target(plan: Plan) -> str:
    """Where a plan's content comes from, whatever its kind calls that."""
    settings = plan.repository_settings
    names = (*connector_type(plan.repository_type).required, "start_url", "url", "path")
    return next((str(settings[name]) for name in names if settings.get(name)), "")


@router.get("/plans")
async def list_plans(request: Request, jay: Jay, visitor: Looking, offset: Offset = 0) -> Response:
    """All crawlers, newest first."""
    page = await jay.plans.page(visitor.who, limit=ROWS, offset=offset)
    return show(request, "plans.html", visitor, page=page, target=target)


@router.get("/plans/new")
async def new_plan(
    request: Request, jay: Jay, visitor: Looking, kind: Annotated[str, Query(max_length=64)] = RepositoryType.WEB
) -> Response:
    """The form for a new crawler."""
    require(visitor.who, Scope.WRITE)
    draft = Plan(tenant_id=visitor.who.tenant_id, name="", repository_type=connector_type(kind).name)
    return await _form(request, jay, visitor, draft, action="/ui/plans")


@router.post("/plans")
async def create_plan(request: Request, jay: Jay, order: Ordering) -> Response:
    """Make a crawler, and start it if asked to."""
    require(order.who, Scope.WRITE)
    draft = Plan(tenant_id=order.who.tenant_id, repository_type=connector_type(order.text("kind")).name)
    try:
        plan = await jay.plans.create(order.who, plan_form.read_form(order, draft.repository_type))
    except REFUSALS as error:
        return await _form(request, jay, order.visitor, draft, action="/ui/plans", filled=order, error=error)
    if not order.checked("start"):
        return RedirectResponse(f"/ui/plans/{plan.id}?done=created", status_code=303)
    with suppress(Conflict):  # the scheduler was first
        await jay.plans.start(order.who, plan.id)
    return RedirectResponse(f"/ui/plans/{plan.id}?done=started", status_code=303)


@router.get("/plans/{plan_id}")
async def show_plan(request: Request, jay: Jay, visitor: Looking, plan_id: PlanId, offset: Offset = 0) -> Response:
    """One crawler: how it is doing, and its runs."""
    return await _show_plan(request, jay, visitor, plan_id, offset=offset)


async def _show_plan(
    request: Request,
    jay: Scrubjay,
    visitor: Visitor,
    plan_id: str,
    *,
    offset: int = 0,
    reached: Connectivity | None = None,
    objects: list[dict[str, Any]] | None = None,
) -> Response:
    who = visitor.who
    plan = await jay.plans.get(who, plan_id)
    page = await jay.operations.page(who, plan_id, limit=RUNS, offset=offset)
    running = next((each for each in page.items if each.state not in ENDED_STATES), None)
    return show(
        request,
        "plan.html",
        visitor,
        plan=plan,
        target=target(plan),
        page=page,
        statistics=await jay.operations.statistics(who, plan_id),
        documents=await jay.plans.counts(who, plan_id),
        staleness=await jay.plans.staleness(who, plan_id) if plan.last_complete_at else None,
        job_id=running.job_id if running else None,
        reached=reached,
        objects=objects,
        chart=_runs_over_time(page.items),
    )


def _runs_over_time(operations: Any) -> str | None:
    """The number of objects that each run saw, oldest first; nothing for few runs."""
    counts = [each.objects_enumerated for each in reversed(operations) if each.state in ENDED_STATES]
    return None if len(counts) < 3 else str([list(range(1, len(counts) + 1)), counts])


@router.get("/plans/{plan_id}/edit")
async def edit_plan(request: Request, jay: Jay, visitor: Looking, plan_id: PlanId) -> Response:
    """The form of a crawler that there is."""
    require(visitor.who, Scope.WRITE)
    plan = await jay.plans.get(visitor.who, plan_id)
    return await _form(request, jay, visitor, plan, action=f"/ui/plans/{plan.id}/edit")


@router.post("/plans/{plan_id}/edit")
async def save_plan(request: Request, jay: Jay, order: Ordering, plan_id: PlanId) -> Response:
    """Change a crawler. A secret that is left empty stays what it was."""
    require(order.who, Scope.WRITE)
    plan = await jay.plans.get(order.who, plan_id)
    try:
        await jay.plans.update(order.who, plan_id, plan_form.read_form(order, plan.repository_type, plan))
    except REFUSALS as error:
        action = f"/ui/plans/{plan.id}/edit"
        return await _form(request, jay, order.visitor, plan, action=action, filled=order, error=error)
    return RedirectResponse(f"/ui/plans/{plan_id}?done=saved", status_code=303)


async def _form(
    request: Request,
    jay: Scrubjay,
    visitor: Visitor,
    plan: Plan,
    *,
    action: str,
    filled: Order | None = None,
    error: ScrubjayError | None = None,
) -> Response:
    """The form, with what was filled in before and what is wrong with it beside its field."""
    kind = connector_type(plan.repository_type)
    return show(
        request,
        "plan_form.html",
        visitor,
        status=200 if error is None else 400,
        plan=plan,
        action=action,
        is_new=action == "/ui/plans",
        kinds=sorted(connector_types(), key=lambda name: (name != RepositoryType.WEB, name)),
        source=plan_form.source_fields(kind, plan.repository_settings),
        sections=list(plan_form.section_fields(plan)),
        switches=plan_form.SWITCHES,
        numbers=plan_form.NUMBERS,
        filled=filled,
        error=None if error is None else error.message,
        wrong=None if error is None else plan_form.form_field(error),
        **await _choices(jay, visitor.who),
    )


async def _choices(jay: Scrubjay, who: Principal) -> Mapping[str, Any]:
    rules = await jay.rules.page(who, limit=MAX_RULES)
    return {"collections": await jay.collections.all(who), "rules": rules.items}


@router.post("/plans/{plan_id}/start")
async def start_plan(jay: Jay, order: Ordering, plan_id: PlanId) -> Response:
    """Run a crawler now; the page of its job shows how it goes."""
    operation = await jay.plans.start(order.who, plan_id, confirm_deletions=order.checked("confirm_deletions"))
    return RedirectResponse(f"/ui/jobs/{operation.job_id}?done=started", status_code=303)


@router.post("/plans/{plan_id}/stop")
async def stop_plan(jay: Jay, order: Ordering, plan_id: PlanId) -> Response:
    """Stop the run that is under way."""
    await jay.plans.stop(order.who, plan_id)
    return RedirectResponse(f"/ui/plans/{plan_id}?done=stopped", status_code=303)


@router.post("/plans/{plan_id}/check")
async def check_plan(request: Request, jay: Jay, order: Ordering, plan_id: PlanId) -> Response:
    """Whether the source can be reached."""
    reached = await jay.plans.check(order.who, plan_id)
    return await _show_plan(request, jay, order.visitor, plan_id, reached=reached)


@router.post("/plans/{plan_id}/look")
async def look_at_source(request: Request, jay: Jay, order: Ordering, plan_id: PlanId) -> Response:
    """The beginning of what a run would see."""
    try:
        objects = await jay.plans.look(order.who, plan_id, limit=LOOKED_AT)
    except (InvalidRequest, Conflict, Unavailable) as error:
        reached = Connectivity(False, error.message)
        return await _show_plan(request, jay, order.visitor, plan_id, reached=reached)
    return await _show_plan(request, jay, order.visitor, plan_id, objects=objects)


@router.post("/plans/{plan_id}/delete")
async def delete_plan(jay: Jay, order: Ordering, plan_id: PlanId) -> Response:
    """Stop a crawler and remove it; its documents too if asked to."""
    await jay.plans.delete(order.who, plan_id, with_documents=order.checked("with_documents"))
    return RedirectResponse("/ui/plans?done=deleted", status_code=303)


@router.get("/plans/{plan_id}/operations/{operation_id}")
async def show_operation(
    request: Request, jay: Jay, visitor: Looking, plan_id: PlanId, operation_id: OperationId
) -> Response:
    """One run: what it saw and did."""
    plan = await jay.plans.get(visitor.who, plan_id)
    operation = await jay.operations.get(visitor.who, plan_id, operation_id)
    return show(request, "operation.html", visitor, plan=plan, operation=operation)
