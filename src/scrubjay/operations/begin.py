"""The beginning of a run: one transaction takes the plan, makes the operation and queues its job; or does nothing."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.jobs.control import submit
from scrubjay.model.job import Job, JobPriority
from scrubjay.model.plan import Operation, Plan, Trigger
from scrubjay.operations.timing import next_due
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans

KIND = "operation"
LOOK_KIND = "look"


async def begin_run(
    connection: AsyncConnection, plan: Plan, trigger: Trigger, now: datetime, *, confirm_deletions: bool = False
) -> Operation | None:
    """Nothing when the plan is running already, whoever started it."""
    operation = Operation(tenant_id=plan.tenant_id, plan_id=plan.id, trigger=trigger, created_at=now, updated_at=now)
    if not await Plans(connection).take(plan, operation.id, now, next_crawl_at=next_due(plan.schedule, now)):
        return None
    job = await submit(
        connection,
        Job(
            tenant_id=plan.tenant_id,
            kind=KIND,
            payload={
                "plan_id": plan.id,
                "operation_id": operation.id,
                "confirm_deletions": confirm_deletions,
                **_description(plan),
            },
            priority=JobPriority.NORMAL,
        ),
    )
    return await Operations(connection).add(replace(operation, job_id=job.id))


def _description(plan: Plan) -> dict[str, Any]:
    """What whoever looks at the job wants to know; the run itself asks the plan."""
    settings = plan.repository_settings
    spec = {"start_urls": [settings["start_url"]]} if settings.get("start_url") else {}
    if settings.get("max_depth"):
        spec["max_depth"] = settings["max_depth"]
    return {"spec": spec, "collection_id": plan.ingestion_settings.collection_id}
