"""Crawlers, as people call plans: the list, the form, one with its runs, and the buttons that start and stop it."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from scrubjay.app import Scrubjay
from scrubjay.dashboard import plan_form
from scrubjay.dashboard.identifiers import Offset, PlanId
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Order, Ordering, Visitor
from scrubjay.errors import Conflict, InvalidRequest, NotFound, ScrubjayError, Unavailable, UrlBlocked
from scrubjay.model.plan import ENDED_STATES, Operation, Plan, RepositoryType, ScheduleSettings
from scrubjay.model.source import Connectivity
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.sources.registry import connector_type, connector_types

router = APIRouter(include_in_schema=False)

ROWS = 50
FRESHNESS_SAMPLE = 2000  # keys of a plan that speak for all of them, so that the page comes at once
RUNS = 25
LOOKED_AT = 100
FEWEST_POINTS = 3
MAX_CHOICES = 200
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
    """One crawler: how it is doing, and its runs. That of a domain's source is shown with its domain."""
    if (await jay.plans.get(visitor.who, plan_id)).ingestion_settings.keeps_files:
        return RedirectResponse("/v2/domains?format=ui", status_code=303)
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
        staleness=await jay.plans.staleness_of(who, plan, sample=FRESHNESS_SAMPLE) if plan.last_complete_at else None,
        job_id=running.job_id if running else None,
        reached=reached,
        objects=objects,
        looked_at=LOOKED_AT,
        charts=_charts(page.items),
    )


def _charts(operations: Sequence[Operation]) -> dict[str, str | None]:
    """What each run saw and did, and how long it took, oldest first; nothing for few runs."""
    over = [each for each in reversed(operations) if each.state in ENDED_STATES and each.started_at]
    if len(over) < FEWEST_POINTS:
        return {"objects": None, "seconds": None}
    times = [int(each.started_at.timestamp()) for each in over if each.started_at]
    names = ("objects_enumerated", "objects_added", "objects_updated", "objects_deleted", "objects_failed")
    return {
        "objects": json.dumps([times, *([getattr(each, name) for each in over] for name in names)]),
        "seconds": json.dumps([times, [_seconds(each) for each in over]]),
    }


def _seconds(operation: Operation) -> float:
    if operation.started_at is None or operation.finished_at is None:
        return 0.0
    return round((operation.finished_at - operation.started_at).total_seconds(), 1)


@router.post("/plans/{plan_id}/keep")
async def keep_plan(jay: Jay, order: Ordering, plan_id: PlanId) -> Response:
    """Keep a one-off crawl as a crawler that runs every day."""
    await jay.plans.keep(order.who, plan_id, ScheduleSettings())
    return RedirectResponse(f"/ui/plans/{plan_id}?done=saved", status_code=303)


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
        source=plan_form.source_fields(kind, plan.repository_settings, await _choices(jay, visitor.who)),
        authentication=plan_form.AUTHENTICATION,
        sections=plan_form.section_fields(plan),
        switches=plan_form.SWITCHES,
        numbers=plan_form.number_fields(plan),
        filled=filled,
        error=None if error is None else error.message,
        problems=_problems(error, kind.required),
        collections=await jay.collections.all(visitor.who),
        rules=(await jay.rules.page(visitor.who, limit=MAX_CHOICES)).items,
    )


def _problems(error: ScrubjayError | None, required: Sequence[str]) -> Mapping[str, str]:
    """An address that may not be reached is what was filled in first."""
    if isinstance(error, UrlBlocked) and required:
        return {f"source.{required[0]}": error.message}
    return plan_form.form_problems(error)


async def _choices(jay: Scrubjay, who: Principal) -> plan_form.Choices:
    """What a plan can name: proxies and crawl configs."""
    proxies = await jay.crawl_settings.proxies(who, limit=MAX_CHOICES, offset=0)
    configs = await jay.crawl_settings.configs(who, limit=MAX_CHOICES, offset=0)
    return {
        "proxy_id": [(each.id, each.name) for each in proxies.items],
        "crawl_config_id": [(each.id, each.name) for each in configs.items],
    }


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
