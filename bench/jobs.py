"""Enqueue-to-start latency, CPU and no-op jobs per second of both engines, beside bare Procrastinate in the same run.

SQLite runs the embedded engine, PostgreSQL the one of a cluster. Bare Procrastinate keeps no record of its jobs.

    python bench/jobs.py [--jobs 500] [--repeat 3] [--postgres postgresql://postgres@127.0.0.1/postgres]

Every measurement is a process of its own; runs of the subjects alternate, so that other load hits them alike.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import uvloop

CONCURRENCY = 16
LATENCY_SAMPLES = 20


class Tally:
    """Counts no-op jobs that started, and when."""

    def __init__(self) -> None:
        self.started: dict[str, float] = {}

    def start(self, key: str) -> None:
        self.started[key] = time.perf_counter()


async def measure(submit, tally: Tally, jobs: int) -> dict[str, float]:
    latencies = []
    for _ in range(LATENCY_SAMPLES):
        before = time.perf_counter()
        key = await submit()
        while key not in tally.started:
            await asyncio.sleep(0.0005)
        latencies.append(tally.started[key] - before)
        await asyncio.sleep(0.03)
    tally.started.clear()
    cpu, before = time.process_time(), time.perf_counter()
    for _ in range(jobs):
        await submit()
    while len(tally.started) < jobs:
        await asyncio.sleep(0.005)
    seconds = time.perf_counter() - before
    cpu = time.process_time() - cpu
    idle = time.process_time()
    await asyncio.sleep(2)
    return {
        "latency_ms_p50": 1000 * statistics.median(latencies),
        "latency_ms_max": 1000 * max(latencies),
        "jobs_per_second": jobs / seconds,
        "cpu_ms_per_job": 1000 * cpu / jobs,
        "idle_cpu_percent": 100 * (time.process_time() - idle) / 2,
    }


async def run_scrubjay(database_url: str | None, jobs: int) -> dict[str, float]:
    from scrubjay.model.job import Job
    from scrubjay.model.tenant import DEFAULT_TENANT_ID, Tenant
    from scrubjay.queue import control
    from scrubjay.queue.kinds import JobKind, JobKinds
    from scrubjay.queue.opening import open_engine
    from scrubjay.queue.signals import JobSignals
    from scrubjay.settings import Settings
    from scrubjay.storage.cache import open_cache
    from scrubjay.storage.database import open_database
    from scrubjay.storage.schema import upgrade
    from scrubjay.storage.tenants import Tenants

    tally = Tally()

    async def noop(context) -> None:
        tally.start(context.job.id)

    with tempfile.TemporaryDirectory() as home:
        settings = Settings(home=Path(home), database_url=database_url, worker_concurrency=CONCURRENCY)
        database, cache = open_database(settings), open_cache(settings)
        await upgrade(database)
        async with database.writing() as connection:
            await Tenants(connection).add(Tenant(id=DEFAULT_TENANT_ID, name="default"))
        signals = JobSignals(cache)
        kinds = JobKinds(JobKind(name="noop", handler=noop))
        engine = open_engine(settings, database, signals, kinds)
        await engine.start()

        async def submit() -> str:
            async with database.writing() as connection:
                job = await control.submit(connection, Job(tenant_id=DEFAULT_TENANT_ID, kind="noop"))
            await signals.work()
            return job.id

        try:
            return await measure(submit, tally, jobs)
        finally:
            await engine.stop()
            await cache.close()
            await database.close()


async def run_procrastinate(database_url: str, jobs: int) -> dict[str, float]:
    """The same jobs on bare Procrastinate."""
    import procrastinate

    tally = Tally()
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=database_url))

    @app.task(name="noop")
    async def noop(key: str) -> None:
        tally.start(key)

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(
            app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False, wait=True)
        )

        async def submit() -> str:
            key = uuid.uuid4().hex
            await noop.defer_async(key=key)
            return key

        try:
            await asyncio.sleep(1)
            return await measure(submit, tally, jobs)
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)


def measure_in_process(subject: str, database_url: str | None, jobs: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--subject", subject, "--jobs", str(jobs)]
    if database_url:
        command += ["--database", database_url]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    return json.loads(output.splitlines()[-1])


def fresh_postgres(admin_url: str):
    import asyncpg

    name = f"sj_bench_{uuid.uuid4().hex[:8]}"

    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(admin_url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(execute(f'CREATE DATABASE "{name}"'))
    url = admin_url.rsplit("/", 1)[0] + "/" + name
    return url, lambda: asyncio.run(execute(f'DROP DATABASE "{name}" WITH (FORCE)'))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--postgres", default=os.environ.get("SCRUBJAY_TEST_POSTGRES_URL"))
    parser.add_argument("--subject", help=argparse.SUPPRESS)
    parser.add_argument("--database", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.subject:
        run = {
            "embedded": lambda: run_scrubjay(options.database, options.jobs),
            "cluster": lambda: run_scrubjay(options.database, options.jobs),
            "procrastinate": lambda: run_procrastinate(options.database, options.jobs),
        }[options.subject]
        print(json.dumps(uvloop.run(run())))
        return
    for backend, admin_url in (("SQLite", None), ("PostgreSQL", options.postgres)):
        if backend == "PostgreSQL" and admin_url is None:
            print("PostgreSQL: not measured; give --postgres URL")
            continue
        report(backend, admin_url, options.jobs, options.repeat)


def report(backend: str, admin_url: str | None, jobs: int, repeat: int) -> None:
    print(f"\n{backend}: {jobs} no-op jobs, {CONCURRENCY} at a time, median of {repeat} runs")
    print(f"{'':<14}{'start p50':>12}{'start max':>12}{'jobs/s':>10}{'CPU ms/job':>12}{'idle CPU':>10}")
    subjects = ["embedded"] if admin_url is None else ["procrastinate", "cluster"]
    runs: dict[str, list[dict[str, float]]] = {subject: [] for subject in subjects}
    for subject in subjects * repeat:
        url, drop = (None, lambda: None) if admin_url is None else fresh_postgres(admin_url)
        try:
            runs[subject].append(measure_in_process(subject, url, jobs))
        finally:
            drop()
    middles = {}
    for subject, measured in runs.items():
        middles[subject] = middle = {name: statistics.median(run[name] for run in measured) for name in measured[0]}
        print(
            f"{subject:<14}{middle['latency_ms_p50']:>9.1f} ms{middle['latency_ms_max']:>9.1f} ms"
            f"{middle['jobs_per_second']:>10.0f}{middle['cpu_ms_per_job']:>12.2f}{middle['idle_cpu_percent']:>9.1f}%"
        )
    if "cluster" in middles:
        ours, bare = middles["cluster"], middles["procrastinate"]
        ratios = [f"{name} {ours[name] / bare[name]:.2f}" for name in ("cpu_ms_per_job", "latency_ms_p50")]
        print(f"cluster ÷ bare Procrastinate: {', '.join(ratios)}")


if __name__ == "__main__":
    main()
