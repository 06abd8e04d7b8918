"""What connectors need, without the rest of the house: tools, plans, a job to list for, and three real sources."""

import asyncio
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import obstore
import pytest
from obstore.store import S3Store
from tests.servers import S3Server
from tests.sharepoint_app import app_settings
from tests.sharepoint_server import SharePointServer
from tests.site import Site

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.browser import BrowserRenderer
from scrubjay.crawler.fetcher import Network
from scrubjay.crawler.web_crawler import WebCrawler
from scrubjay.errors import JobCancelRequested
from scrubjay.extract.pool import ExtractionPool
from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job
from scrubjay.model.plan import Plan, RepositoryType
from scrubjay.model.source import SourceItem
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Tenant
from scrubjay.queue import control
from scrubjay.queue.context import JobContext
from scrubjay.queue.signals import JobSignals
from scrubjay.settings import Settings
from scrubjay.sources.feed import FEED
from scrubjay.sources.filesystem import FILE
from scrubjay.sources.protocol import Connector, ConnectorType, Tools, secret_context
from scrubjay.sources.s3 import S3
from scrubjay.sources.sharepoint.source import SHAREPOINT
from scrubjay.storage.blobs import open_blob_store
from scrubjay.storage.cache_memory import MemoryCache
from scrubjay.storage.database import open_database
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.schema import require_current
from scrubjay.storage.secrets import SecretBox
from scrubjay.storage.tenants import Tenants

LOOPBACK = ip_network("127.0.0.0/8")
KIND = "test.listing"


class Workplace:
    """Everything that a connector is opened with, on a real database."""

    def __init__(self, tools: Tools, tenant_id: str) -> None:
        self.tools = tools
        self.tenant_id = tenant_id
        self._signals = JobSignals(tools.crawler.cache)

    def with_settings(self, **changes: Any) -> "Workplace":
        settings = self.tools.crawler.settings.model_copy(update=changes)
        return Workplace(Tools(replace(self.tools.crawler, settings=settings)), self.tenant_id)

    def open(self, kind: ConnectorType, settings: Mapping[str, Any]) -> Connector:
        plan = Plan(tenant_id=self.tenant_id, repository_type=RepositoryType(kind.name))
        sealed = {
            name: self.tools.crawler.secrets.seal(value, context=secret_context(plan.id, name))
            if name in kind.secrets
            else value
            for name, value in settings.items()
        }
        return kind.open(replace(plan, repository_settings=sealed), self.tools)

    @asynccontextmanager
    async def opened(self, kind: ConnectorType, **settings: Any) -> AsyncIterator[Connector]:
        connector = self.open(kind, settings)
        try:
            yield connector
        finally:
            await connector.close()

    @asynccontextmanager
    async def context(self) -> AsyncIterator[JobContext]:
        """A job that this process holds."""
        database = self.tools.crawler.database
        async with database.writing() as connection:
            await control.submit(connection, Job(tenant_id=self.tenant_id, kind=KIND))
            (job,) = await Jobs(connection).claim("tests", [KIND], 1, utc_now())
        context = JobContext(job, database, self._signals)
        try:
            yield context
        finally:
            await context.close()

    async def list(self, connector: Connector, limit: int | None = None) -> Sequence[SourceItem]:
        async with self.context() as context:
            return [item async for item in connector.enumerate(context, limit)]

    async def list_until_cancelled(self, connector: Connector) -> Sequence[SourceItem]:
        """What a listing gives when its job is cancelled after the first item."""
        seen: list[SourceItem] = []

        async def listen(context: JobContext) -> None:
            async for item in connector.enumerate(context):
                seen.append(item)
                context.interrupt(JobCancelRequested)

        async with self.context() as context:
            with pytest.raises(JobCancelRequested):
                await listen(context)
        return seen

    async def by_key(self, connector: Connector) -> dict[str, SourceItem]:
        items = await self.list(connector)
        found = {item.key: item for item in items}
        assert len(found) == len(items), "a key was listed twice"
        return found


@asynccontextmanager
async def open_workplace(home: Path, *, allowed: Sequence[Any] = (LOOPBACK,)) -> AsyncIterator[Workplace]:
    settings = Settings(home=home)
    database, cache = open_database(settings), MemoryCache()
    network = Network(EgressGuard(allowed))
    pool = ExtractionPool(processes=1)
    try:
        await require_current(database, auto_migrate=True)
        tenant = Tenant(id=DEFAULT_TENANT_ID, name="tests")
        async with database.writing() as connection:
            await Tenants(connection).add(tenant)
        crawler = WebCrawler(
            settings=settings,
            network=network,
            pool=pool,
            browser=BrowserRenderer(network.guard),
            database=database,
            cache=cache,
            blobs=open_blob_store(settings),
            secrets=SecretBox(secrets.token_bytes(32)),
        )
        yield Workplace(Tools(crawler), tenant.id)
    finally:
        await pool.close()
        await network.close()
        await cache.close()
        await database.close()
        await asyncio.sleep(0)


