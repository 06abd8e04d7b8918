"""The only place where objects are built from settings. Doors get a finished `Scrubjay`."""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from scrubjay.backend.local_parts import Parts as BackendParts
from scrubjay.backend.opening import open_backend, open_model
from scrubjay.backend.protocol import Backend
from scrubjay.backups.restore import BackupRestorer, Inspected, inspect_backup, restore_keys
from scrubjay.backups.take import BackupTaker, Tell
from scrubjay.connectors.source import Tools
from scrubjay.connectors.web_job import WebCrawler
from scrubjay.crawl.addresses import EgressGuard
from scrubjay.crawl.endpoints import JsonEndpoint
from scrubjay.crawl.fetcher import Network
from scrubjay.crawl.relay import Relay
from scrubjay.domains.crawl_jobs import DomainCrawlJobs
from scrubjay.domains.job_files import JobFiles
from scrubjay.domains.job_keeper import JobKeeper
from scrubjay.domains.steps import CrawlSteps
from scrubjay.domains.store import DomainStore
from scrubjay.errors import ConfigurationError, DatabaseUnreachable, HomeInUse, IndexElsewhere, Unavailable
from scrubjay.extract.browser import BrowserRenderer
from scrubjay.extract.pool import ExtractionPool
from scrubjay.ingest.catalog import IndexCatalog
from scrubjay.ingest.cleanup import Cleanup
from scrubjay.ingest.documents import Ingester
from scrubjay.ingest.embedder import Embedder
from scrubjay.ingest.indexing import Indexer
from scrubjay.ingest.texts import TextStore
from scrubjay.ingest.uploads import REINDEX_KIND, IngestJobs
from scrubjay.jobs.kinds import JobKinds
from scrubjay.jobs.live import EventHub
from scrubjay.jobs.signals import JobSignals
from scrubjay.model.search import SearchAnswer, SearchRequest
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Principal, Scope
from scrubjay.operations.enumeration_file import EnumerationFiles
from scrubjay.operations.retrieval import Parts
from scrubjay.operations.rules import read_destination
from scrubjay.operations.run import PlanRuns
from scrubjay.operations.scheduler import PlanScheduler
from scrubjay.operations.site_crawl import SiteCrawls
from scrubjay.search.index import Index
from scrubjay.search.rerank import Reranker
from scrubjay.services.access import Access
from scrubjay.services.action_jobs import ActionJobService
from scrubjay.services.articles import ArticleService
from scrubjay.services.audit import AuditService
from scrubjay.services.backups import BackupService
from scrubjay.services.bus import BusService
from scrubjay.services.collections import CollectionService
from scrubjay.services.control import ControlService
from scrubjay.services.crawl_settings import CrawlSettingsService
from scrubjay.services.crawls import CrawlService
from scrubjay.services.diagnostics import STEPS
from scrubjay.services.documents import DocumentService
from scrubjay.services.domain_crawls import DomainCrawlService
from scrubjay.services.domains import DomainService
from scrubjay.services.failures import FailureService
from scrubjay.services.health import Health
from scrubjay.services.inventory import InventoryService
from scrubjay.services.inventory_verbs import inventory_verbs
from scrubjay.services.job_history import JobHistoryService
from scrubjay.services.jobs import JobService
from scrubjay.services.metrics import Metrics
from scrubjay.services.operations import OperationService
from scrubjay.services.plans import PlanService
from scrubjay.services.queries import QueryService
from scrubjay.services.resealing import Resealing
from scrubjay.services.rules import RuleService
from scrubjay.services.search import SearchService
from scrubjay.services.search_cache import SearchCache
from scrubjay.services.tools import ToolService
from scrubjay.services.verbs import Verbs
from scrubjay.services.watches import WatchService
from scrubjay.services.webhooks import WebhookService
from scrubjay.settings import Settings
from scrubjay.storage.blobs import BlobStore, open_blob_store
from scrubjay.storage.cache import Cache, open_cache
from scrubjay.storage.database import Database, connect_or_explain, open_database
from scrubjay.storage.home import open_spool, own_home, prepare_home
from scrubjay.storage.schema import require_current
from scrubjay.storage.secrets import SecretBox, open_secret_box
from scrubjay.telemetry import crawl_meter, open_tracing
from scrubjay.watch.opening import open_watcher
from scrubjay.watch.watcher import Watcher
from scrubjay.webhooks.dispatcher import Dispatcher
from scrubjay.webhooks.endpoint import Sealing
from scrubjay.webhooks.publisher import Publisher
from scrubjay.webhooks.sender import Sender

