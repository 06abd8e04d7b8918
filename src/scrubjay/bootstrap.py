"""The only place where objects are built from settings. Doors get a finished `Scrubjay`."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from scrubjay.connectors.web_job import WebCrawler
from scrubjay.crawl.addresses import EgressGuard
from scrubjay.crawl.fetcher import Network
from scrubjay.errors import DatabaseUnreachable, Unavailable
from scrubjay.extract.browser import BrowserRenderer
from scrubjay.extract.pool import ExtractionPool
from scrubjay.jobs.kinds import JobKinds
from scrubjay.jobs.signals import JobSignals
from scrubjay.services.access import Access
from scrubjay.services.crawls import CrawlService
from scrubjay.services.diagnostics import STEPS
from scrubjay.services.health import Health
from scrubjay.services.jobs import JobService
from scrubjay.settings import Settings
from scrubjay.storage.blobs import BlobStore, open_blob_store
from scrubjay.storage.cache import Cache, open_cache
from scrubjay.storage.database import Database, connect_or_explain, open_database
from scrubjay.storage.home import open_spool, own_home, prepare_home
from scrubjay.storage.schema import require_current
from scrubjay.storage.secrets import SecretBox, open_secret_box

MOST_EXTRACT_PROCESSES = 4
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


@asynccontextmanager
async def open_scrubjay(settings: Settings, *, working: bool = False) -> AsyncIterator[Scrubjay]:
    """Everything, ready to use. With `working`, this process also runs jobs until the context ends."""
    prepare_home(settings.home)
    async with AsyncExitStack() as stack:
        if working and settings.is_embedded:
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
        kinds = JobKinds(STEPS, *crawler.kinds)
        if working:
            # Imported here because DBOS alone takes half a second to import, and only workers need it.
            from scrubjay.jobs.engine import JobEngine

            await _reach_jobs_database(settings)
            engine = JobEngine(settings, database, signals, kinds, alone=database.dialect == "sqlite")
            await engine.start()
            stack.push_async_callback(engine.stop)
        jobs = JobService(database, signals, kinds)
        yield Scrubjay(
            settings=settings,
            database=database,
            blobs=blobs,
            cache=cache,
            secrets=secrets,
            access=Access(database, cache),
            health=Health(settings, database, blobs, cache),
            jobs=jobs,
            crawls=CrawlService(crawler, jobs),
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
