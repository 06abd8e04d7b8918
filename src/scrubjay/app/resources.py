"""What everything else stands on: database, blobs, cache, the way out, the crawler and the index."""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.browser import BrowserRenderer
from scrubjay.crawler.fetcher import Network
from scrubjay.crawler.web_crawler import WebCrawler
from scrubjay.documents.cleanup import Cleanup
from scrubjay.documents.ingester import Ingester
from scrubjay.documents.texts import TextStore
from scrubjay.errors import ConfigurationError, HomeInUse, IndexElsewhere
from scrubjay.extract.pool import ExtractionPool
from scrubjay.index.catalog import IndexCatalog
from scrubjay.index.embedder import Embedder
from scrubjay.index.index import Index
from scrubjay.index.indexing import Indexer
from scrubjay.model.extraction import ExtractLimits
from scrubjay.model.urls import register_tracking_parameters
from scrubjay.queue.signals import JobSignals
from scrubjay.settings import Settings
from scrubjay.storage.blobs import BlobStore, open_blob_store
from scrubjay.storage.cache import Cache, open_cache
from scrubjay.storage.database import Database, connect_or_explain, open_database
from scrubjay.storage.home import open_spool, own_home
from scrubjay.storage.schema import require_current
from scrubjay.storage.secrets import SecretBox, open_secret_box
from scrubjay.telemetry import crawl_meter, open_tracing

if TYPE_CHECKING:
    from scrubjay.crawler.endpoints import JsonEndpoint
    from scrubjay.index.rerank import Reranker

MOST_EXTRACT_PROCESSES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
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


async def open_ground(settings: Settings, stack: AsyncExitStack, *, has_index: bool) -> Ground:
    register_tracking_parameters(settings.tracking_parameters)
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
    pool = await stack.enter_async_context(open_pool(settings))
    browser = await stack.enter_async_context(
        BrowserRenderer(network.guard, chromium_path=settings.chromium_path, user_agent=settings.crawl_user_agent)
    )
    texts = TextStore(database, blobs)
    catalog = _open_catalog(settings, database, network, has_index=has_index)
    stack.push_async_callback(catalog.close)
    return Ground(
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
        from scrubjay.index.opening import open_index

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

    async def open_wanted(spec: Mapping[str, Any]) -> Embedder:
        return await open_embedder(spec, settings, network)

    wanted: dict[str, str] = {"kind": settings.embedder}
    if settings.embedder in ("tei", "openai"):
        if settings.embedding_url is None:
            raise ConfigurationError("The setting 'embedder' names a server; set SCRUBJAY_EMBEDDING_URL as well.")
        wanted |= {"url": settings.embedding_url, "model": settings.embedding_model or ""}
    # Processes that share a database server may each have a folder of their own, but there is only one index.
    alone = not settings.is_index_embedded or database.dialect == "sqlite"
    place = None if alone else f"{platform.node()}:{settings.index_folder}"
    return IndexCatalog(database, wanted, open_generation, open_wanted, place)


async def open_embedder(spec: Mapping[str, Any], settings: Settings, network: Network) -> Embedder:
    kind = spec["kind"]
    if kind == "wordllama":
        from scrubjay.index.embedding import WordLlama

        return await asyncio.to_thread(WordLlama)
    if kind == "minilm":
        from scrubjay.index.minilm import MiniLm

        return await asyncio.to_thread(MiniLm)
    from scrubjay.crawler.endpoints import JsonEndpoint
    from scrubjay.index.embedding_http import HttpEmbedder

    # The key belongs to the address in the settings; one that served before is asked without it.
    key = settings.embedding_api_key if spec["url"] == settings.embedding_url else None
    endpoint = JsonEndpoint(network.fetcher(), spec["url"], "embedder", api_key=key.get_secret_value() if key else None)
    return await HttpEmbedder.connect(
        kind, endpoint, model=spec.get("model") or None, dimensions=settings.embedding_dimensions
    )


def open_reranker(settings: Settings, network: Network) -> "Reranker | None":
    if settings.rerank_url is None:
        return None
    from scrubjay.crawler.endpoints import JsonEndpoint
    from scrubjay.index.rerank import Reranker

    key = settings.rerank_api_key
    endpoint = JsonEndpoint(
        network.fetcher(), settings.rerank_url, "reranker", api_key=key.get_secret_value() if key else None
    )
    return Reranker(settings.rerank_kind, endpoint, settings.rerank_model)


def open_language_model(settings: Settings, network: Network) -> "JsonEndpoint | None":
    """For answers to queries."""
    if settings.llm_url is None or settings.llm_model is None:
        return None
    from scrubjay.crawler.endpoints import JsonEndpoint

    key = settings.llm_api_key
    return JsonEndpoint(
        network.fetcher(), settings.llm_url, "language model", api_key=key.get_secret_value() if key else None
    )


def open_pool(settings: Settings) -> ExtractionPool:
    processes = settings.extract_processes or min(MOST_EXTRACT_PROCESSES, os.cpu_count() or 1)
    limits = ExtractLimits(
        links=settings.max_links_per_page,
        blocks=settings.max_blocks_per_page,
        characters=settings.max_characters_per_page,
    )
    return ExtractionPool(processes=processes, page_seconds=settings.extract_seconds, limits=limits)
