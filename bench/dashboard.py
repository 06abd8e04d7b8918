"""How long the server takes for each page of the dashboard when there is a lot: 5,000 plans, 100,000 documents.

    python bench/dashboard.py [--plans 5000] [--documents 100000] [--home FOLDER] [--doors]

Fills an embedded SQLite with bulk inserts (about two minutes; `--home` keeps it for another time), opens the whole
application without workers, and asks for every page as somebody who signed in. Wall and CPU time in milliseconds, the
median of five; `--doors` measures the lists of the other doors as well. The last page of every list is among them.
"""

import argparse
import asyncio
import hashlib
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from scrubjay.api.app import app_around
from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Chunk, Collection, Document, DocumentSource, DocumentStatus, DocumentVersion, Tag
from scrubjay.model.ids import new_id
from scrubjay.model.job import Job, JobState
from scrubjay.model.plan import LedgerEntry, Operation, OperationState, Plan
from scrubjay.model.tenant import Principal
from scrubjay.services.access import SESSION_COOKIE
from scrubjay.settings import Settings
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.collections import Collections
from scrubjay.storage.documents import Documents
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans
from scrubjay.storage.tags import DocumentTagRow, Tags
from scrubjay.storage.versions import DocumentVersions
from scrubjay.telemetry import configure_logging

REPEATS = 5
LIMIT_MS = 300
AT_ONCE = 10_000
RUNS = 4  # of each plan
BIG_PLAN_SHARE = 5  # a fifth of all documents belong to one plan
NASTY = '<script>alert("x")</script>' + "x" * 225