MOST_EXTRACT_PROCESSES = 4
OPERATOR = Principal(tenant_id=DEFAULT_TENANT_ID, key_id="", scopes=frozenset({Scope.ADMIN}))
UNKNOWN_DATABASE = "3D000"  # PostgreSQL's code for it


@dataclass(frozen=True, slots=True)
class Scrubjay:
    settings: Settings
    database: Database
    blobs: BlobStore
    cache: Cache
    secrets: SecretBox
    access: Access
    health: Health
    metrics: Metrics
    jobs: JobService
    crawls: CrawlService
    crawl_settings: CrawlSettingsService
    plans: PlanService
    operations: OperationService
    failures: FailureService
    job_history: JobHistoryService
    rules: RuleService
    documents: DocumentService
    collections: CollectionService
    inventory: InventoryService
    action_jobs: ActionJobService
    domains: DomainService
    domain_crawls: DomainCrawlService
    queries: QueryService
    verbs: Verbs
    search: SearchService
    control: ControlService
    articles: ArticleService
    tools: ToolService
    bus: BusService
    catalog: IndexCatalog
    indexer: Indexer
    webhooks: WebhookService
    watches: WatchService
    backups: BackupService
    resealing: Resealing
    audit: AuditService


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What everything else stands on."""

    settings: Settings
    secrets: SecretBox
    database: Database
    blobs: BlobStore
    cache: Cache
    signals: JobSignals
    network: Network
    crawler: WebCrawler
    texts: TextStore
    catalog: IndexCatalog
    indexer: Indexer
    ingester: Ingester
    owns_home: bool  # nobody else works in this data folder

    @property
    def is_alone(self) -> bool:
        """Whether whatever others had under way when this process started is theirs no more."""
        return self.owns_home and self.database.dialect == "sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clockwork:
    """What goes on by itself in a process that works."""

    scheduler: PlanScheduler
    watcher: Watcher
    publisher: Publisher
    sender: Sender
    job_files: JobFiles


@asynccontextmanager
async def open_scrubjay(
    settings: Settings, *, working: bool = False, searching: bool = False, keeping_time: bool = True
) -> AsyncIterator[Scrubjay]:
    """Everything, ready to use. With `working`, this process also runs jobs until the context ends.

    It then begins plans that are due, unless it is not `keeping_time`: a command would end before they do.
    With `searching`, it runs none but has the index to itself, where only one process can have it.
    """
    prepare_home(settings.home)
    async with AsyncExitStack() as stack:
        ground = await _open_ground(settings, stack, has_index=working or searching)
        database, signals, crawler = ground.database, ground.signals, ground.crawler
        metrics = Metrics(database, ground.cache)
        stack.push_async_callback(metrics.close)
        hub = EventHub(database, signals)
        stack.push_async_callback(hub.close)
        tools = Tools(crawler)
        files = EnumerationFiles(settings.resolved_enumeration_folder, database)
        watcher, poller = open_watcher(crawler, signals, partial(read_destination, database))
        stack.push_async_callback(poller.close)
        sealing = Sealing(ground.secrets)
        clockwork = _Clockwork(
            scheduler=PlanScheduler(database, signals, files),
            watcher=watcher,
            publisher=Publisher(database, settings.webhook_retention_days),
            sender=Sender(sealing, settings.webhook_timeout_seconds),
            job_files=JobFiles(settings.resolved_storage_folder),
        )
        kinds = _make_kinds(ground, tools, files)
        jobs = JobService(database, signals, kinds, hub)
        search = SearchService(
            database, ground.catalog, SearchCache(ground.cache), _open_reranker(settings, ground.network)
        )
        backend = _open_backend(ground, stack, search)
        inventory = InventoryService(database, backend)
        action_jobs = ActionJobService(database, jobs, kinds, clockwork.job_files)
        domain_store = DomainStore(settings.resolved_storage_folder)
        domains = DomainService(database, domain_store, inventory, action_jobs)
        verbs = Verbs({**domains.verbs, **inventory_verbs(inventory)})
        # Services have to be there first, because that is what these kinds of jobs call.
        for kind in (*verbs.kinds, *DomainCrawlJobs(CrawlSteps(domain_store, crawler, backend)).kinds):
            kinds.register(kind)
        if working or searching:
            await _start_indexing(ground, stack)
        if working:
            await _start_working(ground, stack, kinds, clockwork, keeping_time=keeping_time)
        access = Access(database, ground.cache)
        if working and await ground.catalog.is_outdated():
            await access.ensure_default_tenant()  # whose job it is; a worker may be the first to start
            # The settings name another embedder: the index is built anew beside the one that serves.
            await jobs.submit(OPERATOR, REINDEX_KIND, {}, unique_key=await ground.catalog.succession())
        crawls = CrawlService(crawler, jobs)
        plans = PlanService(database, tools, jobs, clockwork.scheduler, files)
        operations = OperationService(database, files)
        documents = DocumentService(database, ground.blobs, ground.texts, jobs, ground.indexer.wake)
        collections = CollectionService(database, ground.indexer.wake)
        control = ControlService(crawls, jobs, plans)
        articles = ArticleService(database, crawls, ground.ingester, ground.indexer.wake)
        model_tools = ToolService(
            search=search,
            documents=documents,
            collections=collections,
            plans=plans,
            operations=operations,
            crawls=crawls,
            control=control,
            jobs=jobs,
            articles=articles,
        )
        yield Scrubjay(
            settings=settings,
            database=database,
            blobs=ground.blobs,
            cache=ground.cache,
            secrets=ground.secrets,
            access=access,
            health=Health(settings, database, ground.blobs, ground.cache, ground.catalog),
            metrics=metrics,
            jobs=jobs,
            crawls=crawls,
            crawl_settings=CrawlSettingsService(database, crawler),
            plans=plans,
            operations=operations,
            failures=FailureService(database),
            job_history=JobHistoryService(database),
            rules=RuleService(database),
            documents=documents,
            collections=collections,
            inventory=inventory,
            action_jobs=action_jobs,
            domains=domains,
            domain_crawls=DomainCrawlService(domain_store, inventory, action_jobs),
            queries=QueryService(
                domains, domain_store, inventory, _open_language_model(settings, ground.network), settings.llm_model
            ),
            verbs=verbs,
            search=search,
            control=control,
            articles=articles,
            tools=model_tools,
            bus=BusService(database, model_tools, ground.network),
            catalog=ground.catalog,
            indexer=ground.indexer,
            watches=WatchService(database, settings, crawler, watcher),
            resealing=Resealing(database, ground.secrets),
            audit=AuditService(database),
            backups=BackupService(database, BackupTaker(settings, database, ground.blobs, ground.secrets)),
            webhooks=WebhookService(database, ground.network, signals, sealing, clockwork.sender),
        )


async def restore_backup(settings: Settings, path: Path, tell: Tell) -> Inspected:
    """Bring a backup into the empty place that the settings name. Its index is made anew by who opens it next."""
    prepare_home(settings.home)
    with ExitStack() as locks:
        if settings.is_embedded:
            locks.enter_context(own_home(settings.home))
        found = await asyncio.to_thread(inspect_backup, path, tell)
        database = open_database(settings)
        try:
            await connect_or_explain(database)
            await require_current(database, auto_migrate=True)
            restorer = BackupRestorer(settings, database, open_blob_store(settings))
            await restorer.require_empty()
            restore_keys(settings, found)
            await restorer.restore(path, found, tell)
        finally:
            await database.close()
    return found


async def _open_ground(settings: Settings, stack: AsyncExitStack, *, has_index: bool) -> _Ground:
    crawl_meter.configure(keep_seconds=settings.metrics_job_seconds, most_jobs=settings.metrics_jobs)
    if settings.otlp_endpoint is not None:
        stack.push_async_callback(asyncio.to_thread, open_tracing(settings.otlp_endpoint))
    owns_home = has_index and settings.is_embedded
    if owns_home:
        stack.enter_context(own_home(settings.home))
    secrets = open_secret_box(settings)
    database = open_database(settings)
    stack.push_async_callback(database.close)
    await connect_or_explain(database)
    await require_current(database, auto_migrate=settings.auto_migrate)
    blobs = open_blob_store(settings)
    cache = open_cache(settings)
    stack.push_async_callback(cache.close)
    network = await stack.enter_async_context(open_network(settings))
    pool = await stack.enter_async_context(_open_pool(settings))
    browser = await stack.enter_async_context(
        BrowserRenderer(network.guard, chromium_path=settings.chromium_path, user_agent=settings.crawl_user_agent)
    )
    texts = TextStore(database, blobs)
    catalog = _open_catalog(settings, database, network, has_index=has_index)
    stack.push_async_callback(catalog.close)
    return _Ground(
        settings=settings,
        secrets=secrets,
        database=database,
        blobs=blobs,
        cache=cache,
        signals=JobSignals(cache),
        network=network,
        crawler=WebCrawler(
            settings=settings,
            network=network,
            pool=pool,
            browser=browser,
            database=database,
            cache=cache,
            blobs=blobs,
            secrets=secrets,
        ),
        texts=texts,
        catalog=catalog,
        indexer=Indexer(database, catalog, Cleanup(database, texts, blobs)),
        ingester=Ingester(database, texts, catalog),
        owns_home=owns_home,
    )


def _make_kinds(ground: _Ground, tools: Tools, files: EnumerationFiles) -> JobKinds:
    """The kinds of jobs that rooms below the services do."""
    database, blobs, pool = ground.database, ground.blobs, ground.crawler.pool
    ingester, indexer = ground.ingester, ground.indexer
    runs = PlanRuns(Parts(database, blobs, pool, ingester, indexer), tools, files, open_spool(ground.settings.home))
    return JobKinds(
        STEPS,
        *runs.kinds,
        *ground.crawler.kinds,
        *SiteCrawls(ground.crawler, ingester, indexer, database).kinds,
        *IngestJobs(database, blobs, pool, ingester, indexer, ground.catalog).kinds,
    )


def _open_backend(ground: _Ground, stack: AsyncExitStack, search: SearchService) -> Backend:
    relay = Relay(ground.network)
    stack.push_async_callback(relay.close)
    backend = open_backend(
        ground.settings,
        relay,
        BackendParts(
            database=ground.database,
            blobs=ground.blobs,
            texts=ground.texts,
            catalog=ground.catalog,
            signals=ground.signals,
            wake=ground.indexer.wake,
            search=partial(_search_as_tenant, search),
            model=open_model(ground.settings, relay),
            model_name=ground.settings.llm_model,
        ),
    )
    stack.push_async_callback(backend.close)
    return backend


async def _start_indexing(ground: _Ground, stack: AsyncExitStack) -> None:
    await ground.catalog.start()
    if ground.is_alone:
        await ground.indexer.take_over()
    ground.indexer.start()
    stack.push_async_callback(ground.indexer.stop)


async def _start_working(
    ground: _Ground, stack: AsyncExitStack, kinds: JobKinds, clockwork: _Clockwork, *, keeping_time: bool
) -> None:
    # Imported here because DBOS alone takes half a second to import, and only workers need it.
    from scrubjay.jobs.engine import JobEngine

    settings, database, signals = ground.settings, ground.database, ground.signals
    await _reach_jobs_database(settings)
    keeper = JobKeeper(database, signals, clockwork.job_files, settings.job_retention_days)
    # Begun before jobs are and ended after them: what the last of them tell is at least in the queues.
    if keeping_time:
        dispatcher = Dispatcher(database, signals, ground.network, clockwork.publisher, clockwork.sender)
        await dispatcher.start(alone=ground.is_alone)
        stack.push_async_callback(dispatcher.stop)
        stack.push_async_callback(keeper.stop)
    else:
        stack.push_async_callback(clockwork.publisher.catch_up)
    engine = JobEngine(settings, database, signals, kinds, alone=database.dialect == "sqlite")
    await engine.start()
    stack.push_async_callback(engine.stop)
    if not keeping_time:
        await clockwork.scheduler.recover()
        return
    await keeper.start()
    await clockwork.scheduler.start()
    stack.push_async_callback(clockwork.scheduler.stop)
    await clockwork.watcher.start(alone=ground.is_alone)
    stack.push_async_callback(clockwork.watcher.stop)


@asynccontextmanager
async def open_network(settings: Settings) -> AsyncIterator[Network]:
    """The way out, by itself: for commands that need nothing that is stored."""
    network = Network(
        EgressGuard(settings.allowed_private_networks),
        user_agent=settings.crawl_user_agent,
        spool_folder=open_spool(settings.home),
    )
    try:
        yield network
    finally:
        await network.close()


def _open_catalog(settings: Settings, database: Database, network: Network, *, has_index: bool) -> IndexCatalog:
    async def open_generation(generation: str, dimensions: int) -> Index:
        if not has_index and settings.is_index_embedded:
            raise IndexElsewhere
        # Imported here because the engines take a moment to import, and most commands do not search.
        from scrubjay.search.opening import open_index

        key = settings.index_api_key
        try:
            return await open_index(
                url=None if settings.is_index_embedded else settings.index_url,
                folder=settings.index_folder,
                generation=generation,
                dimensions=dimensions,
                database=database,
                api_key=key.get_secret_value() if key else None,
            )
        except HomeInUse as error:
            raise IndexElsewhere from error

    async def open_embedder(spec: Mapping[str, Any]) -> Embedder:
        return await _open_embedder(spec, settings, network)

    wanted: dict[str, str] = {"kind": settings.embedder}
    if settings.embedder in ("tei", "openai"):
        if settings.embedding_url is None:
            raise ConfigurationError("The setting 'embedder' names a server; set SCRUBJAY_EMBEDDING_URL as well.")
        wanted |= {"url": settings.embedding_url, "model": settings.embedding_model or ""}
    # Processes that share a database server may each have a folder of their own, but there is only one index.
    alone = not settings.is_index_embedded or database.dialect == "sqlite"
    place = None if alone else f"{platform.node()}:{settings.index_folder}"
    return IndexCatalog(database, wanted, open_generation, open_embedder, place)


async def _open_embedder(spec: Mapping[str, Any], settings: Settings, network: Network) -> Embedder:
    kind = spec["kind"]
    if kind == "wordllama":
        from scrubjay.ingest.embedding import WordLlama

        return await asyncio.to_thread(WordLlama)
    if kind == "minilm":
        from scrubjay.ingest.minilm import MiniLm

        return await asyncio.to_thread(MiniLm)
    from scrubjay.ingest.embedding_http import HttpEmbedder

    # The key belongs to the address in the settings; one that served before is asked without it.
    key = settings.embedding_api_key if spec["url"] == settings.embedding_url else None
    endpoint = JsonEndpoint(network.fetcher(), spec["url"], "embedder", api_key=key.get_secret_value() if key else None)
    return await HttpEmbedder.connect(
        kind, endpoint, model=spec.get("model") or None, dimensions=settings.embedding_dimensions
    )


async def _search_as_tenant(search: SearchService, tenant_id: str, request: SearchRequest) -> SearchAnswer:
    """For the inventory, whose service has asked for permission already."""
    return await search.search(Principal(tenant_id, "", frozenset({Scope.READ})), request)


def _open_reranker(settings: Settings, network: Network) -> Reranker | None:
    if settings.rerank_url is None:
        return None
    key = settings.rerank_api_key
    endpoint = JsonEndpoint(
        network.fetcher(), settings.rerank_url, "reranker", api_key=key.get_secret_value() if key else None
    )
    return Reranker(settings.rerank_kind, endpoint, settings.rerank_model)


def _open_language_model(settings: Settings, network: Network) -> JsonEndpoint | None:
    """For answers to queries."""
    if settings.llm_url is None or settings.llm_model is None:
        return None
    key = settings.llm_api_key
    return JsonEndpoint(
        network.fetcher(), settings.llm_url, "language model", api_key=key.get_secret_value() if key else None
    )


def _open_pool(settings: Settings) -> ExtractionPool:
    processes = settings.extract_processes or min(MOST_EXTRACT_PROCESSES, os.cpu_count() or 1)
    return ExtractionPool(processes=processes, page_seconds=settings.extract_seconds)


async def _reach_jobs_database(settings: Settings) -> None:
    """DBOS answers a database that it cannot use with pages of traceback; ask first, and say it in a sentence."""
    url = settings.resolved_jobs_database_url
    if url == settings.resolved_database_url or not url.startswith(("sqlite", "postgres")):
        return
    database = open_database(settings.model_copy(update={"database_url": url}))
    try:
        await database.check()
    except Unavailable as error:
        if getattr(getattr(error.__cause__, "orig", error.__cause__), "sqlstate", None) == UNKNOWN_DATABASE:
            return  # DBOS makes its database
        raise DatabaseUnreachable(
            f"The jobs database {database.engine.url.render_as_string(hide_password=True)} cannot be used: "
            f"{error.message} Check SCRUBJAY_JOBS_DATABASE_URL and that the server is running."
        ) from error
    finally:
        await database.close()
