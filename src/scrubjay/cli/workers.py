"""`scrubjay workers`."""

from rich.table import Table

from scrubjay.cli.context import cell, console, id_column, print_json, run_as_admin
from scrubjay.cli.document_options import Json
from scrubjay.model.clock import utc_now
from scrubjay.model.job import HeldJobs


def list_workers(as_json: Json = False) -> None:
    """List the processes that run jobs: their heartbeat, their version and the jobs they hold."""
    workers = run_as_admin(lambda jay, who: jay.jobs.workers(who))
    if as_json:
        print_json([_facts(held) for held in workers])
        return
    now = utc_now()
    table = Table(id_column(), "host", "pid", "version", "places", "heartbeat", "jobs")
    for held in workers:
        worker = held.worker
        jobs = "\n".join(f"{job.id} {job.kind}" for job in held.jobs)
        age = f"{max(0.0, (now - worker.heartbeat_at).total_seconds()):.0f} s ago"
        table.add_row(
            worker.id, cell(worker.host), str(worker.pid), worker.version, str(worker.concurrency), age, cell(jobs)
        )
    console.print(table)


def _facts(held: HeldJobs) -> dict[str, object]:
    worker = held.worker
    return {
        "id": worker.id, "host": worker.host, "pid": worker.pid, "version": worker.version,
        "concurrency": worker.concurrency, "started_at": worker.started_at, "heartbeat_at": worker.heartbeat_at,
        "jobs": [
            {"id": job.id, "tenant_id": job.tenant_id, "kind": job.kind, "run": job.run, "started_at": job.started_at}
            for job in held.jobs
        ],
    }  # fmt: skip