def sha(*parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


async def fill(jay: Scrubjay, who: Principal, plans: int, documents: int) -> None:
    now, tenant = utc_now(), who.tenant_id
    collections = [Collection(tenant_id=tenant, name=f"Collection {number}") for number in range(20)]
    tags = [Tag(tenant_id=tenant, name=f"tag-{number}") for number in range(30)]
    made = [_plan(tenant, number, plans) for number in range(plans)]
    runs = [_operation(tenant, plan, number) for plan in made for number in range(RUNS)]
    async with jay.database.writing(long=True) as connection:
        await Collections(connection).add_many(collections)
        await Tags(connection).add_many(tags)
        await Plans(connection).add_many(made)
        await Jobs(connection).add_many([_job(tenant, run, number) for number, run in enumerate(runs)])
        await Operations(connection).add_many(runs)
    last_run = {run.plan_id: run.id for run in runs}
    for start in range(0, documents, AT_ONCE):
        batch = [
            _document(tenant, number, documents, made, last_run, collections)
            for number in range(start, min(start + AT_ONCE, documents))
        ]
        async with jay.database.writing(long=True) as connection:
            await Documents(connection).add_many(batch)
            await DocumentVersions(connection).add_many(
                [
                    DocumentVersion(
                        tenant_id=tenant, document_id=each.id, version=1, content_sha256=each.content_sha256 or "",
                        operation_id=each.operation_id,
                        created_at=each.created_at,
                    )
                    for each in batch
                ]
            )  # fmt: skip
            await Chunks(connection).add_many([_chunk(each) for each in batch])
            await Ledger(connection).add_many([_entry(each) for each in batch if each.plan_id])
            tagged = [{"document_id": each.id, "tag_id": tags[hash(each.id) % len(tags)].id} for each in batch[::3]]
            await connection.execute(DocumentTagRow.__table__.insert(), tagged)
    print(f"filled in {(utc_now() - now).total_seconds():.0f} s")


def _plan(tenant: str, number: int, total: int) -> Plan:
    moment = utc_now() - timedelta(minutes=total - number)
    name = NASTY if number == total - 1 else f"Plan {number} of many"
    return Plan(
        tenant_id=tenant, name=name, repository_settings={"start_url": f"https://site-{number}.example/docs/"},
        created_at=moment, last_crawl_start_at=moment, last_crawl_finish_at=moment, last_complete_at=moment,
        last_crawl_success=number % 7 > 0,
    )  # fmt: skip


def _operation(tenant: str, plan: Plan, number: int) -> Operation:
    moment = plan.created_at + timedelta(seconds=number)
    return Operation(
        tenant_id=tenant, plan_id=plan.id, job_id=new_id("job"), state=OperationState.SUCCESS, created_at=moment,
        started_at=moment, finished_at=moment + timedelta(seconds=30), objects_enumerated=number,
    )  # fmt: skip


def _job(tenant: str, run: Operation, number: int) -> Job:
    state = JobState.FAILED if number % 50 == 0 else JobState.COMPLETED
    payload = {"plan_id": run.plan_id, "operation_id": run.id}
    return Job(
        id=run.job_id or "", tenant_id=tenant, kind="operation", payload=payload, state=state,
        created_at=run.created_at, started_at=run.started_at, finished_at=run.finished_at,
    )  # fmt: skip


def _document(
    tenant: str, number: int, total: int, plans: list[Plan], runs: dict[str, str], collections: list[Collection]
) -> Document:
    plan = plans[-1] if number % BIG_PLAN_SHARE == 0 else plans[number % len(plans)]
    moment = utc_now() - timedelta(seconds=total - number)
    url = f"https://site-{number % 997}.example/page/{number}?q=<b>{'long-' * (number % 9)}"
    return Document(
        tenant_id=tenant, natural_key=sha("key", number), url=url, url_hash=sha(url), source=DocumentSource.CRAWL,
        host=f"site-{number % 997}.example", domain=f"site-{number % 997}.example", plan_id=plan.id,
        operation_id=runs[plan.id], collection_id=collections[number % 20].id, title=f"<i>Page</i> {number}",
        status=DocumentStatus.FAILED if number % 40 == 0 else DocumentStatus.COMPLETED, version=1, indexed_version=1,
        content_sha256=sha("text", number), chunk_count=1, size_bytes=5000, created_at=moment, crawled_at=moment,
        updated_at=moment, deleted_at=moment if number % 33 == 0 else None,
        details={"description": "What a page says of itself. " * 8},
    )  # fmt: skip


def _chunk(document: Document) -> Chunk:
    return Chunk(
        id=new_id("chk"), tenant_id=document.tenant_id, document_id=document.id, version=1, chunk_index=0,
        content="What the page says. " * 20, content_sha256=document.content_sha256 or "", start_char=0, end_char=400,
        token_count=100, embedding_model="none",
    )  # fmt: skip


def _entry(document: Document) -> LedgerEntry:
    return LedgerEntry(
        tenant_id=document.tenant_id, plan_id=document.plan_id or "", key_hash=document.url_hash, key=document.url,
        document_id=document.id, unchanged_seconds=86_400.0,
    )  # fmt: skip


async def pages_of(jay: Scrubjay, who: Principal, plans: int, documents: int) -> list[str]:
    """Every page that shows stored things, the first and the last of each list, and every filter."""
    plan = (await jay.plans.page(who, limit=1)).items[0]
    run = (await jay.operations.page(who, plan.id, limit=1)).items[0]
    collection = (await jay.collections.all(who))[0]
    tag = (await jay.collections.list_tags(who))[0]
    last = documents * 32 // 33 - 50
    paths = ["/", "/ui/plans", f"/ui/plans?offset={plans - 50}", f"/ui/plans/{plan.id}", f"/ui/plans/{plan.id}/edit"]
    paths += [f"/ui/plans/{plan.id}/operations/{run.id}", "/ui/documents", f"/ui/documents?offset={last}"]
    for query in (
        f"collection={collection.id}", f"tag={tag.id}", "host=site-5.example", "status=Failed", "status=Completed",
        "source=crawl", "source=upload", f"plan={plan.id}", f"operation={run.id}", "deleted=true",
        f"collection={collection.id}&status=Failed", f"plan={plan.id}&offset={documents // 6}",
    ):  # fmt: skip
        paths.append(f"/ui/documents?{query}")
    paths += ["/ui/jobs", "/ui/jobs?state=failed", f"/ui/jobs?offset={plans * RUNS - 30}", f"/ui/jobs/{run.job_id}"]
    paths += [
        "/ui/jobs/history",
        "/ui/alerts",
        "/ui/settings",
        "/ui/settings/rules",
        "/ui/settings/hosts",
        "/ui/watches",
        "/ui/stories",
        "/ui/webhooks",
        "/ui/documents/upload",
    ]
    kinds = ("domains", "crawler", "inventory", "inventory/files", "inventory/vector_stores", "jobs")
    return [*paths, *(f"/v2/{kind}?format=ui" for kind in kinds)]


DOOR_LISTS = (
    "/v1.0/crawlplans", "/v1.0/documents", "/v1.0/documents?max-keys=1000", "/api/v1/documents",
    "/api/v1/documents?limit=100", "/api/v1/documents?limit=100&offset=90000", "/api/v1/collections", "/api/v1/tags",
    "/api/v1/stats", "/v2/jobs?format=json", "/v2/inventory/files?format=json", "/jobs",
    "/openai/v1/files", "/openai/v1/vector_stores",
)  # fmt: skip


async def measure(client: httpx.AsyncClient, path: str, **options: Any) -> tuple[int, float, float, int]:
    walls, cpus, status, size = [], [], 0, 0
    for _ in range(REPEATS + 1):
        cpu, wall = time.process_time(), time.perf_counter()
        answer = await client.get(path, **options)
        walls.append(1000 * (time.perf_counter() - wall))
        cpus.append(1000 * (time.process_time() - cpu))
        status, size = answer.status_code, len(answer.content)
    return status, median(walls[1:]), median(cpus[1:]), size


async def run(home: Path, plans: int, documents: int, *, doors: bool) -> None:
    configure_logging("warning")
    async with open_scrubjay(Settings(home=home), working=False) as jay:
        who = await jay.access.open_as_admin(home)
        if not (await jay.plans.page(who, limit=1)).total:
            await fill(jay, who, plans, documents)
        _, key = await jay.access.create_key(who, name="bench", scopes=list(who.scopes), rate_limit_rpm=100_000)
        cookies = {SESSION_COOKIE: await jay.access.open_session(key)}
        transport = httpx.ASGITransport(app_around(jay))
        slow = 0
        print(f"{'wall':>8} {'CPU':>8} {'KB':>6}  page (milliseconds)")
        async with httpx.AsyncClient(transport=transport, base_url="http://bench", cookies=cookies) as browser:
            for path in await pages_of(jay, who, plans, documents):
                slow += report(path, await measure(browser, path, headers={"Accept": "text/html"}))
        async with httpx.AsyncClient(transport=transport, base_url="http://bench") as program:
            for path in DOOR_LISTS if doors else ():
                report(path, await measure(program, path, headers={"Authorization": f"Bearer {key}"}))
        print(f"{slow} pages took {LIMIT_MS} ms or more")


def report(path: str, measured: tuple[int, float, float, int]) -> bool:
    status, wall, cpu, size = measured
    note = "" if status == 200 else f"  HTTP {status}"
    print(f"{wall:8.1f} {cpu:8.1f} {size / 1000:6.0f}  {path}{note}")
    return wall >= LIMIT_MS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=5000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--doors", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = given.home or Path(folder) / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        asyncio.run(run(home, given.plans, given.documents, doors=given.doors))


if __name__ == "__main__":
    main()
