"""Alerts: what failed since somebody last looked, and why, in words; what else is not as it should be."""

from datetime import timedelta

from fastapi import APIRouter, Request
from starlette.responses import Response

from scrubjay.app import Scrubjay
from scrubjay.dashboard.identifiers import Offset
from scrubjay.dashboard.jobs import plan_names
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import RECENT, SEEN_COOKIE, Jay, Looking
from scrubjay.model.clock import utc_now
from scrubjay.model.content import DocumentStatus
from scrubjay.model.tenant import Principal
from scrubjay.model.watching import Watch
from scrubjay.model.webhook import Webhook
from scrubjay.services.documents import DocumentQuery

router = APIRouter(include_in_schema=False)

ROWS = 25
SHOWN = 10
LOOKED_THROUGH = 200  # watches and webhooks
REMEMBERED = timedelta(days=365)


@router.get("/alerts")
async def show_alerts(request: Request, jay: Jay, visitor: Looking, offset: Offset = 0) -> Response:
    """What failed, newest first. Looking at it is what makes it old."""
    who = visitor.who
    runs = await jay.failures.runs(who, limit=ROWS, offset=offset)
    jobs = await jay.failures.jobs(who, limit=ROWS)
    plan_ids = {each.plan_id for each in runs.items}
    names = await jay.plans.names(who, plan_ids)
    domains = await jay.domains.of_plans(who, plan_ids)
    are_of_domains = domains or any(job.payload.get("domain_id") for job in jobs.items)
    page = show(
        request,
        "alerts.html",
        visitor,
        page=runs,
        plan_names={**names, **await plan_names(jay, who, jobs.items)},
        domains=domains,
        domain_names=await jay.domains.names(who) if are_of_domains else {},
        jobs=jobs,
        documents=await jay.documents.page(who, DocumentQuery(status=DocumentStatus.FAILED, limit=SHOWN)),
        watches=await _failing_watches(jay, who),
        webhooks=await _failing_webhooks(jay, who),
        seen_at=visitor.seen_at,
        looked_before=utc_now() - visitor.seen_at < RECENT - timedelta(minutes=1),
    )
    page.set_cookie(
        SEEN_COOKIE,
        str(int(utc_now().timestamp() * 1000)),
        max_age=int(REMEMBERED.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
        path="/",
    )
    return page


async def _failing_watches(jay: Scrubjay, who: Principal) -> list[Watch]:
    found = await jay.watches.page(who, limit=LOOKED_THROUGH)
    return [watch for watch in found.items if watch.enabled and watch.failures]


async def _failing_webhooks(jay: Scrubjay, who: Principal) -> list[Webhook]:
    found = await jay.webhooks.page(who, limit=LOOKED_THROUGH)
    return [webhook for webhook in found.items if webhook.is_active and (webhook.failures or webhook.circuit_opened_at)]
