"""The first page: what runs, what changed since yesterday, how fresh each plan is, and what went wrong."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from scrubjay.app import Scrubjay
from scrubjay.dashboard.jobs import plan_names
from scrubjay.dashboard.live import live_response
from scrubjay.dashboard.rendering import render, show
from scrubjay.dashboard.session import Jay, Looking, Visitor
from scrubjay.model.clock import utc_now
from scrubjay.model.content import DocumentStatus
from scrubjay.model.job import Job, JobState
from scrubjay.model.plan import Plan
from scrubjay.model.tenant import Principal
from scrubjay.queue.live import Told
from scrubjay.services.documents import DocumentQuery
from scrubjay.services.operations import ChangeKind

router = APIRouter(include_in_schema=False)

SHOWN_JOBS = 8
SHOWN_PLANS = 12
SHOWN_FAILURES = 5
FRESHNESS_SAMPLE = 200  # keys of a plan that speak for all of them, so that the page comes at once
PERIOD = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PlanNews:
    """A plan, what happened to its documents in a day, and how much of it is probably out of date."""

    plan: Plan
    changes: Mapping[ChangeKind, int]
    staleness: float | None

    @property
    def fresh_percent(self) -> int | None:
        return None if self.staleness is None else round(100 * (1 - self.staleness))


async def show_home(request: Request, jay: Scrubjay, visitor: Visitor) -> Response:
    who = visitor.who
    plans = await jay.plans.page(who, limit=SHOWN_PLANS)
    running, news, failures = await asyncio.gather(
        _running(jay, who), _news(jay, who, plans.items), _failures(jay, who)
    )
    is_empty = plans.total == 0 and (await jay.documents.page(who, DocumentQuery(limit=1))).total == 0
    return show(
        request,
        "home.html",
        visitor,
        news=news,
        plan_total=plans.total,
        is_empty=is_empty,
        **(running | failures),
    )


@router.get("/live")
async def follow_home(jay: Jay, visitor: Looking) -> Response:
    """The parts of the first page that change, as they do."""
    who = visitor.who
    _, position = await jay.jobs.events_of_all(who, limit=1)

    async def parts(batch: Sequence[Told]) -> Mapping[str, str]:
        found = {"running": render("parts/running.html", **await _running(jay, who))}
        if any(told.event.may_be_last for told in batch):
            plans = await jay.plans.page(who, limit=SHOWN_PLANS)
            found["news"] = render("parts/news.html", news=await _news(jay, who, plans.items))
            found["failures"] = render("parts/failures.html", **await _failures(jay, who))
        return found

    return live_response(await jay.jobs.follow_all(who, after=position), parts)


async def _running(jay: Scrubjay, who: Principal) -> dict[str, Any]:
    running = await running_jobs(jay, who)
    return {"running": running, "plan_names": await plan_names(jay, who, running)}


async def running_jobs(jay: Scrubjay, who: Principal) -> Sequence[Job]:
    """What runs, then what waits."""
    found: list[Job] = []
    for state in (JobState.RUNNING, JobState.PAUSED, JobState.PENDING):
        found += (await jay.jobs.page(who, state=state, limit=SHOWN_JOBS)).items
    return found[:SHOWN_JOBS]


async def _news(jay: Scrubjay, who: Principal, plans: Sequence[Plan]) -> Sequence[PlanNews]:
    changes = await jay.operations.count_changes(who, [plan.id for plan in plans], since=utc_now() - PERIOD)

    async def staleness(plan: Plan) -> float | None:
        if plan.last_complete_at is None:  # nothing is known of it yet
            return None
        return await jay.plans.staleness_of(who, plan, sample=FRESHNESS_SAMPLE)

    stale = await asyncio.gather(*(staleness(plan) for plan in plans))
    return [PlanNews(plan, changes.get(plan.id, {}), share) for plan, share in zip(plans, stale, strict=True)]


async def _failures(jay: Scrubjay, who: Principal) -> dict[str, Any]:
    runs = await jay.failures.runs(who, limit=SHOWN_FAILURES)
    return {
        "failed_runs": runs,
        "run_names": await jay.plans.names(who, [each.plan_id for each in runs.items]),
        "failed_jobs": await jay.failures.jobs(who, limit=SHOWN_FAILURES),
        "failed_documents": await jay.documents.page(
            who, DocumentQuery(status=DocumentStatus.FAILED, limit=SHOWN_FAILURES)
        ),
    }
