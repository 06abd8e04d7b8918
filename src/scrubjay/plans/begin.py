"""The beginning of a run: one transaction takes the plan, makes the operation and queues its job; or does nothing.

A crawl that somebody asks for by address is a run, too: of the plan that owns these addresses, or of a one-off plan
that the next crawl of the same addresses finds again.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.web_crawler import seal_spec
from scrubjay.errors import Conflict
from scrubjay.model.clock import utc_now
from scrubjay.model.crawl_spec import CrawlSpec
from scrubjay.model.destination import Destination
from scrubjay.model.job import Job, JobPriority
from scrubjay.model.plan import (
    IngestionSettings,
    IntervalType,
    Operation,
    Plan,
    PlanState,
    RepositoryType,
    ScheduleSettings,
    Trigger,
)
from scrubjay.model.urls import hash_url, normalize_url, parse_url
from scrubjay.model.watching import Watch
from scrubjay.plans.timing import next_due
from scrubjay.queue.control import submit
from scrubjay.sources.web_config import settings_of_crawl
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans
from scrubjay.storage.secrets import SecretBox

KIND = "crawl"
PREVIEW_KIND = "preview"
ONE_OFF_RETENTION_DAYS = 14
MAX_NAME = 200
DOMAIN_KEY = "domain_"  # how the keys of plans begin that belong to a domain's source, and are shown nowhere
DEFAULT_FAILED_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What may be said about one run, beyond its plan."""

    confirm_deletions: bool = False
    priority: JobPriority = JobPriority.NORMAL
    unique_key: str | None = None
    submitted_by: str | None = None
    max_retries: int | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)  # webhook, notes: for whoever looks at the job


async def begin_run(
    connection: AsyncConnection, plan: Plan, trigger: Trigger, now: datetime, options: RunOptions | None = None
) -> Operation | None:
    """Nothing when the plan is running already, whoever started it."""
    begun = await begin_job(connection, plan, trigger, now, options)
    return None if begun is None else begun[0]


async def begin_job(
    connection: AsyncConnection, plan: Plan, trigger: Trigger, now: datetime, options: RunOptions | None = None
) -> tuple[Operation, Job] | None:
    """The run and its job; the job alone counts when the same work was queued before."""
    options = options or RunOptions()
    if plan.ingestion_settings.keeps_files:
        raise Conflict(f"Plan '{plan.id}' belongs to a domain; crawl the domain.")
    operation = Operation(tenant_id=plan.tenant_id, plan_id=plan.id, trigger=trigger, created_at=now, updated_at=now)
    job = Job(
        tenant_id=plan.tenant_id,
        kind=KIND,
        payload={
            "plan_id": plan.id,
            "operation_id": operation.id,
            "confirm_deletions": options.confirm_deletions,
            **_description(plan),
            **options.payload,
        },
        priority=options.priority,
        unique_key=options.unique_key,
        submitted_by=options.submitted_by,
    )
    if options.max_retries is not None:
        job = replace(job, max_retries=options.max_retries)
    if job.unique_key is not None:
        queued = await Jobs(connection).find_by_unique_key(job.unique_key)
        if queued is not None:
            return operation, queued
    if not await Plans(connection).take(plan, operation.id, now, next_crawl_at=next_due(plan.schedule, now)):
        return None
    job = await submit(connection, job)
    return await Operations(connection).add(replace(operation, job_id=job.id)), job


