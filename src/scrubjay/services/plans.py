"""Plans as doors see them: make, change, start, stop, look at and remove."""

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from sqlalchemy import or_, select

from scrubjay.documents.cleanup import mark_for_removal
from scrubjay.errors import Conflict, InvalidRequest, NotFound, ScrubjayError, Unavailable
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job, JobRequest, JobState
from scrubjay.model.page import Page
from scrubjay.model.patterns import UrlPattern
from scrubjay.model.plan import (
    ExportFormat,
    IngestionSettings,
    Operation,
    Plan,
    PlanState,
    PlanValues,
    RepositoryType,
    ScheduleSettings,
    Trigger,
)
from scrubjay.model.source import Connectivity
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.urls import parse_url
from scrubjay.plans.begin import DOMAIN_KEY, PREVIEW_KIND, RunOptions, begin_run
from scrubjay.plans.enumeration_file import EnumerationFiles
from scrubjay.plans.freshness import SAMPLE, expected_staleness
from scrubjay.plans.scheduler import PlanScheduler
from scrubjay.plans.sinks.export import PlanExports
from scrubjay.plans.timing import first_due, next_due
from scrubjay.queue import control
from scrubjay.queue.schedule import validate_cron
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.services.jobs import JobService
from scrubjay.services.reading import read_item, read_page
from scrubjay.sources.protocol import ConnectorType, Tools, secret_context
from scrubjay.sources.registry import connector_type
from scrubjay.storage.collections import Collections
from scrubjay.storage.configs import CrawlConfigs
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import PlanRow, Plans
from scrubjay.storage.proxies import Proxies
from scrubjay.storage.rules import IngestionRules
from scrubjay.storage.site_memories import SiteMemories

LOOK_SECONDS = 60.0
MAX_LOOK = 10_000
STOP_SECONDS = 5.0
REMOVED_AT_ONCE = 200
_POLL_SECONDS = 0.05
RANGES = {"max_drain_tasks": (1, 64), "retention_days": (0, 14), "max_failed_share": (0, 1)}