class Source(ABC):
    """A place with content that a test changes."""

    kind: ConnectorType
    settings: dict[str, Any]
    unreachable: dict[str, Any]  # settings of a place that is not there
    keeps_everything = True

    @abstractmethod
    async def put(self, name: str, text: str) -> str:
        """Add or change an item; its key."""

    @abstractmethod
    async def remove(self, name: str) -> None: ...

    @abstractmethod
    def place(self, workplace: Workplace) -> Workplace: ...


class FolderSource(Source):
    kind = FILE

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = {"path": str(folder)}
        self.unreachable = {"path": str(folder / "nowhere")}

    def place(self, workplace: Workplace) -> Workplace:
        return workplace.with_settings(file_roots=(self.folder,))

    async def put(self, name: str, text: str) -> str:
        path = self.folder / f"notes/{name}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return f"notes/{name}.txt"

    async def remove(self, name: str) -> None:
        (self.folder / f"notes/{name}.txt").unlink()


class BucketSource(Source):
    kind = S3

    def __init__(self, server: S3Server) -> None:
        self.bucket = server.make_bucket()
        self.store = S3Store(
            self.bucket,
            endpoint=server.endpoint,
            access_key_id=server.access_key_id,
            secret_access_key=server.secret_access_key,
            region="us-east-1",
            client_options={"allow_http": True},
        )
        self.settings = {
            "bucket": self.bucket,
            "endpoint_url": server.endpoint,
            "access_key_id": server.access_key_id,
            "secret_access_key": server.secret_access_key,
        }
        self.unreachable = {**self.settings, "bucket": f"{self.bucket}-nowhere"}

    def place(self, workplace: Workplace) -> Workplace:
        return workplace

    async def put(self, name: str, text: str) -> str:
        await obstore.put_async(self.store, f"notes/{name}.txt", text.encode())
        return f"notes/{name}.txt"

    async def remove(self, name: str) -> None:
        await obstore.delete_async(self.store, f"notes/{name}.txt")


class SharePointSource(Source):
    kind = SHAREPOINT

    def __init__(self, server: SharePointServer) -> None:
        self.server = server
        self.library = server.add_site().documents
        self.settings = {"site_url": f"{server.url}/sites/demo", "library": "/Shared Documents/notes"}
        self.unreachable = {"site_url": f"{server.url}/sites/nowhere"}
        self.library.add_folder("notes")

    def place(self, workplace: Workplace) -> Workplace:
        ours = app_settings(self.server, workplace.tools.crawler.settings.home)
        names = [name for name in type(ours).model_fields if name.startswith("sharepoint_")]
        return workplace.with_settings(**{name: getattr(ours, name) for name in names})

    async def put(self, name: str, text: str) -> str:
        return self.library.put(f"notes/{name}.txt", text.encode()).path

    async def remove(self, name: str) -> None:
        self.library.remove(f"notes/{name}.txt")


class FeedSource(Source):
    kind = FEED
    keeps_everything = False

    def __init__(self, site: Site) -> None:
        self.site = site
        self.path = f"/feed-{secrets.token_hex(4)}.xml"
        self.entries: dict[str, str] = {}
        self.settings = {"url": site.url + self.path}
        self.unreachable = {"url": site.url + "/nowhere.xml"}
        self._serve()

    def place(self, workplace: Workplace) -> Workplace:
        return workplace

    def _serve(self) -> None:
        items = "".join(
            f"<item><guid isPermaLink='false'>{name}</guid><title>{name}</title><link>/page/{name}</link>"
            f"<pubDate>Mon, 06 Jan 2025 10:00:00 GMT</pubDate>"
            f"<description>{escape(f'<p>{text}</p>')}</description></item>"
            for name, text in self.entries.items()
        )
        feed = f"<rss version='2.0'><channel><title>Jay news</title><link>/</link>{items}</channel></rss>"
        self.site.add(self.path, feed, "application/rss+xml")

    async def put(self, name: str, text: str) -> str:
        self.entries[name] = text
        self._serve()
        return name

    async def remove(self, name: str) -> None:
        del self.entries[name]
        self._serve()


def set_mtime(path: Path, nanoseconds: int) -> None:
    os.utime(path, ns=(nanoseconds, nanoseconds), follow_symlinks=False)