def _description(plan: Plan) -> dict[str, Any]:
    """What whoever looks at the job wants to know; the run itself asks the plan."""
    settings = plan.repository_settings
    if plan.crawl is not None:
        spec = dict(plan.crawl)
    else:
        spec = {"start_urls": [settings["start_url"]]} if settings.get("start_url") else {}
        if settings.get("max_depth"):
            spec["max_depth"] = settings["max_depth"]
    return {"spec": spec, "collection_id": plan.ingestion_settings.collection_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOffCrawl:
    """A crawl that somebody asks for by address. `crawl` is a CrawlSpec as `seal_spec` packs it."""

    tenant_id: str
    crawl: Mapping[str, Any]
    key: str  # what makes the next crawl of the same addresses find the same plan
    destination: Destination | None  # nothing: pages are kept, and become no documents
    may_join: bool = False  # exactly these pages, crawled as any plan would: the plan that owns them may run


async def begin_crawl(connection: AsyncConnection, order: OneOffCrawl, options: RunOptions) -> Job:
    """Run the plan that owns the addresses, or a one-off plan. While that one runs, another one-off plan is made."""
    now = utc_now()
    if options.unique_key is not None:
        queued = await Jobs(connection).find_by_unique_key(options.unique_key)
        if queued is not None:
            return queued
    if order.may_join and order.destination is not None:
        owner = await _find_owner(connection, order)
        if owner is not None:
            urls = list(order.crawl["start_urls"])
            payload = {**options.payload, "urls": urls, "tags": list(order.destination.tags)}
            begun = await begin_job(connection, owner, Trigger.TARGETED, now, replace(options, payload=payload))
            if begun is not None:
                return begun[1]
    for key in (order.key, None):
        plan = await _one_off_plan(connection, order, key, now)
        begun = await begin_job(connection, plan, Trigger.MANUAL, now, options)
        if begun is not None:
            return begun[1]
    raise AssertionError("a plan that was just made is not running")


async def begin_watch_crawl(
    secrets: SecretBox,
    connection: AsyncConnection,
    watch: Watch,
    spec: CrawlSpec,
    destination: Destination,
    unique_key: str,
) -> Job:
    """Crawl what a watch found, ahead of everything else."""
    order = OneOffCrawl(
        tenant_id=watch.tenant_id,
        crawl=seal_spec(spec, secrets),
        key=crawl_key(watch.tenant_id, watch.id, (), destination.collection_id),
        destination=destination,
        may_join=True,
    )
    options = RunOptions(priority=JobPriority.HIGH, unique_key=unique_key, payload={"watch_id": watch.id})
    return await begin_crawl(connection, order, options)


async def _one_off_plan(connection: AsyncConnection, order: OneOffCrawl, key: str | None, now: datetime) -> Plan:
    plans = Plans(connection)
    known = None if key is None else await plans.find_by_crawl_key(order.tenant_id, key)
    destination = order.destination or Destination()
    changes: dict[str, Any] = {
        "repository_settings": settings_of_crawl(order.crawl),
        "crawl": dict(order.crawl),
        "ingestion_settings": IngestionSettings(
            collection_id=destination.collection_id,
            tags=destination.tags,
            chunking=dict(destination.chunking) if destination.chunking else None,
            store_original=bool(order.crawl.get("keep_originals")),
            keeps_documents=order.destination is not None,
        ),
        "max_failed_share": float(order.crawl.get("max_failed_share", DEFAULT_FAILED_SHARE)),
        "updated_at": now,
    }
    if known is not None:
        if known.state is PlanState.RUNNING:
            return known  # a run goes on as it was begun
        return await plans.update(order.tenant_id, known.id, **changes)
    plan = Plan(
        tenant_id=order.tenant_id,
        name=_name(order.crawl["start_urls"]),
        repository_type=RepositoryType.WEB,
        schedule=ScheduleSettings(interval_type=IntervalType.ONE_TIME),
        process_deletions=True,
        retention_days=ONE_OFF_RETENTION_DAYS,
        is_one_off=True,
        crawl_key=key,
        created_at=now,
        **changes,
    )
    await plans.add(plan)
    if key is not None:
        await CrawledPages(connection).move_scope(key, plan.id)  # of a crawl by a version that had no one-off plans
    return plan


async def _find_owner(connection: AsyncConnection, order: OneOffCrawl) -> Plan | None:
    """The plan whose ledger has all of these addresses, in the same collection; kept plans before one-off plans."""
    urls = [str(url) for url in order.crawl["start_urls"]]
    hashes = {hash_url(normalize_url(url)) for url in urls}
    for plan_id in await Ledger(connection).owners(order.tenant_id, hashes):
        plan = await Plans(connection).get(order.tenant_id, plan_id)
        if plan.state is PlanState.STOPPED and plan.is_active and _suits(plan, order, urls):
            return plan
    return None


def _suits(plan: Plan, order: OneOffCrawl, urls: Sequence[str]) -> bool:
    ingestion = plan.ingestion_settings
    destination = order.destination or Destination()
    if plan.repository_type != RepositoryType.WEB or not ingestion.keeps_documents:
        return False
    if ingestion.collection_id != destination.collection_id:
        return False
    settings = plan.repository_settings
    crawl = plan.crawl or {}
    is_secret = bool(crawl.get("auth") or crawl.get("headers")) or settings.get("authentication_type", "None") != "None"
    if is_secret or settings.get("crawl_config_id"):
        # Credentials go to the start's origin; another first address would send them elsewhere.
        start = parse_url(str((crawl.get("start_urls") or [settings.get("start_url")])[0]))
        return all(parse_url(url).origin == start.origin for url in urls)
    return True


def crawl_key(tenant_id: str, spec_scope: str | None, start_urls: Sequence[str], collection_id: str | None) -> str:
    """Crawls that name the same scope, or else start at the same URLs, into the same collection, are one plan.

    The tenant is part of it: whatever scope somebody names, it is never another tenant's.
    """
    if spec_scope is not None:
        parts = ["named", tenant_id, spec_scope]
    else:
        parts = ["site", tenant_id, *sorted(normalize_url(url) for url in start_urls)]
    if collection_id is not None:
        parts.append(f"into {collection_id}")
    return "site_" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:27]


def _name(start_urls: Sequence[str]) -> str:
    more = f" and {len(start_urls) - 1} more" if len(start_urls) > 1 else ""
    return f"Crawl of {start_urls[0][:MAX_NAME]}{more}"
