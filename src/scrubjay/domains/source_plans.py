"""The plan of each source of a domain: hidden, without a schedule, and found again by the next crawl of the source."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.web_crawler import seal_spec
from scrubjay.domains.definition import Domain, DomainSource, WebSource
from scrubjay.domains.folders import FOLDER_OF
from scrubjay.domains.orders import CrawlScope
from scrubjay.domains.remote import REPOSITORY_TYPE
from scrubjay.errors import Conflict
from scrubjay.model.clock import utc_now
from scrubjay.model.plan import (
    ENDED_STATES,
    IngestionSettings,
    IntervalType,
    Operation,
    OperationState,
    Plan,
    RepositoryType,
    ScheduleSettings,
    Trigger,
)
from scrubjay.plans.begin import DOMAIN_KEY, ONE_OFF_RETENTION_DAYS
from scrubjay.queue.context import JobContext
from scrubjay.sources.web_config import settings_of_crawl
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import PlanRow, Plans
from scrubjay.storage.secrets import SecretBox

_NAMED = "Domain source "  # how the names of these plans begin


@dataclass(frozen=True, slots=True)
class SourceName:
    """Which source of which domain."""

    tenant_id: str
    domain_id: str
    kind: CrawlScope
    source_id: str

    @property
    def key(self) -> str:
        text = "\n".join((self.tenant_id, self.domain_id, self.kind, self.source_id))
        return DOMAIN_KEY + hashlib.sha256(text.encode()).hexdigest()[:25]

    def __str__(self) -> str:
        return f"{self.domain_id}/{FOLDER_OF[self.kind]}/{self.source_id}"


async def begin_source_run(
    context: JobContext, name: SourceName, source: DomainSource, secrets: SecretBox
) -> tuple[Plan, Operation]:
    """The plan of a source, and its run by this job: the one that an earlier process began, or a new one."""
    now = utc_now()
    async with context.transaction() as connection:
        plan = await _plan(connection, name, source, secrets)
        if plan.operation_id is not None:
            operation = await Operations(connection).of_plan(plan.id, plan.operation_id)
            if operation is not None and operation.state not in ENDED_STATES:
                if operation.job_id == context.job.id:
                    return plan, operation
                # A domain is crawled by one job at a time, so nobody is at work on this one.
                message = "The job ended before the run did."
                await Operations(connection).change(
                    operation.id, state=OperationState.FAILED, status_message=message, finished_at=now, updated_at=now
                )
            await Plans(connection).end_run(plan.id, plan.operation_id)
        operation = Operation(
            tenant_id=plan.tenant_id,
            plan_id=plan.id,
            trigger=Trigger.MANUAL,
            job_id=context.job.id,
            created_at=now,
            updated_at=now,
        )
        if not await Plans(connection).take(plan, operation.id, now):
            raise Conflict(f"The source '{name}' is being crawled already.")
        return plan, await Operations(connection).add(operation)


async def source_plans(connection: AsyncConnection, domain: Domain) -> list[tuple[SourceName, Plan]]:
    """The plans of a domain's sources; a source that was never crawled has none."""
    names = [
        SourceName(domain.tenant_id, domain.domain_id, kind, source.source_id)
        for kind, source in domain.definition.sources(CrawlScope.ALL)
    ]
    return [(name, plan) for name in names if (plan := await find_source_plan(connection, name)) is not None]


async def rename_source_plans(connection: AsyncConnection, domain: Domain, new_id: str) -> None:
    """Let the sources of a domain that is called `new_id` now keep what they know."""
    for name, plan in await source_plans(connection, domain):
        renamed = replace(name, domain_id=new_id)
        await Plans(connection).update(plan.tenant_id, plan.id, crawl_key=renamed.key, name=plan_name(renamed))


async def find_source_plan(connection: AsyncConnection, name: SourceName) -> Plan | None:
    return await Plans(connection).find_by_crawl_key(name.tenant_id, name.key)


def plan_name(name: SourceName) -> str:
    return f"{_NAMED}{name}"


async def domains_of_plans(connection: AsyncConnection, tenant_id: str, plan_ids: Collection[str]) -> Mapping[str, str]:
    """The id of the domain of each of these plans that belongs to a domain's source."""
    if not plan_ids:
        return {}
    rows = await connection.execute(
        select(PlanRow.id, PlanRow.name).where(
            PlanRow.tenant_id == tenant_id,
            PlanRow.id.in_(set(plan_ids)),
            PlanRow.crawl_key.startswith(DOMAIN_KEY, autoescape=True),
        )
    )
    return {row.id: row.name.removeprefix(_NAMED).partition("/")[0] for row in rows}


def draft_plan(name: SourceName, source: DomainSource, secrets: SecretBox) -> Plan:
    """The plan of a source that was never crawled."""
    return Plan(
        tenant_id=name.tenant_id,
        name=plan_name(name),
        repository_type=RepositoryType.WEB if isinstance(source, WebSource) else REPOSITORY_TYPE,
        schedule=ScheduleSettings(interval_type=IntervalType.ONE_TIME),
        ingestion_settings=IngestionSettings(store_original=False, keeps_documents=False, keeps_files=True),
        process_additions=True,
        process_updates=True,
        process_deletions=True,
        max_failed_share=1.0,
        retention_days=ONE_OFF_RETENTION_DAYS,
        is_one_off=True,
        crawl_key=name.key,
        **_settings(source, secrets),
    )


def _settings(source: DomainSource, secrets: SecretBox) -> dict[str, Any]:
    if not isinstance(source, WebSource):
        return {}
    crawl = seal_spec(source.spec(), secrets)
    return {"repository_settings": settings_of_crawl(crawl), "crawl": dict(crawl)}


async def _plan(connection: AsyncConnection, name: SourceName, source: DomainSource, secrets: SecretBox) -> Plan:
    known = await find_source_plan(connection, name)
    if known is not None:
        settings = _settings(source, secrets)
        return await Plans(connection).update(known.tenant_id, known.id, **settings) if settings else known
    plan = await Plans(connection).add(draft_plan(name, source, secrets))
    if isinstance(source, WebSource):
        await CrawledPages(connection).move_scope(_former_scope(name), plan.id)
    return plan


def _former_scope(name: SourceName) -> str:
    """Under which name the last version remembered the pages of a web source."""
    text = "\n".join(("domain", name.tenant_id, name.domain_id, name.source_id))
    return "site_" + hashlib.sha256(text.encode()).hexdigest()[:27]
