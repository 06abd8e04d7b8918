"""Which traces documents on their way to the index belong to: those of the jobs that brought them."""

from collections.abc import Sequence

from scrubjay.model.content import Document
from scrubjay.storage.database import Database
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.operations import Operations
from scrubjay.telemetry import is_tracing
from scrubjay.telemetry.tracing import TRACEPARENT

MOST_JOBS = 8


async def traces_of(database: Database, documents: Sequence[Document]) -> list[str]:
    """The traceparents of some of the jobs that documents came from. Costs nothing while nobody is tracing."""
    if not is_tracing():
        return []
    traces: dict[str, None] = {}
    async with database.reading() as connection:
        jobs = {str(each.details["job_id"]) for each in documents if each.details.get("job_id")}
        runs = {(each.plan_id, each.operation_id) for each in documents if each.plan_id and each.operation_id}
        for plan_id, operation_id in sorted(runs)[:MOST_JOBS]:
            operation = await Operations(connection).of_plan(plan_id, operation_id)
            if operation is not None and operation.job_id is not None:
                jobs.add(operation.job_id)
        for job_id in sorted(jobs)[:MOST_JOBS]:
            job = await Jobs(connection).find_by_id(job_id)
            if job is not None and job.payload.get(TRACEPARENT):
                traces[str(job.payload[TRACEPARENT])] = None
    return list(traces)
