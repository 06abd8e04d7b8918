"""What crawls can be told to do by name: configs, host settings, proxies, and monitored sources."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from croniter import croniter

from scrubjay.crawler.fetcher import FetchRequest
from scrubjay.crawler.proxies import ProxyPool, ProxyServer
from scrubjay.crawler.web_crawler import WebCrawler
from scrubjay.errors import InvalidRequest, NotFound, ScrubjayError
from scrubjay.model.clock import utc_now
from scrubjay.model.crawling import CrawlConfig, HostSettings, Proxy
from scrubjay.model.page import Page
from scrubjay.model.plan import IngestionSettings, IntervalType, Plan, RepositoryType, ScheduleSettings
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.urls import parse_url
from scrubjay.plans.timing import next_due
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.services.reading import read_item, read_page
from scrubjay.services.webhooks import HIDDEN
from scrubjay.sources.web_config import describe_config, seal_headers
from scrubjay.storage.collections import Collections
from scrubjay.storage.configs import CrawlConfigs
from scrubjay.storage.database import Database
from scrubjay.storage.hosts import Hosts
from scrubjay.storage.plans import PlanRow, Plans
from scrubjay.storage.proxies import Proxies

_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[?[0-9a-f:.]+\]?")
PROXY_TEST_URL = "https://example.com/"
PROXY_TEST_SECONDS = 10.0
CRON_FIELDS = 5


@dataclass(frozen=True, slots=True)
class ProxyCheck:
    url: str
    works: bool
    message: str


class CrawlSettingsService:
    def __init__(self, database: Database, crawler: WebCrawler) -> None:
        self._database = database
        self._crawler = crawler

    async def create_config(self, principal: Principal, **values: Any) -> CrawlConfig:
        require(principal, Scope.WRITE)
        values = self._sealed_headers(values)
        async with self._database.writing() as connection:
            config = await CrawlConfigs(connection).add(CrawlConfig(tenant_id=principal.tenant_id, **values))
            await note_act(connection, principal, "config.created", config.id, name=config.name)
            return config

    def _sealed_headers(self, values: dict[str, Any], before: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A config's values as they are kept: what authenticates is sealed, or stays as it was where it is hidden."""
        headers = values.get("headers")
        if not headers:
            return values
        sealed = seal_headers(headers, self._crawler.secrets)
        kept = {name: known for name, known in (before or {}).items() if headers.get(name) == HIDDEN}
        return {**values, "headers": {**sealed, **kept}}

    def spec_of(self, config: CrawlConfig, **values: Any) -> dict[str, Any]:
        """A crawl as a config describes it; `values` say the rest, and win."""
        return describe_config(config, self._crawler.secrets, **values)

    async def configs(self, principal: Principal, *, limit: int, offset: int) -> Page[CrawlConfig]:
        return await read_page(self._database, principal, CrawlConfigs, limit=limit, offset=offset)

    async def config(self, principal: Principal, config_id: str | None) -> CrawlConfig:
        """The config of this id; without one, the built-in default."""
        require(principal, Scope.READ)
        if config_id is None:
            return CrawlConfig(tenant_id=principal.tenant_id, name="default")
        return await read_item(self._database, principal, CrawlConfigs, config_id)

    async def change_config(self, principal: Principal, config_id: str, **changes: Any) -> CrawlConfig:
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            known = await CrawlConfigs(connection).get(principal.tenant_id, config_id)
            if not changes:
                return known
            changes = self._sealed_headers(changes, known.headers)
            await note_act(connection, principal, "config.changed", config_id, fields=sorted(changes))
            return await CrawlConfigs(connection).update(principal.tenant_id, config_id, **changes)

    async def delete_config(self, principal: Principal, config_id: str) -> None:
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            await CrawlConfigs(connection).get(principal.tenant_id, config_id)
            await CrawlConfigs(connection).delete(principal.tenant_id, config_id)
            await note_act(connection, principal, "config.deleted", config_id)

    async def host(self, principal: Principal, host: str) -> HostSettings:
        """What is set for a host; nothing set means the defaults."""
        require(principal, Scope.READ)
        name = _check_host(host)
        async with self._database.reading() as connection:
            try:
                return await Hosts(connection).get(principal.tenant_id, name)
            except NotFound:
                return HostSettings(tenant_id=principal.tenant_id, host=name)

    async def set_host(self, principal: Principal, host: str, **changes: Any) -> HostSettings:
        require(principal, Scope.WRITE)
        settings = replace(await self.host(principal, host), updated_at=utc_now(), **changes)
        async with self._database.writing() as connection:
            await Hosts(connection).delete(principal.tenant_id, settings.host)
            await note_act(connection, principal, "host.changed", settings.host, **changes)
            return await Hosts(connection).add(settings)

    async def hosts(self, principal: Principal, *, limit: int, offset: int) -> Page[HostSettings]:
        """The hosts that something is set for."""
        return await read_page(self._database, principal, Hosts, limit=limit, offset=offset)

    async def known_host(self, principal: Principal, host: str) -> HostSettings:
        """What is set for a host; NotFound where nothing is."""
        return await read_item(self._database, principal, Hosts, _check_host(host))

    async def forget_host(self, principal: Principal, host: str) -> None:
        """Treat a host like any other again."""
        require(principal, Scope.WRITE)
        name = (await self.known_host(principal, host)).host
        async with self._database.writing() as connection:
            await Hosts(connection).delete(principal.tenant_id, name)
            await note_act(connection, principal, "host.forgotten", name)

    async def create_proxy(
        self, principal: Principal, *, name: str, servers: Sequence[Mapping[str, Any]], **values: Any
    ) -> Proxy:
        require(principal, Scope.WRITE)
        proxy = Proxy(tenant_id=principal.tenant_id, name=name, servers=(), **values)
        proxy = replace(proxy, servers=self._sealed(proxy.id, servers))
        async with self._database.writing() as connection:
            await note_act(connection, principal, "proxy.created", proxy.id, name=name, servers=len(proxy.servers))
            return await Proxies(connection).add(proxy)

    def _sealed(
        self, proxy_id: str, servers: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[Mapping[str, Any], ...]:
        """Servers as they are kept: their addresses vetted, their passwords sealed wherever they stood.

        A hidden password stays what it was, for the same server and user alone.
        """
        if not servers:
            raise InvalidRequest("servers: at least one proxy server is required.", field="servers")
        sealed = []
        for number, server in enumerate(servers):
            url = parse_url(str(server["url"]), field=f"servers.{number}.url")
            self._crawler.network.guard.check_host(url.host)
            password = server.get("password") or url.password
            entry = {"url": url.text, "username": server.get("username") or url.username}
            if password == HIDDEN:
                entry["password"] = _password_of(before, entry)
            elif password:
                entry["password"] = self._crawler.secrets.seal(password, context=f"proxy:{proxy_id}:password")
            sealed.append({name: value for name, value in entry.items() if value})
        return tuple(sealed)

    async def proxies(self, principal: Principal, *, limit: int, offset: int) -> Page[Proxy]:
        return await read_page(self._database, principal, Proxies, limit=limit, offset=offset)

    async def proxy(self, principal: Principal, proxy_id: str) -> Proxy:
        return await read_item(self._database, principal, Proxies, proxy_id)

    async def change_proxy(self, principal: Principal, proxy_id: str, **changes: Any) -> Proxy:
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            known = await Proxies(connection).get(principal.tenant_id, proxy_id)
            if not changes:
                return known
            if "servers" in changes:
                changes["servers"] = self._sealed(proxy_id, changes["servers"], known.servers)
            await note_act(connection, principal, "proxy.changed", proxy_id, fields=sorted(changes))
            return await Proxies(connection).update(principal.tenant_id, proxy_id, **changes)

    async def delete_proxy(self, principal: Principal, proxy_id: str) -> None:
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            await Proxies(connection).get(principal.tenant_id, proxy_id)
            await Proxies(connection).delete(principal.tenant_id, proxy_id)
            await note_act(connection, principal, "proxy.deleted", proxy_id)

    async def test_proxy(self, principal: Principal, proxy_id: str, url: str = PROXY_TEST_URL) -> list[ProxyCheck]:
        """Fetch a page through each server in turn."""
        require(principal, Scope.WRITE)
        target = parse_url(url, field="url")
        self._crawler.network.guard.check_host(target.host)
        proxy = await self.proxy(principal, proxy_id)
        return list(await asyncio.gather(*(self._test_server(proxy, server, target.text) for server in proxy.servers)))

    async def _test_server(self, proxy: Proxy, server: Mapping[str, Any], url: str) -> ProxyCheck:
        password = server.get("password")
        if password:
            password = self._crawler.secrets.unseal(str(password), context=f"proxy:{proxy.id}:password")
        pool = ProxyPool([ProxyServer.parse(str(server["url"]), server.get("username"), password)])
        try:
            async with self._crawler.network.fetcher(proxies=pool) as fetcher:
                response = await fetcher.fetch(
                    FetchRequest(url=url, timeout_seconds=PROXY_TEST_SECONDS, max_bytes=64 * 1024, truncate=True)
                )
        except ScrubjayError as error:
            return ProxyCheck(str(server["url"]), False, error.message)
        return ProxyCheck(str(server["url"]), response.status < 500, f"HTTP status {response.status}")

    async def create_source(
        self,
        principal: Principal,
        *,
        name: str,
        url_pattern: str,
        crawl_config_id: str | None = None,
        collection_id: str | None = None,
        schedule_cron: str | None = None,
        is_active: bool = True,
    ) -> Plan:
        """A site that is crawled on a schedule: a plan, seen through the eyes of specification 001."""
        require(principal, Scope.WRITE)
        start_url = self._start_url(url_pattern)
        check_cron(schedule_cron)
        await self._check_parts(principal, crawl_config_id, collection_id)
        settings = {"start_url": start_url, "restrict_to_child_urls": False, "restrict_to_subdomain": True}
        if crawl_config_id is not None:
            settings["crawl_config_id"] = crawl_config_id
        schedule = _schedule(schedule_cron)
        plan = Plan(
            tenant_id=principal.tenant_id,
            name=name,
            repository_type=RepositoryType.WEB,
            repository_settings=settings,
            ingestion_settings=IngestionSettings(collection_id=collection_id),
            schedule=schedule,
            process_deletions=True,
            is_active=is_active,
            next_crawl_at=next_due(schedule, utc_now()),
        )
        async with self._database.writing() as connection:
            return await Plans(connection).add(plan)

    def _start_url(self, text: str) -> str:
        url = parse_url(text)
        self._crawler.network.guard.check_host(url.host)
        return url.text

    async def _check_parts(self, principal: Principal, config_id: str | None, collection_id: str | None) -> None:
        await self.config(principal, config_id)
        if collection_id is not None:
            await read_item(self._database, principal, Collections, collection_id)

    async def sources(self, principal: Principal, *, limit: int, offset: int) -> Page[Plan]:
        sites = (PlanRow.repository_type == RepositoryType.WEB, PlanRow.is_one_off.is_(False))
        return await read_page(self._database, principal, Plans, *sites, limit=limit, offset=offset)

    async def source(self, principal: Principal, source_id: str) -> Plan:
        return await read_item(self._database, principal, Plans, source_id)

    async def change_source(self, principal: Principal, source_id: str, **changes: Any) -> Plan:
        require(principal, Scope.WRITE)
        plan = await self.source(principal, source_id)
        settings = dict(plan.repository_settings)
        if "url_pattern" in changes:
            settings["start_url"] = self._start_url(changes["url_pattern"])
        if "crawl_config_id" in changes:
            settings["crawl_config_id"] = changes["crawl_config_id"]
        collection_id = changes.get("collection_id", plan.ingestion_settings.collection_id)
        cron = changes.get("schedule_cron", plan.schedule.cron)
        check_cron(cron)
        await self._check_parts(principal, settings.get("crawl_config_id"), collection_id)
        schedule = plan.schedule if cron == plan.schedule.cron else _schedule(cron)
        due = plan.next_crawl_at if schedule == plan.schedule else next_due(schedule, utc_now())
        async with self._database.writing() as connection:
            return await Plans(connection).update(
                principal.tenant_id,
                source_id,
                name=changes.get("name", plan.name),
                is_active=changes.get("is_active", plan.is_active),
                repository_settings=settings,
                crawl=None if "url_pattern" in changes else plan.crawl,
                ingestion_settings=plan.ingestion_settings.model_copy(update={"collection_id": collection_id}),
                schedule=schedule,
                next_crawl_at=due,
                updated_at=utc_now(),
            )


def _password_of(servers: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any]) -> str | None:
    """The sealed password of a server that is still the same one."""
    for server in servers:
        if (server.get("url"), server.get("username")) == (wanted["url"], wanted.get("username")):
            return server.get("password")
    raise InvalidRequest(
        "servers: the password must be given anew, because it would be sent to another server or user.", field="servers"
    )


def _schedule(cron: str | None) -> ScheduleSettings:
    """A source without a cron expression is crawled when somebody asks for it."""
    return ScheduleSettings(interval_type=IntervalType.ONE_TIME, cron=cron)


def check_cron(expression: str | None) -> None:
    if expression is None:
        return
    if len(expression.split()) != CRON_FIELDS or len(expression) > 200 or not croniter.is_valid(expression):
        raise InvalidRequest("schedule_cron must be a cron expression of five fields.", field="schedule_cron")


def _check_host(host: str) -> str:
    name = host.strip().lower().rstrip(".")
    if len(name) > 253 or not _HOST.fullmatch(name):
        raise InvalidRequest("domain: this is not a host name.", field="domain")
    return name