class PlanService:
    def __init__(
        self,
        database: Database,
        tools: Tools,
        jobs: JobService,
        scheduler: PlanScheduler,
        files: EnumerationFiles,
        exports: PlanExports,
    ) -> None:
        self._database = database
        self._tools = tools
        self._jobs = jobs
        self._scheduler = scheduler
        self._files = files
        self._exports = exports

    async def create(self, principal: Principal, values: PlanValues) -> Plan:
        """A new plan. It runs by itself as soon as it can, unless its schedule says otherwise."""
        require(principal, Scope.WRITE)
        plan = Plan(tenant_id=principal.tenant_id)
        kind = await self._check(principal, values)
        plan = replace(plan, **_own(values), repository_type=kind.name)
        plan = replace(plan, repository_settings=self._sealed(plan, kind, values.repository_settings, {}))
        if _lacks(kind, plan) is None:
            plan = replace(plan, next_crawl_at=first_due(plan.schedule, plan.created_at))
        async with self._database.writing() as connection:
            return await Plans(connection).add(plan)

    async def get(self, principal: Principal, plan_id: str) -> Plan:
        return await read_item(self._database, principal, Plans, plan_id)

    async def page(
        self,
        principal: Principal,
        *,
        limit: int = 100,
        offset: int = 0,
        newest_first: bool = True,
        with_one_off: bool = False,
    ) -> Page[Plan]:
        """Plans; one-off crawls are left out unless asked for, and those of domains' sources always."""
        kept = _IS_OF_NO_DOMAIN if with_one_off else PlanRow.is_one_off.is_(False)
        return await read_page(
            self._database, principal, Plans, kept, newest_first=newest_first, limit=limit, offset=offset
        )

    async def names(self, principal: Principal, plan_ids: Collection[str]) -> Mapping[str, str]:
        """What plans are called, by id; those that are gone are left out."""
        require(principal, Scope.READ)
        if not plan_ids:
            return {}
        async with self._database.reading() as connection:
            rows = await connection.execute(
                select(PlanRow.id, PlanRow.name).where(
                    PlanRow.tenant_id == principal.tenant_id, PlanRow.id.in_(set(plan_ids))
                )
            )
            return {str(row.id): str(row.name) for row in rows}

    async def newest_names(self, principal: Principal, limit: int) -> Mapping[str, str]:
        """What the newest plans are called, by id: all that a choice of them needs."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            rows = await connection.execute(
                select(PlanRow.id, PlanRow.name)
                .where(PlanRow.tenant_id == principal.tenant_id, PlanRow.is_one_off.is_(False))
                .order_by(PlanRow.created_at.desc(), PlanRow.id.desc())
                .limit(limit)
            )
            return {str(plan_id): str(name) for plan_id, name in rows}

    async def keep(
        self, principal: Principal, plan_id: str, schedule: ScheduleSettings, name: str | None = None
    ) -> Plan:
        """Make a one-off crawl a plan with a schedule."""
        require(principal, Scope.WRITE)
        plan = await self.get(principal, plan_id)
        if not plan.is_one_off:
            raise Conflict(f"Plan '{plan_id}' is kept already.")
        if plan.ingestion_settings.keeps_files:
            raise Conflict(f"Plan '{plan_id}' belongs to a domain; crawl the domain.")
        if schedule.cron is not None:
            validate_cron(schedule.cron)
        if name is not None:
            check_name(name)
        now = utc_now()
        async with self._database.writing() as connection:
            return await Plans(connection).update(
                principal.tenant_id,
                plan_id,
                is_one_off=False,
                crawl_key=None,
                name=name or plan.name,
                schedule=schedule,
                next_crawl_at=next_due(schedule, plan.last_crawl_start_at or now),
                updated_at=now,
            )

    async def find_by_name(self, principal: Principal, name: str) -> Plan | None:
        """The newest plan of this name."""
        found = await read_page(self._database, principal, Plans, PlanRow.name == name, newest_first=True, limit=1)
        return found.items[0] if found.items else None

    async def update(self, principal: Principal, plan_id: str, values: PlanValues) -> Plan:
        """Everything that may be said of a plan, said anew. A secret that is not given stays what it was.

        A run that is under way goes on as it was begun.
        """
        require(principal, Scope.WRITE)
        plan = await self.get(principal, plan_id)
        kind = await self._check(principal, values)
        if plan.is_one_off and values.ingestion_settings.export is not ExportFormat.NONE:
            raise _no_export(f"only for plans with a schedule; run `scrubjay plan keep {plan_id}` first")
        changed = replace(plan, **_own(values), repository_type=kind.name, updated_at=utc_now())
        before = plan.repository_settings if plan.repository_type == kind.name else {}
        settings = self._sealed(changed, kind, values.repository_settings, before)
        changed = replace(changed, repository_settings=settings)
        due = self._due(plan, changed, kind)
        async with self._database.writing() as connection:
            return await Plans(connection).update(
                principal.tenant_id,
                plan_id,
                **{each.name: getattr(changed, each.name) for each in fields(PlanValues)},
                crawl=None,  # from now on the settings say it all
                updated_at=changed.updated_at,
                next_crawl_at=due,
            )

    @staticmethod
    def _due(before: Plan, changed: Plan, kind: ConnectorType) -> datetime | None:
        """When the changed plan runs next: as its schedule says, counted from its last start."""
        if _lacks(kind, changed) is not None:
            return None
        if before.last_crawl_start_at is None:
            return first_due(changed.schedule, utc_now())
        if before.schedule == changed.schedule and before.next_crawl_at is not None:
            return before.next_crawl_at
        return next_due(changed.schedule, before.last_crawl_start_at)

    async def delete(self, principal: Principal, plan_id: str, *, with_documents: bool = False) -> None:
        """Stop the plan and remove it, with its operations, its ledger and its files; its documents if asked to."""
        require(principal, Scope.ADMIN)
        plan = await self.get(principal, plan_id)
        await self._delete(principal, plan, with_documents=with_documents)
        if with_documents:  # after the run was stopped, which may have added some until then
            await self._remove_documents(plan)

    async def delete_source(self, principal: Principal, plan_id: str) -> None:
        """Specification 001 lets whoever may write remove a source; its documents stay."""
        require(principal, Scope.WRITE)
        await self._delete(principal, await self.get(principal, plan_id))

    async def _delete(self, principal: Principal, plan: Plan, *, with_documents: bool = False) -> None:
        async with self._database.writing() as connection:
            operation = await Operations(connection).of_plan(plan.id, plan.operation_id or "")
            if operation is not None and operation.job_id is not None:
                # By force: from here on, the run can commit nothing more.
                await control.make_request(connection, plan.tenant_id, operation.job_id, JobRequest.CANCEL, force=True)
            await CrawledPages(connection).remove_scope(plan.id)
            await SiteMemories(connection).remove_scope(plan.id)
            await Plans(connection).delete(plan.tenant_id, plan.id)
            await note_act(
                connection, principal, "plan.deleted", plan.id, name=plan.name, with_documents=with_documents
            )
        await asyncio.to_thread(self._files.remove_plan, plan.id)
        await asyncio.to_thread(self._exports.remove_plan, plan.id)
        await self._jobs.tell()

    async def _remove_documents(self, plan: Plan) -> None:
        """Remove the documents that the plan had alone; the others go to a plan that has them, too."""
        while True:
            async with self._database.writing() as connection:
                documents = Documents(connection)
                found = await documents.page(
                    DocumentRow.tenant_id == plan.tenant_id,
                    DocumentRow.plan_id == plan.id,
                    DocumentRow.is_purging.is_(False),
                    limit=REMOVED_AT_ONCE,
                )
                holders = await Ledger(connection).other_holders(plan.id, [each.id for each in found.items])
                for document_id, holder in holders.items():
                    await documents.hand_over(document_id, holder)
                await mark_for_removal(connection, [each for each in found.items if each.id not in holders])
            if not found.items:
                return

    async def start(self, principal: Principal, plan_id: str, *, confirm_deletions: bool = False) -> Operation:
        """Run a plan now. With confirmed deletions, what is missing is deleted however much it is."""
        require(principal, Scope.WRITE)
        plan = await self.get(principal, plan_id)
        kind = connector_type(plan.repository_type)
        lacking = _lacks(kind, plan)
        if lacking is not None:
            raise InvalidRequest(f"{lacking} is needed to start the plan.", field=f"repository_settings.{lacking}")
        async with self._database.writing() as connection:
            options = RunOptions(confirm_deletions=confirm_deletions, submitted_by=principal.key_id)
            operation = await begin_run(connection, plan, Trigger.MANUAL, utc_now(), options)
        if operation is None:
            raise Conflict(f"Plan '{plan_id}' is running already.")
        await self._jobs.tell()
        return operation

    async def stop(self, principal: Principal, plan_id: str) -> Plan:
        """Cancel the run that is under way, if there is one, and wait a moment for its end."""
        require(principal, Scope.WRITE)
        plan = await self.get(principal, plan_id)
        async with self._database.reading() as connection:
            operation = await Operations(connection).of_plan(plan.id, plan.operation_id or "")
        if operation is not None and operation.job_id is not None:
            job = await self._jobs.get(principal, operation.job_id)
            if not job.is_finished:
                await self._jobs.make_request(principal, job.id, JobRequest.CANCEL)
        deadline = time.monotonic() + STOP_SECONDS
        while plan.state is PlanState.RUNNING and time.monotonic() < deadline:
            await self._scheduler.recover_plan(plan)
            await asyncio.sleep(_POLL_SECONDS)
            plan = await self.get(principal, plan_id)
        return plan

    async def check(self, principal: Principal, plan_id: str) -> Connectivity:
        """Whether the plan's source can be reached."""
        require(principal, Scope.WRITE)
        plan = await self.get(principal, plan_id)
        kind = connector_type(plan.repository_type)
        lacking = _lacks(kind, plan)
        if lacking is not None:
            return Connectivity(False, f"{lacking} is not set.")
        try:
            connector = kind.open(plan, self._tools)
        except ScrubjayError as error:
            return Connectivity(False, error.message)
        try:
            return await connector.check()
        finally:
            await connector.close()

    async def look(
        self, principal: Principal, plan_id: str, *, limit: int = 100, skip: int = 0
    ) -> list[dict[str, Any]]:
        """The beginning of what a run would see. It is a job, which this waits for."""
        require(principal, Scope.WRITE)
        if limit < 1 or skip < 0 or limit + skip > MAX_LOOK:
            raise InvalidRequest(f"At most {MAX_LOOK} objects can be looked at.", field="skip")
        plan = await self.get(principal, plan_id)
        lacking = _lacks(connector_type(plan.repository_type), plan)
        if lacking is not None:
            raise InvalidRequest(f"{lacking} is needed to list the source.", field=f"repository_settings.{lacking}")
        payload = {"plan_id": plan_id, "limit": limit + skip}
        job = await self._finished(principal, await self._jobs.submit(principal, PREVIEW_KIND, payload))
        if job.state is not JobState.COMPLETED:
            raise Conflict(job.error or "The source could not be listed.")
        objects: list[dict[str, Any]] = list((job.result or {}).get("objects") or [])
        return objects[skip : skip + limit]

    async def _finished(self, principal: Principal, job: Job) -> Job:
        deadline = time.monotonic() + LOOK_SECONDS
        while not job.is_finished:
            if time.monotonic() > deadline:
                await self._jobs.make_request(principal, job.id, JobRequest.CANCEL)
                raise Unavailable(f"The source was not listed within {LOOK_SECONDS:.0f} seconds.")
            await asyncio.sleep(_POLL_SECONDS)
            job = await self._jobs.get(principal, job.id)
        return job

    async def staleness(self, principal: Principal, plan_id: str, *, sample: int = SAMPLE) -> float:
        """The share of a plan's documents that has probably changed at the source since it was looked at."""
        plan = await self.get(principal, plan_id)
        return await self.staleness_of(principal, plan, sample=sample)

    async def staleness_of(self, principal: Principal, plan: Plan, *, sample: int = SAMPLE) -> float:
        """The same of a plan that was read already."""
        require(principal, Scope.READ)
        if plan.tenant_id != principal.tenant_id:
            raise NotFound(f"Plan '{plan.id}' not found.")
        return await expected_staleness(self._database, plan.id, plan.last_complete_at, utc_now(), sample=sample)

    async def _check(self, principal: Principal, values: PlanValues) -> ConnectorType:
        """InvalidRequest that names the field, for whatever is wrong with values."""
        kind = connector_type(values.repository_type)
        check_name(values.name)
        for name, (least, most) in RANGES.items():
            if not least <= getattr(values, name) <= most:
                raise InvalidRequest(f"{name} must be between {least} and {most}.", field=name)
        self._check_settings(kind, values.repository_settings)
        if values.schedule.cron is not None:
            validate_cron(values.schedule.cron)
        if values.schedule.requests_per_day is not None and kind.name != RepositoryType.WEB:
            raise InvalidRequest("requests_per_day is for web sites only.", field="schedule.requests_per_day")
        settings, source = values.ingestion_settings, values.repository_settings
        _check_export(settings)
        async with self._database.reading() as connection:
            if source.get("proxy_id") is not None:
                await Proxies(connection).get(principal.tenant_id, str(source["proxy_id"]))
            if source.get("crawl_config_id") is not None:
                await CrawlConfigs(connection).get(principal.tenant_id, str(source["crawl_config_id"]))
            if settings.collection_id is not None:
                await Collections(connection).get(principal.tenant_id, settings.collection_id)
            if settings.ingestion_rule_id is not None:
                await IngestionRules(connection).get(principal.tenant_id, settings.ingestion_rule_id)
        return kind

    def _check_settings(self, kind: ConnectorType, settings: Mapping[str, Any]) -> None:
        try:
            kind.read_settings(settings)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(["repository_settings", *(str(part) for part in first["loc"])])
            raise InvalidRequest(f"{where}: {first['msg'].removeprefix('Value error, ')}.", field=where) from error
        for name in ("start_url", "url", "endpoint_url", "site_url"):
            if settings.get(name):
                url = parse_url(str(settings[name]), field=f"repository_settings.{name}")
                if url.username or url.password:  # they would be kept and shown as they are
                    raise InvalidRequest(f"{name} must have no credentials.", field=f"repository_settings.{name}")
                self._tools.crawler.network.guard.check_host(url.host)
        for pattern in (*(settings.get("include_patterns") or ()), *(settings.get("exclude_patterns") or ())):
            UrlPattern(pattern)

    def _sealed(
        self, plan: Plan, kind: ConnectorType, settings: Mapping[str, Any], before: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Settings as they are kept. What was sealed is kept only for the party that it was given for."""
        sealed = {name: value for name, value in settings.items() if name not in kind.secrets and value is not None}
        for name in kind.secrets:
            given = settings.get(name)
            if given:
                secret = self._tools.crawler.secrets.seal(str(given), context=secret_context(plan.id, name))
                sealed[name] = secret
            elif given is None and before.get(name):
                if _party(sealed) != _party(before):
                    raise InvalidRequest(
                        f"{name} must be given anew, because it would be sent to another host.",
                        field=f"repository_settings.{name}",
                    )
                sealed[name] = before[name]
        return sealed

    async def counts(self, principal: Principal, plan_id: str) -> int:
        """How many documents a plan has."""
        await self.get(principal, plan_id)
        async with self._database.reading() as connection:
            return await Documents(connection).count(
                DocumentRow.tenant_id == principal.tenant_id,
                DocumentRow.plan_id == plan_id,
                DocumentRow.deleted_at.is_(None),
            )


def check_name(name: str) -> None:
    if not name.strip() or len(name) > 255 or not name.isprintable():
        raise InvalidRequest("name must have 1 to 255 printable characters.", field="name")


def _check_export(settings: IngestionSettings) -> None:
    if settings.export is not ExportFormat.NONE and not settings.keeps_documents:
        raise _no_export("only for plans that keep documents")
    if settings.export is ExportFormat.WARC and not settings.store_original:
        raise _no_export("warc needs the originals; let the plan keep them, or choose markdown or jsonl")


def _no_export(reason: str) -> InvalidRequest:
    return InvalidRequest(f"ingestion_settings.export: {reason}.", field="ingestion_settings.export")


def _own(values: PlanValues) -> dict[str, Any]:
    ours = ("repository_settings", "repository_type")
    return {each.name: getattr(values, each.name) for each in fields(values) if each.name not in ours}


def _lacks(kind: ConnectorType, plan: Plan) -> str | None:
    """The first setting without which the plan cannot run."""
    return next((name for name in kind.required if not plan.repository_settings.get(name)), None)


def _party(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    """To whom a secret goes: the origin of the address, and whoever stands in between."""
    addresses = (settings.get(name) for name in ("start_url", "url", "endpoint_url", "site_url"))
    return (
        *(urlsplit(str(address or ""))[:2] for address in addresses),
        settings.get("bucket"),
        settings.get("proxy_id"),
    )


_IS_OF_NO_DOMAIN = or_(PlanRow.crawl_key.is_(None), PlanRow.crawl_key.not_like(f"{DOMAIN_KEY}%"))
