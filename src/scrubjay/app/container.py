"""Everything that doors can ask for, each made when it is first asked for.

A command needs little of the house, and what it does not ask for it need not even import.
"""

from contextlib import AsyncExitStack
from functools import cached_property, partial
from typing import TYPE_CHECKING

from scrubjay.app.resources import Ground, open_language_model, open_reranker
from scrubjay.documents.uploads import IngestJobs
from scrubjay.domains.crawl_jobs import DomainCrawlJobs
from scrubjay.model.search import SearchAnswer, SearchRequest
from scrubjay.model.tenant import Principal, Scope
from scrubjay.plans.enumeration_file import EnumerationFiles
from scrubjay.plans.retrieval import RunDependencies
from scrubjay.plans.run import PlanRuns
from scrubjay.plans.scheduler import PlanScheduler
from scrubjay.plans.sinks.export import PlanExports
from scrubjay.queue.kinds import JobKinds
from scrubjay.queue.live import EventHub
from scrubjay.services.access import Access
from scrubjay.services.crawls import CrawlService
from scrubjay.services.diagnostics import STEPS
from scrubjay.services.jobs import JobService
from scrubjay.services.verbs import Verbs
from scrubjay.sources.protocol import Tools
from scrubjay.storage.home import open_spool

if TYPE_CHECKING:
    from scrubjay.domains.job_files import JobFiles
    from scrubjay.domains.steps import CrawlSteps
    from scrubjay.domains.store import DomainStore
    from scrubjay.openai.protocol import Backend
    from scrubjay.services.action_jobs import ActionJobService
    from scrubjay.services.articles import ArticleService
    from scrubjay.services.audit import AuditService
    from scrubjay.services.backups import BackupService
    from scrubjay.services.bus import BusService
    from scrubjay.services.collections import CollectionService
    from scrubjay.services.control import ControlService
    from scrubjay.services.crawl_settings import CrawlSettingsService
    from scrubjay.services.documents import DocumentService
    from scrubjay.services.domain_crawls import DomainCrawlService
    from scrubjay.services.domains import DomainService
    from scrubjay.services.failures import FailureService
    from scrubjay.services.health import Health
    from scrubjay.services.inventory import InventoryService
    from scrubjay.services.job_history import JobHistoryService
    from scrubjay.services.metrics import Metrics
    from scrubjay.services.operations import OperationService
    from scrubjay.services.plans import PlanService
    from scrubjay.services.queries import QueryService
    from scrubjay.services.reports import ReportService
    from scrubjay.services.resealing import Resealing
    from scrubjay.services.rules import RuleService
    from scrubjay.services.search import SearchService
    from scrubjay.services.tools import ToolService
    from scrubjay.services.verbs import Verb
    from scrubjay.services.watches import WatchService
    from scrubjay.services.webhooks import WebhookService
    from scrubjay.watches.watcher import Watcher
    from scrubjay.webhooks.endpoint import Sealing
    from scrubjay.webhooks.sender import Sender


