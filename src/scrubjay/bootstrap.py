"""The only place where objects are built from settings. Doors get a finished `Scrubjay`."""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from scrubjay.connectors.source import Tools
from scrubjay.connectors.web_job import WebCrawler
from scrubjay.crawl.addresses import EgressGuard
from scrubjay.crawl.endpoints import JsonEndpoint
from scrubjay.crawl.fetcher import Network
from scrubjay.errors import ConfigurationError, DatabaseUnreachable, HomeInUse, IndexElsewhere, Unavailable
from scrubjay.extract.browser import BrowserRenderer
from scrubjay.extract.pool import ExtractionPool
from scrubjay.ingest.catalog import IndexCatalog
from scrubjay.ingest.cleanup import Cleanup
from scrubjay.ingest.documents import Ingester
from scrubjay.ingest.embedding import Embedder
from scrubjay.ingest.indexing import Indexer
from scrubjay.ingest.texts import TextStore
from scrubjay.ingest.uploads import REINDEX_KIND, IngestJobs
from scrubjay.jobs.kinds import JobKinds
from scrubjay.jobs.signals import JobSignals
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Principal, Scope
from scrubjay.operations.enumeration_file import EnumerationFiles
from scrubjay.operations.retrieval import Parts
from scrubjay.operations.run import PlanRuns
from scrubjay.operations.scheduler import PlanScheduler
from scrubjay.operations.site_crawl import SiteCrawls
from scrubjay.search.index import Index
from scrubjay.search.rerank import Reranker
from scrubjay.services.access import Access
from scrubjay.services.collections import CollectionService
from scrubjay.services.crawl_settings import CrawlSettingsService
from scrubjay.services.crawls import CrawlService
from scrubjay.services.diagnostics import STEPS
from scrubjay.services.documents import DocumentService
from scrubjay.services.health import Health
from scrubjay.services.jobs import JobService
from scrubjay.services.operations import OperationService
from scrubjay.services.plans import PlanService
from scrubjay.services.rules import RuleService
from scrubjay.services.search import SearchService
from scrubjay.services.search_cache import SearchCache
from scrubjay.settings import Settings
from scrubjay.storage.blobs import BlobStore, open_blob_store
from scrubjay.storage.cache import Cache, open_cache
from scrubjay.storage.database import Database, connect_or_explain, open_database
from scrubjay.storage.home import open_spool, own_home, prepare_home
from scrubjay.storage.schema import require_current
from scrubjay.storage.secrets import SecretBox, open_secret_box

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
    jobs: JobService
    crawls: CrawlService
    crawl_settings: CrawlSettingsService
    plans: PlanService
    operations: OperationService
    rules: RuleService
    documents: DocumentService
    collections: CollectionService
    search: SearchService
    catalog: IndexCatalog
    indexer: Indexer


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
        owns_home = (working or searching) and settings.is_embedded
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
        signals = JobSignals(cache)
        network = await stack.enter_async_context(open_network(settings))
        pool = await stack.enter_async_context(_open_pool(settings))
        browser = await stack.enter_async_context(
            BrowserRenderer(network.guard, chromium_path=settings.chromium_path, user_agent=settings.crawl_user_agent)
        )
        crawler = WebCrawler(
            settings=settings,
            network=network,
            pool=pool,
            browser=browser,
            database=database,
            cache=cache,
            blobs=blobs,
            secrets=secrets,
        )
        texts = TextStore(database, blobs)
        catalog = _open_catalog(settings, database, network, has_index=working or searching)
        stack.push_async_callback(catalog.close)
        indexer = Indexer(database, catalog, Cleanup(database, texts, blobs))
        ingester = Ingester(database, texts, catalog)
        tools = Tools(crawler)
        files = EnumerationFiles(settings.resolved_enumeration_folder, database)
        runs = PlanRuns(Parts(database, blobs, pool, ingester, indexer), tools, files, open_spool(settings.home))
        scheduler = PlanScheduler(database, signals, files)
        kinds = JobKinds(
            STEPS,
            *runs.kinds,
            *crawler.kinds,
            *SiteCrawls(crawler, ingester, indexer, database).kinds,
            *IngestJobs(database, blobs, pool, ingester, indexer, catalog).kinds,
        )
        if working or searching:
            await catalog.start()
            if owns_home and database.dialect == "sqlite":
                await indexer.take_over()
            indexer.start()
            stack.push_async_callback(indexer.stop)
        if working:
            # Imported here because DBOS alone takes half a second to import, and only workers need it.
            from scrubjay.jobs.engine import JobEngine

            await _reach_jobs_database(settings)
            engine = JobEngine(settings, database, signals, kinds, alone=database.dialect == "sqlite")
            await engine.start()
            stack.push_async_callback(engine.stop)
            if keeping_time:
                await scheduler.start()
                stack.push_async_callback(scheduler.stop)
            else:
                await scheduler.recover()
        jobs = JobService(database, signals, kinds)
        access = Access(database, cache)
        if working and await catalog.is_outdated():
            await access.ensure_default_tenant()  # whose job it is; a worker may be the first to start
            # The settings name another embedder: the index is built anew beside the one that serves.
            await jobs.submit(OPERATOR, REINDEX_KIND, {}, unique_key=await catalog.succession())
        yield Scrubjay(
            settings=settings,
            database=database,
            blobs=blobs,
            cache=cache,
            secrets=secrets,
            access=access,
            health=Health(settings, database, blobs, cache, catalog),
            jobs=jobs,
            crawls=CrawlService(crawler, jobs),
            crawl_settings=CrawlSettingsService(database, crawler),
            plans=PlanService(database, tools, jobs, scheduler, files),
            operations=OperationService(database, files),
            rules=RuleService(database),
            documents=DocumentService(database, blobs, texts, jobs, indexer.wake),
            collections=CollectionService(database, indexer.wake),
            search=SearchService(database, catalog, SearchCache(cache), _open_reranker(settings, network)),
            catalog=catalog,
            indexer=indexer,
        )


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


def _open_reranker(settings: Settings, network: Network) -> Reranker | None:
    if settings.rerank_url is None:
        return None
    key = settings.rerank_api_key
    endpoint = JsonEndpoint(
        network.fetcher(), settings.rerank_url, "reranker", api_key=key.get_secret_value() if key else None
    )
    return Reranker(settings.rerank_kind, endpoint, settings.rerank_model)


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
