"""Configs, proxies, host settings, sources and the cache over `/api/v1`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field, StrictBool, model_validator

from scrubjay.api.deps import Jay, Who
from scrubjay.api.rag.ids import CollectionRef, ConfigId, ConfigRef, ProxyId, SourceId, WireId, maybe_wire, wire
from scrubjay.api.rag.schemas import JobStartedResponse, Limit, ListResponse, Offset, RequestModel, ShownHeaders
from scrubjay.model import crawl_limits as limits
from scrubjay.model.crawling import CrawlConfig, HostSettings, Proxy, ProxyRotation
from scrubjay.model.page import Page
from scrubjay.model.plan import Plan
from scrubjay.services.crawl_settings import ProxyCheck
from scrubjay.storage.cache import CacheStats

router = APIRouter()

Host = Annotated[str, Path(min_length=1, max_length=253)]


class ChangeConfigRequest(RequestModel):
    name: limits.SettingName | None = None
    max_depth: limits.Depth | None = None
    rate_limit_rps: limits.Rate | None = None
    respect_robots_txt: StrictBool | None = None
    headers: dict[limits.HeaderName, limits.HeaderValue] | None = Field(None, max_length=limits.MAX_HEADERS)
    extraction_strategy: limits.Extraction | None = None
    chunking_strategy: limits.Chunking | None = None
    chunk_size: limits.ChunkSize | None = None
    chunk_overlap: limits.ChunkOverlap | None = None
    min_chunk_size: limits.MinChunkSize | None = None
    page_timeout_ms: limits.PageTimeout | None = None
    max_page_size_mb: limits.PageMegabytes | None = None
    max_redirects: limits.Redirects | None = None


class ConfigRequest(ChangeConfigRequest):
    name: limits.SettingName


class ConfigResponse(BaseModel):
    """Values of headers that authenticate are hidden."""

    id: WireId
    name: str
    max_depth: int
    rate_limit_rps: float
    respect_robots_txt: bool
    headers: ShownHeaders
    extraction_strategy: str
    chunking_strategy: str
    chunk_size: int
    chunk_overlap: int
    min_chunk_size: int
    page_timeout_ms: int
    max_page_size_mb: int
    max_redirects: int
    created_at: datetime


@router.post("/configs", tags=["configs"], status_code=201, response_model=ConfigResponse)
async def create_config(jay: Jay, who: Who, body: ConfigRequest) -> CrawlConfig:
    return await jay.crawl_settings.create_config(who, **body.model_dump(exclude_none=True))


@router.get("/configs", tags=["configs"], response_model=ListResponse[ConfigResponse])
async def list_configs(jay: Jay, who: Who, limit: Limit = 100, offset: Offset = 0) -> Page[CrawlConfig]:
    return await jay.crawl_settings.configs(who, limit=limit, offset=offset)


@router.get("/configs/{config_id}", tags=["configs"], response_model=ConfigResponse)
async def get_config(jay: Jay, who: Who, config_id: ConfigId) -> CrawlConfig:
    return await jay.crawl_settings.config(who, config_id)


@router.patch("/configs/{config_id}", tags=["configs"], response_model=ConfigResponse)
async def change_config(jay: Jay, who: Who, config_id: ConfigId, body: ChangeConfigRequest) -> CrawlConfig:
    return await jay.crawl_settings.change_config(who, config_id, **body.model_dump(exclude_none=True))


@router.delete("/configs/{config_id}", tags=["configs"], status_code=204)
async def delete_config(jay: Jay, who: Who, config_id: ConfigId) -> None:
    await jay.crawl_settings.delete_config(who, config_id)


class ProxyServerRequest(RequestModel):
    url: str = Field(min_length=1, max_length=2048)
    username: limits.ProxyUser | None = None
    password: limits.ProxyPassword | None = Field(None, repr=False)


class ProxyRequest(RequestModel):
    name: limits.SettingName
    servers: list[ProxyServerRequest] = Field(min_length=1, max_length=limits.MAX_PROXY_SERVERS)
    rotation_strategy: ProxyRotation = ProxyRotation.ROUND_ROBIN
    is_active: StrictBool = True


class ChangeProxyRequest(RequestModel):
    name: limits.SettingName | None = None
    servers: list[ProxyServerRequest] | None = Field(None, min_length=1, max_length=limits.MAX_PROXY_SERVERS)
    rotation_strategy: ProxyRotation | None = None
    is_active: StrictBool | None = None


class ProxyServerResponse(BaseModel):
    url: str
    username: str | None
    has_password: bool

    @model_validator(mode="before")
    @classmethod
    def _hide_password(cls, server: Mapping[str, Any]) -> dict[str, Any]:
        return {"url": server["url"], "username": server.get("username"), "has_password": bool(server.get("password"))}


class ProxyResponse(BaseModel):
    id: WireId
    name: str
    servers: list[ProxyServerResponse]
    rotation_strategy: ProxyRotation = Field(validation_alias="rotation")
    is_active: bool
    created_at: datetime


class ProxyTestResponse(BaseModel):
    url: str
    works: bool
    message: str


def _proxy_values(body: ProxyRequest | ChangeProxyRequest) -> dict[str, Any]:
    values = body.model_dump(exclude_none=True)
    if "rotation_strategy" in values:
        values["rotation"] = values.pop("rotation_strategy")
    return values


@router.post("/proxies", tags=["proxies"], status_code=201, response_model=ProxyResponse)
async def create_proxy(jay: Jay, who: Who, body: ProxyRequest) -> Proxy:
    """Passwords are sealed at once, and never shown again."""
    return await jay.crawl_settings.create_proxy(who, **_proxy_values(body))


@router.get("/proxies", tags=["proxies"], response_model=ListResponse[ProxyResponse])
async def list_proxies(jay: Jay, who: Who, limit: Limit = 100, offset: Offset = 0) -> Page[Proxy]:
    return await jay.crawl_settings.proxies(who, limit=limit, offset=offset)


@router.get("/proxies/{proxy_id}", tags=["proxies"], response_model=ProxyResponse)
async def get_proxy(jay: Jay, who: Who, proxy_id: ProxyId) -> Proxy:
    return await jay.crawl_settings.proxy(who, proxy_id)


@router.patch("/proxies/{proxy_id}", tags=["proxies"], response_model=ProxyResponse)
async def change_proxy(jay: Jay, who: Who, proxy_id: ProxyId, body: ChangeProxyRequest) -> Proxy:
    return await jay.crawl_settings.change_proxy(who, proxy_id, **_proxy_values(body))


@router.delete("/proxies/{proxy_id}", tags=["proxies"], status_code=204)
async def delete_proxy(jay: Jay, who: Who, proxy_id: ProxyId) -> None:
    await jay.crawl_settings.delete_proxy(who, proxy_id)


@router.post("/proxies/{proxy_id}/test", tags=["proxies"], response_model=list[ProxyTestResponse])
async def check_proxy(jay: Jay, who: Who, proxy_id: ProxyId) -> Sequence[ProxyCheck]:
    """Fetch a page through each server of a proxy."""
    return await jay.crawl_settings.test_proxy(who, proxy_id)


class HostRequest(RequestModel):
    rate_limit_rps: limits.Rate | None = None
    circuit_breaker_threshold: limits.BreakerThreshold | None = None
    circuit_breaker_timeout_s: limits.BreakerSeconds | None = None


class BlockRequest(RequestModel):
    reason: limits.Reason | None = None


class HostResponse(BaseModel):
    domain: str = Field(validation_alias="host")
    rate_limit_rps: float
    circuit_breaker_threshold: int
    circuit_breaker_timeout_s: int = Field(validation_alias="circuit_breaker_timeout_seconds")
    is_blocked: bool
    blocked_reason: str | None
    updated_at: datetime


@router.get("/domains/{host}", tags=["hosts"], response_model=HostResponse)
async def get_host(jay: Jay, who: Who, host: Host) -> HostSettings:
    """How a host is treated; one for which nothing is set has the defaults."""
    return await jay.crawl_settings.host(who, host)


@router.put("/domains/{host}", tags=["hosts"], response_model=HostResponse)
async def set_host(jay: Jay, who: Who, host: Host, body: HostRequest) -> HostSettings:
    values = body.model_dump(exclude_none=True)
    if "circuit_breaker_timeout_s" in values:
        values["circuit_breaker_timeout_seconds"] = values.pop("circuit_breaker_timeout_s")
    return await jay.crawl_settings.set_host(who, host, **values)


@router.post("/domains/{host}/block", tags=["hosts"], response_model=HostResponse)
async def block_host(jay: Jay, who: Who, host: Host, body: BlockRequest | None = None) -> HostSettings:
    """No crawl asks this host any more; running ones hear of it within seconds."""
    reason = body.reason if body is not None else None
    return await jay.crawl_settings.set_host(who, host, is_blocked=True, blocked_reason=reason)


@router.post("/domains/{host}/unblock", tags=["hosts"], response_model=HostResponse)
async def unblock_host(jay: Jay, who: Who, host: Host) -> HostSettings:
    return await jay.crawl_settings.set_host(who, host, is_blocked=False, blocked_reason=None)


class SourceRequest(RequestModel):
    name: limits.SettingName
    url_pattern: str = Field(min_length=1, max_length=2048)
    crawl_config_id: ConfigRef | None = None
    collection_id: CollectionRef | None = None
    schedule_cron: str | None = Field(None, max_length=200)
    is_active: StrictBool = True


class ChangeSourceRequest(RequestModel):
    name: limits.SettingName | None = None
    url_pattern: str | None = Field(None, min_length=1, max_length=2048)
    crawl_config_id: ConfigRef | None = None
    collection_id: CollectionRef | None = None
    schedule_cron: str | None = Field(None, max_length=200)
    is_active: StrictBool | None = None


class SourceResponse(BaseModel):
    id: str
    name: str
    url_pattern: str | None
    crawl_config_id: str | None
    collection_id: str | None
    schedule_cron: str | None
    is_active: bool
    last_crawled_at: datetime | None
    created_at: datetime


def _source(plan: Plan) -> SourceResponse:
    return SourceResponse(
        id=wire(plan.id),
        name=plan.name,
        url_pattern=plan.repository_settings.get("start_url"),
        crawl_config_id=maybe_wire(plan.repository_settings.get("crawl_config_id")),
        collection_id=maybe_wire(plan.ingestion_settings.collection_id),
        schedule_cron=plan.schedule.cron,
        is_active=plan.is_active,
        last_crawled_at=plan.last_crawl_finish_at,
        created_at=plan.created_at,
    )


@router.post("/sources", tags=["sources"], status_code=201, response_model=SourceResponse)
async def create_source(jay: Jay, who: Who, body: SourceRequest) -> SourceResponse:
    return _source(await jay.crawl_settings.create_source(who, **body.model_dump()))


@router.get("/sources", tags=["sources"], response_model=ListResponse[SourceResponse])
async def list_sources(jay: Jay, who: Who, limit: Limit = 100, offset: Offset = 0) -> Page[SourceResponse]:
    page = await jay.crawl_settings.sources(who, limit=limit, offset=offset)
    return page.with_items([_source(plan) for plan in page.items])


@router.get("/sources/{source_id}", tags=["sources"], response_model=SourceResponse)
async def get_source(jay: Jay, who: Who, source_id: SourceId) -> SourceResponse:
    return _source(await jay.crawl_settings.source(who, source_id))


@router.patch("/sources/{source_id}", tags=["sources"], response_model=SourceResponse)
async def change_source(jay: Jay, who: Who, source_id: SourceId, body: ChangeSourceRequest) -> SourceResponse:
    changes = body.model_dump(exclude_unset=True)
    for name in ("name", "url_pattern", "is_active"):
        if changes.get(name, ...) is None:
            del changes[name]
    return _source(await jay.crawl_settings.change_source(who, source_id, **changes))


@router.delete("/sources/{source_id}", tags=["sources"], status_code=204)
async def delete_source(jay: Jay, who: Who, source_id: SourceId) -> None:
    await jay.plans.delete_source(who, source_id)


@router.post("/sources/{source_id}/trigger", tags=["sources"], response_model=JobStartedResponse)
async def trigger_source(jay: Jay, who: Who, source_id: SourceId) -> JobStartedResponse:
    """Crawl a source now: a run of its plan, as a job."""
    run = await jay.plans.start(who, source_id)
    job = await jay.jobs.get(who, run.job_id or "")
    return JobStartedResponse(job_id=wire(job.id), status=job.state)


class CacheResponse(BaseModel):
    entries: int
    hits: int
    misses: int
    backend: str


class ClearedCacheResponse(BaseModel):
    cleared: int


@router.get("/cache", tags=["cache"], response_model=CacheResponse)
async def show_cache(jay: Jay, who: Who) -> CacheStats:
    return await jay.health.cache_stats(who)


@router.delete("/cache", tags=["cache"], response_model=ClearedCacheResponse)
async def clear_cache(jay: Jay, who: Who) -> ClearedCacheResponse:
    """Forget cached answers and vectors of queries. Needs an admin key; costs time, never data."""
    return ClearedCacheResponse(cleared=await jay.health.clear_cache(who))


class StatsResponse(BaseModel):
    documents: int
    deleted_documents: int
    chunks: int
    collections: int
    tags: int
    jobs: dict[str, int]
    index: dict[str, Any]


@router.get("/stats", tags=["health"], response_model=StatsResponse)
async def show_stats(jay: Jay, who: Who) -> StatsResponse:
    """What the tenant of this key has."""
    return StatsResponse(**await jay.health.stats(who), jobs=dict(await jay.jobs.counts(who)))