class Scrubjay:
    """The house: its ground, and every service by name."""

    def __init__(self, ground: Ground, closing: AsyncExitStack) -> None:
        self._ground = ground
        self._closing = closing  # what is to be closed is added to it when it is made
        self.settings = ground.settings
        self.database = ground.database
        self.blobs = ground.blobs
        self.cache = ground.cache
        self.secrets = ground.secrets
        self.catalog = ground.catalog
        self.indexer = ground.indexer
        self.access = Access(self.database, self.cache)
        self.verbs = Verbs(self._load_verbs)
        self.tools_of_connectors = Tools(ground.crawler)
        self.enumeration_files = EnumerationFiles(self.settings.resolved_enumeration_folder, self.database)
        self.exports = PlanExports(self.settings.resolved_export_folder, self.database, self.blobs, ground.texts)
        self.scheduler = PlanScheduler(self.database, ground.signals, self.enumeration_files)
        self.kinds = self._make_kinds()
        self.hub = EventHub(self.database, ground.signals)
        closing.push_async_callback(self.hub.close)
        self.jobs = JobService(self.database, ground.signals, self.kinds, self.hub)
        self.crawls = CrawlService(ground.crawler, self.jobs)

    def _make_kinds(self) -> JobKinds:
        ground, database, blobs = self._ground, self.database, self.blobs
        pool, ingester, indexer = ground.crawler.pool, ground.ingester, ground.indexer
        runs = self._runs
        return JobKinds(
            STEPS,
            *runs.kinds,
            *ground.crawler.kinds,
            *IngestJobs(database, blobs, pool, ingester, indexer, ground.catalog).kinds,
            *self.verbs.kinds,
            *DomainCrawlJobs(lambda: self._domain_steps).kinds,
        )

    @cached_property
    def _runs(self) -> PlanRuns:
        ground = self._ground
        parts = RunDependencies(self.database, self.blobs, ground.crawler.pool, ground.ingester, ground.indexer)
        spool = open_spool(self.settings.home)
        return PlanRuns(parts, self.tools_of_connectors, self.enumeration_files, self.exports, spool)

    @cached_property
    def health(self) -> "Health":
        from scrubjay.services.health import Health

        return Health(self.settings, self.database, self.blobs, self.cache, self.catalog)

    @cached_property
    def metrics(self) -> "Metrics":
        from scrubjay.services.metrics import Metrics

        metrics = Metrics(self.database, self.cache)
        self._closing.push_async_callback(metrics.close)
        return metrics

    @cached_property
    def crawl_settings(self) -> "CrawlSettingsService":
        from scrubjay.services.crawl_settings import CrawlSettingsService

        return CrawlSettingsService(self.database, self._ground.crawler)

    @cached_property
    def plans(self) -> "PlanService":
        from scrubjay.services.plans import PlanService

        files, exports = self.enumeration_files, self.exports
        return PlanService(self.database, self.tools_of_connectors, self.jobs, self.scheduler, files, exports)

    @cached_property
    def operations(self) -> "OperationService":
        from scrubjay.services.operations import OperationService

        return OperationService(self.database, self.enumeration_files)

    @cached_property
    def reports(self) -> "ReportService":
        from scrubjay.services.reports import ReportService

        return ReportService(self.database, self.jobs)

    @cached_property
    def failures(self) -> "FailureService":
        from scrubjay.services.failures import FailureService

        return FailureService(self.database)

    @cached_property
    def job_history(self) -> "JobHistoryService":
        from scrubjay.services.job_history import JobHistoryService

        return JobHistoryService(self.database)

    @cached_property
    def rules(self) -> "RuleService":
        from scrubjay.services.rules import RuleService

        return RuleService(self.database)

    @cached_property
    def documents(self) -> "DocumentService":
        from scrubjay.services.documents import DocumentService

        return DocumentService(self.database, self.blobs, self._ground.texts, self.jobs, self.indexer.wake)

    @cached_property
    def collections(self) -> "CollectionService":
        from scrubjay.services.collections import CollectionService

        return CollectionService(self.database, self.indexer.wake)

    @cached_property
    def search(self) -> "SearchService":
        from scrubjay.services.search import SearchService
        from scrubjay.services.search_cache import SearchCache

        reranker = open_reranker(self.settings, self._ground.network)
        return SearchService(self.database, self.catalog, SearchCache(self.cache), reranker)

    @cached_property
    def control(self) -> "ControlService":
        from scrubjay.services.control import ControlService

        return ControlService(self.crawls, self.jobs, self.plans)

    @cached_property
    def articles(self) -> "ArticleService":
        from scrubjay.services.articles import ArticleService

        return ArticleService(self.database, self.crawls, self._ground.ingester, self.indexer.wake)

    @cached_property
    def tools(self) -> "ToolService":
        from scrubjay.services.tools import ToolService

        return ToolService(
            search=self.search,
            documents=self.documents,
            collections=self.collections,
            plans=self.plans,
            operations=self.operations,
            crawls=self.crawls,
            control=self.control,
            jobs=self.jobs,
            articles=self.articles,
        )

    @cached_property
    def bus(self) -> "BusService":
        from scrubjay.services.bus import BusService

        return BusService(self.database, self.tools, self._ground.network)

    @cached_property
    def watcher(self) -> "Watcher":
        from scrubjay.plans.begin import begin_watch_crawl
        from scrubjay.plans.rules import read_destination
        from scrubjay.watches.opening import open_watcher

        ground = self._ground
        watcher, poller = open_watcher(
            ground.crawler,
            ground.signals,
            partial(read_destination, self.database),
            partial(begin_watch_crawl, self.secrets),
        )
        self._closing.push_async_callback(poller.close)
        return watcher

    @cached_property
    def watches(self) -> "WatchService":
        from scrubjay.services.watches import WatchService

        return WatchService(self.database, self.settings, self._ground.crawler, self.watcher)

    @cached_property
    def sealing(self) -> "Sealing":
        from scrubjay.webhooks.endpoint import Sealing

        return Sealing(self.secrets)

    @cached_property
    def sender(self) -> "Sender":
        from scrubjay.webhooks.sender import Sender

        return Sender(self.sealing, self.settings.webhook_timeout_seconds)

    @cached_property
    def webhooks(self) -> "WebhookService":
        from scrubjay.services.webhooks import WebhookService

        return WebhookService(self.database, self._ground.network, self._ground.signals, self.sealing, self.sender)

    @cached_property
    def backups(self) -> "BackupService":
        from scrubjay.services.backups import BackupService
        from scrubjay.storage.backups.take import BackupTaker

        return BackupService(self.database, BackupTaker(self.settings, self.database, self.blobs, self.secrets))

    @cached_property
    def resealing(self) -> "Resealing":
        from scrubjay.services.resealing import Resealing

        return Resealing(self.database, self.secrets)

    @cached_property
    def audit(self) -> "AuditService":
        from scrubjay.services.audit import AuditService

        return AuditService(self.database)

    @cached_property
    def backend(self) -> "Backend":
        from scrubjay.crawler.relay import Relay
        from scrubjay.openai.local_parts import BackendDependencies
        from scrubjay.openai.opening import open_backend, open_model

        ground = self._ground
        relay = Relay(ground.network)
        self._closing.push_async_callback(relay.close)
        parts = BackendDependencies(
            database=self.database,
            blobs=self.blobs,
            texts=ground.texts,
            catalog=self.catalog,
            signals=ground.signals,
            wake=self.indexer.wake,
            search=self._search_as_tenant,
            model=open_model(self.settings, relay),
            model_name=self.settings.llm_model,
        )
        backend = open_backend(self.settings, relay, parts)
        self._closing.push_async_callback(backend.close)
        return backend

    async def _search_as_tenant(self, tenant_id: str, request: SearchRequest) -> SearchAnswer:
        """For the inventory, whose service has asked for permission already."""
        return await self.search.search(Principal(tenant_id, "", frozenset({Scope.READ})), request)

    @cached_property
    def inventory(self) -> "InventoryService":
        from scrubjay.services.inventory import InventoryService

        return InventoryService(self.database, self.backend)

    @cached_property
    def job_files(self) -> "JobFiles":
        from scrubjay.domains.job_files import JobFiles

        return JobFiles(self.settings.resolved_storage_folder)

    @cached_property
    def action_jobs(self) -> "ActionJobService":
        from scrubjay.services.action_jobs import ActionJobService

        return ActionJobService(self.database, self.jobs, self.kinds, self.job_files)

    @cached_property
    def domain_store(self) -> "DomainStore":
        from scrubjay.domains.store import DomainStore

        return DomainStore(self.settings.resolved_storage_folder)

    @cached_property
    def domains(self) -> "DomainService":
        from scrubjay.services.domains import DomainService

        return DomainService(self.database, self.domain_store, self.inventory, self.action_jobs, self.plans)

    @cached_property
    def domain_crawls(self) -> "DomainCrawlService":
        from scrubjay.services.domain_crawls import DomainCrawlService

        return DomainCrawlService(self.domain_store, self.inventory, self.action_jobs)

    @cached_property
    def queries(self) -> "QueryService":
        from scrubjay.services.queries import QueryService

        model = open_language_model(self.settings, self._ground.network)
        return QueryService(self.domains, self.domain_store, self.inventory, model, self.settings.llm_model)

    def _load_verbs(self) -> "dict[str, Verb]":
        from scrubjay.services.inventory_verbs import inventory_verbs

        return {**self.domains.verbs, **inventory_verbs(self.inventory)}

    @cached_property
    def _domain_steps(self) -> "CrawlSteps":
        from scrubjay.domains.steps import CrawlSteps

        return CrawlSteps(self.domain_store, self._ground.crawler, self.backend, self._runs)
